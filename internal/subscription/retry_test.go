package subscription_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/subscription"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// troubled is what the store knows of the deliveries.
type troubled struct {
	subscription.Lanes

	health model.Health
	last   *sluice.Attempt
}

func (l *troubled) Health(context.Context, *sluice.Subscription) (model.Health, error) {
	return l.health, nil
}

func (l *troubled) LastAttempt(context.Context, *sluice.Subscription) (*sluice.Attempt, error) {
	return l.last, nil
}

// A test that succeeds counts wherever there is trouble, also a failure that is too young to be stored; without trouble
// it leaves no trace.
func TestProved_TellsOfASuccessInTrouble(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	sub := b.create(t, minimal)
	well, failed := &sluice.Attempt{Outcome: sluice.Delivered}, &sluice.Attempt{Outcome: sluice.Failed}
	began := 0
	for _, c := range []struct {
		name  string
		is    troubled
		tells bool
	}{
		{"never asked", troubled{}, false},
		{"well", troubled{last: well}, false},
		{"an open breaker", troubled{health: model.Health{Breaker: sluice.BreakerOpen}, last: well}, true},
		{"continuous failure", troubled{health: model.Health{FailingSince: time.Now()}, last: well}, true},
		{"a young failure", troubled{last: failed}, true},
	} {
		require.NoError(t, subscription.Retrier{Lanes: &c.is, Registry: b.Registry}.Proved(t.Context(), sub, "root"))
		all, err := b.Replays(t.Context(), sub.ID)
		require.NoError(t, err)
		require.Equal(t, c.tells, len(all) > began, c.name)
		began = len(all)
		for _, rep := range all {
			require.Equal(t, sluice.ReplayProved, rep.Kind)
			require.NoError(t, b.needs.Replays.Progress(t.Context(), rep, func(rep *sluice.Replay) { rep.State = sluice.ReplayDone }))
		}
	}
}
