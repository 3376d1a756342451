package streams_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

func TestCheckPrefix_AcceptsShortLowerCaseNames(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"", "a", "acme", "acme-eu-1", strings.Repeat("a", 32)} {
		require.NoError(t, streams.CheckPrefix(prefix), prefix)
	}
	for _, prefix := range []string{"A", "1a", "-a", "a_b", "a.b", "a b", "é", "*", ">", "$JS", strings.Repeat("a", 33)} {
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(streams.CheckPrefix(prefix)), prefix)
	}
}

// Issue 18, 8: every stream, bucket and subject has the prefix, and only those with it are ours.
func TestNames_EverythingHasThePrefix(t *testing.T) {
	t.Parallel()
	acme, bare := streams.Prefixed("acme"), streams.Prefixed("")
	require.Equal(t, streams.Names{}, bare)
	require.Equal(t, []string{"acme", ""}, []string{acme.Prefix(), bare.Prefix()})
	all := append(acme.Singles(), acme.Events(sluice.Namespace{Name: "ns"}))
	for _, s := range all {
		require.True(t, strings.HasPrefix(s.Name, "acme_"), s.Name)
		require.NotEmpty(t, s.Description, s.Name)
		for _, subject := range s.Subjects {
			require.True(t, strings.HasPrefix(subject, "acme."), subject)
			require.Contains(t, bareSubjects(bare), acme.BareSubject(subject))
			first, _, _ := strings.Cut(acme.BareSubject(subject), ".")
			require.Error(t, streams.CheckPrefix(first), "the first token of a subject without a prefix")
		}
	}
	for _, b := range streams.Buckets() {
		require.Equal(t, "acme_"+b.Name, acme.Bucket(b.Name))
		require.Equal(t, "$KV.acme_"+b.Name+".k", acme.KeySubject(b.Name, "k"))
		require.NotEmpty(t, b.Description, b.Name)
	}
	for _, name := range append(acme.Lasting(), acme.EventsStream("ns")) {
		require.True(t, acme.Ours(name), name)
		require.NotEqual(t, streams.Foreign, acme.ShareOf(name), name)
		for _, other := range []streams.Names{bare, streams.Prefixed("acm"), streams.Prefixed("acme-2")} {
			require.False(t, other.Ours(name), name)
			require.Equal(t, streams.Foreign, other.ShareOf(name), name)
			require.False(t, other.MadeAgain(name), name)
		}
		without, ok := acme.Bare(name)
		require.True(t, ok, name)
		require.True(t, bare.Ours(without), without)
		require.False(t, acme.Ours(without), without)
	}
}

func bareSubjects(n streams.Names) (all []string) {
	for _, s := range append(n.Singles(), n.Events(sluice.Namespace{Name: "ns"})) {
		all = append(all, s.Subjects...)
	}
	return all
}

func TestNames_SubjectsOfAPrefixAreReadBack(t *testing.T) {
	t.Parallel()
	acme := streams.Prefixed("acme")
	require.Equal(t, "acme.events.ns.a.b", acme.Subject("ns", "/a/b"))
	ns, path, err := acme.ParseSubject("acme.events.ns.a.b")
	require.NoError(t, err)
	require.Equal(t, []any{"ns", sluice.Path("/a/b")}, []any{ns, path})
	for _, foreign := range []string{"events.ns.a", "other.events.ns.a", "acme.acme.events.ns.a"} {
		_, _, err = acme.ParseSubject(foreign)
		require.Error(t, err, foreign)
	}
	_, _, err = streams.Names{}.ParseSubject("acme.events.ns.a")
	require.Error(t, err)
	stored, ok := acme.FromTrusted("acme.trusted.ns.a")
	require.True(t, ok)
	require.Equal(t, "acme.events.ns.a", stored)
	sub := &sluice.Subscription{ID: "s", Namespace: "ns", Pattern: "/a/**"}
	require.Equal(t, []string{"acme.events.ns.a.>", "acme.events.ns.a"}, acme.PushFilters(sub))
	_, arrives := acme.InspectCreate()
	require.True(t, strings.HasPrefix(arrives, "acme.inspect."), arrives)
	require.True(t, slices.ContainsFunc(acme.LogSubjects(), func(s string) bool { return s == "acme.ledger.>" }))
}

func TestNames_StreamsAndSubjectsAreRenamed(t *testing.T) {
	t.Parallel()
	acme, beta, bare := streams.Prefixed("acme"), streams.Prefixed("beta"), streams.Names{}
	for _, c := range []struct {
		from, to     streams.Names
		stream, want string
	}{
		{bare, acme, "LEDGER", "acme_LEDGER"},
		{bare, acme, "KV_keys", "KV_acme_keys"},
		{acme, bare, "acme_EVENTS_ns", "EVENTS_ns"},
		{acme, beta, "KV_acme_keys", "KV_beta_keys"},
	} {
		got, ok := c.to.Renamed(c.from, c.stream)
		require.True(t, ok, c.stream)
		require.Equal(t, c.want, got)
	}
	_, ok := beta.Renamed(acme, "beta_LEDGER")
	require.False(t, ok)
	require.Equal(t, "acme.events.ns.>", acme.RenamedSubject(bare, "events.ns.>"))
	require.Equal(t, "$KV.acme_keys.>", acme.RenamedSubject(bare, "$KV.keys.>"))
	require.Equal(t, "$KV.beta_keys.a.b", beta.RenamedSubject(acme, "$KV.acme_keys.a.b"))
	require.Equal(t, "dead.ns.s.>", bare.RenamedSubject(acme, "acme.dead.ns.s.>"))
}

func TestLedgerPrefix_FindsOtherServers(t *testing.T) {
	t.Parallel()
	for stream, want := range map[string]string{"LEDGER": "", "acme_LEDGER": "acme"} {
		prefix, ok := streams.LedgerPrefix(stream)
		require.True(t, ok, stream)
		require.Equal(t, want, prefix)
	}
	for _, stream := range []string{"_LEDGER", "MYLEDGER", "ORDERS_LEDGER", "acme_LEDGERS", "KV_ledger"} {
		_, ok := streams.LedgerPrefix(stream)
		require.False(t, ok, stream)
	}
}
