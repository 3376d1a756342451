package grants_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/grants"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Nothing of a ticket is stored: every replica with the key takes it, also that of a grant of which it has not heard yet.
func TestTicket_EveryReplicaTakesIt(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	a, b := start(t, server, "a"), start(t, server, "b")
	ann := a.mint(t, root, wish(t, "user:ann", "scope:acme", "read"))
	holder := a.who(t, ann.Token)
	for _, who := range []sluice.Caller{holder, root} {
		text, until, err := a.Ticket(who, "acme", grants.MaxTicket)
		require.NoError(t, err)
		require.False(t, until.After(deadline.Add(time.Minute)))
		got, err := b.Redeem(t.Context(), text, "acme")
		require.NoError(t, err)
		require.Equal(t, who, got)
		_, err = b.Redeem(t.Context(), text, "other")
		require.Equal(t, sluice.Unauthenticated, sluice.CodeOf(err))
	}
	text, until, err := a.Ticket(holder, "acme", grants.MinTicket)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), until, 30*time.Second)
	_, err = b.Revoke(t.Context(), root, ann.ID)
	require.NoError(t, err)
	_, err = a.Redeem(t.Context(), text, "acme")
	require.Equal(t, sluice.Unauthenticated, sluice.CodeOf(err))
	for _, ttl := range []time.Duration{0, grants.MinTicket - 1, grants.MaxTicket + 1} {
		_, _, err := a.Ticket(root, "acme", ttl)
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err))
	}
}

func TestTicket_NeedsAKey(t *testing.T) {
	t.Parallel()
	a := grants.New(grants.Deps{Index: authz.NewIndex(), Now: time.Now})
	_, _, err := a.Ticket(root, "acme", time.Minute)
	require.Equal(t, sluice.Unavailable, sluice.CodeOf(err))
	text, err := authz.SignTicket(authz.Ticket{Namespace: "acme", Expiry: deadline}, [][]byte{make([]byte, 32)})
	require.NoError(t, err)
	_, err = a.Redeem(t.Context(), text, "acme")
	require.Equal(t, sluice.Unauthenticated, sluice.CodeOf(err))
}
