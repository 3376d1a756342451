package authz_test

import (
	"context"
	"strconv"
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
	strange, leaveStrange := w.While(t.Context(), sluice.Caller{Principal: ann, Grant: "none"})
	require.Error(t, authz.Lost(strange))
	leaveStrange()
	late, leaveLate := w.While(t.Context(), caller(part))
	require.Error(t, authz.Lost(late), "revoked before it waited")
	for _, leave := range []context.CancelFunc{leaveOwn, leaveDerived, leaveOthers, leaveRooted, leaveLate} {
		leave()
	}
	require.Error(t, others.Err())
	require.NoError(t, authz.Lost(others))
}

// The longest chain of grants ends with its first one, and waits until then.
func TestWhile_EndsWithTheWholeChain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.now = time.Now()
	of := w.grant("0", ann, "scope:acme", "read")
	last := of
	for i := range sluice.MaxGrantDepth {
		last = w.part(strconv.Itoa(i+1), last.ID, bot, "scope:acme", "read")
	}
	ctx, leave := w.While(t.Context(), caller(last))
	defer leave()
	require.NoError(t, ctx.Err())
	w.revoke(of)
	<-ctx.Done()
	require.Error(t, authz.Lost(ctx))
}

// A session of the portal says on which grant its creations depend; every other grant depends on itself.
func TestHolder_NamesTheGrantBehindASession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.grant("of", ann, "scope:acme", "read")
	session := w.part("session", "of", ann, "scope:acme", "read")
	session.Session, session.Nonce = true, "n"
	w.save(session)
	part := w.part("part", "of", ann, "scope:acme", "read")
	part.Nonce = "n"
	w.save(part)
	for grant, want := range map[string]sluice.Caller{
		"session": {Principal: ann, Grant: "session", Lasting: "of"},
		"part":    {Principal: ann, Grant: "part"},
	} {
		who, known, err := w.Holder(&authz.Ticket{Grant: grant, Token: "n", Expiry: w.now.Add(time.Hour)}, w.now)
		require.NoError(t, err)
		require.True(t, known)
		require.Equal(t, want, who)
	}
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
