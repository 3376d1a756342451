package watch

import (
	"context"
	"time"

	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Limits of a trial.
const (
	trialEvents  = 10_000 // events on matching paths; also, without an explicit start, events of the log
	trialFirings = 100    // in the result
	trialLimit   = 5 * time.Second
)

// Try returns what a watch would have done with the events behind the sequence since; 0: with the
// last 10,000 of the log. It starts from an empty state, and stops at a time limit. shows reports
// whether an event may be read. Codes: InvalidRequest; NotFound if there is no such namespace;
// WindowExceeded if the next events are no longer stored. It stores, publishes and charges nothing.
// It can exceed the time limit by the evaluation of one page. Unlike a watch, it evaluates the
// expression in this goroutine, without the pool.
func (k *Keeper) Try(ctx context.Context, w sluice.Watch, since uint64, shows func(*sluice.Event) bool) (sluice.WatchTrial, error) {
	t, err := k.trial(&w, shows)
	if err != nil {
		return sluice.WatchTrial{}, err
	}
	first, last, err := k.needs.Log.Ends(ctx, w.Namespace)
	if err != nil {
		return sluice.WatchTrial{}, err
	}
	if since == 0 {
		since = max(first, 1) - 1
		since = max(since, last-min(last, trialEvents))
	}
	t.is.Since, t.is.Place = since, since
	limit, cancel := context.WithTimeout(ctx, trialLimit)
	defer cancel()
	for t.is.Place < last && t.examined < trialEvents {
		events, reached, err := k.needs.Log.Page(limit, w.Namespace, w.Pattern, t.is.Place, last)
		if err != nil && limit.Err() != nil && ctx.Err() == nil {
			break // the time limit has passed
		}
		if err != nil {
			return sluice.WatchTrial{}, err
		}
		if err := t.look(events, reached); err != nil {
			return sluice.WatchTrial{}, err
		}
	}
	if lost := k.needs.Trials.Lost; lost != nil {
		t.missGaps(lost(w.Namespace))
	}
	return t.end(last), nil
}

// trial is the run of one Try. begun has at most trialEvents elements. examined bounds the work; its
// result counts only events that may be read.
type trial struct {
	watch   *sluice.Watch
	chooses *filter.Matcher
	shows   func(*sluice.Event) bool
	rule    Rule
	state   *State
	begun   map[uint64]*sluice.Event // readings for which it fires now or may fire later, by sequence

	examined int // events on matching paths
	is       sluice.WatchTrial
}

func (k *Keeper) trial(w *sluice.Watch, shows func(*sluice.Event) bool) (*trial, error) {
	opts := k.needs.Trials.filled()
	chooses, condition, err := compile(w, opts.Labels)
	if err != nil {
		return nil, err
	}
	state, err := NewState(Kept{}, opts.Paths)
	return &trial{
		watch: w, chooses: chooses, shows: shows, rule: ruleOf(w, condition, opts.Most), state: state, begun: map[uint64]*sluice.Event{},
		is: sluice.WatchTrial{Firings: []sluice.WatchFiring{}},
	}, err
}

// look evaluates events. There are no other events up to upTo.
func (t *trial) look(events []sluice.Event, upTo uint64) error {
	for i := range events {
		ev := &events[i]
		if ev.Seq <= t.is.Place || t.examined >= trialEvents {
			continue
		}
		t.is.Place = ev.Seq
		if !t.watch.Pattern.Match(ev.Path) {
			continue
		}
		t.examined++
		if !t.shows(ev) {
			continue
		}
		t.is.Events++
		reads, err := isReading(t.watch, t.chooses, ev)
		if err != nil {
			return err
		}
		if !reads {
			continue
		}
		t.begun[ev.Seq] = &sluice.Event{ID: ev.ID, Path: ev.Path, Type: ev.Type}
		t.enter(t.state.Step(&t.rule, ev, nil))
	}
	if t.examined < trialEvents {
		t.is.Place = max(t.is.Place, upTo)
	}
	return nil
}

// enter adds the firings of verdicts to the result.
func (t *trial) enter(verdicts []Verdict) {
	for _, v := range verdicts {
		t.is.Fires++
		if len(t.is.Firings) < trialFirings {
			of := t.begun[v.Seq]
			t.is.Firings = append(t.is.Firings, sluice.WatchFiring{Seq: v.Seq, At: v.At.UTC(), ID: of.ID, Path: of.Path, Type: of.Type})
		}
	}
}

// missGaps counts the lost ranges among the events that the trial has passed.
func (t *trial) missGaps(lost []sluice.Gap) {
	for _, g := range sluice.GapsWithin(lost, t.is.Since, t.is.Place, t.watch.Pattern.Match) {
		if g.Path == "" || t.shows(&sluice.Event{Namespace: t.watch.Namespace, Path: g.Path}) {
			t.state.Gap(g, time.Now())
		}
	}
}

// end returns the result.
func (t *trial) end(last uint64) sluice.WatchTrial {
	t.is.More = t.is.Place < last
	if !t.is.More {
		t.enter(t.state.Tick(&t.rule, time.Now(), nil))
	}
	totals := t.state.Totals()
	t.is.Readings, t.is.Throttled = totals.Looked, totals.Throttled
	t.is.Missed = map[string]uint64{}
	for why, one := range t.state.kept.Missed {
		t.is.Missed[string(why)] = one.Count
	}
	return t.is
}
