package eventlog

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/logtail/broadcast"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

const (
	newsLinger = 30 * time.Second // for which a reader of a log goes on without a listener
	newsAgain  = 200 * time.Millisecond
	newsMost   = 5 * time.Second
)

// pathNotifier signals listeners on a path that a message was stored there: one reader of each log, however
// many listen. The signal is a hint to look.
type pathNotifier struct {
	log *Log
	ctx context.Context //nolint:containedctx // of the readers, which end with the store
	end context.CancelFunc
	all sync.WaitGroup

	mu   sync.Mutex
	logs map[string]*newsLog
}

// newsLog is the reader of one log.
type newsLog struct {
	ready     chan struct{} // closed when it has begun
	listeners map[string]map[chan struct{}]struct{}
	count     int
	idle      time.Time // since when it has no listener
}

func newPathNotifier(ctx context.Context, l *Log) *pathNotifier {
	ctx, end := context.WithCancel(shutdown.Lasting(ctx))
	return &pathNotifier{log: l, ctx: ctx, end: end, logs: map[string]*newsLog{}}
}

func (n *pathNotifier) close() {
	n.end()
	n.all.Wait()
}

// ListenPath returns a channel that has something whenever an event or a record was stored on the path
// since the call, until stop is called. Code Unavailable if the log cannot be read.
func (l *Log) ListenPath(ctx context.Context, ns string, path sluice.Path) (news <-chan struct{}, stop func(), err error) {
	return l.news.listen(ctx, ns, streams.Subject(ns, path), streams.RecordSubject(ns, path))
}

func (n *pathNotifier) listen(ctx context.Context, ns string, subjects ...string) (<-chan struct{}, func(), error) {
	signal := make(chan struct{}, 1)
	n.mu.Lock()
	log := n.logs[ns]
	if log == nil {
		log = &newsLog{ready: make(chan struct{}), listeners: map[string]map[chan struct{}]struct{}{}}
		n.logs[ns] = log
		n.all.Go(func() { n.read(n.ctx, ns, log) })
	}
	for _, subject := range subjects {
		if log.listeners[subject] == nil {
			log.listeners[subject] = map[chan struct{}]struct{}{}
		}
		log.listeners[subject][signal] = struct{}{}
	}
	log.count++
	n.mu.Unlock()
	stop := sync.OnceFunc(func() { n.leave(log, signal, subjects) })
	limit, cancel := context.WithTimeout(ctx, natsstore.RequestTimeout)
	defer cancel()
	select {
	case <-log.ready:
		return signal, stop, nil
	case <-limit.Done():
		stop()
		return nil, nil, sluice.Errorf(sluice.Unavailable, "the log of %s cannot be read at the moment; retry", ns)
	}
}

func (n *pathNotifier) leave(log *newsLog, signal chan struct{}, subjects []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, subject := range subjects {
		delete(log.listeners[subject], signal)
		if len(log.listeners[subject]) == 0 {
			delete(log.listeners, subject)
		}
	}
	if log.count--; log.count == 0 {
		log.idle = time.Now()
	}
}

// read reads a log until it has had no listener for a while, or the store is closed.
func (n *pathNotifier) read(ctx context.Context, ns string, log *newsLog) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	n.all.Go(func() { n.watch(ctx, stop, ns, log) })
	begun := sync.OnceFunc(func() { close(log.ready) })
	again := newsAgain
	for ctx.Err() == nil {
		err := n.log.readers.Follow(ctx, ns, broadcast.FromNow, func() {
			begun()
			n.tell(log, "") // something may have been stored before
		}, func(m entry) error {
			again = newsAgain
			n.tell(log, m.subject)
			return nil
		})
		if ctx.Err() != nil {
			return
		}
		n.log.core.Log().WarnContext(ctx, "read a log for its readers", slog.String("namespace", ns), slog.Any("error", err))
		n.tell(log, "")
		select {
		case <-ctx.Done():
		case <-time.After(again):
		}
		again = min(2*again, newsMost)
	}
}

// watch ends a reader without listeners.
func (n *pathNotifier) watch(ctx context.Context, stop context.CancelFunc, ns string, log *newsLog) {
	tick := time.NewTicker(newsLinger / 2)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		n.mu.Lock()
		unused := log.count == 0 && time.Since(log.idle) >= newsLinger
		if unused {
			delete(n.logs, ns)
		}
		n.mu.Unlock()
		if unused {
			stop()
			return
		}
	}
}

// tell wakes the listeners on a subject; "" is all of them.
func (n *pathNotifier) tell(log *newsLog, subject string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if subject != "" {
		wake(log.listeners[subject])
		return
	}
	for _, listeners := range log.listeners {
		wake(listeners)
	}
}

func wake(listeners map[chan struct{}]struct{}) {
	for signal := range listeners {
		select {
		case signal <- struct{}{}:
		default: // it is awake
		}
	}
}
