package streamsub

import (
	"container/list"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	tailsAgain    = 200 * time.Millisecond
	tailsMost     = 5 * time.Second
	catchUpLimit  = 10 * time.Second // for a log to be read
	behindTheLog  = time.Second      // for what is in the log to be told; the last of it may be gone by then
	goneLooksLike = "the log cannot be read at the moment; retry"
)

// tails knows where the paths of a namespace end.
type tails struct {
	mu      sync.Mutex
	at      uint64 // up to here all is known
	known   bool   // it has caught up once
	ends    map[sluice.Path]*list.Element
	order   *list.List // of tail, in the order of the log
	changed chan struct{}

	stop    func()
	stopped chan struct{}
}

type tail struct {
	path sluice.Path
	seq  uint64
}

func newTails() *tails {
	stopped := make(chan struct{})
	return &tails{
		ends: map[sluice.Path]*list.Element{}, order: list.New(), changed: make(chan struct{}),
		stopped: stopped, stop: sync.OnceFunc(func() { close(stopped) }),
	}
}

// run is follow until it is stopped.
func (t *tails) run(ctx context.Context, logs Logs, namespace string, news func(sluice.Path), log *slog.Logger) {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		defer cancel()
		select {
		case <-t.stopped:
		case <-ctx.Done():
		}
	})
	t.follow(ctx, logs, namespace, news, log)
	cancel()
	watching.Wait()
}

// follow keeps the tails in step with the log until ctx is done. news is called for what is told after it has caught up.
func (t *tails) follow(ctx context.Context, logs Logs, namespace string, news func(sluice.Path), log *slog.Logger) {
	again := tailsAgain
	for ctx.Err() == nil {
		err := logs.FollowTails(ctx, namespace, func(path sluice.Path, seq uint64) {
			again = tailsAgain
			if t.enter(path, seq) {
				news(path)
			}
		})
		if ctx.Err() != nil {
			return
		}
		t.forget() // all is told again, and the log may be another one by then
		log.LogAttrs(ctx, slog.LevelWarn, "follow the tails of streams", slog.String("namespace", namespace), slog.Any("error", err))
		select {
		case <-ctx.Done():
		case <-time.After(again):
		}
		again = min(2*again, tailsMost)
	}
}

// enter takes what is told, and reports whether it is news: of a path, or, without one, that all was read for the first time.
func (t *tails) enter(path sluice.Path, seq uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if path == "" {
		first := !t.known
		t.known, t.at = true, max(t.at, seq)
		close(t.changed)
		t.changed = make(chan struct{})
		return first
	}
	e := t.ends[path]
	switch {
	case e == nil:
		t.ends[path] = t.order.PushBack(&tail{path, seq})
	case end(e).seq >= seq:
		return false // it is told again
	default:
		end(e).seq = seq
		t.order.MoveToBack(e)
	}
	return t.known
}

// forget is for a log that cannot be followed any more: it may be gone, and one that is made anew begins anew.
func (t *tails) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.at, t.known, t.ends, t.order = 0, false, map[sluice.Path]*list.Element{}, list.New()
}

func end(e *list.Element) *tail {
	t, _ := e.Value.(*tail) // nothing else is in the list
	return t
}

// reach waits until all up to a sequence is known. Code Unavailable if the log is not read at all.
func (t *tails) reach(ctx context.Context, seq uint64) error {
	limit := time.NewTimer(catchUpLimit)
	defer limit.Stop()
	behind := time.NewTimer(behindTheLog)
	defer behind.Stop()
	for {
		t.mu.Lock()
		known, at, changed := t.known, t.at, t.changed
		t.mu.Unlock()
		if known && at >= seq {
			return nil
		}
		select {
		case <-changed:
		case <-behind.C:
			t.mu.Lock()
			if t.known { // the last of it was removed before it was told
				t.at = max(t.at, seq)
			}
			t.mu.Unlock()
		case <-limit.C:
			return sluice.Errorf(sluice.Unavailable, goneLooksLike)
		case <-ctx.Done():
			return sluice.Errorf(sluice.Unavailable, goneLooksLike)
		}
	}
}

// tailOf returns where a path ends; 0: it has no events.
func (t *tails) tailOf(path sluice.Path) uint64 {
	if e := t.ends[path]; e != nil {
		return end(e).seq
	}
	return 0
}

// since calls each for the paths that end behind a sequence, the last first. The caller holds the lock.
func (t *tails) since(seq uint64, each func(tail)) {
	for e := t.order.Back(); e != nil && end(e).seq > seq; e = e.Prev() {
		each(*end(e))
	}
}
