package fanout_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/fanout"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Events that leave the log before they are read are told, those that were not wanted are not.
func TestSource_TellsOfExpiredEvents(t *testing.T) { // S4-25
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := over(t, newMemory())
		a := sub("a", "/x", 1)
		a.Policy.Window = 1
		w.join(a)
		src := w.open(a)
		w.publish(times(10)...)
		held := got(src)
		<-time.After(aLittle)
		w.expire(6)
		settle(t, held...)
		require.Equal(t, "6 7 8 9 10 ", settleAll(t, src))
		var told []uint64
		require.NoError(t, src.Look(t.Context(), func(*sluice.Event) bool { return true }, func(from, to uint64) error {
			told = append(told, from, to)
			return nil
		}))
		require.Equal(t, []uint64{2, 5}, told)
		require.NoError(t, src.Look(t.Context(), nil, nil), "once")
	})
}

// What the filter does not want is not missed, and what it wants is known before it leaves the log.
func TestSource_LooksForWantedEvents(t *testing.T) { // S4-25
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := over(t, newMemory())
		a := sub("a", "/x", 1)
		a.Policy.Window, a.Filter.Types = 1, []string{"rare"}
		w.join(a)
		src := w.open(a)
		w.publish(times(10)...)
		got(src)
		wanted := func(ev *sluice.Event) bool { return ev.Seq == 7 }
		require.NoError(t, src.Look(t.Context(), wanted, nil))
		<-time.After(aLittle)
		require.EqualValues(t, 7, w.position().Next.Seq)
	})
}

// Many subscriptions whose receivers hang hold up no other.
func TestRouter_HangingSubscriptionsDelayNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := over(t, newMemory())
		quick := sub("quick", "/q", 1)
		all := []*sluice.Subscription{quick}
		for i := range 300 {
			s := sub(fmt.Sprint("s", i), "/hang", 1)
			s.Policy.Window = 64
			all = append(all, s)
		}
		w.join(all...)
		<-time.After(aLittle)
		for _, s := range all[1:] {
			w.open(s)
		}
		src, waited := w.open(quick), 0
		for i := range 200 {
			w.publish("/hang", "/q")
			heard := settleAll(t, src)
			for waits := 0; heard == "" && waits < 20; waits++ { // a second, once, until they are known to hang
				<-time.After(100 * time.Millisecond)
				waited++
				heard = settleAll(t, src)
			}
			require.Equal(t, fmt.Sprint(2*i+2, " "), heard)
		}
		require.Less(t, waited, 20)
	})
}

// Large events of subscriptions whose receivers hang take no room from others for long.
func TestRouter_LargeHangingEventsDelayNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.data = make([]byte, 16<<20)
		w := over(t, m)
		hang, quick := sub("a", "/hang", 1), sub("c", "/q", 1)
		hang.Policy.Window = 100
		w.join(hang, quick)
		<-time.After(aLittle)
		w.open(hang)
		src := w.open(quick)
		for range 20 {
			w.publish("/hang", "/q")
			heard := settleAll(t, src)
			for waits := 0; heard == "" && waits < 20; waits++ {
				<-time.After(100 * time.Millisecond)
				heard = settleAll(t, src)
			}
			require.NotEmpty(t, heard)
		}
	})
}

// A log that was recreated, or lost its end, is followed from its new end on.
func TestRouter_ShortenedLogGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := over(t, newMemory())
		a := sub("a", "/x", 1)
		w.join(a)
		w.publish(times(10)...)
		src := w.open(a)
		settleAll(t, src)
		<-time.After(2 * aLittle)
		w.recreate(4)
		<-time.After(time.Second)
		w.publish("/x")
		require.Equal(t, "5 ", settleAll(t, src))
	})
}

// A message whose subject is that of no path is handed over with its error, to those of its pattern.
func TestRouter_HandsOverMessagesThatAreNoEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := over(t, newMemory())
		a, other := sub("a", "/x/**", 1), sub("b", "/y/**", 1)
		w.join(a, other)
		w.publish("", "/x", "")
		src := w.open(a)
		all := got(src)
		require.Equal(t, "1 2 3 ", seqs(all))
		require.Equal(t, []error{errNoEvent, nil, errNoEvent}, []error{all[0].Err, all[1].Err, all[2].Err})
		require.Zero(t, w.wokenUp()["b"])
		w.stop()
		require.Equal(t, fanout.Waits{Seq: 1}, w.position().Open)
	})
}

// The reader waits when all have much to do, and no subscription loses or repeats an event.
func TestRouter_WaitsWhenAllAreBusy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := over(t, newMemory())
		var all []*sluice.Subscription
		for i := range 400 {
			s := sub(fmt.Sprint("s", i), "/**", 1)
			s.Policy.Window = 30
			all = append(all, s)
		}
		w.join(all...)
		<-time.After(aLittle)
		w.publish(times(60)...)
		synctest.Wait()
		var want []uint64
		for i := range uint64(60) {
			want = append(want, i+1)
		}
		heard := map[string]string{}
		sources := map[string]*fanout.Source{}
		for _, s := range all {
			sources[s.ID] = w.open(s)
		}
		for range 10 {
			for id, src := range sources {
				heard[id] += settleAll(t, src)
			}
		}
		for id := range sources {
			require.Equal(t, text(want), heard[id], id)
		}
	})
}

// Subscriptions move to the shared reader when there are many, from where their consumers were, and back.
func TestRouter_MovesWithTheNumberOfSubscriptions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.publish(times(5)...)
		m.consumers["a"] = []uint64{3}
		w := over(t, m)
		var n atomic.Int64
		n.Store(1)
		w.shares = fanout.Above(2, false, func(string) int { return int(n.Load()) })
		a := sub("a", "/x", 1)
		w.join(a)
		require.Equal(t, map[string]int{"a": 1}, w.wokenUp(), "it needs a runner for its consumers")
		_, moved, err := w.router.Open(a)
		require.NoError(t, err)
		require.NotNil(t, moved)
		n.Store(3)
		w.join(sub("b", "/b", 6))
		<-time.After(aLittle)
		<-moved
		src := w.open(a)
		require.False(t, src.Clean())
		require.Equal(t, "4 5 ", settleAll(t, src))
		<-time.After(2 * aLittle)
		n.Store(1)
		w.join(sub("c", "/c", 6))
		<-time.After(aLittle)
		<-src.Ended()
		require.Equal(t, fanout.Position{Floors: []uint64{5}}, w.position())
		_, moved, err = w.router.Open(a)
		require.NoError(t, err)
		require.NotNil(t, moved)
	})
}

// A store that is full keeps no subscription from getting events.
func TestRouter_FullStoreStopsNoDelivery(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		m.full = true
		w := over(t, m)
		a := sub("a", "/x", 1)
		w.join(a)
		w.publish(times(3)...)
		require.Equal(t, "1 2 3 ", settleAll(t, w.open(a)))
		m.mu.Lock()
		m.full = false
		m.mu.Unlock()
		<-time.After(2 * aLittle)
		require.True(t, w.position().Attached)
	})
}

// Records that the store lost are stored again.
func TestRouter_RestoresLostRecords(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := over(t, newMemory())
		a := sub("a", "/x", 1)
		w.join(a)
		w.publish("/x")
		settleAll(t, w.open(a))
		<-time.After(3 * aLittle)
		w.mu.Lock()
		clear(w.positions)
		clear(w.cursors)
		w.mu.Unlock()
		w.router.Restore()
		<-time.After(100 * time.Millisecond) // at once
		require.True(t, w.position().Attached)
		require.EqualValues(t, 1, w.cursor(1))
	})
}

func TestAbove_DecidesByTheNumberOfSubscriptions(t *testing.T) {
	t.Parallel()
	last := sub("a", "/x", 1)
	last.From.Kind = sluice.StartLastPerPath
	wake := sub("a", "/x", 1)
	wake.Mode = sluice.Wake
	dedicated := sub("a", "/x", 1)
	dedicated.Policy.Dedicated = true
	for name, c := range map[string]struct {
		most, count int
		replicated  bool
		sub         *sluice.Subscription
		is, want    bool
	}{
		"few":                         {most: 100, count: 100},
		"many":                        {most: 100, count: 101, want: true},
		"fewer again":                 {most: 100, count: 51, is: true, want: true},
		"few again":                   {most: 100, count: 50, is: true},
		"replicas":                    {most: 100, count: 1, replicated: true, want: true},
		"never":                       {most: -1, count: 1000, replicated: true},
		"the last event of each path": {most: 0, count: 10, sub: last},
		"dedicated":                   {most: 0, count: 10, replicated: true, is: true, sub: dedicated},
		"mode wake":                   {most: 0, count: 10, sub: wake},
		"all":                         {most: 0, count: 1, want: true},
		"it reads on":                 {most: 0, count: 10, sub: last, is: true, want: true},
	} {
		of := c.sub
		if of == nil {
			of = sub("a", "/x", 1)
		}
		shares := fanout.Above(c.most, c.replicated, func(string) int { return c.count })
		require.Equal(t, c.want, shares(of, fanout.Stored{Position: fanout.Position{Shared: c.is}}), name)
	}
}
