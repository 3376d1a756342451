package streamsub

import (
	"container/list"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/supervise"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	tailsAgain    = 200 * time.Millisecond
	tailsMost     = 5 * time.Second
	catchUpLimit  = 10 * time.Second // limit of the wait until the log is read
	behindTheLog  = time.Second      // interval at which the log is asked whether messages that were not reported have been removed
	goneLooksLike = "the log cannot be read at the moment; retry"
)

// tails tracks the ends of the paths of a namespace. mu guards all fields but stop and stopped. A
// path that loses all its events keeps its end.
type tails struct {
	mu      sync.Mutex
	at      uint64 // complete up to here
	known   bool   // it has caught up with the log once
	missing bool   // there was no such namespace at the last attempt to follow it
	ends    map[sluice.Path]*list.Element
	order   *list.List // of tail, in log order
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

// run is follow until ctx is done or stop is called.
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

// follow keeps the tails up to date with the log until ctx is done. Once it has caught up, it calls
// news for each change.
func (t *tails) follow(ctx context.Context, logs Logs, namespace string, news func(sluice.Path), log *slog.Logger) {
	pause := supervise.Pause{First: tailsAgain, Most: tailsMost}
	for ctx.Err() == nil {
		err := logs.FollowTails(ctx, namespace, func(path sluice.Path, seq uint64) {
			pause.Reset()
			if t.enter(path, seq) {
				news(path)
			}
		})
		if ctx.Err() != nil {
			return
		}
		t.forget(err) // everything is reported again, possibly from another log
		log.LogAttrs(ctx, slog.LevelWarn, "follow the tails of streams", slog.String("namespace", namespace), slog.Any("error", err))
		pause.Wait(ctx)
	}
}

// enter takes a report of FollowTails. It returns true for a changed path after the first read of
// the log is complete, and once, with an empty path, for that completion.
func (t *tails) enter(path sluice.Path, seq uint64) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if path == "" {
		first := !t.known
		t.known, t.missing, t.at = true, false, max(t.at, seq)
		close(t.changed)
		t.changed = make(chan struct{})
		return first
	}
	e := t.ends[path]
	switch {
	case e == nil:
		t.ends[path] = t.order.PushBack(&tail{path, seq})
	case end(e).seq >= seq:
		return false // a repetition
	default:
		end(e).seq = seq
		t.order.MoveToBack(e)
	}
	return t.known
}

// forget resets the tails of a log that cannot be followed at the moment because of an error: a new
// log may have replaced it.
func (t *tails) forget(cause error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.missing = sluice.CodeOf(cause) == sluice.NotFound
	t.at, t.known, t.ends, t.order = 0, false, map[sluice.Path]*list.Element{}, list.New()
}

func end(e *list.Element) *tail {
	t, _ := e.Value.(*tail) // the list has only elements of this type
	return t
}

// reach waits until the tails are complete up to a sequence. While they are not, it asks next again
// and again for the first message of the log from a sequence on; 0: there is none. Code Unavailable
// if the log is not read in time.
func (t *tails) reach(ctx context.Context, seq uint64, next func(ctx context.Context, from uint64) (uint64, error)) error {
	ctx, cancel := context.WithTimeout(ctx, catchUpLimit)
	defer cancel()
	behind := time.NewTicker(behindTheLog)
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
			if first, err := next(ctx, at+1); known && err == nil {
				t.skip(at, seq, first)
			}
		case <-ctx.Done():
			return sluice.Errorf(sluice.Unavailable, goneLooksLike)
		}
	}
}

// skip enters that the messages behind at were removed before they were reported: all up to seq, or
// up to the first that the log still has. It does nothing if the tails have changed meanwhile.
func (t *tails) skip(at, seq, first uint64) {
	if first > 0 {
		seq = min(seq, first-1)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known && t.at == at {
		t.at = max(at, seq)
	}
}

// tailOf returns the end of a path; 0 if no event of it is known. The caller holds the lock.
func (t *tails) tailOf(path sluice.Path) uint64 {
	if e := t.ends[path]; e != nil {
		return end(e).seq
	}
	return 0
}

// since calls each for the paths that end behind a sequence, in descending order of their ends. The
// caller holds the lock.
func (t *tails) since(seq uint64, each func(tail)) {
	for e := t.order.Back(); e != nil && end(e).seq > seq; e = e.Prev() {
		each(*end(e))
	}
}
