package natsstore_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// anyway lets a rotation happen.
func anyway(natsstore.Key, natsstore.Key, natsstore.Key) error { return nil }

// idsOf returns the ids of keys.
func idsOf(keys []natsstore.Key) []string {
	ids := make([]string, len(keys))
	for i, k := range keys {
		ids[i] = k.ID
	}
	return ids
}

func TestKeys_ConcurrentCallersGetOnePerUse(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	store := sealing(t, server, ringOf(t, 1))
	found := map[string]sluice.KeyUse{}
	for _, use := range []sluice.KeyUse{sluice.UseWebhook, sluice.UseGrant, sluice.UseStamp, sluice.UseWake, sluice.UseFeed} {
		results := make([][]natsstore.Key, 8)
		errs := make([]error, len(results))
		var all sync.WaitGroup
		for i := range results {
			all.Go(func() { results[i], errs[i] = store.Keys().For(t.Context(), use) })
		}
		all.Wait()
		require.NoError(t, errors.Join(errs...))
		for _, keys := range results {
			require.Len(t, keys, 1)
			require.Equal(t, results[0], keys)
			require.Equal(t, use, keys[0].Use)
			require.True(t, keys[0].RetiresAt.IsZero())
		}
		found[results[0][0].ID], found[string(results[0][0].Seed)] = use, use
	}
	require.Len(t, found, 10, "no id and no seed is that of another use")
	webhooks, err := store.Keys().For(t.Context(), sluice.UseWebhook)
	require.NoError(t, err)
	require.Len(t, webhooks, 1, "the others are not in the JWKS")
	require.Equal(t, sluice.UseWebhook, webhooks[0].Use)
	all, err := store.Keys().All(t.Context())
	require.NoError(t, err)
	require.Len(t, all, 5)
}

func TestKeys_RotatedOneStaysForTheOverlap(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	store := sealing(t, server, ringOf(t, 1))
	first, err := store.Keys().For(t.Context(), sluice.UseWebhook)
	require.NoError(t, err)
	grants, err := store.Keys().For(t.Context(), sluice.UseGrant)
	require.NoError(t, err)

	var told []string
	second, err := store.Keys().Rotate(t.Context(), sluice.UseWebhook, time.Hour, func(was, will, is natsstore.Key) error {
		told = append(told, was.ID, will.ID, is.ID)
		require.True(t, was.RetiresAt.IsZero())
		require.Equal(t, is.CreatedAt.Add(time.Hour), will.RetiresAt)
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, []string{first[0].ID, first[0].ID, second.ID}, told)
	keys, err := store.Keys().For(t.Context(), sluice.UseWebhook)
	require.NoError(t, err)
	require.Equal(t, []string{second.ID, first[0].ID}, idsOf(keys))
	require.Equal(t, second.CreatedAt.Add(time.Hour), keys[1].RetiresAt)
	require.NoError(t, store.Keys().RemoveRetired(t.Context()))
	require.Contains(t, dump(t, server, streams.Keys), "1", "it has not retired")

	third, err := store.Keys().Rotate(t.Context(), sluice.UseWebhook, 0, anyway)
	require.NoError(t, err)
	keys, err = store.Keys().For(t.Context(), sluice.UseWebhook)
	require.NoError(t, err)
	require.Equal(t, []string{third.ID}, idsOf(keys), "without an overlap all others go")
	stored := dump(t, server, streams.Keys)
	require.NotContains(t, stored, "1")
	require.NotContains(t, stored, "2")
	after, err := store.Keys().For(t.Context(), sluice.UseGrant)
	require.NoError(t, err)
	require.Equal(t, grants, after, "another use's keys are not concerned")

	_, err = store.Keys().Rotate(t.Context(), sluice.UseWebhook, 0, func(natsstore.Key, natsstore.Key, natsstore.Key) error {
		return sluice.Errorf(sluice.Unavailable, "the ledger is full")
	})
	requireCode(t, sluice.Unavailable, err)
	keys, err = store.Keys().For(t.Context(), sluice.UseWebhook)
	require.NoError(t, err)
	require.Equal(t, []string{third.ID}, idsOf(keys))
}

func TestKeys_OfAUseAreBounded(t *testing.T) {
	t.Parallel()
	store := sealing(t, natstest.New(t), ringOf(t, 1))
	var err error
	made := 0
	for ; err == nil && made < 100; made++ {
		_, err = store.Keys().Rotate(t.Context(), sluice.UseWebhook, time.Hour, anyway)
	}
	requireCode(t, sluice.Conflict, err)
	require.ErrorContains(t, err, "the next retires at")
	require.Less(t, made, 10)
	_, err = store.Keys().Rotate(t.Context(), sluice.UseWebhook, 0, anyway)
	require.NoError(t, err, "in an emergency")
}

func TestKeys_OneOfTwoRotationsWins(t *testing.T) {
	t.Parallel()
	store := sealing(t, natstest.New(t), ringOf(t, 1))
	_, err := store.Keys().Rotate(t.Context(), sluice.UseWebhook, time.Hour, func(natsstore.Key, natsstore.Key, natsstore.Key) error {
		_, err := store.Keys().Rotate(t.Context(), sluice.UseWebhook, time.Hour, anyway)
		return err
	})
	requireCode(t, sluice.Conflict, err)
	keys, err := store.Keys().For(t.Context(), sluice.UseWebhook)
	require.NoError(t, err)
	require.Len(t, keys, 2)
}

func TestKeys_WatchGivesItsUseOnly(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	store := sealing(t, server, ringOf(t, 1))
	other := sealing(t, server, ringOf(t, 1))
	told := make(chan []string, 20)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- store.Keys().Watch(ctx, sluice.UseWebhook, func(keys []natsstore.Key) { told <- idsOf(keys) })
	}()
	await := func(want ...string) {
		t.Helper()
		limit := time.After(time.Minute)
		for {
			select {
			case got := <-told:
				if strings.Join(got, " ") == strings.Join(want, " ") {
					return
				}
			case <-limit:
				require.FailNow(t, "not told", "%v", want)
			}
		}
	}
	first, err := other.Keys().For(t.Context(), sluice.UseWebhook)
	require.NoError(t, err)
	await(first[0].ID)
	second, err := other.Keys().Rotate(t.Context(), sluice.UseWebhook, time.Hour, anyway)
	require.NoError(t, err)
	await(second.ID, first[0].ID)
	third, err := other.Keys().Rotate(t.Context(), sluice.UseWebhook, 0, anyway)
	require.NoError(t, err)
	await(third.ID)
	stop()
	require.ErrorIs(t, <-ended, context.Canceled)
}

func TestKeys_UseCannotBeChanged(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	store := sealing(t, server, ringOf(t, 1))
	_, err := store.Keys().For(t.Context(), sluice.UseGrant)
	require.NoError(t, err)
	record := dump(t, server, streams.Keys)["grant.1"]
	require.Contains(t, record, `"use":"grant"`)
	overwrite(t, server, streams.Keys, "1", strings.Replace(record, `"use":"grant"`, `"use":"webhook"`, 1))
	_, err = store.Keys().For(t.Context(), sluice.UseWebhook)
	requireCode(t, sluice.Unavailable, err)
	overwrite(t, server, streams.Keys, "grant.1", strings.Replace(record, `"use":"grant"`, `"use":"webhook"`, 1))
	_, err = store.Keys().For(t.Context(), sluice.UseWebhook)
	requireCode(t, sluice.Unavailable, err)
}

func TestKeys_PrintWithoutSeed(t *testing.T) {
	t.Parallel()
	store := sealing(t, natstest.New(t), ringOf(t, 1))
	keys, err := store.Keys().For(t.Context(), sluice.UseStamp)
	require.NoError(t, err)
	k := keys[0]
	var out bytes.Buffer
	for _, h := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(h).Info("x", slog.Any("key", k), slog.Any("keys", keys), slog.Any("shown", k.Shown()))
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		fmt.Fprintf(&out, verb+verb+verb+"\n", k, &k, keys)
	}
	require.Contains(t, out.String(), "stamp key "+k.ID)
	for _, secret := range []string{
		string(k.Seed), hex.EncodeToString(k.Seed), base64.StdEncoding.EncodeToString(k.Seed), strings.Trim(fmt.Sprintf("%d", k.Seed), "[]"),
	} {
		require.NotContains(t, out.String(), secret)
	}
}
