package loopguard

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/sluice-io/sluice/internal/outbox"
	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

const (
	markLimit = 5 * time.Second // time that marking may add to a refused request
	toldSize  = 4096            // remembered events with loops that were already counted
)

// Announcer announces a mark that was set or whose count has increased. It returns at once.
type Announcer interface {
	Unsafe(mark sluice.Unsafe)
}

// Options are a guard's optional settings.
type Options struct {
	Announce Announcer              // default: none
	Looped   func(namespace string) // called for every event that caused itself
	Log      *slog.Logger           // default: slog.DiscardHandler
}

// Guard refuses events that caused themselves. It is safe for concurrent use.
type Guard struct {
	log   Log
	cache cache
	marks *marks
	opts  Options

	mu      sync.Mutex
	counted *lru.Cache[linkKey, uint64] // sequences of events that were found looping in the log
}

// New returns a guard. The caller must report the existing marks and their changes to it.
func New(log Log, store Store, opts Options) (*Guard, error) {
	links, err := lru.New[linkKey, sluice.Link](cacheSize)
	if err != nil {
		return nil, fmt.Errorf("cache of causes: %w", err)
	}
	counted, err := lru.New[linkKey, uint64](toldSize)
	if err != nil {
		return nil, fmt.Errorf("cache of loops: %w", err)
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Looped == nil {
		opts.Looped = func(string) {}
	}
	return &Guard{log: log, cache: cache{links}, marks: newMarks(store), opts: opts, counted: counted}, nil
}

// SetMark applies a stored mark.
func (g *Guard) SetMark(is sluice.Unsafe, revision uint64) {
	g.marks.set(streams.ProducerKey(is.Producer), mark{mark: is, revision: revision})
}

// RemoveMark applies the removal of the mark with a key. Revision is that of the removal.
func (g *Guard) RemoveMark(key string, revision uint64) { g.marks.remove(key, revision) }

// ForgetMark notes that this process has removed the mark of a producer at a revision. Later
// reports of that mark are outdated and ignored.
func (g *Guard) ForgetMark(producer string, revision uint64) {
	g.marks.mu.Lock()
	defer g.marks.mu.Unlock()
	if key := streams.ProducerKey(producer); revision >= g.marks.stands[key].revision {
		g.marks.stands[key] = mark{revision: revision, gone: true}
	}
}

// CaughtUp notes that every stored mark has been reported.
func (g *Guard) CaughtUp() {
	g.marks.mu.Lock()
	defer g.marks.mu.Unlock()
	g.marks.known = true
}

// CheckNew returns an error if one of the events that a principal publishes together must not be
// published. A cause may be an earlier one of them. Code EventLoopDetected, with chain and hops, if
// an event caused itself; CheckNew then marks the producer. Code EventLoopDetected, with unsafe, if
// the producer is already marked. Any other error means that it cannot decide.
func (g *Guard) CheckNew(ctx context.Context, namespace, by string, events []sluice.Event) error {
	w := walk{log: g.log, cache: g.cache, namespace: namespace}
	named := false
	for i := range events {
		e := events[i].Link()
		e.Seq = unstored + uint64(i)
		if e.Cause != "" {
			named = true
			if err := g.check(ctx, &w, by, e); err != nil {
				return at(i, len(events), err)
			}
		}
		if len(events) > 1 {
			w.enter(e)
		}
	}
	if !named {
		return nil
	}
	is, stands, err := g.marks.of(ctx, by)
	if err != nil {
		return fmt.Errorf("look for a mark: %w", err)
	}
	if stands {
		return held(&is)
	}
	return nil
}

// CheckReaction is CheckNew for an event that the server publishes on behalf of a principal because
// of another event. If the event caused itself, it is refused but no producer is marked: the
// refusal already ends the loop, and the principal has published nothing itself.
func (g *Guard) CheckReaction(ctx context.Context, namespace, by string, ev *sluice.Event) error {
	w := walk{log: g.log, cache: g.cache, namespace: namespace}
	e := ev.Link()
	e.Seq = unstored
	chain, err := w.chain(ctx, e)
	if err != nil {
		return err
	}
	if f := Loop(e, chain); f != nil {
		g.opts.Looped(namespace)
		return refusal(e, f)
	}
	is, stands, err := g.marks.of(ctx, by)
	if err != nil {
		return fmt.Errorf("look for a mark: %w", err)
	}
	if stands {
		return held(&is)
	}
	return nil
}

// enter lets later events of the batch name this one as their cause. Of two events with the same
// id, the first one counts, because only it is stored.
func (w *walk) enter(e sluice.Link) {
	if w.near == nil {
		w.near = map[string]sluice.Link{}
	}
	if _, twice := w.near[e.ID]; !twice {
		w.near[e.ID] = e
	}
}

// check refuses an event that is not stored, and marks its producer.
func (g *Guard) check(ctx context.Context, w *walk, by string, e sluice.Link) error {
	chain, err := w.chain(ctx, e)
	if err != nil {
		return err
	}
	f := Loop(e, chain)
	if f == nil {
		return nil
	}
	if _, err := g.log.LastSeq(ctx, w.namespace); err != nil {
		return fmt.Errorf("publish: %w", err) // the namespace may not exist
	}
	g.found(ctx, by, w.namespace, e, f)
	return refusal(e, f)
}

// Published remembers events that were stored.
func (g *Guard) Published(namespace string, events []sluice.Event, stored []sluice.Stored) {
	for i := range min(len(events), len(stored)) {
		if stored[i].Duplicate {
			continue // the stored event with the id may be another one
		}
		l := events[i].Link()
		l.Seq = stored[i].Seq
		g.cache.add(namespace, l)
	}
}

// Check returns an error if an event of the log must not be delivered. Codes: those of CheckNew;
// the producer is the source of the event. The mark of a source applies only to events published
// over NATS. Events that the API accepted and the server stamped are delivered.
func (g *Guard) Check(ctx context.Context, ev *sluice.Event) error {
	if ev.Extensions[sluice.CausationID] == "" {
		return nil
	}
	w := walk{log: g.log, cache: g.cache, namespace: ev.Namespace}
	e := ev.Link()
	chain, err := w.chain(ctx, e)
	if err != nil {
		return err
	}
	producer := sluice.SourceProducer(ev.Namespace, ev.Source)
	if f := Loop(e, chain); f != nil {
		if g.first(ev) {
			g.found(ctx, producer, ev.Namespace, e, f)
		}
		return refusal(e, f)
	}
	g.cache.add(ev.Namespace, e)
	if ev.Extensions[sluice.AuthID] != "" {
		return nil
	}
	is, stands, err := g.marks.of(ctx, producer)
	if err != nil {
		return fmt.Errorf("look for a mark: %w", err)
	}
	if stands {
		return held(&is)
	}
	return nil
}

// first reports whether this process finds the loop of an event in the log for the first time.
// Every subscription finds the same loop.
func (g *Guard) first(ev *sluice.Event) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	key := linkKey{ev.Namespace, ev.ID}
	if seq, _ := g.counted.Get(key); seq == ev.Seq {
		return false
	}
	g.counted.Add(key, ev.Seq)
	return true
}

// found counts a loop, marks its producer and announces it. The event is refused in any case, so a
// failure here is only logged.
func (g *Guard) found(ctx context.Context, producer, namespace string, e sluice.Link, f *Found) {
	ctx, cancel := context.WithTimeout(shutdown.Lasting(ctx), markLimit)
	defer cancel()
	g.opts.Looped(namespace)
	is, err := outbox.WriteThenPublish(ctx, func(ctx context.Context) (sluice.Unsafe, error) {
		return g.marks.add(ctx, producer, namespace, e, f)
	}, g.tellUnsafe)
	attrs := []slog.Attr{
		slog.String("producer", producer), slog.String("namespace", namespace), slog.String("event", cut(e.ID)),
		slog.String("path", string(e.Path)), slog.Int("hops", f.Hops), slog.Uint64("count", is.Count),
	}
	if err != nil {
		g.opts.Log.LogAttrs(ctx, slog.LevelError, "event loop; producer not marked", append(attrs, slog.Any("error", err))...)
		return
	}
	g.opts.Log.LogAttrs(ctx, slog.LevelWarn, "event loop", attrs...)
}

func (g *Guard) tellUnsafe(_ context.Context, is sluice.Unsafe) {
	if g.opts.Announce != nil {
		g.opts.Announce.Unsafe(is)
	}
}
