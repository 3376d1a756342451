package deliverystore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestHealth_IsTheLastWritten(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	now := time.Now().UTC().Round(0)
	sub := &sluice.Subscription{ID: "s", Namespace: "default", Lifecycle: sluice.Lifecycle{CreatedAt: now}}
	read := func(sub *sluice.Subscription) model.Health {
		h, err := store.Health(t.Context(), sub)
		require.NoError(t, err)
		return h
	}
	require.Zero(t, read(sub))
	for _, want := range []model.Health{
		{Breaker: sluice.BreakerOpen, ProbeAt: now, Pause: sluice.Duration(time.Second)},
		{FailingSince: now, Alerted: 70, Revision: 3},
	} {
		require.NoError(t, store.PutHealth(t.Context(), sub, want))
		require.Equal(t, want, read(sub))
	}
	require.Zero(t, read(&sluice.Subscription{ID: "s", Namespace: "default", Lifecycle: sluice.Lifecycle{CreatedAt: now.Add(time.Hour)}}), "another one of its id")
	require.NoError(t, store.PutHealth(t.Context(), sub, model.Health{}))
	require.Zero(t, read(sub))
	require.NoError(t, store.PutHealth(t.Context(), sub, model.Health{}))
}

func TestStatus_ShowsTheBreaker(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	soon := time.Now().Add(time.Minute).UTC().Round(0)
	hour := time.Now().Add(time.Hour).UTC().Round(0)
	parked := sluice.Parked{Lane: "s.p.a", Path: "/a", FromSeq: 1, Attempts: 1, NextAt: time.Now().Add(time.Second).UTC().Round(0)}
	tests := []struct {
		name  string
		state sluice.State
		give  model.Health
		want  sluice.Breaker
		next  time.Time
	}{
		{"nothing to remember", sluice.Active, model.Health{}, sluice.BreakerClosed, parked.NextAt},
		{"open", sluice.Active, model.Health{Breaker: sluice.BreakerOpen, ProbeAt: soon}, sluice.BreakerOpen, soon},
		{"open, and asked to wait", sluice.Active, model.Health{Breaker: sluice.BreakerOpen, ProbeAt: soon, HeldUntil: hour}, sluice.BreakerOpen, hour},
		{"asked to wait", sluice.Active, model.Health{HeldUntil: hour}, sluice.BreakerClosed, hour},
		{"half-open", sluice.Active, model.Health{Breaker: sluice.BreakerHalfOpen}, sluice.BreakerHalfOpen, parked.NextAt},
		{"no replica serves it", sluice.Paused, model.Health{Breaker: sluice.BreakerOpen, ProbeAt: soon}, sluice.BreakerClosed, parked.NextAt},
	}
	sub := &sluice.Subscription{ID: "s", Namespace: "default", Mode: sluice.Push, Pattern: "/a/**", Lifecycle: sluice.Lifecycle{CreatedAt: time.Now()}}
	sub.SetDefaults()
	_, err := store.Park(t.Context(), sub, parked, 0)
	require.NoError(t, err)
	for _, tt := range tests {
		require.NoError(t, store.PutHealth(t.Context(), sub, tt.give), tt.name)
		sub.State = tt.state
		status, err := store.Status(t.Context(), sub)
		require.NoError(t, err, tt.name)
		require.Equal(t, tt.want, status.Breaker, tt.name)
		require.NotNil(t, status.NextAttemptAt, tt.name)
		require.True(t, status.NextAttemptAt.Equal(tt.next), tt.name)
	}
}
