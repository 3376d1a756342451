package timerqueue_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-io/sluice/internal/schedule/timerqueue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// record is what was called when, in milliseconds after the start.
type record struct {
	mu    sync.Mutex
	start time.Time
	calls []string
}

func (r *record) note(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, fmt.Sprint(key, "@", time.Since(r.start).Milliseconds()))
}

// run has f play with timers in a bubble, and returns what was called within an hour.
func run(t *testing.T, fire func(key string) time.Duration, f func(*timerqueue.Timers, func(key string, after time.Duration))) []string {
	t.Helper()
	var r record
	synctest.Test(t, func(t *testing.T) {
		r.start = time.Now()
		all := timerqueue.New(func(_ context.Context, key string) timerqueue.Again {
			r.note(key)
			switch again := fire(key); {
			case again > 0:
				return timerqueue.Again{At: time.Now().Add(again)}
			case again < 0:
				return timerqueue.Again{At: time.Now().Add(-again), Hold: true}
			}
			return timerqueue.Again{}
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- all.Run(ctx) }()
		var order uint64
		f(all, func(key string, after time.Duration) {
			order++
			all.Set(timerqueue.Entry{Key: key, Lane: "lane", Group: "g", Order: order, At: r.start.Add(after)})
		})
		<-time.After(time.Hour)
		cancel()
		require.NoError(t, <-ended)
		require.Zero(t, all.Count("g"))
	})
	return r.calls
}

func never(string) time.Duration { return 0 }

func TestQueue_CallsInOrderAndOnTime(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"past@0", "soon@10", "first@5000", "second@5000", "late@61000"}, run(t, never, func(all *timerqueue.Timers, set func(string, time.Duration)) {
		set("late", 61*time.Second)
		set("first", 5*time.Second)
		set("second", 5*time.Second)
		set("soon", 10*time.Millisecond)
		require.Equal(t, 4, all.Count("g"))
		synctest.Wait()
		set("past", -time.Hour)
	}))
}

func TestQueue_MovedOrRemovedKeyLosesItsTime(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"b@1000", "a@3000"}, run(t, never, func(all *timerqueue.Timers, set func(string, time.Duration)) {
		set("a", time.Second)
		set("b", 2*time.Second)
		set("c", 2*time.Second)
		set("a", 3*time.Second)
		set("b", time.Second)
		all.Remove("c")
		all.Remove("none")
		require.Equal(t, 2, all.Count("g"))
	}))
}

// Those that are due at one instant are called in their order, however they were set; of those that were put off, one that
// comes later is not called with what comes before it.
func TestTimers_OneInstantInOrder(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"1@2000", "2@2000", "3@2000", "4@2000", "5@2000", "6@2000", "0@1800000"}, run(t, never, func(all *timerqueue.Timers, _ func(string, time.Duration)) {
		start := time.Now()
		all.Set(timerqueue.Entry{Key: "0", Lane: "lane", Group: "g", At: start.Add(10 * time.Second), Next: start.Add(30 * time.Minute)})
		for _, order := range []int{4, 6, 1, 5, 3, 2} {
			all.Set(timerqueue.Entry{Key: strconv.Itoa(order), Lane: "lane", Group: "g", Order: uint64(order), At: start.Add(2 * time.Second)})
		}
	}))
}

// What was put off and set anew or removed since holds up nothing, and what is still put off is called before the next.
func TestTimers_PutOffThenChanged(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"b@2000", "d@5000", "a@8000"}, run(t, never, func(all *timerqueue.Timers, set func(string, time.Duration)) {
		start := time.Now()
		for i, key := range []string{"a", "b", "c"} {
			all.Set(timerqueue.Entry{Key: key, Lane: "lane", Group: "g", Order: uint64(i), At: start.Add(time.Second), Next: start.Add(2*time.Second + time.Duration(i)*time.Minute)})
		}
		all.Remove("c")
		all.Set(timerqueue.Entry{Key: "a", Lane: "lane", Group: "g", Order: 5, At: start.Add(8 * time.Second)})
		all.Set(timerqueue.Entry{Key: "d", Lane: "lane", Group: "g", Order: 6, At: start.Add(5 * time.Second)})
		all.Set(timerqueue.Entry{Key: "b", Lane: "lane", Group: "g", Order: 7, At: start.Add(2 * time.Second)})
	}))
}

// What is alone in its lane is not called when it was removed, and Set says whether it was heeded.
func TestTimers_RemovedAloneIsNotCalled(t *testing.T) {
	t.Parallel()
	require.Empty(t, run(t, never, func(all *timerqueue.Timers, _ func(string, time.Duration)) {
		one := timerqueue.Entry{Key: "a", Lane: "lane", Group: "g", Order: 2, At: time.Now().Add(time.Second)}
		require.True(t, all.Set(one))
		one.Order = 1
		require.False(t, all.Set(one))
		all.Remove("a")
	}))
}

// Another lane goes on while one is called, and Run returns when the last call has.
func TestTimers_RunWaitsForItsCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		other, release := make(chan struct{}), make(chan struct{})
		all := timerqueue.New(func(_ context.Context, key string) timerqueue.Again {
			if key == "b" {
				close(other)
				return timerqueue.Again{}
			}
			<-other
			<-release
			return timerqueue.Again{}
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- all.Run(ctx) }()
		all.Set(timerqueue.Entry{Key: "a", Lane: "a", At: time.Now().Add(time.Second)})
		all.Set(timerqueue.Entry{Key: "b", Lane: "b", At: time.Now().Add(time.Minute)})
		<-other
		cancel()
		synctest.Wait()
		require.Empty(t, ended)
		close(release)
		require.NoError(t, <-ended)
	})
}

// A late report of an older revision does not undo a newer one.
func TestQueue_OlderRevisionIsIgnored(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"a@1000"}, run(t, never, func(all *timerqueue.Timers, set func(string, time.Duration)) {
		set("other", time.Hour*2)
		set("a", time.Second)
		all.Set(timerqueue.Entry{Key: "a", Lane: "lane", Group: "g", Order: 1, At: time.Now().Add(time.Minute)})
		all.Remove("other")
	}))
}

func TestQueue_CallReturnsTheNextTime(t *testing.T) {
	t.Parallel()
	left := 2
	require.Equal(t, []string{"a@1000", "a@3000", "a@5000"}, run(t, func(string) time.Duration {
		if left--; left < 0 {
			return 0
		}
		return 2 * time.Second
	}, func(_ *timerqueue.Timers, set func(string, time.Duration)) { set("a", time.Second) }))
}

func TestQueue_KeySetDuringItsCallIsCalledAgain(t *testing.T) {
	t.Parallel()
	var set func(string, time.Duration)
	var all *timerqueue.Timers
	calls := 0
	fire := func(string) time.Duration {
		calls++
		switch calls {
		case 1: // the earlier counts
			set("a", 9*time.Second)
			return time.Second
		case 2:
			set("a", 3*time.Second)
			return time.Hour / 2
		case 3: // what was removed meanwhile is not called
			all.Remove("a")
			return time.Second
		}
		return 0
	}
	require.Equal(t, []string{"a@1000", "a@2000", "a@3000"}, run(t, fire, func(ts *timerqueue.Timers, f func(string, time.Duration)) {
		set, all = f, ts
		set("a", time.Second)
	}))
}

// A replica that deferred a key for another's turn, and then has the next one of its lane to do, does the first one before.
func TestQueue_DeferredKeyPrecedesTheRestOfItsLane(t *testing.T) {
	t.Parallel()
	calls := 0
	fire := func(string) time.Duration {
		if calls++; calls <= 3 {
			return 20 * time.Second
		}
		return 0
	}
	require.Equal(t, []string{"a@1000", "a@2000", "b@2000", "a@3000", "b@3000", "c@3000"}, run(t, fire, func(_ *timerqueue.Timers, set func(string, time.Duration)) {
		set("c", 3*time.Second)
		set("b", 2*time.Second)
		set("a", time.Second)
	}))
}

// What holds its lane is waited for by all that come after it; one that is called later than at its time comes first all the same.
func TestLane_LaterKeysWaitForItsHolder(t *testing.T) {
	t.Parallel()
	calls := 0
	fire := func(string) time.Duration {
		if calls++; calls <= 2 {
			return -400 * time.Millisecond
		}
		return 0
	}
	require.Equal(t, []string{"a@2000", "a@2400", "a@2800", "b@2800", "c@3000"}, run(t, fire, func(all *timerqueue.Timers, set func(string, time.Duration)) {
		set("c", 3*time.Second)
		set("b", 2*time.Second)
		all.Set(timerqueue.Entry{Key: "a", Lane: "lane", Group: "g", At: time.Now().Add(time.Second), Next: time.Now().Add(time.Hour)})
	}))
}

// However many wait for what holds their lane, it is called once at its time, and once more for one that becomes due; what comes
// before it, and does not hold the lane, is called with it.
func TestLane_HolderIsCalledOnceForAll(t *testing.T) {
	t.Parallel()
	calls := map[string]int{}
	fire := func(key string) time.Duration {
		switch calls[key]++; {
		case calls[key] > 3:
			return 0
		case key == "early":
			return 20 * time.Second
		case key == "holder":
			return -time.Second
		}
		return 0
	}
	want := []string{"early@1000", "holder@1000", "early@2000", "holder@2000", "early@2500", "holder@2500", "early@3500", "holder@3500"}
	for i := range 9 {
		want = append(want, fmt.Sprint(i, "@3500"))
	}
	require.Equal(t, append(want, "late@3500"), run(t, fire, func(all *timerqueue.Timers, set func(string, time.Duration)) {
		all.Set(timerqueue.Entry{Key: "early", Lane: "lane", Group: "g", At: time.Now().Add(time.Second / 2), Next: time.Now().Add(time.Hour)})
		set("holder", time.Second)
		for i := range 9 {
			set(strconv.Itoa(i), time.Second)
		}
		set("late", 2500*time.Millisecond)
	}))
}

// What held its lane and is removed, set anew or recalled holds it no more; what waited and is set anew has
// it called, and what comes before it does not wait.
func TestLane_ChangedHolderHoldsNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		change func(*timerqueue.Timers, func(string, time.Duration))
		want   []string
	}{
		{func(all *timerqueue.Timers, _ func(string, time.Duration)) { all.Remove("a") }, []string{"a@1000", "b@1500", "c@1500"}},
		{func(_ *timerqueue.Timers, set func(string, time.Duration)) { set("a", time.Second) }, []string{"a@1000", "b@1200", "a@1200", "c@1500"}},
		{func(_ *timerqueue.Timers, set func(string, time.Duration)) { set("b", 1400*time.Millisecond) }, []string{"a@1000", "a@1400", "b@1400", "c@1500"}},
		{func(_ *timerqueue.Timers, set func(string, time.Duration)) { set("z", time.Second/2) }, []string{"a@1000", "z@1200", "a@1500", "b@1500", "c@1500"}},
		{func(all *timerqueue.Timers, _ func(string, time.Duration)) { all.Recall() }, []string{"a@1000", "a@1200", "b@1200", "c@1500"}},
	} {
		calls := 0
		require.Equal(t, c.want, run(t, func(string) time.Duration {
			if calls++; calls == 1 {
				return -time.Minute / 2
			}
			return 0
		}, func(all *timerqueue.Timers, set func(string, time.Duration)) {
			set("a", time.Second)
			set("b", time.Second)
			set("c", 1500*time.Millisecond)
			<-time.After(1200 * time.Millisecond)
			synctest.Wait()
			c.change(all, set)
		}))
	}
}

// When the clock was set, what was put off is called again, and says anew until when.
func TestRecall_CallsDeferredKeysAgain(t *testing.T) {
	t.Parallel()
	for _, want := range [][]string{{"a@1000", "a@60500"}, {"a@1000", "a@60500", "b@120000"}} {
		calls := 0
		require.Equal(t, want, run(t, func(string) time.Duration {
			if calls++; calls == 1 {
				return 100 * time.Hour
			}
			return 0
		}, func(all *timerqueue.Timers, set func(string, time.Duration)) {
			set("a", time.Second)
			if len(want) > 2 {
				set("b", 2*time.Minute) // which is the next until then
			}
			<-time.After(time.Minute + time.Second/2)
			all.Recall()
		}))
	}
}

// What is called while all is recalled has decided before that: it is called again, and holds nothing until then.
func TestRecall_ReachesKeysInTheirCalls(t *testing.T) {
	t.Parallel()
	for _, again := range []time.Duration{-time.Minute / 2, time.Minute / 2} {
		var all *timerqueue.Timers
		calls := 0
		require.Equal(t, []string{"a@1000", "a@1000", "b@1000"}, run(t, func(string) time.Duration {
			if calls++; calls == 1 {
				all.Recall()
				return again
			}
			return 0
		}, func(ts *timerqueue.Timers, set func(string, time.Duration)) {
			all = ts
			set("a", time.Second)
			set("b", time.Second)
		}))
	}
}

// Recall makes nothing later: a key that was set for later during its call keeps the time that its call returned.
func TestRecall_KeepsTheEarlierTimeOfACall(t *testing.T) {
	t.Parallel()
	for _, during := range []bool{true, false} {
		var all *timerqueue.Timers
		var set func(string, time.Duration)
		calls := 0
		require.Equal(t, []string{"a@1000", "a@3000"}, run(t, func(string) time.Duration {
			if calls++; calls > 1 {
				return 0
			}
			set("a", time.Minute)
			if during {
				all.Recall()
			}
			return 2 * time.Second
		}, func(ts *timerqueue.Timers, f func(string, time.Duration)) {
			all, set = ts, f
			set("a", time.Second)
			<-time.After(2 * time.Second)
			if !during {
				all.Recall()
			}
		}), during)
	}
}

// However keys are set and moved, none is called at once with itself, and each is called at the time that was set last.
func TestQueue_CallsManyKeysOnceEach(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const keys = 500
		start := time.Now()
		var mu sync.Mutex
		busy, called := map[string]bool{}, map[string]time.Duration{}
		all := timerqueue.New(func(_ context.Context, key string) timerqueue.Again {
			mu.Lock()
			require.False(t, busy[key], key)
			busy[key] = true
			_, twice := called[key]
			require.False(t, twice, key)
			called[key] = time.Since(start)
			mu.Unlock()
			<-time.After(time.Microsecond)
			mu.Lock()
			busy[key] = false
			mu.Unlock()
			return timerqueue.Again{}
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- all.Run(ctx) }()
		last := map[string]time.Duration{}
		random := rand.New(rand.NewPCG(1, 2))
		for range 3 * keys {
			key := strconv.Itoa(random.IntN(keys))
			last[key] = time.Second + time.Duration(random.IntN(60_000))*time.Millisecond
			all.Set(timerqueue.Entry{Key: key, Lane: key, Group: "g", At: start.Add(last[key])})
		}
		<-time.After(2 * time.Minute)
		cancel()
		require.NoError(t, <-ended)
		require.Len(t, called, len(last))
		for key, at := range last {
			require.InDelta(t, at.Seconds(), called[key].Seconds(), 0.001, key)
		}
	})
}
