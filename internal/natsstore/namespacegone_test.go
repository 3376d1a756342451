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

const (
	acme       = "acme"
	acmesLog   = "EVENTS_acme"
	acmeRecord = "$KV.namespaces.acme"
	logCreate  = "$JS.API.STREAM.CREATE." + acmesLog
	logDelete  = "$JS.API.STREAM.DELETE." + acmesLog
	logInfo    = "$JS.API.STREAM.INFO." + acmesLog
)

// interrupted returns a store with the namespace acme, another client of its NATS, and natstest.Interrupted's function.
func interrupted(t *testing.T) (store rooms, js jetstream.JetStream, before func(subject string, first func())) {
	t.Helper()
	url, before := natstest.Interrupted(t)
	store = connected(t, natsstore.Options{URL: url})
	require.NoError(t, store.Provision(t.Context()))
	_, _, err := store.Namespaces().Put(t.Context(), sluice.Namespace{Name: acme})
	require.NoError(t, err)
	return store, natstest.Dial(t, url), before
}

// A namespace that is deleted through one server gets no new log from another one that read its record before.
func TestNamespaces_DeletedOneHasNoLog(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]func(*testing.T, rooms){
		"by a start": func(t *testing.T, store rooms) {
			t.Helper()
			require.NoError(t, store.Provision(t.Context()))
		},
		"by a put of equal settings": func(t *testing.T, store rooms) {
			t.Helper()
			_, _, err := store.Namespaces().Put(t.Context(), sluice.Namespace{Name: acme})
			requireCode(t, sluice.NotFound, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, js, before := interrupted(t)
			var deleted error
			before(logInfo, func() { deleted = store.Namespaces().Delete(t.Context(), acme) })
			again(t, store)
			require.NoError(t, deleted)
			_, err := js.Stream(t.Context(), acmesLog)
			require.ErrorIs(t, err, jetstream.ErrStreamNotFound)
		})
	}
}

// The answer to the creation of a log may be lost: the next try finds the log, and takes it away if its namespace is gone.
func TestNamespaces_LostAnswerLeavesNoLog(t *testing.T) {
	t.Parallel()
	store, js, before := interrupted(t)
	log, err := js.Stream(t.Context(), acmesLog)
	require.NoError(t, err)
	var deleted, made error
	before(logInfo, func() {
		deleted = store.Namespaces().Delete(t.Context(), acme)
		_, made = js.CreateStream(t.Context(), log.CachedInfo().Config)
	})
	require.NoError(t, store.Provision(t.Context()))
	require.NoError(t, deleted)
	require.NoError(t, made)
	_, err = js.Stream(t.Context(), acmesLog)
	require.ErrorIs(t, err, jetstream.ErrStreamNotFound)
}

// A log that comes back while its namespace is deleted, before the record is, goes with it.
func TestNamespaces_DeleteRemovesALateLog(t *testing.T) {
	t.Parallel()
	store, js, before := interrupted(t)
	var put error
	before(acmeRecord, func() { _, _, put = store.Namespaces().Put(t.Context(), sluice.Namespace{Name: acme}) })
	require.NoError(t, store.Namespaces().Delete(t.Context(), acme))
	require.NoError(t, put)
	_, err := js.Stream(t.Context(), acmesLog)
	require.ErrorIs(t, err, jetstream.ErrStreamNotFound)
}

// A namespace that is created again while another server takes the log of the deleted one away keeps a log with its
// settings, and its events.
func TestNamespaces_CreatedAgainKeepsItsLog(t *testing.T) {
	t.Parallel()
	for name, subject := range map[string]string{"before the look": logInfo, "after the look": logDelete} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, js, before := interrupted(t)
			require.NoError(t, js.DeleteStream(t.Context(), acmesLog))
			var deleted, created, published error
			before(logCreate, func() {
				deleted = store.Namespaces().Delete(t.Context(), acme)
				before(subject, func() {
					_, _, created = store.Namespaces().Put(t.Context(), sluice.Namespace{Name: acme, Retention: sluice.Retention{MaxAge: 2 * hour}})
					if subject == logInfo {
						_, published = store.log.Publish(t.Context(), acme, []sluice.Event{{ID: "1", Path: "/a"}})
					}
				})
			})
			require.NoError(t, store.Provision(t.Context()))
			require.NoError(t, deleted)
			require.NoError(t, created)
			require.NoError(t, published)
			log, err := js.Stream(t.Context(), acmesLog)
			require.NoError(t, err)
			require.Equal(t, 2*time.Hour, log.CachedInfo().Config.MaxAge)
			publish(t, store, acme, "/b")
			last, err := store.log.LastSeq(t.Context(), acme)
			require.NoError(t, err)
			require.EqualValues(t, map[string]int{logInfo: 2, logDelete: 1}[subject], last)
		})
	}
}
