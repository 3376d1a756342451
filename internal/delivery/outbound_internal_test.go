package delivery

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/delivery/breaker"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// fixed always says the same.
type fixed model.Decision

func (f fixed) Decide(*sluice.Subscription, *sluice.Event, time.Time) model.Decision {
	return model.Decision(f)
}

// instant is an endpoint that takes no time, or waits until the attempt is cut off.
type instant struct {
	hangs bool
	sent  atomic.Int32
}

func (s *instant) Send(ctx context.Context, _ *sluice.Subscription, _ *sluice.Event, number int, _ ...*sluice.Event) sluice.Attempt {
	s.sent.Add(1)
	if s.hangs {
		<-ctx.Done()
		return sluice.Attempt{Number: number, Outcome: sluice.Failed}
	}
	return sluice.Attempt{Number: number, Outcome: sluice.Delivered}
}

func idle() *runner {
	return &runner{log: slog.New(slog.DiscardHandler), observe: noObserver{}, dispatcher: dispatcher{sub: &sluice.Subscription{ID: "s"}, lanes: newLaneTable(1)}}
}

func TestOutbound_AsksTheGateAfterGrowingPauses(t *testing.T) { // S0-60
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := idle()
		var pauses []time.Duration
		for range 8 {
			for range 3 { // of one round
				require.NoError(t, r.applyDecision(t.Context(), model.Undecided))
			}
			may, next := r.admits(time.Now())
			require.Equal(t, breaker.None, may)
			pauses = append(pauses, time.Until(next))
			<-time.After(time.Until(next))
			may, _ = r.admits(time.Now())
			require.Equal(t, breaker.All, may)
		}
		require.Equal(t, []time.Duration{
			100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond,
			1600 * time.Millisecond, 3200 * time.Millisecond, 5 * time.Second, 5 * time.Second,
		}, pauses)
		require.NoError(t, r.applyDecision(t.Context(), model.Withhold))
		require.NoError(t, r.applyDecision(t.Context(), model.Undecided))
		_, next := r.admits(time.Now())
		require.Equal(t, 100*time.Millisecond, time.Until(next), "it could decide meanwhile")
		require.ErrorIs(t, r.applyDecision(t.Context(), model.Lost), errLost)
	})
}

func TestOutbound_HeldEventsCostNoRate(t *testing.T) { // S0-63
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := idle()
		r.limits = limitsOf(sluice.Rate{PerSecond: 1, PerMinute: 120})
		for range 100 {
			r.throttle(task{lane: &lane{asks: true}}, time.Now())
			require.NoError(t, r.applyDecision(t.Context(), model.Withhold))
		}
		r.throttle(task{lane: &lane{asks: true}}, time.Now())
		may, _ := r.admits(time.Now())
		require.Equal(t, breaker.All, may, "the first that is sent needs not wait")
		r.throttle(task{lane: &lane{asks: true}}, time.Now())
		may, next := r.admits(time.Now())
		require.Equal(t, []any{breaker.None, time.Second}, []any{may, time.Until(next).Round(time.Millisecond)})
	})
}

func TestOutbound_WithdrawWaitsForTheCutOff(t *testing.T) { // C43
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sender := &instant{hangs: true}
		x := newOutbound(nil, sender)
		var said sync.Map
		for _, id := range []string{"mine", "mine", "other"} {
			go func() {
				_, d := x.send(t.Context(), &sluice.Subscription{ID: id}, &sluice.Event{}, 1)
				said.Store(id, d)
			}()
		}
		synctest.Wait()
		require.NoError(t, x.under.Cut(func(sub *sluice.Subscription) bool { return sub.ID == "mine" }).Wait(t.Context()))
		synctest.Wait()
		_, over := said.Load("other")
		require.False(t, over, "it is under way still")
		d, ok := said.Load("mine")
		require.Equal(t, []any{model.Undecided, true}, []any{d, ok}, "nothing was lost: it is made anew")
		require.NoError(t, x.under.Cut(func(*sluice.Subscription) bool { return true }).Wait(t.Context()))
	})
}

// absent is a sender that makes no attempt.
type absent struct{}

func (absent) Send(context.Context, *sluice.Subscription, *sluice.Event, int, ...*sluice.Event) sluice.Attempt {
	return sluice.Attempt{Number: 1, Error: "module m does not run here"}
}

// An attempt that the sender does not make does not count: it is made later, unless access is lost.
func TestOutbound_UnmadeAttemptIsUndecided(t *testing.T) {
	t.Parallel()
	a, d := newOutbound(nil, absent{}).send(t.Context(), &sluice.Subscription{ID: "s"}, &sluice.Event{}, 1)
	require.Equal(t, []any{sluice.Attempt{}, model.Undecided}, []any{a, d})
}

// slow is a gate that takes its time over what it said at the beginning.
type slow struct {
	asked  chan struct{}
	answer chan model.Decision
}

func (g slow) Decide(*sluice.Subscription, *sluice.Event, time.Time) model.Decision {
	g.asked <- struct{}{}
	return <-g.answer
}

// A decision that was made before the revocation, and is heard after it, lets nothing out.
func TestOutbound_EarlierDecisionLetsNothingOut(t *testing.T) { // C43
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sender, gate := &instant{}, slow{make(chan struct{}), make(chan model.Decision)}
		x := newOutbound(gate, sender)
		said, withdrawn := make(chan model.Decision, 1), make(chan error, 1)
		go func() {
			_, d := x.send(t.Context(), &sluice.Subscription{ID: "s"}, &sluice.Event{}, 1)
			said <- d
		}()
		<-gate.asked
		go func() { withdrawn <- x.under.Cut(func(*sluice.Subscription) bool { return true }).Wait(t.Context()) }()
		synctest.Wait()
		require.Empty(t, withdrawn, "it may leave still, for all that is known")
		gate.answer <- model.Pass
		<-gate.asked
		gate.answer <- model.Lost
		require.Equal(t, model.Lost, <-said)
		require.NoError(t, <-withdrawn)
		require.Zero(t, sender.sent.Load())
	})
}

// deaf is an endpoint that does not hear that it is to end.
type deaf struct{ open chan struct{} }

func (s deaf) Send(context.Context, *sluice.Subscription, *sluice.Event, int, ...*sluice.Event) sluice.Attempt {
	<-s.open
	return sluice.Attempt{Outcome: sluice.Delivered}
}

func TestOutbound_WithdrawReportsUncertainty(t *testing.T) { // C43
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := deaf{open: make(chan struct{})}
		x := newOutbound(fixed(model.Pass), s)
		arrived := make(chan model.Decision, 1)
		go func() {
			_, d := x.send(t.Context(), &sluice.Subscription{ID: "s"}, &sluice.Event{}, 1)
			arrived <- d
		}()
		synctest.Wait()
		limit, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		all := func(*sluice.Subscription) bool { return true }
		require.ErrorIs(t, x.under.Cut(all).Wait(limit), context.DeadlineExceeded)
		close(s.open)
		require.Equal(t, model.Pass, <-arrived, "what arrived has arrived")
		require.NoError(t, x.under.Cut(all).Wait(t.Context()))
	})
}

// A gate that says Lost of one attempt cuts off the others, which are not sent under any later decision
// while the subscription is being cancelled; and that is done once.
func TestOutbound_EndsASubscriptionOnce(t *testing.T) { // S0-64
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sender := &instant{}
		x := newOutbound(fixed(model.Pass), sender)
		calls := 0
		fail, free := make(chan struct{}), make(chan struct{})
		given := errors.New("given up")
		end := func(ctx context.Context) error {
			return x.end(ctx, "s", func(context.Context) error {
				if calls++; calls == 1 {
					<-fail
					return given
				}
				<-free
				return nil
			})
		}
		first, others := make(chan error, 1), make(chan error, 2)
		go func() { first <- end(t.Context()) }()
		synctest.Wait()
		for range 2 {
			go func() { others <- end(t.Context()) }()
		}
		synctest.Wait()
		_, d := x.send(t.Context(), &sluice.Subscription{ID: "s"}, &sluice.Event{}, 1)
		require.Equal(t, model.Lost, d)
		close(fail)
		require.ErrorIs(t, <-first, given)
		synctest.Wait()
		_, d = x.send(t.Context(), &sluice.Subscription{ID: "s"}, &sluice.Event{}, 1)
		require.Equal(t, model.Lost, d, "another one does it")
		close(free)
		require.NoError(t, <-others)
		require.NoError(t, <-others)
		require.Equal(t, []any{2, int32(0)}, []any{calls, sender.sent.Load()})
	})
}

// The way out without a gate and with one that lets everything pass; the attempt itself is nothing.
func BenchmarkExit(b *testing.B) {
	sub, ev := &sluice.Subscription{ID: "s"}, &sluice.Event{}
	for name, gate := range map[string]Gate{"without a gate": nil, "pass": fixed(model.Pass), "withhold": fixed(model.Withhold)} {
		b.Run(name, func(b *testing.B) {
			x := newOutbound(gate, &instant{})
			b.ReportAllocs()
			for b.Loop() {
				x.send(b.Context(), sub, ev, 1)
			}
		})
	}
	b.Run("the sender alone", func(b *testing.B) {
		s := &instant{}
		b.ReportAllocs()
		for b.Loop() {
			s.Send(b.Context(), sub, ev, 1)
		}
	})
}
