package delivery_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func failingAnswer(hooktest.Request) hooktest.Answer { return hooktest.Answer{Status: 503} }

func hangingAnswer(hooktest.Request) hooktest.Answer { return hooktest.Answer{Hang: true} }

func TestGate_NothingLeavesAfterAccessIsLost(t *testing.T) { // S0-57, S0-58, S0-60, S0-62, S0-63, S0-64, C13, C43; issue 4, bar
	t.Parallel()
	for name, try := range map[string]func(*testing.T){
		"between two attempts":                   revokedBetweenAttempts,
		"while parked and retried":               revokedWhileParked,
		"over a restart":                         revokedOverARestart,
		"between two events of a replay":         revokedBetweenReplayed,
		"during an attempt of a replay":          revokedDuringReplayed,
		"of a redriven dead letter":              revokedBeforeARedrive,
		"while the breaker is open":              revokedWhileTheBreakerIsOpen,
		"while NATS is away":                     revokedWhileNATSIsAway,
		"while NATS is away, known before":       revokedKnownWhileNATSIsAway,
		"the endpoint reads nothing":             revokedWhileNothingIsRead,
		"the endpoint accepts no connection":     revokedWhileDialling,
		"the endpoint does not answer":           revokedWhileUnanswered,
		"the endpoint answers slowly":            revokedDuringTheAnswer,
		"two replicas":                           revokedInTwoReplicas,
		"of a subscription to the system events": revokedFromSystemEvents,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			try(t)
		})
	}
}

func revokedBetweenAttempts(t *testing.T) {
	t.Helper()
	g := newGated(t, sluice.Policy{Window: 4, Retry: steps(400*time.Millisecond, 100)}, failingAnswer)
	g.start()
	g.publish("/a/1", "e1", waiting)
	g.hook.Wait(2)
	g.parked(1)
	came := g.revoke()
	made := len(g.hook.Requests())
	g.requireEnded()
	g.requireSilent(came)
	require.LessOrEqual(t, len(g.attempts()), made)
	require.NotContains(t, g.tap.Text(), waiting, "what waited behind was never sent")
}

func revokedWhileParked(t *testing.T) {
	t.Helper()
	g := newGated(t, sluice.Policy{Window: 4, Retry: steps(time.Hour, 100)}, failingAnswer)
	g.start()
	for _, path := range []sluice.Path{"/a/1", "/a/2", "/a/3"} {
		g.publish(path, "e"+string(path[3:]))
	}
	g.parked(3)
	came := g.revoke()
	lanes, err := g.deliveries.Parked(t.Context(), g.sub)
	require.NoError(t, err)
	rep := g.replay(sluice.ReplayRetry, lanes[0].FromSeq, lanes[0].FromSeq)
	g.requireEnded()
	g.requireSilent(came)
	require.Len(t, g.attempts(), 3)
	g.eventually("the retry is over", func() bool {
		rep, err = g.deliveries.Replays().Replay(t.Context(), rep)
		return err == nil && rep.State != sluice.ReplayRunning
	})
}

func revokedOverARestart(t *testing.T) {
	t.Helper()
	g := newGated(t, sluice.Policy{Window: 4, Retry: steps(time.Hour, 100)}, failingAnswer)
	stop := g.start()
	g.publish("/a/1", "e1", "e2")
	g.parked(1)
	stop()
	came := g.revoke()
	dueNow(t, &world{store: g.store, deliveries: g.deliveries, sub: g.sub})
	g.start()
	g.requireEnded()
	g.requireSilent(came)
}

// replay starts a replay.
func (g *gated) replay(kind sluice.ReplayKind, from, to uint64) sluice.Replay {
	g.t.Helper()
	rep := sluice.Replay{
		ID: "r", Subscription: g.sub.ID, Namespace: "n", Kind: kind, State: sluice.ReplayRunning, From: from, To: to, Next: from,
		Began: g.sub.Began(), CreatedAt: time.Now(),
	}
	require.NoError(g.t, g.deliveries.Replays().Add(g.t.Context(), rep))
	return rep
}

// delivered publishes ten events and waits until they have arrived.
func (g *gated) deliverTen() {
	g.t.Helper()
	g.publish("/a/1", "e1", "e2", "e3", "e4", "e5", "e6", "e7", "e8", "e9", "e10")
	g.eventually("all arrive", func() bool { return len(g.attempts()) == 10 })
}

func revokedBetweenReplayed(t *testing.T) {
	t.Helper()
	g := newGated(t, sluice.Policy{Window: 4, Ordering: sluice.OrderAll}, nil)
	g.start()
	g.deliverTen()
	asked := 0
	g.gate.script(func(*sluice.Subscription, *sluice.Event) model.Decision {
		if asked++; asked <= 4 {
			return model.Pass
		}
		return model.Lost
	})
	g.replay(sluice.ReplayRange, 1, 10)
	g.hook.Wait(14)
	g.requireEnded()
	require.Len(t, g.hook.Requests(), 14)
	require.Equal(t, 14, strings.Count(g.tap.Text(), word))
}

func revokedDuringReplayed(t *testing.T) {
	t.Helper()
	g := newGated(t, sluice.Policy{Window: 4, Ordering: sluice.OrderAll}, func(r hooktest.Request) hooktest.Answer {
		return hooktest.Answer{Hang: r.Number == 12}
	})
	g.start()
	g.deliverTen()
	g.replay(sluice.ReplayRange, 1, 10)
	g.hook.Wait(12)
	came := g.revoke()
	g.requireEnded()
	g.requireSilent(came)
	require.Len(t, g.attempts(), 11, "the one that was cut off is not recorded")
}

func revokedBeforeARedrive(t *testing.T) {
	t.Helper()
	g := newGated(t, sluice.Policy{Window: 4}, nil)
	g.publish("/a/1", "e1")
	events, _, err := g.store.Log.ReadLane(t.Context(), g.sub, "", 1, 1)
	require.NoError(t, err)
	log, err := g.deliveries.AttemptLog()
	require.NoError(t, err)
	require.NoError(t, log.Bury(t.Context(), sluice.DeadLetter{
		Subscription: "s", Namespace: "n", EventID: "e1", Seq: events[0].Seq, Path: "/a/1", Event: &events[0].Event, Reason: sluice.Exhausted, At: time.Now(),
	}))
	g.gate.script(func(_ *sluice.Subscription, ev *sluice.Event) model.Decision { return model.Withhold })
	g.start()
	g.eventually("the live one is withheld", func() bool { return g.gate.times() == 1 })
	g.gate.set(model.Lost)
	letters, err := g.deliveries.DeadLetters(t.Context(), g.sub, 1, 1<<62, 10)
	require.NoError(t, err)
	g.replay(sluice.ReplayDeadLetters, letters[0].LetterSeq, letters[0].LetterSeq)
	g.eventually("it is cancelled", func() bool {
		stored, _, err := g.store.Subscriptions().Get(t.Context(), "s")
		return err == nil && stored.State == sluice.Cancelled
	})
	require.Zero(t, g.tap.Len())
	after, err := g.deliveries.DeadLetters(t.Context(), g.sub, 1, 1<<62, 10)
	require.NoError(t, err)
	require.Equal(t, letters, after, "the letter stays where it is")
}

func revokedWhileTheBreakerIsOpen(t *testing.T) {
	t.Helper()
	g := newGated(t, sluice.Policy{Window: 4, Retry: quickRetries}, failingAnswer)
	require.NoError(t, g.deliveries.PutHealth(t.Context(), g.sub, model.Health{
		Breaker: sluice.BreakerOpen, ProbeAt: time.Now().Add(time.Second), Pause: sluice.Duration(time.Second), Revision: g.sub.Revision,
	}))
	g.start()
	g.publish("/a/1", "e1")
	g.hook.Wait(1) // the first probe
	came := g.revoke()
	made := len(g.hook.Requests())
	g.requireEnded()
	g.requireSilent(came)
	require.Len(t, g.hook.Requests(), made)
}

func revokedWhileNATSIsAway(t *testing.T) {
	t.Helper()
	g := newGated(t, sluice.Policy{Window: 4}, nil)
	g.gate.set(model.Undecided)
	g.start()
	g.publish("/a/1", "e1", "e2")
	g.publish("/a/2", "e3")
	g.eventually("the gate was asked", func() bool { return g.gate.times() >= 4 })
	g.server.Stop(t)
	g.revoke()
	g.server.Start(t)
	g.requireEnded()
	require.Zero(t, g.tap.Len())
	require.Empty(t, g.attempts())
}

// The runner learns of it while the store is away: the cancellation is stored when it is back.
func revokedKnownWhileNATSIsAway(t *testing.T) {
	t.Helper()
	g := newGated(t, sluice.Policy{Window: 4}, hangingAnswer)
	g.start()
	g.publish("/a/1", "e1", "e2")
	g.hook.Wait(1)
	g.server.Stop(t)
	before := g.gate.times()
	came := g.revoke()
	require.Greater(t, g.gate.times(), before, "the attempt that was cut off has asked")
	g.gate.set(model.Pass) // it is too late: the cancellation is decided
	within(300*time.Millisecond, func() bool { return false })
	g.server.Start(t)
	g.requireEnded()
	g.requireSilent(came)
	require.Empty(t, g.attempts())
}

func revokedWhileNothingIsRead(t *testing.T) {
	t.Helper()
	g := newGated(t, sluice.Policy{Window: 4, Timeout: sluice.Duration(time.Minute)}, nil)
	g.tap.Deafen()
	g.start()
	g.publishData("/a/1", "e1", `"`+strings.Repeat(word+"-", 25_000)+`"`)
	g.eventually("the gate was asked", func() bool { return g.gate.times() > 0 })
	within(300*time.Millisecond, func() bool { return false }) // the buffers on the way fill
	g.revoke()
	g.tap.Hear()
	g.requireEnded()
	require.Less(t, strings.Count(g.tap.Text(), word), 25_000/2, "what our kernel held has come too")
	require.Empty(t, g.hook.Requests(), "a whole request")
	require.NotContains(t, g.tap.Text(), later)
	require.Empty(t, g.attempts())
}

func revokedWhileDialling(t *testing.T) {
	t.Helper()
	url, accept := hooktest.NewBusy(t)
	g := newGated(t, sluice.Policy{Window: 4, Timeout: sluice.Duration(time.Minute)}, nil,
		func(sub *sluice.Subscription) { sub.Endpoint.URL = url })
	g.start()
	g.publish("/a/1", "e1")
	g.eventually("the gate was asked", func() bool { return g.gate.times() > 0 })
	within(100*time.Millisecond, func() bool { return false }) // it dials
	g.revoke()
	came := string(accept())
	g.requireEnded()
	require.Empty(t, came)
}

func revokedWhileUnanswered(t *testing.T) {
	t.Helper()
	g := newGated(t, sluice.Policy{Window: 4, Timeout: sluice.Duration(time.Minute)}, hangingAnswer)
	g.start()
	g.publish("/a/1", "e1", "e2")
	g.publish("/a/2", "e3")
	g.hook.Wait(2)
	came := g.revoke()
	g.requireEnded()
	g.requireSilent(came)
	require.Empty(t, g.attempts())
}

func revokedDuringTheAnswer(t *testing.T) {
	t.Helper()
	g := newGated(t, sluice.Policy{Window: 4, Timeout: sluice.Duration(time.Minute)}, func(hooktest.Request) hooktest.Answer {
		return hooktest.Answer{Body: strings.Repeat("x", 10_000), Drip: 20 * time.Millisecond}
	})
	g.start()
	g.publish("/a/1", "e1", "e2")
	g.hook.Wait(1)
	came := g.revoke()
	g.requireEnded()
	g.requireSilent(came)
	require.Empty(t, g.attempts())
}

func revokedInTwoReplicas(t *testing.T) {
	t.Helper()
	g := newGated(t, sluice.Policy{Window: 4, Retry: steps(400*time.Millisecond, 100)}, failingAnswer)
	one := g.startReplica("one")
	g.publish("/a/1", "e1")
	g.parked(1)
	g.startReplica("two")
	came := g.revoke()
	one() // its work goes to the other, in any state
	g.requireEnded()
	g.requireSilent(came)
}

func revokedFromSystemEvents(t *testing.T) {
	t.Helper()
	g := newGated(t, sluice.Policy{Window: 4}, nil, func(sub *sluice.Subscription) { sub.Pattern = "/_sys/**" })
	g.start()
	g.gate.set(model.Lost)
	ev := sluice.Event{Path: "/_sys/x", ID: "x", Type: "subscription.paused", Source: "/test", Time: time.Now(), Data: []byte(`{}`)}
	_, err := g.store.Log.Publish(t.Context(), "n", []sluice.Event{ev})
	require.NoError(t, err)
	g.eventually("it is told", func() bool {
		page, err := g.store.Log.Events(t.Context(), "n", model.EventQuery{Pattern: "/_sys/**", Types: []string{sluice.TypeAccessRevoked}})
		return err == nil && len(page.Events) == 1
	})
	within(300*time.Millisecond, func() bool { return g.tap.Len() > 0 })
	require.Zero(t, g.tap.Len(), "it hears of its own end")
}
