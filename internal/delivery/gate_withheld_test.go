package delivery_test

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/delivery"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
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

// laneReads counts the reads of lanes.
type laneReads struct {
	delivery.Events

	reads atomic.Int64
}

func (c *laneReads) ReadLane(ctx context.Context, sub *sluice.Subscription, path sluice.Path, from uint64, limit int) ([]model.ReadEvent, uint64, error) {
	c.reads.Add(1)
	return c.Events.ReadLane(ctx, sub, path, from, limit)
}

// A lane with nothing but withheld events passes them together: each turn reads the whole lane.
func TestGate_WithheldEventsArePassedTogether(t *testing.T) { // S0-59
	t.Parallel()
	for name, change := range map[string]func(*delivery.Deps){
		"allowed": func(*delivery.Deps) {},
		"refused": func(d *delivery.Deps) { d.Catalogue = strict{} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGated(t, quiet(time.Second), nil)
			g.gate.script(withholding)
			var lanes laneReads
			g.ports = func(d *delivery.Deps) {
				change(d)
				lanes.Events = d.Events
				d.Events = &lanes
			}
			g.publish("/a/1", "e1")
			for i := range 500 {
				g.publish("/a/1", forbidden+strconv.Itoa(i))
			}
			g.start()
			g.eventually("the first arrives, and nothing waits", func() bool {
				st, err := g.deliveries.Status(t.Context(), g.sub)
				return err == nil && st.Backlog == 0 && st.InFlight == 0 && st.Parked == 0 && len(g.attempts()) == 1
			})
			require.Less(t, lanes.reads.Load(), int64(100))
			require.Zero(t, g.attempts()[0].SupersedesFrom)
		})
	}
}

// Those that left the log before them are dead letters all the same.
func TestGate_WithheldEventsHideNoLoss(t *testing.T) { // S4-25, S0-59
	t.Parallel()
	for name, lose := range map[string]func(jetstream.Stream, *model.ParkedEntry) error{
		"erased": func(log jetstream.Stream, _ *model.ParkedEntry) error { return log.DeleteMsg(t.Context(), 2) },
		"by retention": func(log jetstream.Stream, lane *model.ParkedEntry) error {
			lane.EventID = "" // as if another had been sent before
			return log.Purge(t.Context(), jetstream.WithPurgeSequence(3))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newGated(t, quiet(time.Hour), nil)
			g.gate.script(withholding)
			stop := g.start()
			g.publish("/b", "e1")
			g.publish("/a/1", "e2", forbidden+"3")
			g.parked(1)
			stop()
			log, err := natstest.JetStream(t, g.server).Stream(t.Context(), streams.Names{}.EventsStream("n"))
			require.NoError(t, err)
			lanes, err := g.deliveries.Parked(t.Context(), g.sub)
			require.NoError(t, err)
			require.NoError(t, lose(log, &lanes[0]))
			lanes[0].NextAt = time.Now()
			_, err = g.deliveries.Park(t.Context(), g.sub, lanes[0].Parked, lanes[0].Revision)
			require.NoError(t, err)
			g.sub.Policy.Debounce.Quiet = sluice.Duration(100 * time.Millisecond)
			_, err = g.store.Subscriptions().Put(t.Context(), g.sub.ID, g.sub, g.sub.Revision)
			require.NoError(t, err)
			g.start()
			g.parked(0)
			letters, err := g.deliveries.DeadLetters(t.Context(), g.sub, 1, 1<<62, 10)
			require.NoError(t, err)
			require.Len(t, letters, 1)
			require.Equal(t, []any{uint64(2), uint64(2), sluice.Expired}, []any{letters[0].Seq, letters[0].LastSeq, letters[0].Reason})
		})
	}
}
