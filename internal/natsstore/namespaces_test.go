package natsstore_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const hour = sluice.Duration(time.Hour)

func TestNamespace_LivesThroughEveryCall(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	ctx := t.Context()
	made, created, err := store.Namespaces().Put(ctx, sluice.Namespace{Name: "acme", Retention: sluice.Retention{MaxAge: 24 * hour}})
	require.NoError(t, err)
	require.True(t, created)
	require.NotZero(t, made.Revision)
	require.NotZero(t, made.CreatedAt)
	require.Equal(t, hour, made.DedupWindow, "the default in force")

	same, created, err := store.Namespaces().Put(ctx, sluice.Namespace{Name: "acme", Retention: sluice.Retention{MaxAge: 24 * hour}})
	require.NoError(t, err)
	require.False(t, created)
	require.Equal(t, made, same)

	shorter, created, err := store.Namespaces().Put(ctx, sluice.Namespace{
		Name: "acme", Description: "of Acme", Retention: sluice.Retention{MaxAge: 2 * hour, MaxBytes: 1 << 20}, Revision: made.Revision,
	})
	require.NoError(t, err)
	require.False(t, created)
	require.Equal(t, made.CreatedAt, shorter.CreatedAt)
	config := configs(t, natstest.JetStream(t, server))["EVENTS_acme"]
	require.Equal(t, 2*time.Hour, config.MaxAge, "who asks for it gets a shorter retention")
	require.Equal(t, int64(1<<20), config.MaxBytes)

	_, _, err = store.Namespaces().Put(ctx, sluice.Namespace{Name: "acme", Revision: made.Revision})
	requireCode(t, sluice.RevisionMismatch, err)

	publish(t, store, "acme", "/a")
	all, err := store.Namespaces().List(ctx)
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, "acme", all[0].Name)
	require.Equal(t, uint64(1), all[0].Usage.Events)
	require.Equal(t, uint64(1), all[0].Usage.LastSeq)
	got, err := store.Namespaces().Get(ctx, "acme")
	require.NoError(t, err)
	require.Equal(t, all[0], got)

	require.NoError(t, store.Namespaces().Delete(ctx, "acme"))
	_, err = store.Namespaces().Get(ctx, "acme")
	requireCode(t, sluice.NotFound, err)
	requireCode(t, sluice.NotFound, store.Namespaces().Delete(ctx, "acme"))
	_, err = store.log.LastSeq(ctx, "acme")
	requireCode(t, sluice.NotFound, err)
	_, err = store.log.Publish(ctx, "acme", []sluice.Event{{ID: "1", Path: "/a"}})
	requireCode(t, sluice.NotFound, err)
}

func TestNamespace_LabelIsASetting(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	put := func(label *sluice.Label) sluice.Namespace {
		ns, _, err := store.Namespaces().Put(t.Context(), sluice.Namespace{Name: "acme", Label: label})
		require.NoError(t, err)
		return ns
	}
	bare, label := put(nil), sluice.Label{Level: sluice.LevelSecret, Compartments: []string{"legal"}}
	raised := put(&label)
	require.Greater(t, raised.Revision, bare.Revision)
	require.Equal(t, raised, put(&sluice.Label{Level: sluice.LevelSecret, Compartments: []string{"legal"}}))
	require.Equal(t, raised, put(nil), "it stays")
	require.Equal(t, label, *raised.Label)
	require.Greater(t, put(&sluice.Label{Level: sluice.LevelSecret}).Revision, raised.Revision)
}

func TestNamespace_DefaultCannotBeDeleted(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	requireCode(t, sluice.Conflict, store.Namespaces().Delete(t.Context(), sluice.DefaultNamespace))
}

func TestNamespace_RefusesInvalidOnes(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	tests := []struct {
		name string
		give sluice.Namespace
	}{
		{"name", sluice.Namespace{Name: "A.b"}},
		{"retention in nanoseconds", sluice.Namespace{Name: "a", Retention: sluice.Retention{MaxAge: 5}}},
		{"negative size", sluice.Namespace{Name: "a", Retention: sluice.Retention{MaxBytes: -2}}},
		{"negative window", sluice.Namespace{Name: "a", DedupWindow: -1}},
		{"window beyond retention", sluice.Namespace{Name: "a", DedupWindow: 2 * hour, Retention: sluice.Retention{MaxAge: hour}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, _, err := store.Namespaces().Put(t.Context(), test.give)
			requireCode(t, sluice.InvalidRequest, err)
		})
	}
}

func TestNamespace_TakesDefaultsAndUnlimitedRetention(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	defaults := sluice.Namespace{Retention: sluice.Retention{MaxAge: 3 * hour, MaxBytes: 1000}, DedupWindow: 2 * hour}
	store := connected(t, natsstore.Options{Conn: server, Defaults: defaults})
	require.NoError(t, store.Provision(t.Context()))
	ns, err := store.Namespaces().Get(t.Context(), sluice.DefaultNamespace)
	require.NoError(t, err)
	require.Equal(t, defaults.Retention, ns.Retention)
	require.Equal(t, defaults.DedupWindow, ns.DedupWindow)
	config := configs(t, natstest.JetStream(t, server))["EVENTS_default"]
	require.Equal(t, 3*time.Hour, config.MaxAge)
	require.Equal(t, 2*time.Hour, config.Duplicates)

	_, _, err = store.Namespaces().Put(t.Context(), sluice.Namespace{Name: "old", Retention: sluice.Retention{MaxAge: -hour / 3600}})
	require.NoError(t, err)
	require.Zero(t, configs(t, natstest.JetStream(t, server))["EVENTS_old"].MaxAge)

	large, _, err := store.Namespaces().Put(t.Context(), sluice.Namespace{Name: "large", Retention: sluice.Retention{MaxBytes: -1}})
	require.NoError(t, err)
	require.EqualValues(t, -1, large.Retention.MaxBytes)
	require.EqualValues(t, -1, configs(t, natstest.JetStream(t, server))["EVENTS_large"].MaxBytes)
}

// A lower default deletes nothing, not even with a change of another setting: only a limit that a change names shortens a log.
func TestNamespace_LowerDefaultDeletesNothing(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	first := connected(t, natsstore.Options{Conn: server, Defaults: sluice.Namespace{Retention: sluice.Retention{MaxAge: 168 * hour}}})
	require.NoError(t, first.Provision(t.Context()))
	_, _, err := first.Namespaces().Put(t.Context(), sluice.Namespace{Name: "acme"})
	require.NoError(t, err)
	publish(t, first, "acme", "/a", "/b")

	store := connected(t, natsstore.Options{Conn: server, Defaults: sluice.Namespace{Retention: sluice.Retention{MaxAge: hour / 60, MaxBytes: 1}, DedupWindow: hour / 60}})
	require.NoError(t, store.Provision(t.Context()))
	require.NoError(t, store.Bind(t.Context(), sluice.StorageTight, 1<<20))
	is, _, err := store.Namespaces().Put(t.Context(), sluice.Namespace{Name: "acme", Description: "of Acme"})
	require.NoError(t, err)
	require.Equal(t, sluice.Retention{MaxAge: 168 * hour, MaxBytes: -1}, is.Retention, "the limits that are in force")
	require.Equal(t, hour/60, is.DedupWindow)
	all, err := store.Namespaces().List(t.Context())
	require.NoError(t, err)
	require.Equal(t, is, all[0])
	require.EqualValues(t, 2, is.Usage.Events)
	log := func() jetstream.StreamConfig { return configs(t, natstest.JetStream(t, server))["EVENTS_acme"] }
	require.Equal(t, 168*time.Hour, log().MaxAge)
	require.EqualValues(t, -1, log().MaxBytes, "not the limit of Bind")

	_, _, err = store.Namespaces().Put(t.Context(), sluice.Namespace{Name: "acme", Retention: sluice.Retention{MaxAge: 24 * hour}})
	require.NoError(t, err)
	require.Equal(t, 24*time.Hour, log().MaxAge)
	is, _, err = store.Namespaces().Put(t.Context(), sluice.Namespace{Name: "acme"})
	require.NoError(t, err)
	require.Equal(t, time.Minute, log().MaxAge, "the return to the default was requested")
	require.Equal(t, sluice.Retention{MaxAge: hour / 60, MaxBytes: -1}, is.Retention)
}

// Settings that a namespace inherits are named, so that a change of another one leaves them to the server's defaults.
func TestNamespace_NamesInheritedSettings(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	names := store.Namespaces()
	ns, _, err := names.Put(t.Context(), sluice.Namespace{Name: "acme", Quota: sluice.Quota{EventsPerSecond: 5}})
	require.NoError(t, err)
	require.Equal(t, []string{"catalogue", "dedup_window", "quota.burst", "quota.bytes_per_second", "retention.max_age", "retention.max_bytes"}, ns.Inherited)
	publish(t, store, "acme", "/a")

	next := ns.Own()
	next.Description = "of Acme"
	_, _, err = names.PutAfter(t.Context(), next, func(was, is *sluice.Namespace) (sluice.Announcement, error) {
		changed := *was
		changed.Description = "of Acme"
		require.Equal(t, changed, *is)
		return sluice.Announcement{}, nil
	})
	require.NoError(t, err)

	other := connected(t, natsstore.Options{Conn: server, Defaults: sluice.Namespace{Retention: sluice.Retention{MaxAge: 300 * hour, MaxBytes: -1}, DedupWindow: 2 * hour}})
	require.NoError(t, other.Provision(t.Context()))
	is, err := other.Namespaces().Get(t.Context(), "acme")
	require.NoError(t, err)
	require.Equal(t, ns.Inherited, is.Inherited)
	require.Equal(t, []sluice.Duration{300 * hour, 2 * hour}, []sluice.Duration{is.Retention.MaxAge, is.DedupWindow})
	require.Equal(t, sluice.Quota{EventsPerSecond: 5, Burst: 5}, is.Quota)

	same, _, err := names.Put(t.Context(), is)
	require.NoError(t, err)
	require.Equal(t, []string{"quota.bytes_per_second"}, same.Inherited, "values that are sent back are the namespace's own")
	calls := 0
	_, _, err = names.PutAfter(t.Context(), same.Own(), func(_, _ *sluice.Namespace) (sluice.Announcement, error) {
		calls++
		return sluice.Announcement{}, nil
	})
	require.NoError(t, err)
	require.Zero(t, calls, "nothing changes")
}

// A change that NATS refuses leaves nothing to be announced of the change before.
func TestNamespace_RefusedChangeAnnouncesNoEarlierOne(t *testing.T) { // decision 0023
	t.Parallel()
	store, _ := provisioned(t)
	names := store.Namespaces()
	put := func(bytes int64) (sluice.Namespace, error) {
		ns, _, err := names.PutAfter(t.Context(), sluice.Namespace{Name: "acme", Retention: sluice.Retention{MaxBytes: bytes}}, func(_, _ *sluice.Namespace) (sluice.Announcement, error) {
			return sluice.Announcement{Type: sluice.TypeNamespaceCreated, At: time.Now()}, nil
		})
		return ns, err
	}
	ns, err := put(0)
	require.NoError(t, err)
	require.NoError(t, names.Told(t.Context(), "acme", ns.Revision))
	_, err = put(1 << 60)
	requireCode(t, sluice.QuotaExceeded, err)
	again, err := names.Get(t.Context(), "acme")
	require.NoError(t, err)
	require.Greater(t, again.Revision, ns.Revision)
	left, err := names.Untold(t.Context(), "acme")
	require.NoError(t, err)
	require.Empty(t, left)
}

// A process that ended between the two writes of PutNamespace leaves a record without a log.
func TestProvision_CompletesAHalfMadeNamespace(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	_, _, err := store.Namespaces().Put(t.Context(), sluice.Namespace{Name: "acme"})
	require.NoError(t, err)
	require.NoError(t, natstest.JetStream(t, server).DeleteStream(t.Context(), "EVENTS_acme"))
	require.NoError(t, store.Provision(t.Context()))
	publish(t, store, "acme", "/a")
}
