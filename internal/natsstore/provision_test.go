package natsstore_test

import (
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// configs returns every stream's configuration, by name.
func configs(tb testing.TB, js jetstream.JetStream) map[string]jetstream.StreamConfig {
	tb.Helper()
	all := map[string]jetstream.StreamConfig{}
	list := js.ListStreams(tb.Context())
	for info := range list.Info() {
		all[info.Config.Name] = info.Config
	}
	require.NoError(tb, list.Err())
	return all
}

func TestProvision_IsIdempotent(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	js := natstest.JetStream(t, server)
	first := configs(t, js)
	var names []string
	for name, config := range first {
		names = append(names, name)
		require.Positive(t, config.MaxConsumers, "%s is capped at the server's default", name)
	}
	want := []string{"EVENTS_default"}
	for _, s := range (streams.Names{}).Singles() {
		want = append(want, s.Name)
	}
	for _, b := range streams.Buckets() {
		want = append(want, "KV_"+b.Name)
		require.False(t, first["KV_"+b.Name].AllowDirect, "reads of %s decide something", b.Name)
		kv, err := js.KeyValue(t.Context(), b.Name)
		require.NoError(t, err, "other clients have to see a bucket")
		status, err := kv.Status(t.Context())
		require.NoError(t, err)
		require.Equal(t, int64(b.History), status.History())
		require.Equal(t, b.TTL, status.TTL())
	}
	slices.Sort(names)
	slices.Sort(want)
	require.Equal(t, want, names)

	require.NoError(t, store.Provision(t.Context()))
	require.Equal(t, first, configs(t, js))
}

// What an operator or an older release left is brought up to date and keeps its data.
func TestProvision_UpgradesAnOlderLayout(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	js := natstest.JetStream(t, server)
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "EVENTS_default", Subjects: []string{"events.default.>"}, MaxAge: 30 * 24 * time.Hour, MaxConsumers: 5,
		Metadata: map[string]string{"owner": "ops"}, Compression: jetstream.S2Compression,
	})
	require.NoError(t, err)
	_, err = js.Publish(t.Context(), "events.default.a", []byte("kept"))
	require.NoError(t, err)
	kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: streams.Subscriptions, History: 5})
	require.NoError(t, err)
	_, err = kv.Put(t.Context(), "k", []byte("{}"))
	require.NoError(t, err)

	store := connected(t, natsstore.Options{Conn: server})
	require.NoError(t, store.Provision(t.Context()))

	all := configs(t, js)
	events := all["EVENTS_default"]
	require.True(t, events.AllowDirect)
	require.True(t, events.AllowAtomicPublish)
	require.True(t, events.AllowMsgTTL)
	require.Greater(t, events.MaxConsumers, 1000)
	require.Equal(t, 30*24*time.Hour, events.MaxAge, "a shorter retention would take events away")
	require.Equal(t, "ops", events.Metadata["owner"])
	require.Equal(t, jetstream.S2Compression, events.Compression)
	require.False(t, all["KV_subscriptions"].AllowDirect)
	require.Equal(t, 1000, all["KV_subscriptions"].MaxConsumers)
	require.Equal(t, int64(5), all["KV_subscriptions"].MaxMsgsPerSubject)

	e, err := store.log.Event(t.Context(), sluice.DefaultNamespace, 1)
	require.NoError(t, err)
	require.Equal(t, "kept", string(e.Data))
	_, _, err = store.Subscriptions().Get(t.Context(), "k")
	require.NoError(t, err)
}

// Limits that were requested are applied by the next start at the latest.
func TestProvision_AppliesRequestedLimits(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	_, _, err := store.Namespaces().Put(t.Context(), sluice.Namespace{Name: "acme", Retention: sluice.Retention{MaxAge: 24 * hour, MaxBytes: 1 << 20}})
	require.NoError(t, err)
	js := natstest.JetStream(t, server)
	config := configs(t, js)["EVENTS_acme"]
	config.MaxAge, config.MaxBytes = 48*time.Hour, -1 // as a change left it that ended before it was applied
	_, err = js.UpdateStream(t.Context(), config)
	require.NoError(t, err)

	again := connected(t, natsstore.Options{Conn: server, AttemptsMaxAge: 2 * time.Hour})
	require.NoError(t, again.Provision(t.Context()))
	all := configs(t, js)
	require.Equal(t, 24*time.Hour, all["EVENTS_acme"].MaxAge)
	require.EqualValues(t, 1<<20, all["EVENTS_acme"].MaxBytes)
	require.Equal(t, 2*time.Hour, all["ATTEMPTS"].MaxAge)
	require.Equal(t, 168*time.Hour, all["EVENTS_default"].MaxAge)
}

func TestProvision_TwoAtOnceSucceed(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	errs := make(chan error)
	for range 2 {
		store := connected(t, natsstore.Options{Conn: server})
		go func() { errs <- store.Provision(t.Context()) }()
	}
	require.NoError(t, <-errs)
	require.NoError(t, <-errs)
}

func TestProvision_MissingOneIsReported(t *testing.T) {
	t.Parallel()
	store := connected(t, natsstore.Options{Conn: natstest.New(t)})
	_, _, err := store.Subscriptions().Get(t.Context(), "s")
	require.ErrorContains(t, err, "bucket subscriptions")
}
