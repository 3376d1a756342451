package delivery_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/delivery"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// A withheld event leaves no trace; those beside it, in live deliveries, parked lanes and
// replays, go on, and a restart does not send it either.
func TestGate_WithheldEventLeavesNoTrace(t *testing.T) { // S0-59, S0-62, S0-63
	t.Parallel()
	failed := map[string]bool{}
	var mu sync.Mutex
	g := newGated(t, sluice.Policy{Window: 4, Retry: steps(100*time.Millisecond, 5)}, func(r hooktest.Request) hooktest.Answer {
		mu.Lock()
		defer mu.Unlock()
		id := r.Header.Get("Webhook-Id")
		if id == "p1" && !failed[id] {
			failed[id] = true
			return hooktest.Answer{Status: 503}
		}
		return hooktest.Answer{}
	})
	g.gate.script(withholding)
	stop := g.start()
	g.publish("/a/1", forbidden+"1", "e1", forbidden+"2", forbidden+"3", "e2")
	g.publish("/a/2", "p1", forbidden+"4", "p2", forbidden+"5") // parked by its first
	g.publish("/a/3", forbidden+"6")
	done := func() bool {
		st, err := g.deliveries.Status(t.Context(), g.sub)
		return err == nil && st.Backlog == 0 && st.InFlight == 0 && st.Parked == 0
	}
	g.eventually("all is done", func() bool { return len(g.attempts()) == 5 && done() })
	require.Equal(t, 6, g.see.withheldSoFar())
	asked := g.gate.times()
	stop()
	g.start()
	g.publish("/a/1", "e3")
	g.eventually("the next one arrives", func() bool { return len(g.attempts()) == 6 && done() })
	require.LessOrEqual(t, g.gate.times(), asked+3)

	rep := g.replay(sluice.ReplayRange, 1, 9)
	g.eventually("the replay is done", func() bool {
		var err error
		rep, err = g.deliveries.Replays().Replay(t.Context(), rep)
		return err == nil && rep.State == sluice.ReplayDone
	})
	require.Equal(t, []uint64{10, 4, 0}, []uint64{rep.Next, rep.Sent, rep.Dead})
	require.NotContains(t, g.tap.Text(), forbidden)
	letters, err := g.deliveries.DeadLetters(t.Context(), g.sub, 1, 1<<62, 10)
	require.NoError(t, err)
	require.Empty(t, letters)
	for _, a := range g.attempts() {
		require.False(t, strings.HasPrefix(a.EventID, forbidden), a.EventID)
	}
}

// A withheld event does not reveal whether the filter can decide on it.
func TestGate_WithheldDoubtIsNotBuried(t *testing.T) { // S0-63
	t.Parallel()
	g := newGated(t, sluice.Policy{Window: 4, Retry: steps(100*time.Millisecond, 5)},
		func(r hooktest.Request) hooktest.Answer {
			if r.Number == 1 {
				return hooktest.Answer{Status: 503}
			}
			return hooktest.Answer{}
		},
		func(sub *sluice.Subscription) { sub.Filter = sluice.Filter{CEL: `event.data.n / event.data.n == 1`} })
	undecided := 1
	g.gate.script(func(_ *sluice.Subscription, ev *sluice.Event) model.Decision {
		switch {
		case !strings.HasPrefix(ev.ID, forbidden):
			return model.Pass
		case undecided > 0:
			undecided--
			return model.Undecided
		}
		return model.Withhold
	})
	g.publishData("/a/1", "e1", `{"n":1}`)
	g.publishData("/a/1", forbidden+"2", `{"n":0}`) // of a parked lane
	g.publishData("/a/1", "e3", `{"n":1}`)
	g.start()
	g.eventually("they arrive", func() bool { return len(g.attempts()) == 3 })
	g.publishData("/a/2", forbidden+"4", `{"n":0}`) // of a live one
	g.publishData("/a/2", "e5", `{"n":1}`)
	g.eventually("the last arrives", func() bool { return len(g.attempts()) == 4 })
	letters, err := g.deliveries.DeadLetters(t.Context(), g.sub, 1, 1<<62, 10)
	require.NoError(t, err)
	require.Empty(t, letters)
	require.Equal(t, 2, g.see.withheldSoFar())
}

// withholding lets everything pass but the events whose ids begin with forbidden.
func withholding(_ *sluice.Subscription, ev *sluice.Event) model.Decision {
	if strings.HasPrefix(ev.ID, forbidden) {
		return model.Withhold
	}
	return model.Pass
}

// strict is a catalogue that knows no type of the withheld events, and closing finds that they close a loop.
type (
	strict  struct{}
	closing struct{}
)

func (strict) Check(ev *sluice.Event) error {
	if strings.HasPrefix(ev.ID, forbidden) {
		return sluice.Errorf(sluice.InvalidRequest, "the type of %s is unknown", ev.ID)
	}
	return nil
}

func (closing) Check(_ context.Context, ev *sluice.Event) error {
	if strings.HasPrefix(ev.ID, forbidden) {
		return sluice.Errorf(sluice.EventLoopDetected, "%s came of itself", ev.ID)
	}
	return nil
}

// Nor is it a dead letter if its type is unknown, or if it closes a loop.
func TestGate_WithheldRefusalIsNotBuried(t *testing.T) { // S0-63
	t.Parallel()
	for name, ports := range map[string]func(*delivery.Deps){
		"catalogue": func(d *delivery.Deps) { d.Catalogue = strict{} },
		"loop":      func(d *delivery.Deps) { d.Causes = closing{} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGated(t, sluice.Policy{Window: 4, Retry: steps(100*time.Millisecond, 5)}, func(r hooktest.Request) hooktest.Answer {
				if r.Number == 1 {
					return hooktest.Answer{Status: 503}
				}
				return hooktest.Answer{}
			})
			g.ports = ports
			g.gate.script(withholding)
			g.publish("/a/1", "e1") // it parks its lane
			g.caused("/a/1", forbidden+"2")
			g.publish("/a/1", "e3")
			g.start()
			g.eventually("they arrive", func() bool { return len(g.attempts()) == 3 })
			letters, err := g.deliveries.DeadLetters(t.Context(), g.sub, 1, 1<<62, 10)
			require.NoError(t, err)
			require.Empty(t, letters)
			require.Equal(t, 1, g.see.withheldSoFar())
		})
	}
}

// A withheld event takes no place: the last of those that may leave is sent.
func TestGate_WithheldEventSupersedesNone(t *testing.T) { // S0-63
	t.Parallel()
	g := newGated(t, quiet(time.Second), nil)
	g.gate.script(withholding)
	g.publish("/a/1", "e1", forbidden+"2")
	g.publish("/a/2", "e3", "e4", forbidden+"5")
	g.start()
	g.eventually("the last of each path arrives", func() bool { return len(g.attempts()) == 2 })
	g.eventually("nothing waits", func() bool {
		st, err := g.deliveries.Status(t.Context(), g.sub)
		return err == nil && st.Backlog == 0 && st.InFlight == 0 && st.Parked == 0
	})
	sent := map[string]uint64{}
	for _, a := range g.attempts() {
		sent[a.EventID] = a.SupersedesFrom
	}
	require.Equal(t, map[string]uint64{"e1": 0, "e4": 3}, sent)
}
