package eventlog_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/natsd"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/deliverystore"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// small returns a store on a server that may use two MiB of the disk, and JetStream as the
// operator has it.
func small(t *testing.T) (rooms, jetstream.JetStream) {
	t.Helper()
	nats := natstest.NewWith(t, natsd.Options{DontListen: true, MaxStore: 2 << 20})
	store := connected(t, natsstore.Options{Conn: nats})
	require.NoError(t, store.core.Provision(t.Context()))
	return store, natstest.JetStream(t, nats)
}

// limited returns a store in a NATS account with limits of its own.
func limited(t *testing.T, limits string) rooms {
	t.Helper()
	file := filepath.Join(t.TempDir(), "nats.conf")
	config := fmt.Sprintf("listen: \"127.0.0.1:-1\"\njetstream { store_dir: %q }\naccounts { A { users: [{user: u, password: p}], jetstream { %s } } }\n", t.TempDir(), limits)
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	opts, err := server.ProcessConfigFile(file)
	require.NoError(t, err)
	opts.NoSigs, opts.NoLog = true, true
	nats, err := server.NewServer(opts)
	require.NoError(t, err)
	nats.Start()
	t.Cleanup(func() { nats.Shutdown(); nats.WaitForShutdown() })
	require.True(t, nats.ReadyForConnections(10*time.Second))
	store := connected(t, natsstore.Options{URL: nats.ClientURL(), User: "u", Password: "p"})
	require.NoError(t, store.core.Provision(t.Context()))
	return store
}

// configure changes the default namespace's log as an operator does.
func configure(t *testing.T, js jetstream.JetStream, change func(*jetstream.StreamConfig)) {
	t.Helper()
	stream, err := js.Stream(t.Context(), streams.Names{}.EventsStream(ns))
	require.NoError(t, err)
	config := stream.CachedInfo().Config
	change(&config)
	_, err = js.UpdateStream(t.Context(), config)
	require.NoError(t, err)
}

func eventOf(id string, size int) sluice.Event {
	return sluice.Event{ID: id, Path: "/a", Data: []byte(strings.Repeat("x", size))}
}

// requireSays checks the code, and that the message says what to do, in words of the operator's.
func requireSays(t *testing.T, err error, code sluice.Code, words ...string) {
	t.Helper()
	requireCode(t, code, err)
	for _, word := range words {
		require.ErrorContains(t, err, word)
	}
}

func TestPublish_RefusesTooLargeEvents(t *testing.T) {
	t.Parallel()
	store, js := small(t)
	wide := eventOf("wide", 0)
	wide.Extensions = map[string]string{}
	for i := range 70 {
		wide.Extensions[fmt.Sprint("e", i)] = strings.Repeat("x", 1000)
	}
	for name, events := range map[string][]sluice.Event{
		"max_payload":            {eventOf("large", 1<<20)},
		"max_payload in a batch": {eventOf("one", 1), eventOf("large", 1<<20), eventOf("three", 1)},
		"headers":                {wide},
		"headers in a batch":     {eventOf("one", 1), wide},
	} {
		_, err := store.Publish(t.Context(), ns, events)
		requireSays(t, err, sluice.TooLarge, "event")
		last, err := store.LastSeq(t.Context(), ns)
		require.NoError(t, err)
		require.Zero(t, last, name)
	}
	configure(t, js, func(c *jetstream.StreamConfig) { c.MaxMsgSize = 100 })
	_, err := store.Publish(t.Context(), ns, []sluice.Event{eventOf("large", 1000)})
	requireSays(t, err, sluice.TooLarge, "max_msg_size")
}

func TestLog_FullOneNamesItsLimit(t *testing.T) {
	t.Parallel()
	for limit, change := range map[string]func(*jetstream.StreamConfig){
		"max_msgs":             func(c *jetstream.StreamConfig) { c.MaxMsgs = 2 },
		"max_bytes":            func(c *jetstream.StreamConfig) { c.MaxBytes = 1000 },
		"max_msgs_per_subject": func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject, c.DiscardNewPerSubject = 2, true },
	} {
		t.Run(limit, func(t *testing.T) {
			t.Parallel()
			store, js := small(t)
			configure(t, js, func(c *jetstream.StreamConfig) { c.Discard = jetstream.DiscardNew; change(c) })
			for i := range 2 {
				_, err := store.Publish(t.Context(), ns, []sluice.Event{eventOf(strconv.Itoa(i), 100)})
				require.NoError(t, err)
			}
			_, err := store.Publish(t.Context(), ns, []sluice.Event{eventOf("more", 1000)})
			requireSays(t, err, sluice.QuotaExceeded, limit+" ", "discard: old")
			_, err = store.Publish(t.Context(), ns, []sluice.Event{eventOf("b1", 500), eventOf("b2", 500)})
			requireSays(t, err, sluice.QuotaExceeded, limit+" ")
			_, err = js.Publish(t.Context(), streams.Names{}.Subject(ns, "/a"), make([]byte, 1000))
			apiErr := &jetstream.APIError{}
			require.ErrorAs(t, err, &apiErr, "who publishes by NATS gets JetStream's own")
			require.EqualValues(t, 10077, apiErr.ErrorCode)
			last, err := store.LastSeq(t.Context(), ns)
			require.NoError(t, err)
			require.EqualValues(t, 2, last)
		})
	}
}

// The is full, or what JetStream may use of it: nothing can be made, and everything says so.
func TestStore_FullOneNamesTheRemedy(t *testing.T) {
	t.Parallel()
	store, js := small(t)
	var err error
	for i := 0; err == nil && i < 100; i++ {
		_, err = store.Publish(t.Context(), ns, []sluice.Event{eventOf(strconv.Itoa(i), 200_000)})
	}
	requireSays(t, err, sluice.Unavailable, "is full", "max_file_store", "nats.max_store")
	require.True(t, store.core.RefusesAll(t.Context()))
	_, err = store.Publish(t.Context(), ns, []sluice.Event{eventOf("b1", 1000), eventOf("b2", 1)})
	requireSays(t, err, sluice.Unavailable, "max_file_store")
	_, err = js.Publish(t.Context(), streams.Names{}.Subject(ns, "/a"), []byte("x"))
	require.ErrorContains(t, err, "insufficient resources")
	_, _, err = store.core.Namespaces().Put(t.Context(), sluice.Namespace{Name: "another"})
	requireSays(t, err, sluice.Unavailable, "max_file_store")
	_, err = store.core.Namespaces().Get(t.Context(), "another")
	requireCode(t, sluice.NotFound, err)

	stream, err := js.Stream(t.Context(), streams.Names{}.EventsStream(ns))
	require.NoError(t, err)
	require.NoError(t, stream.Purge(t.Context()))
	require.Eventually(t, func() bool {
		_, err = store.Publish(t.Context(), ns, []sluice.Event{eventOf("after", 1)})
		return err == nil
	}, time.Minute, 50*time.Millisecond, "with room it goes on by itself: %v", err)
	require.False(t, store.core.RefusesAll(t.Context()))
}

// A namespace that asks for more than there is, is not there afterwards, or as it was.
func TestLog_FailedCreationLeavesNothing(t *testing.T) {
	t.Parallel()
	store, _ := small(t)
	large := sluice.Namespace{Name: "large", Retention: sluice.Retention{MaxBytes: 10 << 20}}
	_, _, err := store.core.Namespaces().Put(t.Context(), large)
	requireSays(t, err, sluice.QuotaExceeded, "storage", "max_bytes")
	_, err = store.core.Namespaces().Get(t.Context(), "large")
	requireCode(t, sluice.NotFound, err)
	all, err := store.core.Namespaces().List(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 1)

	before, created, err := store.core.Namespaces().Put(t.Context(), sluice.Namespace{Name: "large", Description: "d", Retention: sluice.Retention{MaxBytes: 1 << 20}})
	require.NoError(t, err)
	require.True(t, created)
	_, _, err = store.core.Namespaces().Put(t.Context(), large)
	requireCode(t, sluice.QuotaExceeded, err)
	after, err := store.core.Namespaces().Get(t.Context(), "large")
	require.NoError(t, err)
	before.Revision, after.Revision = 0, 0
	require.Equal(t, before, after)
	require.NoError(t, store.core.Provision(t.Context()), "a server can start")
}

func TestConsumer_RefusedOneNamesTheRemedy(t *testing.T) {
	t.Parallel()
	store, js := small(t)
	sub := &sluice.Subscription{ID: "s", Namespace: ns, Mode: sluice.Push, Pattern: "/a/**", From: sluice.StartAt{Kind: sluice.StartSeq, Seq: 1}}
	sub.SetDefaults()
	configure(t, js, func(c *jetstream.StreamConfig) { c.ConsumerLimits.MaxAckPending = 10 })
	requireSays(t, deliverystore.New(store.core, store.Log).EnsureConsumers(t.Context(), sub), sluice.Unprocessable, "window", "max_ack_pending")
	configure(t, js, func(c *jetstream.StreamConfig) { c.ConsumerLimits.MaxAckPending, c.MaxConsumers = 0, 1 })
	requireSays(t, deliverystore.New(store.core, store.Log).EnsureConsumers(t.Context(), sub), sluice.QuotaExceeded, "max_consumers")
}

func TestAccount_LimitsNameTheRemedy(t *testing.T) {
	t.Parallel()
	t.Run("max_store", func(t *testing.T) {
		t.Parallel()
		store := limited(t, "max_file: 1048576")
		var err error
		for _, size := range []int{100_000, 5000, 1} {
			for i := 0; err == nil && i < 1000; i++ {
				_, err = store.Publish(t.Context(), ns, []sluice.Event{eventOf(fmt.Sprint(size, i), size)})
			}
			requireSays(t, err, sluice.Unavailable, "account's (max_file)")
			require.Equal(t, size == 1, store.core.RefusesAll(t.Context()))
			err = nil
		}
		_, err = store.Publish(t.Context(), ns, []sluice.Event{eventOf("b1", 100_000), eventOf("b2", 1)})
		requireSays(t, err, sluice.Unavailable, "account's (max_file)")
		require.True(t, store.core.RefusesAll(t.Context()))
	})
	t.Run("max_streams", func(t *testing.T) {
		t.Parallel()
		store := limited(t, fmt.Sprintf("max_streams: %d", len(streams.Names{}.Singles())+len(streams.Buckets())+1))
		_, _, err := store.core.Namespaces().Put(t.Context(), sluice.Namespace{Name: "another"})
		requireSays(t, err, sluice.QuotaExceeded, "max_streams")
		_, err = store.core.Namespaces().Get(t.Context(), "another")
		requireCode(t, sluice.NotFound, err)
	})
	t.Run("max_ack_pending", func(t *testing.T) {
		t.Parallel()
		store := limited(t, "max_ack_pending: 10")
		sub := &sluice.Subscription{ID: "s", Namespace: ns, Mode: sluice.Push, Pattern: "/a", From: sluice.StartAt{Kind: sluice.StartSeq, Seq: 1}}
		sub.SetDefaults()
		requireSays(t, deliverystore.New(store.core, store.Log).EnsureConsumers(t.Context(), sub), sluice.Unprocessable, "max_ack_pending")
	})
	t.Run("max_stream_bytes", func(t *testing.T) {
		t.Parallel()
		store := limited(t, "store_max_stream_bytes: 1048576")
		_, _, err := store.core.Namespaces().Put(t.Context(), sluice.Namespace{Name: "large", Retention: sluice.Retention{MaxBytes: 2 << 20}})
		requireSays(t, err, sluice.Unprocessable, "retention.max_bytes")
	})
}
