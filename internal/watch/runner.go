package watch

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/internal/inflight"
	"github.com/sluice-io/sluice/internal/logtail"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	restLimit = 2 * time.Second        // timeout for storing progress when the watch stops
	tick      = 200 * time.Millisecond // interval of clock checks, while a decision depends on the time
	grace     = 200 * time.Millisecond // an event that was stored this long ago has arrived
	mostAtOne = 64                     // decisions before the record is stored, unless the clock adds more
)

// runner runs a watch. It is not safe for concurrent use; only under, behind and the ports are
// shared.
type runner struct {
	ports     Deps
	opts      Options
	under     *inflight.Set[*sluice.Watch] // actions in flight
	key       string
	watch     *sluice.Watch
	chooses   *filter.Matcher
	condition *filter.Matcher
	rule      Rule

	state    *State // nil: not loaded
	revision uint64 // of the stored record
	firing   []Firing
	untold   []Said
	stored   uint64 // the place in the stored record
	dirty    bool   // something besides the place has changed since the record was stored
	fresh    bool   // the outcome of a firing is not stored yet; it should be soon, because the status shows it
	behind   *atomic.Int64
	verdicts []Verdict
}

// run evaluates events until ctx ends or a call fails. It starts from the stored record. It can be
// called again after an error, and forgets all that was not stored.
func (r *runner) run(ctx context.Context, hubs *logtail.Set[sluice.Event, struct{}]) error {
	r.state, r.verdicts = nil, r.verdicts[:0]
	r.rule.Condition = func(ev *sluice.Event) (bool, error) { return r.met(ctx, ev) }
	if err := r.load(ctx); err != nil {
		return err
	}
	t, leave, err := hubs.Enter(ctx, r.watch.Namespace)
	if err != nil {
		return err
	}
	defer leave()
	if err := r.fit(ctx); err != nil {
		return err
	}
	if err := r.do(ctx, nil); err != nil {
		return err
	}
	src := &source{log: r.ports.Log, ring: t.Ring(), namespace: r.watch.Namespace, pattern: r.watch.Pattern, place: r.state.Place()}
	err = r.follow(ctx, src)
	if sluice.CodeOf(err) == sluice.Conflict {
		r.state = nil // another replica stored a record, so this state is outdated
	}
	return err
}

// load reads the watch's progress. A record of an earlier revision of the watch counts as none: the
// watch begins at FromSeq.
func (r *runner) load(ctx context.Context) error {
	record, revision, err := r.ports.Records.Get(ctx, r.key)
	if err != nil && sluice.CodeOf(err) != sluice.NotFound {
		return err
	}
	if record.Revision > r.watch.Revision {
		return errors.New("replaced by a newer watch")
	}
	if record.Revision < r.watch.Revision {
		record = Record{Revision: r.watch.Revision, Kept: Kept{Place: r.watch.FromSeq}}
	}
	for i := range record.Firing {
		record.Firing[i].unsure = true
	}
	for i := range record.Untold {
		record.Untold[i].unsure = true
	}
	r.revision, r.firing, r.untold, r.stored, r.dirty = revision, record.Firing, record.Untold, record.Place, false
	r.state, err = NewState(record.Kept, r.opts.Paths)
	return err
}

// fit moves the place into the range of the log, if it is before or behind it. All events between
// the place and the first event of the log count as missed.
func (r *runner) fit(ctx context.Context) error {
	first, last, err := r.ports.Log.Ends(ctx, r.watch.Namespace)
	if err != nil {
		return err
	}
	switch place := r.state.Place(); {
	case place > last:
		r.log(ctx, "the log ends before the position of a watch", slog.Uint64("place", place), slog.Uint64("last", last))
		r.state.Rewind(last)
	case place+1 < first:
		r.state.Lost(place+1, first-1, time.Now())
	default:
		return nil
	}
	return r.put(ctx) // otherwise the same loss would be counted again
}

// follow evaluates new events until a call fails.
func (r *runner) follow(ctx context.Context, src *source) error {
	every := time.NewTicker(r.opts.Every)
	defer every.Stop()
	for {
		events, more, err := src.next(ctx)
		if err == nil {
			err = r.watched(ctx, events, src.place)
		}
		if err == nil && more != nil {
			r.behind.Store(0)
			err = r.pass(ctx)
		}
		if err == nil {
			err = r.wait(ctx, more, every.C)
		}
		if err != nil {
			return err
		}
	}
}

// wait waits until there may be work; if more is nil, there may be at once. It also stores progress
// when that is due.
func (r *runner) wait(ctx context.Context, more <-chan struct{}, every <-chan time.Time) error {
	var soon, store <-chan time.Time
	if r.fresh {
		timer := time.NewTimer(r.opts.Every / 5)
		defer timer.Stop()
		store = timer.C
	}
	switch {
	case more == nil:
		closed := make(chan time.Time)
		close(closed)
		soon = closed
	case !r.state.Quiet():
		timer := time.NewTimer(tick)
		defer timer.Stop()
		soon = timer.C
	}
	select {
	case <-every: // checked first, so that a busy watch stores progress, too
		return r.keep(ctx)
	default:
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-every:
		return r.keep(ctx)
	case <-store:
		return r.keep(ctx)
	case <-more:
	case <-soon:
	}
	return nil
}

// watched is enter, and reports the readings to the observer.
func (r *runner) watched(ctx context.Context, events []sluice.Event, upTo uint64) error {
	if len(events) > 0 {
		r.behind.Store(events[0].Stored.UnixMilli())
	}
	before := r.state.Totals()
	defer func() {
		now := r.state.Totals()
		r.opts.Observe.Looked(r.watch, now.Looked-before.Looked, now.Throttled-before.Throttled)
	}()
	return r.enter(ctx, events, upTo)
}

// enter evaluates events, and executes the decisions. There are no other events up to upTo. After
// an error, decisions on the events before it may be stored. The caller must begin again from the
// stored record.
func (r *runner) enter(ctx context.Context, events []sluice.Event, upTo uint64) error {
	byID := map[uint64]*sluice.Event{}
	for i := range events {
		ev := &events[i]
		wants, err := r.wants(ctx, ev)
		if err != nil {
			return err
		}
		if !wants {
			r.state.Reach(ev.Seq)
			continue
		}
		r.dirty = true
		before := len(r.verdicts)
		r.verdicts = r.state.Step(&r.rule, ev, r.verdicts)
		if ctx.Err() != nil { // the condition may not have been evaluated
			return context.Cause(ctx)
		}
		if len(r.verdicts) > before {
			byID[ev.Seq] = ev
		}
		if len(r.verdicts) >= mostAtOne {
			if err := r.act(ctx, byID); err != nil {
				return err
			}
		}
	}
	r.state.Reach(upTo)
	r.missGaps(time.Now())
	return r.act(ctx, byID)
}

// pass advances the time of the watch. It is called when all events that have arrived were
// evaluated. A clock of this process that is ahead of the log's by more than grace ends durations
// too early, by the rest of the difference.
func (r *runner) pass(ctx context.Context) error {
	at := time.Now().Add(-grace)
	if r.state.Ripe(&r.rule, at) {
		if caughtUp, err := r.caughtUp(ctx); !caughtUp || err != nil {
			return err // follow calls pass again soon
		}
	}
	r.verdicts = r.state.Tick(&r.rule, at, r.verdicts)
	return r.act(ctx, nil)
}

// caughtUp reports whether all events in the log were evaluated. An event that has not arrived yet
// might end the condition before its duration is over.
func (r *runner) caughtUp(ctx context.Context) (bool, error) {
	_, last, err := r.ports.Log.Ends(ctx, r.watch.Namespace)
	place := r.state.Place()
	if err != nil || last <= place {
		return err == nil, err
	}
	events, reached, err := r.ports.Log.Page(ctx, r.watch.Namespace, r.watch.Pattern, place, last)
	more := slices.ContainsFunc(events, func(ev sluice.Event) bool { return ev.Seq > place && r.watch.Pattern.Match(ev.Path) })
	return !more && reached >= last, err
}

// wants reports whether an event is a reading that the watch's creator may read.
func (r *runner) wants(ctx context.Context, ev *sluice.Event) (bool, error) {
	if ev.Seq <= r.state.Place() {
		return false, nil
	}
	if reads, err := isReading(r.watch, r.chooses, ev); !reads || err != nil {
		return false, err
	}
	return r.shows(ctx, ev)
}

// met evaluates the condition on a reading. The watch's payer is charged for it, and met waits
// until the payer has credit. It returns errInterrupted if ctx ends first.
func (r *runner) met(ctx context.Context, ev *sluice.Event) (bool, error) {
	payer := filter.Payer{Namespace: r.watch.Namespace}
	if r.opts.Payer != nil {
		payer.Principal = r.opts.Payer(r.watch.Creator, r.watch.Namespace)
	}
	met, known, err := r.opts.Filters.Wait(ctx, payer, r.condition, ev)
	if !known || err != nil && ctx.Err() != nil {
		return false, errInterrupted
	}
	return met, err
}

// isReading reports whether an event is a reading of a watch. Announcements of watches never are,
// so that no watch observes itself.
func isReading(w *sluice.Watch, chooses *filter.Matcher, ev *sluice.Event) (bool, error) {
	if !w.Pattern.Match(ev.Path) || strings.HasPrefix(string(ev.Path), string(sluice.WatchesPath)+"/") {
		return false, nil
	}
	return chooses.Match(ev)
}

// shows asks the gate, and waits until it can decide. It returns an error only if ctx ends.
func (r *runner) shows(ctx context.Context, ev *sluice.Event) (bool, error) {
	for {
		_, changed := r.ports.Gate.Applied()
		if d := r.ports.Gate.Shows(r.watch.Creator, ev); d != model.Undecided {
			return d == model.Pass, nil
		}
		select {
		case <-changed:
		case <-time.After(time.Second):
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

// act stores the decisions, and then executes them. It also adds the reports that are due.
func (r *runner) act(ctx context.Context, events map[uint64]*sluice.Event) error {
	now := time.Now()
	r.verdicts = r.state.Tell(now, r.verdicts)
	verdicts := r.verdicts
	r.verdicts = r.verdicts[:0]
	for _, v := range verdicts {
		if v.Kind == Fires {
			r.firing = append(r.firing, Firing{Seq: v.Seq, At: v.At})
			continue
		}
		said, err := heldBack(r.watch, v, now)
		if err != nil {
			return err
		}
		r.untold = append(r.untold, said)
	}
	if len(r.firing)+len(r.untold) == 0 {
		return nil
	}
	if err := r.put(ctx); err != nil {
		return err
	}
	return r.do(ctx, events)
}

// do executes the stored decisions.
func (r *runner) do(ctx context.Context, events map[uint64]*sluice.Event) error {
	if err := r.fire(ctx, events); err != nil {
		return err
	}
	return r.tell(ctx)
}

// keep stores the watch's progress, if it has changed.
func (r *runner) keep(ctx context.Context) error {
	if !r.dirty && r.state.Place() == r.stored {
		return nil
	}
	return r.put(ctx)
}

// put stores the watch's progress and its due work. Code Conflict after a concurrent change. After
// any error, it is unknown which record is stored, and r must be loaded again.
func (r *runner) put(ctx context.Context) error {
	record := Record{Revision: r.watch.Revision, Kept: r.state.Kept(), Firing: r.firing, Untold: r.untold}
	revision, err := r.ports.Records.Put(ctx, r.key, record, r.revision)
	if err != nil {
		return err
	}
	r.revision, r.stored, r.dirty, r.fresh = revision, record.Place, false, false
	return nil
}

// rest stores the watch's progress when it stops. It stores nothing if act has not stored all
// decisions: the next owner makes them again.
func (r *runner) rest(ctx context.Context) {
	if r.state == nil || len(r.verdicts) > 0 {
		return
	}
	ctx, cancel := context.WithTimeout(shutdown.Lasting(ctx), restLimit)
	defer cancel()
	if err := r.keep(ctx); err != nil && !shutdown.Left(ctx, "positions of watches", 1) {
		r.log(ctx, "position of a watch not stored", slog.Any("error", err))
	}
}

func (r *runner) log(ctx context.Context, msg string, attrs ...slog.Attr) {
	r.opts.Log.LogAttrs(ctx, slog.LevelWarn, msg, append(attrs, slog.String("namespace", r.watch.Namespace), slog.String("watch", r.watch.ID))...) //nolint:sloglint // all callers pass constants
}
