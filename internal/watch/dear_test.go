package watch_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const dear = `event.state == "on" && [1,2,3,4,5,6,7,8,9,10].map(x, [1,2,3,4,5,6,7,8,9,10].map(y, x + y)).size() > 0`

// Issue 13, attack 3: a watch's expression is evaluated at its creator's cost: what it cannot pay for waits, and is decided later.
func TestWatch_WaitsForItsCreatorsBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		s.publish("on", "off")
		matcher, err := filter.CompileLive(sluice.Filter{CEL: dear}, nil)
		require.NoError(t, err)
		met, err := matcher.Match(&s.events[0])
		require.NoError(t, err)
		require.True(t, met)
		require.Greater(t, int(matcher.Spent()), 100, "it is not cheap")
		s.filters = filter.NewPool(filter.Rates{Principal: int(matcher.Spent())}) // one a second
		fired := func() int {
			ids, _ := s.said()
			return len(ids) / 2
		}
		s.run(t, func(w *sluice.Watch) { w.Filter = sluice.Filter{CEL: dear} }, func() {
			for range 9 {
				s.publish("on", "off")
			}
			<-time.After(4500 * time.Millisecond)
			synctest.Wait()
			require.InDelta(t, 5, fired(), 1)
			<-time.After(20 * time.Second)
			synctest.Wait()
			require.Equal(t, 10, fired())
		})
	})
}

// A reading whose evaluation waits when the watch stops is evaluated by the next process.
func TestWatch_StopLosesNoReadingThatWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		s.filters = filter.NewPool(filter.Rates{Principal: 1})
		expensive := func(w *sluice.Watch) { w.Filter = sluice.Filter{CEL: dear} }
		s.run(t, expensive, func() {
			s.publish("on")
			synctest.Wait() // it fires on credit
			s.publish("off", "on")
		})
		ids, _ := s.said()
		require.Len(t, ids, 2)
		require.Less(t, s.record.Place, uint64(3))
		s.filters = nil
		s.run(t, expensive, func() { synctest.Wait() })
		ids, _ = s.said()
		require.Len(t, ids, 4)
		require.Zero(t, s.record.Totals.Missed)
		require.Equal(t, uint64(3), s.record.Totals.Looked)
	})
}
