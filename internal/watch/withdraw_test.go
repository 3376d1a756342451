package watch_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/inflight"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func ofAnn(sub *sluice.Subscription) bool {
	return sub.Namespace == "acme" && sub.CreatedBy == "user:ann"
}

// A right that is lost while an action is under way: when that is acknowledged nothing of it can be stored any more, and what was not stored is
// asked about again.
func TestWithdraw_CutsOffActionsInFlight(t *testing.T) { // C43, S2-42
	t.Parallel()
	for name, tt := range map[string]struct {
		stored bool // it was too late
		want   []string
	}{
		"before it was stored": {false, []string{"missed-watch-hot-7-1-not_readable"}},
		"as it was stored":     {true, []string{"fired-watch-hot-7-1", alarm(1)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newSite()
				ending := make(chan struct{})
				s.underWay = func(ctx context.Context) {
					<-ctx.Done()
					<-ending // what is on its way cannot be called back
					if s.underWay = nil; !tt.stored {
						s.perform = func(int) error { return context.Cause(ctx) }
					}
				}
				s.run(t, asIs, func() {
					s.publish("on")
					synctest.Wait()
					require.NoError(t, s.engine.Withdraw(t.Context(), func(sub *sluice.Subscription) bool { return !ofAnn(sub) }), "it is not about her")
					s.locked(func() { s.shows = model.Lost })
					withdrawn := make(chan error, 1)
					go func() { withdrawn <- s.engine.Withdraw(t.Context(), ofAnn) }()
					synctest.Wait()
					require.Empty(t, withdrawn, "it may be stored still")
					close(ending)
					require.NoError(t, <-withdrawn)
					s.locked(func() {
						_, stored := s.published[alarm(1)]
						require.Equal(t, tt.stored, stored)
					})
					<-time.After(time.Minute)
				})
				ids, _ := s.said()
				require.Equal(t, tt.want, ids)
			})
		})
	}
}

// A right that is lost when an action was decided and not begun: what was read before is asked about again.
func TestWithdraw_DropsDecidedActions(t *testing.T) { // C43, S2-42
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		tried := 0
		s.perform = func(int) error {
			if tried++; tried == 1 {
				s.shows = model.Lost // while the first of two that were decided together is done
			}
			return nil
		}
		s.publish("on", "off", "on")
		s.run(t, asIs, func() { <-time.After(time.Minute) })
		ids, _ := s.said()
		require.Equal(t, []string{"fired-watch-hot-7-1", "missed-watch-hot-7-3-not_readable", alarm(1)}, ids)
		require.Equal(t, 1, tried)
	})
}

func TestWithdraw_WithNothingInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		s.run(t, asIs, func() {
			require.NoError(t, s.engine.Withdraw(t.Context(), ofAnn))
			s.underWay = func(ctx context.Context) { require.False(t, inflight.WasCut(ctx)) }
			s.publish("on")
		})
		require.Contains(t, s.published, alarm(1))
	})
}

// Issue 13: a lease that has run out, as of a machine that was suspended, fires nothing before the engine is told.
func TestWatch_FiresNothingWithoutItsLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		s.run(t, asIs, func() {
			synctest.Wait()
			s.locked(func() { s.theirs = true })
			s.publish("on")
			<-time.After(time.Minute)
			ids, _ := s.said()
			require.Empty(t, ids)
			s.locked(func() { s.theirs = false })
			<-time.After(time.Minute)
		})
		ids, _ := s.said()
		require.Equal(t, []string{"fired-watch-hot-7-1", alarm(1)}, ids)
	})
}
