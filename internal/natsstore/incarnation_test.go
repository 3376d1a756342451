package natsstore_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// incarnation returns the id of a namespace's log.
func (r rooms) incarnation(tb testing.TB, ns string) string {
	tb.Helper()
	id, err := r.log.Incarnation(tb.Context(), ns)
	require.NoError(tb, err)
	require.NotEmpty(tb, id)
	return id
}

// S3-40: a log has one incarnation as long as it exists, also after its settings changed, and every replica names it.
func TestIncarnation_StaysWithTheLog(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	one, other := connected(t, natsstore.Options{Conn: server}), connected(t, natsstore.Options{Conn: server})
	errs := make(chan error)
	for _, store := range []rooms{one, other} {
		go func() { errs <- store.Provision(t.Context()) }()
	}
	require.NoError(t, <-errs)
	require.NoError(t, <-errs)
	first := one.incarnation(t, ns)
	require.Equal(t, first, other.incarnation(t, ns))
	shown := configs(t, natstest.JetStream(t, server))[streams.Names{}.EventsStream(ns)].Metadata
	require.Equal(t, first, shown["sluice.incarnation"], "as nats stream info shows it")

	_, _, err := one.Namespaces().Put(t.Context(), sluice.Namespace{Name: ns, Retention: sluice.Retention{MaxAge: 30 * 24 * hour}})
	require.NoError(t, err)
	publish(t, one, ns, "/a")
	require.NoError(t, one.Bind(t.Context(), sluice.StorageScarce, 1))
	require.Equal(t, first, one.incarnation(t, ns))
	require.NoError(t, one.Provision(t.Context()))
	require.Equal(t, first, one.incarnation(t, ns))
}

// S3-40: sequences mean nothing in another log of the same name.
func TestIncarnation_OfALogThatIsMadeAgainIsAnother(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	seen := map[string]bool{}
	for range 2 {
		_, _, err := store.Namespaces().Put(t.Context(), sluice.Namespace{Name: "again"})
		require.NoError(t, err)
		seen[store.incarnation(t, "again")] = true
		require.NoError(t, store.Namespaces().Delete(t.Context(), "again"))
	}
	seen[store.incarnation(t, ns)] = true
	require.NoError(t, natstest.JetStream(t, server).DeleteStream(t.Context(), streams.Names{}.EventsStream(ns)))
	require.NoError(t, store.Remake(t.Context(), streams.Names{}.EventsStream(ns), 7))
	seen[store.incarnation(t, ns)] = true
	require.Len(t, seen, 4)
	_, err := store.log.Incarnation(t.Context(), "again")
	requireCode(t, sluice.NotFound, err)
}

// S3-40: the log of an earlier release has an incarnation without a write.
func TestIncarnation_OfAnOlderLogStays(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	js := natstest.JetStream(t, server)
	old, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: streams.Names{}.EventsStream(ns), Subjects: []string{streams.Names{}.EventsSubjects(ns)}, Metadata: map[string]string{"owner": "ops"}})
	require.NoError(t, err)
	store := connected(t, natsstore.Options{Conn: server})
	first := store.incarnation(t, ns)
	require.Equal(t, streams.Incarnation(streams.Names{}.EventsStream(ns), old.CachedInfo().Created, nil), first)
	require.NoError(t, store.Provision(t.Context()))
	require.Equal(t, first, store.incarnation(t, ns))
	require.NotContains(t, configs(t, js)[streams.Names{}.EventsStream(ns)].Metadata, "sluice.incarnation")
	server.Restart(t)
	require.Eventually(t, func() bool { return store.Ready(t.Context()) == nil }, time.Minute, time.Millisecond)
	require.Equal(t, first, store.incarnation(t, ns))
}
