package rollup

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"runtime"
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
	return &sluice.Subscription{ID: "orders", Lifecycle: sluice.Lifecycle{CreatedAt: time.Unix(1000, 0)}}
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

// A minute that a replica stores again long after it, because NATS was away, is counted once.
func TestBook_CountsALateMinuteOnce(t *testing.T) {
	t.Parallel()
	c, s, sub := &clock{time.Unix(6_000_000, 0)}, &shelf{blocks: map[string]Block{}}, orders()
	a, b := newBook("a", c, s), newBook("b", c, s)
	attempts(a, sub, sluice.Delivered, 3)
	a.Flush(t.Context())
	s.tell(b.enter)
	attempts(a, sub, sluice.Delivered, 2)
	for range 20 {
		c.now = c.now.Add(time.Minute)
		a.turn(minuteOf(c.now))
		b.turn(minuteOf(c.now))
	}
	a.Flush(t.Context())
	for range 3 { // a reader that begins anew gets old blocks again
		s.tell(b.enter)
		require.EqualValues(t, 5, b.Hour().Counts["orders"].Attempts())
		b.turn(minuteOf(c.now))
	}
}

func TestBook_StartsWithStoredBlocks(t *testing.T) {
	t.Parallel()
	c, s := &clock{time.Unix(6_000_000, 0)}, &shelf{blocks: map[string]Block{}}
	ended, end := context.WithCancel(t.Context())
	before := newBook("before", c, s)
	attempts(before, orders(), sluice.Delivered, 7)
	end()
	require.NoError(t, before.Run(ended), "what was counted is stored at the end")
	require.Len(t, s.blocks, 2, "of the minute, and of the hour")
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

// The statistics of a day are by five minutes, those of the last hour by minute, and both are those of all replicas.
func TestSeries_KnowsTheDay(t *testing.T) {
	t.Parallel()
	c, s, sub := &clock{time.Unix(5_999_940, 0)}, &shelf{blocks: map[string]Block{}}, orders() // 59 minutes after an hour
	a := newBook("a", c, s)
	b := newBook("b", c, s)
	for range 26 * hour {
		attempts(a, sub, sluice.Delivered, 2)
		attempts(b, sub, sluice.Failed, 1)
		c.now = c.now.Add(time.Minute)
		a.turn(minuteOf(c.now))
		b.turn(minuteOf(c.now))
		a.Flush(t.Context())
		b.Flush(t.Context())
	}
	attempts(a, sub, sluice.Delivered, 5)
	s.tell(a.enter)
	after := newBook("after", c, s)
	s.tell(after.enter)
	since := c.now.Add(-day * time.Minute)
	for _, step := range []time.Duration{5 * time.Minute, 30 * time.Minute, time.Hour} {
		points := a.Series(sub, since, step)
		require.InDelta(t, day*time.Minute/step, len(points), 1)
		again := after.Series(sub, since, step)
		for i, p := range points[1 : len(points)-1] {
			require.EqualValues(t, 2*step/time.Minute, p.Delivered, "%s %d", step, i)
			require.EqualValues(t, step/time.Minute, p.Failed)
			require.EqualValues(t, p.Failed, p.ByClass()[sluice.FailOther])
			require.Equal(t, p.Counts, again[i+1].Counts, "a server that starts knows it, too")
			require.Equal(t, step, points[i+2].At.Sub(p.At))
		}
		last := points[len(points)-1]
		require.EqualValues(t, 5+2*c.now.Sub(last.At)/time.Minute, last.Delivered, "with the minute that is not over")
	}
	points := a.Series(sub, c.now.Add(-3*time.Minute), time.Minute)
	require.Len(t, points, 4)
	require.EqualValues(t, 2, points[0].Delivered)
	require.EqualValues(t, 5, points[3].Delivered)
	require.Zero(t, a.Series(sub, since, time.Minute)[7].Attempts(), "minutes are known of the last hour only")
	other := orders()
	other.CreatedAt = other.CreatedAt.Add(time.Hour)
	require.Zero(t, a.Series(other, c.now, time.Hour)[0].Attempts(), "it is another one of the ID")
	for hours := range 26 {
		require.LessOrEqual(t, len(a.hours), 26, hours)
	}
	of := func(id string, _ int64) bool { return id == "orders" }
	all := a.Minutes(nil)
	require.Equal(t, all, a.Minutes(of))
	require.Len(t, all, minutes)
	require.Equal(t, Minute{At: c.now, Delivered: 5}, Minute{At: all[60].At.In(time.Local), Delivered: all[60].Delivered, Failed: all[60].Failed})
	require.EqualValues(t, 2, all[0].Delivered)
	require.EqualValues(t, 1, all[0].Failed)
	require.Zero(t, a.Minutes(func(string, int64) bool { return false })[3].Delivered)
}

func TestCell_KeepsCounts(t *testing.T) {
	t.Parallel()
	want := Counts{Delivered: 4, Failed: 300, Failures: &Failures{3: 299, classes - 1: 1}}
	want.Durations[0], want.Durations[buckets-1] = 4, 300
	cell := appendCell(nil, &want)
	got, rest, ok := readCell(append(cell, 7))
	require.True(t, ok)
	require.Equal(t, want, got)
	require.Equal(t, []byte{7}, rest)
	for n := range cell {
		_, _, ok = readCell(cell[:n])
		require.False(t, ok, "damaged")
	}
	eachCell([]byte{255, 255, 1}, func(int, *Counts) { t.Fatal("damaged") })
	require.Len(t, sluice.FailureClasses(), classes)
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

// BenchmarkDay reports what a day costs with attempts of 10,000 subscriptions in every minute, a hundredth of them failed.
func BenchmarkDay(b *testing.B) {
	for b.Loop() {
		c, s := &clock{time.Unix(6_000_000, 0)}, &shelf{blocks: map[string]Block{}}
		book := newBook("a", c, s)
		ids := make([]string, 10_000)
		for i := range ids {
			ids[i] = "orders-" + time.Duration(i).String()
		}
		before := heap()
		for minute := range 25 * hour {
			sub := orders()
			for i, id := range ids {
				outcome := sluice.Delivered
				if (minute+i)%100 == 0 {
					outcome = sluice.Failed
				}
				sub.ID = id
				attempts(book, sub, outcome, 1)
			}
			c.now = c.now.Add(time.Minute)
			book.turn(minuteOf(c.now))
			maps.DeleteFunc(book.unsaved, func(_ string, block Block) bool { return block.Hour == 0 })
			book.Flush(context.Background())
		}
		stored := storedHours(b, s)
		s.blocks = nil
		whole := heap()
		book.minutes, book.hours, book.own = nil, nil, newHour(0)
		b.ReportMetric(float64(whole-heap())/(1<<20), "MiB")
		b.ReportMetric(float64(whole-before)/(1<<20), "MiB-in-all")
		b.ReportMetric(float64(stored)/(1<<20), "MiB-stored")
		runtime.KeepAlive(book)
	}
}

// storedHours returns how many bytes the blocks of hours have.
func storedHours(b *testing.B, s *shelf) (stored int) {
	b.Helper()
	for _, block := range s.blocks {
		if block.Hour > 0 {
			data, err := json.Marshal(block)
			require.NoError(b, err)
			stored += len(data)
		}
	}
	return stored
}

// heap returns how many bytes are in use.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func BenchmarkHour(b *testing.B) {
	book := crowded()
	b.ReportAllocs()
	for b.Loop() {
		book.Hour()
	}
}
