package delivery_test

import (
	"context"
	"flag"
	"log/slog"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/delivery"
	"github.com/sluice-io/sluice/internal/fanout"
	"github.com/sluice-io/sluice/internal/natsstore/eventlog"
	"github.com/sluice-io/sluice/internal/natsstore/records"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// shared lets all engines of the tests get their events from the shared reader.
var shared = flag.Bool("shared", false, "run the engines over the shared reader in place of consumers")

// withConsumers skips a test of what only subscriptions with consumers of their own have.
func withConsumers(t *testing.T) {
	t.Helper()
	if *shared {
		t.Skip("it is about durable consumers")
	}
}

// share lets an engine get its events from the shared reader, if the tests are run so or rested is not nil. rested
// receives a value when a runner has ended because it had no work.
func (p *process) share(ports *delivery.Deps, rested chan<- struct{}) {
	if !*shared && rested == nil {
		return
	}
	always := func(*sluice.Subscription, fanout.Stored) bool { return true }
	router := fanout.New(fanout.Deps{
		Log: eventlog.Shared{Log: p.store.Log}, Records: mortalRecords{p.deliveries.Positions(), p}, Shares: always, Owns: func(int) bool { return true },
		Filters: streams.Names{}.PushFilters, Slog: slog.New(slog.DiscardHandler),
	})
	ports.Sources, ports.Arrivals = records.SharedSources{Router: router, Own: p}, records.Arrivals{Router: router}
	if rested != nil {
		ports.Sources = restingSources{ports.Sources, rested}
	}
}

// restingSources reports when a source was closed because no events came.
type restingSources struct {
	delivery.Sources

	rested chan<- struct{}
}

func (s restingSources) Open(ctx context.Context, sub *sluice.Subscription) (delivery.Source, error) {
	src, err := s.Sources.Open(ctx, sub)
	if shares, ok := src.(*fanout.Source); ok {
		return restingSource{shares, s.rested}, err
	}
	return src, err
}

type restingSource struct {
	*fanout.Source

	rested chan<- struct{}
}

func (s restingSource) Rest() bool {
	rests := s.Source.Rest()
	if rests {
		select {
		case s.rested <- struct{}{}:
		default:
		}
	}
	return rests
}

// mortalRecords does nothing once its process is dead.
type mortalRecords struct {
	fanout.Records

	process *process
}

func (r mortalRecords) PutPosition(ctx context.Context, sub *sluice.Subscription, at fanout.Position) error {
	if r.process.dead.Load() {
		return errCut
	}
	return r.Records.PutPosition(ctx, sub, at)
}

func (r mortalRecords) Adopt(ctx context.Context, sub *sluice.Subscription) (fanout.Position, error) {
	if r.process.dead.Load() {
		return fanout.Position{}, errCut
	}
	return r.Records.Adopt(ctx, sub)
}

func (r mortalRecords) PutCursor(ctx context.Context, ns string, shard int, c fanout.Cursor) (fanout.Cursor, error) {
	if r.process.dead.Load() {
		return c, errCut
	}
	return r.Records.PutCursor(ctx, ns, shard, c)
}

// shard is one shard with the subscriptions a and b: its ownership, its watch and its arrivals.
type shard struct {
	mu      sync.Mutex
	owned   bool
	turns   bool // ownership turns into its opposite once a review has asked
	joined  map[string]bool
	dropped int   // how often one was dropped
	breaks  int   // how often it was lost and acquired again between two questions
	joins   bool  // one has joined since the last commit
	parts   []int // how many were there at each commit after a join

	change  chan func(string, *sluice.Subscription)
	changed chan func() <-chan struct{}
}

func (s *shard) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *shard) Run(ctx context.Context, changed func() <-chan struct{}) error {
	changed()
	s.changed <- changed
	<-ctx.Done()
	return nil
}

func (s *shard) Holding() (then, still func(string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	owned, kept, breaks := s.owned, s.owned, s.breaks
	then = func(string) bool {
		s.set(func() {
			if s.turns {
				s.owned, s.turns = !s.owned, false
			}
		})
		return owned
	}
	still = func(string) bool {
		s.set(func() { kept = kept && s.owned && s.breaks == breaks })
		return kept
	}
	return then, still
}

func (*shard) sub(id string) *sluice.Subscription {
	sub := &sluice.Subscription{ID: id, Namespace: "n", Mode: sluice.Push, Pattern: "/**", Lifecycle: sluice.Lifecycle{State: sluice.Active}}
	sub.SetDefaults()
	return sub
}

func (s *shard) Watch(ctx context.Context, change func(string, *sluice.Subscription)) error {
	change("a", s.sub("a"))
	change("b", s.sub("b"))
	change("", nil)
	s.change <- change
	<-ctx.Done()
	return nil
}

func (s *shard) Join(sub *sluice.Subscription, _ func()) delivery.Seat {
	s.set(func() { s.joined[sub.ID], s.joins = true, true })
	return seat{s, sub.ID}
}

func (s *shard) Commit() {
	s.set(func() {
		if s.joins {
			s.parts = append(s.parts, len(s.joined))
		}
		s.joins = false
	})
}

// seat is a place in a shard.
type seat struct {
	of *shard
	id string
}

func (s seat) Leave()  { s.Drop() }
func (s seat) Drop()   { s.of.set(func() { delete(s.of.joined, s.id); s.of.dropped++ }) }
func (s seat) Forget() { s.Drop() }

// A commit with a part of a shard would let the shard's cursor pass the events of the others (S4-22).
func TestEngine_CommitsWholeShardsOnly(t *testing.T) {
	t.Parallel()
	s := &shard{joined: map[string]bool{}, change: make(chan func(string, *sluice.Subscription), 1), changed: make(chan func() <-chan struct{}, 1)}
	engine := delivery.New(s, s, delivery.Deps{Arrivals: arrivals{s}}, delivery.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(ctx) }()
	watched, changed := <-s.change, <-s.changed
	review := func() { <-changed() }
	change := func(id string) {
		watched(id, s.sub(id))
		watched("none", nil) // it is taken after the change was applied
	}
	joined := func() (n int) {
		s.set(func() { n = len(s.joined) })
		return n
	}
	review()

	s.set(func() { s.owned = true })
	change("a")
	require.Zero(t, joined(), "acquired, and the engine was not told")
	review()
	require.Equal(t, 2, joined())

	s.set(func() { s.owned = false })
	change("a")
	require.Equal(t, 1, joined(), "a loss counts at once")
	s.set(func() { s.owned = true })
	change("a")
	require.Equal(t, 1, joined(), "acquired again, and the engine was not told")
	s.set(func() { s.owned = false })
	review()
	require.Zero(t, joined())

	s.set(func() { s.turns = true })
	review()
	require.Zero(t, joined(), "acquired during a review")
	s.set(func() { s.turns = true })
	review()
	require.Equal(t, 2, joined(), "lost during a review")

	s.set(func() { s.owned = true })
	review()
	s.set(func() { s.dropped, s.breaks = 0, s.breaks+1 })
	review()
	require.Equal(t, []int{2, 2}, []int{s.dropped, joined()}, "lost and acquired again: another process may have served it")
	review()
	require.Equal(t, []int{2, 2}, []int{s.dropped, joined()})

	cancel()
	require.NoError(t, <-ended)
	require.Equal(t, []int{2, 2, 2, 2, 2}, s.parts)
}

// arrivals are those of a shard.
type arrivals struct{ *shard }

func (arrivals) Run(ctx context.Context) { <-ctx.Done() }
