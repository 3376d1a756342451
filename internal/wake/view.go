package wake

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// defaultPage is the number of consumers on a page if the query sets no limit.
const defaultPage = 100

// Consumers returns a page of a subscription's consumers, ordered by path, and the number of all
// consumers by state. Without a state in the query it leaves removed consumers out of the page.
func (e *Engine) Consumers(ctx context.Context, sub *sluice.Subscription, q model.WakeQuery) (model.WakePage, error) {
	all, err := e.entries(ctx, sub)
	if err != nil {
		return model.WakePage{}, err
	}
	page := model.WakePage{Counts: map[sluice.WakeState]int{}}
	limit := q.Limit
	if limit <= 0 {
		limit = defaultPage
	}
	for _, en := range all {
		c := &en.Consumer
		page.Counts[c.State]++
		if string(c.Path) <= q.After || q.State != c.State && (q.State != "" || c.State == sluice.WakeRemoved) {
			continue
		}
		if len(page.Consumers) == limit {
			page.Next = string(page.Consumers[limit-1].Path)
			continue
		}
		page.Consumers = append(page.Consumers, e.show(sub, c, nil))
	}
	return page, nil
}

// entries returns a subscription's consumers ordered by path: from memory if this process serves
// the subscription, otherwise from the store.
func (e *Engine) entries(ctx context.Context, sub *sluice.Subscription) ([]Entry, error) {
	var all []Entry
	if r := e.runner(sub.ID); r != nil && r.of == incarnation(sub) {
		all = r.entries()
	}
	if all == nil {
		var err error
		if all, err = e.ports.Records.List(ctx, sub.ID); err != nil {
			return nil, err
		}
	}
	all = slices.DeleteFunc(all, func(en Entry) bool { return en.Consumer.Of != incarnation(sub) })
	slices.SortFunc(all, func(a, b Entry) int { return strings.Compare(string(a.Consumer.Path), string(b.Consumer.Path)) })
	return all, nil
}

// entries returns the cached records; nil if the cache is incomplete.
func (r *runner) entries() []Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ready {
		return nil
	}
	all := make([]Entry, 0, len(r.all))
	for _, en := range r.all {
		if en.Revision > 0 {
			all = append(all, Entry{en.Consumer.clone(), en.Revision})
		}
	}
	return all
}

// Consumer returns one consumer, with the ends of its streams and the attempts of its last wake. Code NotFound.
func (e *Engine) Consumer(ctx context.Context, sub *sluice.Subscription, path sluice.Path) (sluice.WakeConsumer, error) {
	en, err := e.ports.Records.Get(ctx, sub.ID, path)
	if err != nil {
		return sluice.WakeConsumer{}, err
	}
	c := &en.Consumer
	if en.Revision == 0 || c.Of != incarnation(sub) {
		return sluice.WakeConsumer{}, sluice.Errorf(sluice.NotFound, "subscription %q has no consumer for %s", sub.ID, path)
	}
	tails := Tails{}
	if c.State != sluice.WakeRemoved {
		if tails, err = e.tails(ctx, sub, c.Path, c.Paths()); err != nil && !errors.Is(err, errLost) {
			return sluice.WakeConsumer{}, err
		}
	}
	shown := e.show(sub, c, tails)
	if c.WakeID != "" {
		shown.Attempts, err = e.ports.Log.Notices(ctx, sub, c.WakeID, c.Woken)
	}
	return shown, err
}

// show returns a consumer's public form. Without tails it leaves out the fields that depend on
// them.
func (e *Engine) show(sub *sluice.Subscription, c *Consumer, tails Tails) sluice.WakeConsumer {
	format := e.ports.Streams.FormatOffset
	shown := sluice.WakeConsumer{
		ID: model.WakeConsumerID(sub.ID, c.Path), Namespace: sub.Namespace, Subscription: sub.ID, Path: c.Path,
		State: c.State, Epoch: c.Epoch, WakeID: c.WakeID, Streams: []sluice.WakeStream{},
		WokenAt: moment(c.Woken), Failures: c.Failures, FailingSince: moment(c.FailingSince), LastError: c.LastError,
	}
	switch c.State {
	case sluice.WakeWaking:
		shown.NextAttempt, shown.Pending = moment(c.Due), new(true)
	case sluice.WakeLive:
		shown.LiveUntil = moment(c.Due)
	case sluice.WakeIdle, sluice.WakeRemoved:
	}
	for _, p := range c.Streams {
		stream := sluice.WakeStream{Path: p.Path, Acked: offset(p.Acked, format)}
		if tail, known := tails[p.Path]; known {
			stream.Tail, stream.Pending = offset(tail.end(), format), new(tail.pending(p.Acked))
			if shown.Pending == nil || *stream.Pending {
				shown.Pending = stream.Pending
			}
		}
		shown.Streams = append(shown.Streams, stream)
	}
	return shown
}

func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// Ended removes the consumers of a deleted stream (S1-122). A consumer that it misses is removed at
// its next callback or notice. Ended first waits until all subscriptions are known.
func (e *Engine) Ended(ctx context.Context, namespace string, path sluice.Path) error {
	select {
	case <-e.told:
	case <-ctx.Done():
		return fmt.Errorf("the end of %s: %w", path, ctx.Err())
	}
	for _, sub := range e.known() {
		if sub.Namespace != namespace || sub.State == sluice.Cancelled || !sub.Pattern.Match(path) {
			continue
		}
		_, err := e.change(ctx, sub, path, Entry{}, func(ctx context.Context, c Consumer) (Input, error) {
			if c.State == sluice.WakeRemoved {
				return Input{}, nil
			}
			tail, err := e.ports.Streams.Tail(ctx, namespace, path)
			return Input{Tails: Tails{path: tail}}, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Forget removes all consumers of a deleted subscription (S1-114), including those that are stored
// meanwhile. A later subscription of the same id does not use their epochs again (S1-128), and
// keeps its own consumers. For a subscription of another mode it does nothing.
func (e *Engine) Forget(ctx context.Context, sub *sluice.Subscription) error {
	if sub.Mode != sluice.Wake {
		return nil
	}
	for range forgetRounds {
		all, err := e.ports.Records.List(ctx, sub.ID)
		if err != nil {
			return err
		}
		var floor, upTo uint64
		for _, en := range all {
			floor = max(floor, en.Consumer.Epoch)
			if en.Consumer.Of == incarnation(sub) {
				upTo = max(upTo, en.Revision)
			}
		}
		if upTo == 0 {
			return nil
		}
		if err := e.ports.Records.Forget(ctx, sub.ID, floor, upTo); err != nil {
			return err
		}
	}
	return nil // records that remain still keep their epoch
}

// forgetRounds is how often Forget looks for more records: other processes may store some before
// they learn that the subscription is deleted.
const forgetRounds = 3

// Gauges returns a snapshot of all subscriptions that this process serves.
func (e *Engine) Gauges() []model.WakeGauges {
	runners := e.runners.All()
	all := make([]model.WakeGauges, 0, len(runners))
	for _, r := range runners {
		all = append(all, r.gauge())
	}
	return all
}

func (r *runner) gauge() model.WakeGauges {
	sub := r.sub.Load()
	g := model.WakeGauges{Namespace: sub.Namespace, Subscription: sub.ID, Consumers: map[sluice.WakeState]int{}}
	r.mu.Lock()
	defer r.mu.Unlock()
	g.Notices = r.flying
	var idle, waking, live, removed int // counted in variables, because there may be very many consumers
	for _, en := range r.all {
		if en.Revision == 0 || en.Consumer.Of != r.of {
			continue
		}
		switch en.Consumer.State {
		case sluice.WakeIdle:
			idle++
		case sluice.WakeWaking:
			waking++
		case sluice.WakeLive:
			live++
		case sluice.WakeRemoved:
			removed++
		}
	}
	g.Consumers[sluice.WakeIdle], g.Consumers[sluice.WakeWaking], g.Consumers[sluice.WakeLive], g.Consumers[sluice.WakeRemoved] = idle, waking, live, removed
	return g
}
