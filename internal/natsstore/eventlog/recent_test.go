package eventlog_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Decision 0014: a cause is looked for where that is cheap.
func TestRecent_FindsRecentEventsOnly(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	ctx := t.Context()
	for name, window := range map[string]sluice.Duration{"short": 0, "brief": sluice.Duration(time.Second)} {
		_, _, err := store.core.Namespaces().Put(ctx, sluice.Namespace{Name: name, DedupWindow: window})
		require.NoError(t, err)
	}
	js := natstest.JetStream(t, server)
	send := func(header nats.Header) {
		_, err := js.PublishMsg(ctx, &nats.Msg{Subject: "events.short.a", Header: header})
		require.NoError(t, err)
	}
	send(nil) // _short-1
	send(nats.Header{"ce-id": {"only-ce"}})
	send(nats.Header{"Nats-Msg-Id": {"outer"}, "ce-id": {"inner"}})
	send(nats.Header{"Nats-Msg-Id": {"_short-1"}}) // _short-4, which does not hide the first
	send(nats.Header{"Nats-Msg-Id": {"_short-6"}}) // _short-5, which is not the next
	for _, name := range []string{"short", "brief"} {
		_, err := store.Publish(ctx, name, []sluice.Event{{ID: "an id €", Type: "t", Path: "/a", Source: "/s", Extensions: map[string]string{sluice.CausationID: "_short-1"}}})
		require.NoError(t, err)
	}

	e, err := store.RecentByID(ctx, "short", "an id €")
	require.NoError(t, err)
	require.Equal(t, sluice.Link{ID: "an id €", Type: "t", Path: "/a", Cause: "_short-1", Seq: 6}, e.Link())
	e, err = store.RecentByID(ctx, "short", "_short-1")
	require.NoError(t, err)
	require.Equal(t, uint64(1), e.Seq)
	e, err = store.RecentByID(ctx, "short", "_short-4")
	require.NoError(t, err)
	require.Equal(t, uint64(4), e.Seq)
	for _, id := range []string{"only-ce", "outer", "inner", "unknown", "_short-2", "_short-6", "_short-9", "short-1", strings.Repeat("x", 5000)} {
		_, err := store.RecentByID(ctx, "short", id)
		requireCode(t, sluice.NotFound, err)
	}
	for _, ns := range []string{"none", "NO NAME"} {
		_, err := store.RecentByID(ctx, ns, "an id €")
		requireCode(t, sluice.NotFound, err)
	}
	require.Eventually(t, func() bool {
		_, err := store.RecentByID(ctx, "brief", "an id €")
		return sluice.CodeOf(err) == sluice.NotFound
	}, time.Minute, 50*time.Millisecond, "once it left the dedup window")
	last, err := store.LastSeq(ctx, "short")
	require.NoError(t, err)
	require.Equal(t, uint64(6), last, "looking stores nothing")
}
