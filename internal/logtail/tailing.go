// Package logtail reads the log of a namespace once for all readers of an engine in this process. A
// tail fills a ring, from which each reader takes new events at its own pace. It starts with the
// first reader. It stops some time after the last one has left, or when the log is recreated.
//
//	the log ──► tail ──► ring ──┬──► a reader at the newest event
//	             one request    └──► a reader that is behind; outside the ring it must
//	             for all             read the log by itself
package logtail

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-io/sluice/internal/logtail/ringbuffer"
	"github.com/sluice-io/sluice/internal/supervise"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Backoff after a failed read of a log: the first and the longest pause.
const (
	again     = 200 * time.Millisecond
	againMost = 5 * time.Second
)

// Log reads a namespace's events, in order.
type Log interface {
	// Ends returns the first and the last stored sequence, from the leader. Code NotFound.
	Ends(ctx context.Context, namespace string) (first, last uint64, err error)
	// Tail calls each for the events behind a place and then for new ones, until each returns an
	// error, ctx ends or the log fails.
	Tail(ctx context.Context, namespace string, after uint64, each func(sluice.Event) error) error
}

// Deps is an engine's configuration of its tails. A tail fills a ring of elements T, and has a
// companion W: the engine's own data for it. Functions are required unless their comment allows
// nil.
type Deps[T, W any] struct {
	Log    Log
	Beside func(t *Tail[T, W]) W                 // creates a tail's companion
	Item   func(ev sluice.Event) T               // converts an event
	Ring   func(last uint64) *ringbuffer.Ring[T] // creates a ring that covers a log from behind a sequence on

	Open  func(ctx context.Context, t *Tail[T, W]) error       // called before the log's end is read; nil: no call
	Room  func(ctx context.Context, t *Tail[T, W], it T) error // waits until there is room for an element; nil: there always is
	While func(ctx context.Context, t *Tail[T, W])             // runs while the ring is filled; nil: nothing does
	Over  func(ctx context.Context, t *Tail[T, W]) error       // returns why the log cannot be followed any more; nil: it can, or that is unknown
	Ended func(t *Tail[T, W], why error)                       // called when the ring has ended; nil: no call

	Began    func() error  // returns the error that ends a tail whose log lost its end
	Stopping func() error  // returns the error that ends tails when the engine stops
	Linger   time.Duration // how long a tail without users continues; 0: it ends immediately
	For      string        // the purpose of the tail, for the server's log
	Slog     *slog.Logger
}

// Set holds the tails in use. It is safe for concurrent use.
type Set[T, W any] struct {
	needs Deps[T, W]

	mu      sync.Mutex
	running context.Context //nolint:containedctx // of the tails, which end with it; nil: it does not run
	all     map[string]*Tail[T, W]
	parts   sync.WaitGroup // tails and their users
}

// New returns a set that admits no user before Begin.
func New[T, W any](needs Deps[T, W]) *Set[T, W] {
	return &Set[T, W]{needs: needs, all: map[string]*Tail[T, W]{}}
}

// Begin allows tails to start; they end with ctx.
func (s *Set[T, W]) Begin(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = ctx
}

// End admits no more users, and returns when all have left and every tail has ended. The caller
// cancels the context of Begin, or End does not return.
func (s *Set[T, W]) End() {
	s.mu.Lock()
	s.running = nil
	s.mu.Unlock()
	s.parts.Wait()
}

// Tails returns the present tails.
func (s *Set[T, W]) Tails() []*Tail[T, W] {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*Tail[T, W], 0, len(s.all))
	for _, t := range s.all {
		all = append(all, t)
	}
	return all
}

// Share divides all bytes of memory among the rings of the tails, at most each to one ring, and
// returns the share of one.
func (s *Set[T, W]) Share(each, all int) int {
	tails := s.Tails()
	each = min(each, all/max(1, len(tails)))
	for _, t := range tails {
		if r := t.Ring(); r != nil {
			r.Limit(each)
		}
	}
	return each
}

// Enter returns the tail of a namespace and a function that the caller calls when it leaves. The
// ring of the tail covers every event that is stored after the call.
func (s *Set[T, W]) Enter(ctx context.Context, namespace string) (*Tail[T, W], func(), error) { //nolint:contextcheck // a tail outlives its first user
	s.mu.Lock()
	if s.running == nil {
		s.mu.Unlock()
		return nil, nil, s.needs.Stopping()
	}
	t := s.all[namespace]
	if t == nil {
		t = &Tail[T, W]{Namespace: namespace, set: s, ready: make(chan struct{})}
		t.Beside = s.needs.Beside(t)
		inner, stop := context.WithCancel(s.running) //nolint:gosec // the tail calls it when it ends
		t.stop = stop
		s.all[namespace] = t
		s.parts.Go(func() { t.follow(inner) })
	}
	t.entered++
	if t.idle != nil {
		t.idle.Stop()
		t.idle = nil
	}
	s.parts.Add(1)
	s.mu.Unlock()
	leave := sync.OnceFunc(t.leave)
	select {
	case <-t.ready:
	case <-ctx.Done():
		leave()
		return nil, nil, context.Cause(ctx)
	}
	if t.err != nil {
		leave()
		return nil, nil, t.err
	}
	return t, leave, nil
}

// Tail is the one reader of a namespace's log.
type Tail[T, W any] struct {
	Namespace string
	Beside    W // the companion

	set   *Set[T, W]
	ready chan struct{} // closed when there is a ring, or an error
	ring  atomic.Pointer[ringbuffer.Ring[T]]
	err   error

	// Under the set's lock.
	entered int
	idle    *time.Timer // ends the tail; nil: it is in use
	stop    context.CancelFunc
}

// Ring returns the ring, nil if there is none yet. After Enter there is one.
func (t *Tail[T, W]) Ring() *ringbuffer.Ring[T] { return t.ring.Load() }

func (t *Tail[T, W]) leave() {
	defer t.set.parts.Done()
	t.set.mu.Lock()
	defer t.set.mu.Unlock()
	if t.entered--; t.entered > 0 {
		return
	}
	if linger := t.set.needs.Linger; linger > 0 {
		t.idle = time.AfterFunc(linger, t.retire)
		return
	}
	t.end()
}

// retire ends an unused tail.
func (t *Tail[T, W]) retire() {
	t.set.mu.Lock()
	defer t.set.mu.Unlock()
	if t.entered == 0 {
		t.end()
	}
}

// end ends the tail; later users get another one. The caller holds the lock.
func (t *Tail[T, W]) end() {
	if t.set.all[t.Namespace] == t {
		delete(t.set.all, t.Namespace)
	}
	t.stop()
}

// forget removes the tail from the set, so that later users get another one.
func (t *Tail[T, W]) forget() {
	t.set.mu.Lock()
	defer t.set.mu.Unlock()
	if t.set.all[t.Namespace] == t {
		delete(t.set.all, t.Namespace)
	}
	if t.idle != nil {
		t.idle.Stop()
	}
}

// follow fills the ring until ctx ends or the log cannot be followed any more.
func (t *Tail[T, W]) follow(ctx context.Context) {
	defer t.stop()
	last, err := t.open(ctx)
	if err != nil {
		t.err = err
		t.forget()
		close(t.ready)
		return
	}
	t.ring.Store(t.set.needs.Ring(last))
	close(t.ready)
	var beside sync.WaitGroup
	defer beside.Wait()
	if while := t.set.needs.While; while != nil {
		beside.Go(func() { while(ctx, t) })
	}
	err = t.fill(ctx)
	t.forget() // first: a notified user enters again
	t.Ring().End(err)
	if ended := t.set.needs.Ended; ended != nil {
		ended(t, err)
	}
	t.stop()
}

func (t *Tail[T, W]) open(ctx context.Context) (last uint64, err error) {
	if open := t.set.needs.Open; open != nil {
		if err := open(ctx, t); err != nil {
			return 0, err
		}
	}
	_, last, err = t.set.needs.Log.Ends(ctx, t.Namespace)
	return last, err
}

// fill reads the log into the ring, and continues after a failure. It returns why it ends.
func (t *Tail[T, W]) fill(ctx context.Context) error {
	needs, pause := &t.set.needs, supervise.Pause{First: again, Most: againMost}
	for {
		var anew error
		err := needs.Log.Tail(ctx, t.Namespace, t.Ring().Last(), func(ev sluice.Event) error {
			pause.Reset()
			added, err := t.add(ctx, ev)
			if err == nil && !added {
				anew = needs.Began()
				err = anew
			}
			return err
		})
		switch {
		case ctx.Err() != nil:
			return needs.Stopping()
		case anew != nil:
			return anew
		}
		needs.Slog.LogAttrs(ctx, slog.LevelWarn, "read a log", slog.String("for", needs.For), slog.String("namespace", t.Namespace), slog.Any("error", err))
		pause.Wait(ctx)
		if over := needs.Over(ctx, t); over != nil {
			return over
		}
	}
}

// add puts an event into the ring when there is room. It returns false if the event is not after
// the last one.
func (t *Tail[T, W]) add(ctx context.Context, ev sluice.Event) (bool, error) {
	it := t.set.needs.Item(ev)
	if room := t.set.needs.Room; room != nil {
		if err := room(ctx, t, it); err != nil {
			return false, err
		}
	}
	return t.Ring().Add(it), nil
}
