package loopguard_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/loopguard"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// tellers notes what is told of marks.
type tellers struct{ told []sluice.Unsafe }

func (l *tellers) Unsafe(is sluice.Unsafe) {
	if is.Told.At.Equal(is.LastAt) {
		l.told = append(l.told, is)
	}
}

// S4-82: an automation that loops a thousand times a second is told of once a minute, and its mark says what is to be told.
func TestUnsafeProducer_IsAnnouncedOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, l := newMemory(), &tellers{}
		g := newGuard(t, m, loopguard.Options{Announce: l})
		m.store(event("a", "paid", "/orders/7", ""))
		m.store(event("b", "made", "/invoices/7", "a"))
		for n := range 121 { // a second each
			requireLoop(t, g.CheckNew(t.Context(), "acme", "user:ann", []sluice.Event{event(fmt.Sprint("c", n), "paid", "/orders/7", "b")}))
			require.Equal(t, uint64(n/60*60+1), m.marks["user:ann"].Told.Count)
			<-time.After(time.Second)
		}
		require.Len(t, l.told, 3)
		require.Equal(t, "c60", l.told[1].Told.Event.ID)
		require.Equal(t, "acme", l.told[1].Told.Namespace)
	})
}
