package wake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// errLost says that the subscription has lost its access.
var errLost = errors.New("access lost")

// tries limits the retries after concurrent changes of the same consumer.
const tries = 100

// change executes a step of a consumer, stores the result, and returns the stored record. decide
// returns the input of the step for the present state of the consumer. known is the record if the
// caller has it, which saves reading it; an outdated one does no harm. If the step refuses a
// callback, change returns the error together with the record; its code is one of S1's.
func (e *Engine) change(ctx context.Context, sub *sluice.Subscription, path sluice.Path, known Entry,
	decide func(ctx context.Context, c Consumer) (Input, error),
) (Entry, error) {
	done, err := e.turns.Take(ctx, model.WakeConsumerID(sub.ID, path))
	if err != nil {
		return known, fmt.Errorf("consumer %s: %w", path, err)
	}
	defer done()
	for range tries {
		guess := known.Revision > 0
		if !guess {
			if known, err = e.ports.Records.Get(ctx, sub.ID, path); err != nil {
				return known, err
			}
		}
		stored, err := e.changeOnce(ctx, sub, path, known, decide)
		if sluice.CodeOf(err) == sluice.Conflict || guess && refused(err) {
			known = Entry{} // the known record may be outdated: read it
			continue
		}
		return stored, err
	}
	return known, sluice.Errorf(sluice.Unavailable, "too many concurrent changes of this consumer; retry")
}

func (e *Engine) changeOnce(ctx context.Context, sub *sluice.Subscription, path sluice.Path, known Entry,
	decide func(ctx context.Context, c Consumer) (Input, error),
) (Entry, error) {
	c := known.Consumer
	if c.Of != incarnation(sub) {
		c = Consumer{Path: path, Of: c.Of, State: sluice.WakeRemoved, Epoch: c.Epoch} // the record is of an earlier subscription, or there is none
	}
	in, err := decide(ctx, c)
	if err != nil {
		return known, err
	}
	if in.Instead != nil {
		c = *in.Instead
	}
	next, refusal := rules(sub).Step(c, in, e.opts.Now())
	if reflect.DeepEqual(next, known.Consumer) || c.State == sluice.WakeRemoved && in.Instead == nil {
		return known, refusal
	}
	if len(next.Streams) > max(len(c.Streams), 1) {
		if err := next.fits(); err != nil {
			return known, err
		}
	}
	revision, err := e.put(ctx, sub, next, known.Revision)
	if err != nil {
		return known, err
	}
	stored := Entry{next, revision}
	if next.Epoch > c.Epoch {
		e.ports.Observe.Woken(sub)
	}
	if r := e.runner(sub.ID); r != nil {
		r.observe(stored)
	}
	return stored, refusal
}

// mostStreams is how many bytes the streams of a record may take. They must leave room for the
// other fields: a record that has reached the maximum size of a message could not be changed any
// more.
const mostStreams = 768 << 10

// fits returns an error (WakeInvalid) if the streams of a consumer take too many bytes together.
func (c *Consumer) fits() error {
	data, err := json.Marshal(c.Streams)
	if err != nil {
		return fmt.Errorf("consumer %s: %w", c.Path, err)
	}
	if len(data) > mostStreams {
		return sluice.Errorf(sluice.WakeInvalid, "subscribe: the paths of a consumer's streams are limited to %d KiB, and these would take %d", mostStreams>>10, len(data)>>10)
	}
	return nil
}

func (e *Engine) put(ctx context.Context, sub *sluice.Subscription, c Consumer, revision uint64) (uint64, error) {
	e.opts.Fault("before put")
	stored, err := e.ports.Records.Put(ctx, sub.ID, c, revision)
	e.opts.Fault("after put")
	return stored, err
}

// refused reports whether an error is a refusal of a callback by the rules of S1.
func refused(err error) bool {
	switch sluice.CodeOf(err) { //nolint:exhaustive // no other code is one
	case sluice.WakeTaken, sluice.WakeOffset, sluice.WakeStale, sluice.WakeGone, sluice.WakeTokenInvalid, sluice.WakeTokenExpired:
		return true
	}
	return false
}

// askers limits the streams of a consumer that are looked up in parallel.
const askers = 16

// tails returns the tails of those streams that the subscription may see. It returns errLost if the
// subscription has lost access to the consumer's own stream. Code Unavailable if the gate cannot
// decide.
func (e *Engine) tails(ctx context.Context, sub *sluice.Subscription, primary sluice.Path, paths []sluice.Path) (Tails, error) {
	found, err := e.ends(ctx, sub, paths)
	if err != nil {
		return nil, err
	}
	all := make(Tails, len(paths))
	for i, path := range paths {
		switch e.decide(sub, path, found[i].Seq) {
		case model.Pass:
			all[path] = found[i]
		case model.Undecided:
			return nil, model.PermissionsUnknown()
		case model.Lost:
			if path == primary {
				return nil, errLost
			}
		case model.Withhold:
		}
	}
	return all, nil
}

// ends looks up the ends of streams in parallel, in the order of paths. The first failure cancels
// the rest.
func (e *Engine) ends(ctx context.Context, sub *sluice.Subscription, paths []sluice.Path) ([]Tail, error) {
	if len(paths) == 1 { // the usual case
		tail, err := e.endOf(ctx, sub, paths[0])
		return []Tail{tail}, err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	found := make([]Tail, len(paths))
	var asking sync.WaitGroup
	turns := make(chan struct{}, askers)
	for i, path := range paths {
		turns <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		asking.Go(func() {
			defer func() { <-turns }()
			var err error
			if found[i], err = e.endOf(ctx, sub, path); err != nil {
				fail(err)
			}
		})
	}
	asking.Wait()
	return found, context.Cause(ctx)
}

// endOf returns a stream's tail, with the last message that the subscription's owner may see.
func (e *Engine) endOf(ctx context.Context, sub *sluice.Subscription, path sluice.Path) (Tail, error) {
	tail, err := e.ports.Streams.Tail(ctx, sub.Namespace, path)
	if err != nil || tail.Gone || tail.Seq == 0 || unbounded(sub) {
		return tail, err
	}
	shown, err := e.ports.Streams.Visible(ctx, sub, path, tail.Seq)
	if tail.Withheld = shown != tail.Seq; tail.Withheld {
		tail.Shown = shown
	}
	return tail, err
}

// unbounded reports whether a subscription's owner may see everything.
func unbounded(sub *sluice.Subscription) bool {
	return sluice.Caller{Principal: sluice.Principal(sub.CreatedBy), Grant: sub.Grant}.Unbounded()
}

// decide asks the gate about the message at a sequence of a path.
func (e *Engine) decide(sub *sluice.Subscription, path sluice.Path, seq uint64) model.Decision {
	if e.ports.Gate == nil {
		return model.Pass
	}
	return e.ports.Gate.Decide(sub, &sluice.Event{Namespace: sub.Namespace, Path: path, Seq: seq}, e.opts.Now())
}
