package streams_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

func TestLaneKey_IsAUniqueBucketKey(t *testing.T) {
	t.Parallel()
	valid := regexp.MustCompile(`^[-/_=.a-zA-Z0-9]+$`) // as nats.go has it
	rapid.Check(t, func(t *rapid.T) {
		a, b := paths().Draw(t, "path"), paths().Draw(t, "other path")
		seq := rapid.Uint64().Draw(t, "seq")
		for _, o := range []sluice.Ordering{sluice.OrderByPath, sluice.OrderNone, sluice.OrderAll} {
			key := streams.LaneKey("Orders-to_erp", o, a, seq)
			require.Regexp(t, valid, key)
			require.False(t, strings.HasPrefix(key, ".") || strings.HasSuffix(key, ".") || strings.Contains(key, ".."), key)
			require.True(t, strings.HasPrefix(key, strings.TrimSuffix(streams.LaneKeys("Orders-to_erp"), ">")))
		}
		same := streams.LaneKey("s", sluice.OrderByPath, a, 0) == streams.LaneKey("s", sluice.OrderByPath, b, 0)
		require.Equal(t, a == b, same)
	})
}

func TestLaneKey_FollowsTheOrdering(t *testing.T) {
	t.Parallel()
	require.Equal(t, "s.p.a.b=C3=A9.=", streams.LaneKey("s", sluice.OrderByPath, "/a/bé/", 7))
	require.Equal(t, "s.e.7", streams.LaneKey("s", sluice.OrderNone, "/a", 7))
	require.Equal(t, "s.a", streams.LaneKey("s", sluice.OrderAll, "/a", 7))
	for o, want := range map[sluice.Ordering]bool{sluice.OrderByPath: false, sluice.OrderNone: true, sluice.OrderAll: false} {
		require.Equal(t, want, streams.IsEventLane("s", streams.LaneKey("s", o, "/e/7", 7)), o)
	}
}

func TestSubscriptionID_FitsAConsumerName(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"a", "orders-to-erp", "_x", "0190f5fe-7c00-7a00-8000-000000000000", strings.Repeat("a", 64)} {
		require.NoError(t, streams.CheckSubscriptionID(id), id)
	}
	for _, id := range []string{"", "a.b", "a b", "é", "a_root", "\xff", "a/b", "*", ">", strings.Repeat("a", 65)} {
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(streams.CheckSubscriptionID(id)), id)
	}
}

func TestConsumer_IsNamedAfterItsSubscription(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"s"}, streams.Consumers("s", 1))
	require.Equal(t, []string{"s", "s_root"}, streams.Consumers("s", 2))
}

func TestScheduledKey_NamesItsEvent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.StringN(1, 64, 256).Draw(t, "id")
		ns, got, err := streams.ParseScheduledKey(streams.ScheduledKey("acme", id))
		require.NoError(t, err)
		require.Equal(t, []string{"acme", id}, []string{ns, got})
	})
	for _, key := range []string{"", "acme", "acme.", "acme.=", "acme.=2", "acme.=2D", "acme.a.b", "acme.=2e"} {
		_, _, err := streams.ParseScheduledKey(key)
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err), key)
	}
}
