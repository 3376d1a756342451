// Package broadcast reads each log once for all its followers in this process: one reader fills a
// buffer, from which every follower takes messages at its own pace. A follower whose position is
// older than the buffer reads the log by itself until the buffer covers its position. All buffers
// together have a limit. Beyond it, the package empties the buffers of the logs that have been
// without a new message for longest.
package broadcast

import (
	"container/list"
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/sluice-io/sluice/internal/logtail/ringbuffer"
)

// FromNow is the position of a follower that wants only messages stored after its call.
const FromNow = ^uint64(0)

// Errors that end Follow: the caller decides where to continue.
var (
	ErrClosed    = errors.New("the readers of logs are closed")
	ErrRecreated = errors.New("the log was recreated or lost its end")
)

// Source reads logs.
type Source[M any] interface {
	// Last returns the last sequence of a log, from its leader.
	Last(ctx context.Context, log string) (uint64, error)
	// Tail calls each for the messages behind a sequence and then for new ones, in order, until each
	// returns an error, ctx ends or the log fails.
	Tail(ctx context.Context, log string, after uint64, each func(M) error) error
}

// Options of a Broadcaster. All are required.
type Options[M any] struct {
	Source Source[M]
	Of     ringbuffer.Of[M]
	Size   int // of a log's buffer, in messages
	Weight int // of a log's buffer, in bytes
	All    int // of the buffers of all logs together, in bytes
	Slog   *slog.Logger
}

// Broadcaster runs one reader for each log that has followers. It is safe for concurrent use.
type Broadcaster[M any] struct {
	opts Options[M]
	ctx  context.Context //nolint:containedctx // of the readers, which outlive the follower that started them
	end  context.CancelFunc

	mu      sync.Mutex
	readers map[string]*reader[M]
	running sync.WaitGroup

	weighing sync.Mutex
	weight   int       // of all buffers
	filled   list.List // of *reader[M] with messages in their buffers; the log without a new message for longest is first
}

// reader fills the buffer of a log while it has followers.
type reader[M any] struct {
	ready chan struct{} // closed when there is a ring, or an error
	ring  *ringbuffer.Ring[M]
	err   error
	stop  context.CancelFunc

	followers int // under the Broadcaster's lock

	weight int           // of the ring, as counted in Broadcaster.weight; under the lock weighing
	filled *list.Element // nil: the ring is empty
}

// New returns a Broadcaster whose readers end with ctx.
func New[M any](ctx context.Context, opts Options[M]) *Broadcaster[M] {
	b := &Broadcaster[M]{opts: opts, readers: map[string]*reader[M]{}}
	b.ctx, b.end = context.WithCancel(ctx) //nolint:gosec // Close calls it
	return b
}

// Close ends all following with ErrClosed, and returns when the readers have ended.
func (b *Broadcaster[M]) Close() {
	b.mu.Lock() // no reader starts after this
	b.end()
	b.mu.Unlock()
	b.running.Wait()
}

// Readers returns the number of logs that are read.
func (b *Broadcaster[M]) Readers() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.readers)
}

// Follow calls begun, unless it is nil, and then each for the messages of a log behind a sequence,
// in order, until each returns an error, ctx ends or the log fails. No message that is stored after
// the call of begun is missed. With FromNow, a few messages may come that were stored before. If
// the log ends before the sequence, because it lost its end in a crash, Follow starts at its end.
func (b *Broadcaster[M]) Follow(ctx context.Context, log string, after uint64, begun func(), each func(M) error) error {
	r, err := b.enter(ctx, log)
	if err != nil {
		return err
	}
	defer b.leave(log, r)
	if after == FromNow {
		after = r.ring.Last()
	} else if after, err = b.within(ctx, log, r, after); err != nil {
		return err
	}
	if begun != nil {
		begun()
	}
	f := follower[M]{of: b.opts.Of, ring: r.ring, after: after, each: each}
	for {
		changed, covered, err := f.take()
		if err == nil && !covered {
			err = f.alone(ctx, b.opts.Source, log)
		}
		if err != nil {
			return err
		}
		if changed == nil {
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// within returns the position, or the log's end if that is before it.
func (b *Broadcaster[M]) within(ctx context.Context, log string, r *reader[M], after uint64) (uint64, error) {
	if after <= r.ring.Last() {
		return after, nil
	}
	last, err := b.opts.Source.Last(ctx, log)
	if err != nil || after <= last {
		return after, err
	}
	b.opts.Slog.WarnContext(ctx, "the log ends before the resume position",
		slog.String("log", log), slog.Uint64("after", after), slog.Uint64("last", last))
	return last, nil
}

// enter returns the reader of a log, which has begun.
func (b *Broadcaster[M]) enter(ctx context.Context, log string) (*reader[M], error) { //nolint:contextcheck // a reader outlives its first follower
	b.mu.Lock()
	if b.ctx.Err() != nil {
		b.mu.Unlock()
		return nil, ErrClosed
	}
	r := b.readers[log]
	if r == nil {
		r = &reader[M]{ready: make(chan struct{})}
		inner, stop := context.WithCancel(b.ctx) //nolint:gosec // it is called when the last follower leaves
		r.stop = stop
		b.readers[log] = r
		b.running.Go(func() { b.read(inner, log, r) })
	}
	r.followers++
	b.mu.Unlock()
	select {
	case <-r.ready:
	case <-ctx.Done():
		b.leave(log, r)
		return nil, context.Cause(ctx)
	}
	if r.err != nil {
		b.leave(log, r)
		return nil, r.err
	}
	return r, nil
}

// leave ends a reader without followers.
func (b *Broadcaster[M]) leave(log string, r *reader[M]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.followers--; r.followers == 0 {
		b.forget(log, r)
		r.stop()
	}
}

// forget makes the next follower start another reader. The caller holds the lock.
func (b *Broadcaster[M]) forget(log string, r *reader[M]) {
	if b.readers[log] == r {
		delete(b.readers, log)
	}
}

// read fills a reader's ring until its context ends or the log fails.
func (b *Broadcaster[M]) read(ctx context.Context, log string, r *reader[M]) {
	last, err := b.opts.Source.Last(ctx, log)
	if err == nil {
		r.ring = ringbuffer.New(b.opts.Of, b.opts.Size, b.opts.Weight, last)
		close(r.ready)
		err = b.opts.Source.Tail(ctx, log, last, func(m M) error {
			if !r.ring.Add(m) {
				return ErrRecreated
			}
			b.weigh(r)
			return nil
		})
		b.unweigh(r)
	}
	if b.ctx.Err() != nil {
		err = ErrClosed
	}
	b.mu.Lock()
	b.forget(log, r) // first: a follower that learns of the end starts another reader
	b.mu.Unlock()
	if r.ring == nil {
		r.err = err
		close(r.ready)
		return
	}
	r.ring.End(err)
}

// weigh updates the counted weight of a reader's buffer, which has a new message. While all buffers
// together exceed the limit, it empties those without a new message for longest, but never this
// one.
func (b *Broadcaster[M]) weigh(r *reader[M]) {
	b.weighing.Lock()
	defer b.weighing.Unlock()
	weight := r.ring.Weight()
	b.weight += weight - r.weight
	r.weight = weight
	if r.filled == nil {
		r.filled = b.filled.PushBack(r)
	}
	b.filled.MoveToBack(r.filled)
	for b.weight > b.opts.All && b.filled.Front() != r.filled {
		idle, _ := b.filled.Front().Value.(*reader[M])
		idle.ring.Clear()
		b.discount(idle)
	}
}

// unweigh stops counting the buffer of a reader that has ended. The buffer itself is freed when the
// last follower leaves.
func (b *Broadcaster[M]) unweigh(r *reader[M]) {
	b.weighing.Lock()
	defer b.weighing.Unlock()
	if r.filled != nil {
		b.discount(r)
	}
}

func (b *Broadcaster[M]) discount(r *reader[M]) {
	b.weight -= r.weight
	b.filled.Remove(r.filled)
	r.weight, r.filled = 0, nil
}

// follower is the position of one follower.
type follower[M any] struct {
	of    ringbuffer.Of[M]
	ring  *ringbuffer.Ring[M]
	after uint64
	each  func(M) error
	buf   [32]M
}

// take hands messages of the ring to the follower. The channel is closed when there are more; it is
// nil if there may be more already. covered is false if the ring does not reach back to the
// position.
func (f *follower[M]) take() (changed <-chan struct{}, covered bool, err error) {
	taken, err := f.ring.Take(f.after, f.buf[:])
	if err != nil {
		return nil, false, err
	}
	defer clear(taken.Items) // the buffer keeps no message alive
	for _, m := range taken.Items {
		if err := f.hand(m); err != nil {
			return nil, false, err
		}
	}
	return taken.Changed, taken.Covered, nil
}

func (f *follower[M]) hand(m M) error {
	err := f.each(m)
	if err == nil {
		f.after = f.of.Seq(m)
	}
	return err
}

// errCovered ends reading alone: the ring reaches back to the position.
var errCovered = errors.New("covered")

// alone reads the log from the position on, until the ring reaches back to the position.
func (f *follower[M]) alone(ctx context.Context, source Source[M], log string) error {
	err := source.Tail(ctx, log, f.after, func(m M) error {
		if err := f.hand(m); err != nil {
			return err
		}
		if f.after >= f.ring.From() {
			return errCovered
		}
		return nil
	})
	if errors.Is(err, errCovered) {
		return nil
	}
	return err
}
