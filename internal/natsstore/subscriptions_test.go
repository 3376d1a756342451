package natsstore_test

import (
	"context"
	"crypto/ed25519"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestSubscription_IsStoredWithItsSecrets(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	subs, ctx := store.Subscriptions(), t.Context()
	want := &sluice.Subscription{
		ID: "s", Namespace: ns, Mode: sluice.Push, Pattern: "/a/**", Lifecycle: sluice.Lifecycle{State: sluice.Active, Revision: 99},
		From:    sluice.StartAt{Kind: sluice.StartSeq, Seq: 5},
		Secrets: []sluice.Secret{{Value: "whsec_x", CreatedAt: time.Unix(1, 0).UTC()}},
		Policy:  sluice.Policy{Timeout: sluice.Duration(time.Second)},
	}
	told := make(chan natsstore.Entry[*sluice.Subscription], 10)
	watching, stop := context.WithCancel(ctx)
	ended := make(chan error)
	go func() {
		ended <- subs.Watch(watching, func(e natsstore.Entry[*sluice.Subscription]) { told <- e })
	}()
	require.Equal(t, natsstore.CaughtUp, (<-told).Change)

	first, err := subs.Put(ctx, want.ID, want, 0)
	require.NoError(t, err)
	require.Equal(t, uint64(99), want.Revision, "the caller's own is left alone")
	want.Revision = first
	server.Restart(t)
	got, revision, err := subs.Get(ctx, "s")
	require.NoError(t, err)
	require.Equal(t, first, revision)
	require.Equal(t, want, got)
	all, err := subs.List(ctx)
	require.NoError(t, err)
	require.Equal(t, []*sluice.Subscription{want}, all)
	e := <-told
	require.Equal(t, natsstore.Set, e.Change)
	require.Equal(t, want, e.Value)

	_, err = subs.Put(ctx, "s", want, 0)
	requireCode(t, sluice.Conflict, err)
	second, err := subs.Put(ctx, "s", want, first)
	require.NoError(t, err)
	require.Equal(t, second, (<-told).Value.Revision)
	requireCode(t, sluice.Conflict, subs.Delete(ctx, "s", first))
	require.NoError(t, subs.Delete(ctx, "s", second))
	e = <-told
	require.Equal(t, natsstore.Removed, e.Change)
	require.Equal(t, "s", e.Key)
	require.Nil(t, e.Value)
	_, _, err = subs.Get(ctx, "s")
	requireCode(t, sluice.NotFound, err)
	stop()
	require.ErrorIs(t, <-ended, context.Canceled)
}

func TestKeys_ConcurrentFirstCallersShareOne(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	var wg sync.WaitGroup
	results := make([][]natsstore.Key, 8)
	for i := range results {
		wg.Go(func() { results[i], _ = store.Keys().For(t.Context(), sluice.UseWebhook) })
	}
	wg.Wait()
	for _, keys := range results {
		require.Len(t, keys, 1)
		require.Equal(t, results[0], keys)
	}
	key := results[0][0]
	require.NotEmpty(t, key.ID)
	public, ok := key.Private().Public().(ed25519.PublicKey)
	require.True(t, ok)
	require.True(t, ed25519.Verify(public, []byte("m"), ed25519.Sign(key.Private(), []byte("m"))))
}
