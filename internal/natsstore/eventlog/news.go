package eventlog

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/logtail/broadcast"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	newsLinger = 30 * time.Second // for which a reader of a log continues without a listener
	newsAgain  = 200 * time.Millisecond
	newsMost   = 5 * time.Second
)

// PathNews is a message that was stored on a path: an event, or the record of the path. Callers
// share Record and the event, and must not change them.
type PathNews struct {
	Seq    uint64
	Size   int                          // in bytes
	Event  func() (sluice.Event, error) // decodes it, once for all listeners; an event that cannot be decoded has its data unchanged
	Record []byte                       // if Event is nil
}

// listener is called for the messages of a path.
type listener struct {
	events, records string // subjects
	each            func([]PathNews)
}

// pathNotifier notifies listeners of the messages of a path. It has one reader for each log, for
// any number of listeners.
type pathNotifier struct {
	log *Log
	ctx context.Context //nolint:containedctx // of the readers, which end when the store is closed
	end context.CancelFunc
	all sync.WaitGroup

	mu   sync.Mutex
	logs map[string]*newsLog
}

// newsLog is the reader of one log.
type newsLog struct {
	ready     chan struct{} // closed when the reader has started
	listeners map[string]map[*listener]struct{}
	count     int
	idle      time.Time // time since which it has no listener

	// Messages of a batch that has not arrived completely, as far as there are listeners. Only the
	// reader accesses them.
	held   []entry
	weight int
}

func newPathNotifier(ctx context.Context, l *Log) *pathNotifier {
	ctx, end := context.WithCancel(shutdown.Lasting(ctx))
	return &pathNotifier{log: l, ctx: ctx, end: end, logs: map[string]*newsLog{}}
}

func (n *pathNotifier) close() {
	n.end()
	n.all.Wait()
}

// ListenPath calls each with the messages that are stored on the path after the call, in order,
// until stop is called: with several messages if they were stored in one step, and with none if
// some may have been missed. It may also pass messages that were stored before. each must not
// block, and may be called once more during stop. Code Unavailable if the log cannot be read. The
// caller must call stop, and may call it again. The goroutine of the log's reader calls each: while
// it blocks, all listeners of the log wait.
func (l *Log) ListenPath(ctx context.Context, ns string, path sluice.Path, each func([]PathNews)) (stop func(), err error) {
	return l.news.listen(ctx, ns, &listener{l.core.Names().Subject(ns, path), l.core.Names().RecordSubject(ns, path), each})
}

func (n *pathNotifier) listen(ctx context.Context, ns string, by *listener) (stop func(), err error) {
	n.mu.Lock()
	log := n.logs[ns]
	if log == nil {
		log = &newsLog{ready: make(chan struct{}), listeners: map[string]map[*listener]struct{}{}}
		n.logs[ns] = log
		n.all.Go(func() { n.read(n.ctx, ns, log) })
	}
	for _, subject := range []string{by.events, by.records} {
		if log.listeners[subject] == nil {
			log.listeners[subject] = map[*listener]struct{}{}
		}
		log.listeners[subject][by] = struct{}{}
	}
	log.count++
	n.mu.Unlock()
	stop = sync.OnceFunc(func() { n.leave(log, by) })
	limit, cancel := context.WithTimeout(ctx, natsstore.RequestTimeout)
	defer cancel()
	select {
	case <-log.ready:
		return stop, nil
	case <-limit.Done():
		stop()
		return nil, sluice.Errorf(sluice.Unavailable, "the log of %s cannot be read at the moment; retry", ns)
	}
}

func (n *pathNotifier) leave(log *newsLog, by *listener) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, subject := range []string{by.events, by.records} {
		delete(log.listeners[subject], by)
		if len(log.listeners[subject]) == 0 {
			delete(log.listeners, subject)
		}
	}
	if log.count--; log.count == 0 {
		log.idle = time.Now()
	}
}

// read reads a log until it had no listener for newsLinger, or the store is closed.
func (n *pathNotifier) read(ctx context.Context, ns string, log *newsLog) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	n.all.Go(func() { n.watch(ctx, stop, ns, log) })
	begun := func() { close(log.ready) }
	again := newsAgain
	for ctx.Err() == nil {
		err := n.log.readers.Follow(ctx, ns, broadcast.FromNow, func() {
			begun()
			begun = func() { n.missed(log) } // at the first start the waiting listeners have missed nothing
		}, func(m entry) error {
			again = newsAgain
			n.take(log, m)
			return nil
		})
		if ctx.Err() != nil {
			return
		}
		n.log.core.Log().WarnContext(ctx, "read a log for its readers", slog.String("namespace", ns), slog.Any("error", err))
		n.missed(log)
		select {
		case <-ctx.Done():
		case <-time.After(again):
		}
		again = min(2*again, newsMost)
	}
}

// watch stops the reader when it had no listener for newsLinger.
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

// take passes a message to its listeners; the messages of a batch when it has arrived completely,
// or when they exceed readersWeight.
func (n *pathNotifier) take(log *newsLog, m entry) {
	if len(log.held) > 0 && log.held[0].batch != m.batch { // the end of that batch cannot be read
		n.tell(log)
	}
	n.mu.Lock()
	wanted := len(log.listeners[m.subject]) > 0
	n.mu.Unlock()
	if wanted {
		log.held, log.weight = append(log.held, m), log.weight+m.weight
	}
	if m.batch == "" || m.commits || log.weight > readersWeight {
		n.tell(log)
	}
}

// tell passes the held messages to their listeners.
func (n *pathNotifier) tell(log *newsLog) {
	if len(log.held) == 0 {
		return
	}
	news := map[*listener][]PathNews{}
	n.mu.Lock()
	for _, m := range log.held {
		for by := range log.listeners[m.subject] {
			news[by] = append(news[by], m.news(by))
		}
	}
	n.mu.Unlock()
	log.held, log.weight = nil, 0
	for by, all := range news {
		by.each(all)
	}
}

// missed notifies all listeners that messages may have been missed. A listener reads its path again
// then; false alarms cost one read.
func (n *pathNotifier) missed(log *newsLog) {
	log.held, log.weight = nil, 0
	all := map[*listener]struct{}{}
	n.mu.Lock()
	for _, listeners := range log.listeners {
		maps.Copy(all, listeners)
	}
	n.mu.Unlock()
	for by := range all {
		by.each(nil)
	}
}

// news returns a message in the form for a listener.
func (m entry) news(by *listener) PathNews {
	if m.subject == by.records {
		return PathNews{Seq: m.seq, Size: m.weight, Record: m.data}
	}
	return PathNews{Seq: m.seq, Size: m.weight, Event: m.event}
}
