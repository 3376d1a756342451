package authz_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// A request that waits ends when its grant, or one that it derives from, is revoked; others wait on.
func TestWhile_EndsWithTheGrant(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.now = time.Now()
	of, other := w.grant("of", ann, "scope:acme", "read"), w.grant("other", ann, "scope:acme", "read")
	part := w.part("part", "of", bot, "scope:acme", "read")
	own, leaveOwn := w.While(t.Context(), caller(of))
	derived, leaveDerived := w.While(t.Context(), caller(part))
	others, leaveOthers := w.While(t.Context(), caller(other))
	rooted, leaveRooted := w.While(t.Context(), sluice.Caller{Principal: sluice.Root})
	gone, leaveGone := w.While(t.Context(), caller(of))
	leaveGone()
	w.revoke(of)
	for _, ctx := range []context.Context{own, derived} {
		<-ctx.Done()
		require.Equal(t, sluice.Unauthenticated, sluice.CodeOf(authz.Lost(ctx)))
		within, cancel := context.WithTimeout(ctx, time.Hour) // such as that of a wait
		require.Error(t, authz.Lost(within))
		cancel()
	}
	require.NoError(t, authz.Lost(gone), "it ended by itself")
	for _, ctx := range []context.Context{others, rooted} {
		require.NoError(t, ctx.Err())
		require.NoError(t, authz.Lost(ctx))
	}
	late, leaveLate := w.While(t.Context(), caller(part))
	require.Error(t, authz.Lost(late), "revoked before it waited")
	for _, leave := range []context.CancelFunc{leaveOwn, leaveDerived, leaveOthers, leaveRooted, leaveLate} {
		leave()
	}
	require.Error(t, others.Err())
	require.NoError(t, authz.Lost(others))
}

// The same at the end of the grant that ends first.
func TestWhile_EndsAtTheEndOfTheGrant(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.now = time.Now()
	of := w.grant("of", ann, "scope:acme", "read")
	of.ExpiresAt = w.now.Add(50 * time.Millisecond)
	w.save(of)
	ctx, leave := w.While(t.Context(), caller(w.part("part", "of", bot, "scope:acme", "read")))
	defer leave()
	<-ctx.Done()
	require.Equal(t, sluice.Unauthenticated, sluice.CodeOf(authz.Lost(ctx)))
}

func TestLive_KnowsTheWholeChain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	of := w.grant("of", ann, "scope:acme", "read")
	w.part("part", "of", bot, "scope:acme", "read")
	for _, c := range []struct {
		grant string
		at    time.Time
		known bool
		code  sluice.Code
	}{
		{"part", w.now, true, ""},
		{"part", w.now.Add(48 * time.Hour), true, sluice.Unauthenticated},
		{"none", w.now, false, sluice.Unauthenticated},
	} {
		known, err := w.Live(c.grant, c.at)
		require.Equal(t, c.known, known)
		require.Equal(t, c.code, sluice.CodeOf(err))
	}
	w.revoke(of)
	known, err := w.Live("part", w.now)
	require.True(t, known)
	require.Equal(t, sluice.Unauthenticated, sluice.CodeOf(err))
	w.Until(w.now.Add(-time.Hour))
	known, err = w.Live("part", w.now)
	require.True(t, known)
	require.Equal(t, sluice.Unavailable, sluice.CodeOf(err))
}
