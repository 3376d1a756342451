package rollup

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// shelf keeps blocks, and tells a follower of them at once.
type shelf struct {
	mu     sync.Mutex
	blocks map[string]Block
	broken bool
}

func (s *shelf) Put(_ context.Context, key string, b Block) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken {
		return errors.New("away")
	}
	s.blocks[key] = b
	return nil
}

func (s *shelf) Follow(ctx context.Context, tell func(string, *Block)) error {
	s.tell(tell)
	<-ctx.Done()
	return nil
}

// tell tells of all blocks.
func (s *shelf) tell(tell func(string, *Block)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, b := range s.blocks {
		tell(key, &b)
	}
}

// clock is a time that a test moves.
type clock struct{ now time.Time }

func newBook(process string, c *clock, s *shelf, gauges ...model.DeliveryGauges) *Book {
	return New(Deps{
		Store: s, Process: process, Now: func() time.Time { return c.now }, Log: slog.New(slog.DiscardHandler),
		Gauges: func() []model.DeliveryGauges { return gauges },
	})
}

func orders() *sluice.Subscription {
	return &sluice.Subscription{ID: "orders", CreatedAt: time.Unix(1000, 0)}
}

func attempts(b *Book, sub *sluice.Subscription, outcome sluice.Outcome, n int) {
	for range n {
		b.Attempted(sub, &sluice.Attempt{Outcome: outcome, Duration: sluice.Duration(20 * time.Millisecond)})
	}
}

func TestBook_KnowsTheLastHourOfAllReplicas(t *testing.T) {
	t.Parallel()
	c, s, sub := &clock{time.Unix(6_000_000, 0)}, &shelf{blocks: map[string]Block{}}, orders()
	a, b := newBook("a", c, s), newBook("b", c, s)
	attempts(a, sub, sluice.Delivered, 3)
	a.Flush(t.Context())
	attempts(b, sub, sluice.Failed, 1)
	s.tell(b.enter)
	require.EqualValues(t, 4, b.Hour().Counts["orders"].Attempts())
	attempts(a, sub, sluice.Delivered, 2) // the same minute is stored again
	a.Flush(t.Context())
	s.tell(b.enter)
	s.tell(b.enter)
	require.EqualValues(t, 6, b.Hour().Counts["orders"].Attempts())
	percent, ok := b.Hour().Recent["orders"].Success()
	require.True(t, ok)
	require.InDelta(t, 500.0/6, percent, 0.001)

	c.now = c.now.Add(20 * time.Minute)
	a.turn(minuteOf(c.now))
	attempts(a, sub, sluice.Failed, 1)
	require.EqualValues(t, 1, a.Hour().Recent["orders"].Failed)
	require.EqualValues(t, 5, a.Hour().Counts["orders"].Delivered)
	require.EqualValues(t, 6, b.Hour().Counts["orders"].Attempts(), "whether a minute is turned or not")
	c.now = c.now.Add(66 * time.Minute)
	b.turn(minuteOf(c.now))
	require.Empty(t, b.Hour().Counts, "an hour later it is over")
}

func TestBook_StartsWithStoredBlocks(t *testing.T) {
	t.Parallel()
	c, s := &clock{time.Unix(6_000_000, 0)}, &shelf{blocks: map[string]Block{}}
	ended, end := context.WithCancel(t.Context())
	before := newBook("before", c, s)
	attempts(before, orders(), sluice.Delivered, 7)
	end()
	require.NoError(t, before.Run(ended), "what was counted is stored at the end")
	require.Len(t, s.blocks, 1)
	c.now = c.now.Add(10 * time.Second)
	after := newBook("after", c, s)
	attempts(after, orders(), sluice.Failed, 1)
	s.tell(after.enter)
	require.EqualValues(t, 8, after.Hour().Counts["orders"].Attempts())
	c.now = c.now.Add(2 * time.Hour)
	late := newBook("late", c, s)
	s.tell(late.enter)
	require.Empty(t, late.Hour().Counts)
}

func TestBook_StoresAgainAfterAFailure(t *testing.T) {
	t.Parallel()
	c, s := &clock{time.Unix(6_000_000, 0)}, &shelf{blocks: map[string]Block{}, broken: true}
	b := newBook("a", c, s)
	attempts(b, orders(), sluice.Delivered, 2)
	b.Flush(t.Context())
	c.now = c.now.Add(time.Minute)
	b.turn(minuteOf(c.now))
	attempts(b, orders(), sluice.Delivered, 1)
	b.Flush(t.Context())
	s.broken = false
	b.Flush(t.Context())
	var stored uint32
	for block := range maps.Values(s.blocks) {
		stored += block.Counts["orders"].Delivered
	}
	require.EqualValues(t, 3, stored)
}

func TestBook_ForgetsAnEarlierSubscriptionOfTheID(t *testing.T) {
	t.Parallel()
	c, s := &clock{time.Unix(6_000_000, 0)}, &shelf{blocks: map[string]Block{}}
	b, old, sub := newBook("a", c, s), orders(), orders()
	sub.CreatedAt = sub.CreatedAt.Add(time.Hour)
	attempts(b, old, sluice.Failed, 5)
	c.now = c.now.Add(time.Minute)
	b.turn(minuteOf(c.now))
	attempts(b, sub, sluice.Delivered, 1)
	attempts(b, old, sluice.Failed, 1) // it was in flight
	counts := b.Hour().Counts["orders"]
	require.True(t, counts.Of(sub))
	require.False(t, counts.Of(old))
	require.EqualValues(t, 1, counts.Attempts())
}

func TestBook_KnowsHowSubscriptionsOfOthersStand(t *testing.T) {
	t.Parallel()
	c, s := &clock{time.Unix(6_000_000, 0)}, &shelf{blocks: map[string]Block{}}
	a := newBook("a", c, s, model.DeliveryGauges{Subscription: "orders", Parked: 3, HeldLanes: 1, Lag: time.Minute}, model.DeliveryGauges{Subscription: "well"})
	b := newBook("b", c, s, model.DeliveryGauges{Subscription: "mine", Breaker: sluice.BreakerOpen})
	a.Flush(t.Context())
	s.tell(b.enter)
	stand := b.Hour().Standings
	require.Equal(t, Standing{Parked: 3, Held: 1, Oldest: c.now.Add(-time.Minute).UTC()}, stand["orders"])
	require.Equal(t, sluice.BreakerOpen, stand["mine"].Breaker)
	require.NotContains(t, stand, "well", "nothing is to be said of it")
	c.now = c.now.Add(time.Minute)
	require.NotContains(t, b.Hour().Standings, "orders", "its replica is gone")
}

func TestCounts_EstimateQuantiles(t *testing.T) {
	t.Parallel()
	var c Counts
	require.Zero(t, c.Quantile(0.95))
	c.Durations[bucketOf(30*time.Millisecond)] = 90
	c.Durations[bucketOf(700*time.Millisecond)] = 10
	require.Equal(t, 50*time.Millisecond, c.Quantile(0.9))
	require.Equal(t, 750*time.Millisecond, c.Quantile(0.95))
	c = Counts{}
	c.Durations[bucketOf(time.Hour)] = 1
	require.Equal(t, longest, c.Quantile(1))
}

// An attempt costs one look-up and no allocation.
func TestAttempted_AllocatesNothing(t *testing.T) { //nolint:paralleltest // it counts allocations
	b, sub, a := newBook("a", &clock{time.Unix(6_000_000, 0)}, nil), orders(), &sluice.Attempt{Outcome: sluice.Delivered}
	b.Attempted(sub, a)
	require.Zero(t, testing.AllocsPerRun(100, func() { b.Attempted(sub, a) }))
}

func BenchmarkAttempted(b *testing.B) {
	book, a := newBook("a", &clock{time.Unix(6_000_000, 0)}, nil), &sluice.Attempt{Outcome: sluice.Delivered, Duration: sluice.Duration(20 * time.Millisecond)}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		sub := orders()
		for pb.Next() {
			book.Attempted(sub, a)
		}
	})
}

// crowded is 10,000 subscriptions with attempts in each minute of an hour.
func crowded() *Book {
	c := &clock{time.Unix(6_000_000, 0)}
	book := newBook("a", c, &shelf{blocks: map[string]Block{}})
	for range 60 {
		for i := range 10_000 {
			sub := orders()
			sub.ID = "orders-" + time.Duration(i).String()
			attempts(book, sub, sluice.Delivered, 1)
		}
		c.now = c.now.Add(time.Minute)
		book.turn(minuteOf(c.now))
		book.Flush(context.Background())
	}
	return book
}

func BenchmarkHour(b *testing.B) {
	book := crowded()
	b.ReportAllocs()
	for b.Loop() {
		book.Hour()
	}
}
