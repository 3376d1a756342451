package natsstore_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/deliverystore"
	"github.com/sluice-io/sluice/internal/testkit/faulttest"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// keep stores a subscription as it is.
func keep(t *testing.T, store rooms, sub *sluice.Subscription) {
	t.Helper()
	revision, err := store.Subscriptions().Put(t.Context(), sub.ID, sub, sub.Revision)
	require.NoError(t, err)
	sub.Revision = revision
}

// subscribed returns a subscription to all events of the default namespace from the first on.
func subscribed(t *testing.T, store rooms) *sluice.Subscription {
	t.Helper()
	sub := &sluice.Subscription{
		ID: "s", Namespace: sluice.DefaultNamespace, Pattern: "/**", Lifecycle: sluice.Lifecycle{State: sluice.Active, CreatedAt: time.Now().UTC()},
		From: sluice.StartAt{Kind: sluice.StartSeq, Seq: 1},
	}
	sub.SetDefaults()
	keep(t, store, sub)
	return sub
}

// arrives publishes an event and waits until the source hands it out.
func arrives(t *testing.T, store rooms, source *deliverystore.Source, id string, limit time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	_, err := store.log.Publish(ctx, sluice.DefaultNamespace, []sluice.Event{{Namespace: sluice.DefaultNamespace, ID: id, Path: "/a"}})
	require.NoError(t, err)
	for {
		select {
		case d := <-source.Deliveries():
			require.NoError(t, d.Receipt.Ack())
			if d.Event.ID == id {
				return
			}
		case <-source.Ended():
			require.FailNow(t, "the source ended")
		case <-ctx.Done():
			require.FailNow(t, "it is not handed out: "+id)
		}
	}
}

// losing returns a store over a connection on which a request is lost so many times once lose was called, and whether it was.
func losing(t *testing.T, request string, times int) (store rooms, lose func(), lost func() bool) {
	t.Helper()
	var armed atomic.Bool
	var seen atomic.Int64
	wire := faulttest.OpenWire(t, strings.TrimPrefix(natstest.Listening(t).ClientURL(), "nats://"), func(said []byte) bool {
		return !armed.Load() || !bytes.Contains(said, []byte(" "+request)) || seen.Add(1) > int64(times)
	})
	t.Cleanup(wire.Close)
	store = connected(t, natsstore.Options{URL: "nats://" + wire.Addr()})
	require.NoError(t, store.Provision(t.Context()))
	return store, func() { armed.Store(true) }, func() bool { return seen.Load() > int64(times) }
}

// Fault F8: NATS gives a direct get to any replica, also to one that was paused, and other gets to the leader. One that
// stays unanswered is sent again, and another server may have it then.
func TestGet_IsAskedAgain(t *testing.T) {
	t.Parallel()
	for _, read := range []struct {
		request string
		times   int
		by      func(ctx context.Context, store rooms, sub *sluice.Subscription) error
	}{
		{"$JS.API.DIRECT.GET.EVENTS_default ", 2, func(ctx context.Context, store rooms, _ *sluice.Subscription) error {
			_, err := store.log.PathBefore(ctx, sluice.DefaultNamespace, "/a", 1)
			return err
		}},
		{"$JS.API.STREAM.MSG.GET.ATTEMPTS ", 2, func(ctx context.Context, store rooms, sub *sluice.Subscription) error {
			log, err := store.deliveries().AttemptLog()
			if err == nil {
				_, err = log.Recover(ctx, sub, 0, 0)
			}
			return err
		}},
	} {
		t.Run(read.request, func(t *testing.T) {
			t.Parallel()
			store, lose, lost := losing(t, read.request, read.times)
			sub := subscribed(t, store)
			_, err := store.log.Publish(t.Context(), sluice.DefaultNamespace, []sluice.Event{{Namespace: sluice.DefaultNamespace, ID: "e", Path: "/a"}})
			require.NoError(t, err)
			lose()
			require.NoError(t, read.by(t.Context(), store, sub))
			require.True(t, lost())
		})
	}
}

// Fault F8: none of the requests by which a source is opened is waited for until the opening is given up, if its answer is lost.
func TestSource_OpensThoughAnswersAreLost(t *testing.T) {
	t.Parallel()
	for _, request := range []string{
		"$JS.API.STREAM.MSG.GET.KV_subscriptions ", "$JS.API.STREAM.MSG.GET.KV_lanes ", "$JS.API.CONSUMER.INFO.EVENTS_default.s ",
		"$JS.API.CONSUMER.CREATE.EVENTS_default.",
	} {
		t.Run(request, func(t *testing.T) {
			t.Parallel()
			store, lose, lost := losing(t, request, 2)
			sub := subscribed(t, store)
			require.NoError(t, store.deliveries().EnsureConsumers(t.Context(), sub))
			first, err := store.deliveries().OpenSource(t.Context(), sub)
			require.NoError(t, err)
			_, err = store.log.Publish(t.Context(), sluice.DefaultNamespace, []sluice.Event{{Namespace: sluice.DefaultNamespace, ID: "left", Path: "/a"}})
			require.NoError(t, err)
			<-first.Deliveries() // it is not acknowledged, and read again when the next source is opened
			first.Close()
			lose()
			ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second) // less than a source has to be opened
			defer cancel()
			source, err := store.deliveries().OpenSource(ctx, sub)
			require.NoError(t, err)
			defer source.Close()
			arrives(t, store, source, "e", 40*time.Second)
			require.True(t, lost())
		})
	}
}

// Fault F8: a connection that stays open and is silent is given up, and its source ends with it.
func TestConnection_SilentIsGivenUp(t *testing.T) {
	t.Parallel()
	link := faulttest.NewLink(t, strings.TrimPrefix(natstest.Listening(t).ClientURL(), "nats://"))
	log := &lines{text: "NATS is silent"}
	store := connected(t, natsstore.Options{URL: "nats://" + link.Addr(), Log: slog.New(slog.NewTextHandler(log, nil))})
	require.NoError(t, store.Provision(t.Context()))
	sub := subscribed(t, store)
	before, err := store.deliveries().OpenSource(t.Context(), sub)
	require.NoError(t, err)
	arrives(t, store, before, "before", time.Minute)
	again := store.Reconnected()
	link.Swallow()
	<-before.Ended()
	before.Close()
	require.Eventually(t, func() bool { return store.Ready(t.Context()) == nil }, time.Minute, 10*time.Millisecond)
	<-again // its handler ends the sources
	require.Positive(t, log.n.Load(), "it is told")
	after, err := store.deliveries().OpenSource(t.Context(), sub)
	require.NoError(t, err)
	defer after.Close()
	arrives(t, store, after, "after", time.Minute)
}
