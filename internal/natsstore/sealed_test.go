package natsstore_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/seal"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// ringOf returns a ring of keys that are made of numbers.
func ringOf(tb testing.TB, numbers ...byte) *seal.Ring {
	tb.Helper()
	var keys [][]byte
	for _, n := range numbers {
		keys = append(keys, bytes.Repeat([]byte{n}, seal.KeyBytes))
	}
	r, err := seal.New(keys...)
	require.NoError(tb, err)
	return r
}

// sealing returns a provisioned store that seals with the ring, on a server that may have data.
func sealing(tb testing.TB, server *natstest.Server, ring *seal.Ring) rooms {
	tb.Helper()
	store := connected(tb, natsstore.Options{Conn: server, Sealer: ring})
	require.NoError(tb, store.Provision(tb.Context()))
	return store
}

// secretive returns a subscription with secrets and headers.
func secretive(id string) *sluice.Subscription {
	return &sluice.Subscription{
		ID: id, Namespace: ns, Mode: sluice.Push, Pattern: "/a/**", Lifecycle: sluice.Lifecycle{State: sluice.Active},
		Endpoint: sluice.Endpoint{
			URL: "https://a.example/hunter-of-secrets-4-" + id, Headers: map[string]string{"authorization": "Bearer hunter-of-secrets-1-" + id, "x-empty": ""},
			Auth: &sluice.EndpointAuth{Type: sluice.AuthOAuth2, TokenURL: "https://login.example/token", ClientID: "app"},
		},
		Credentials: sluice.Credentials{ClientSecret: "hunter-of-secrets-5-" + id, PrivateKey: "hunter-of-secrets-6-" + id},
		Secrets:     []sluice.Secret{{Value: "whsec_hunter-of-secrets-2-" + id, CreatedAt: time.Unix(2, 0).UTC()}, {Value: "hunter-of-secrets-3-" + id, CreatedAt: time.Unix(1, 0).UTC()}},
	}
}

// put stores a subscription that is new.
func putNew(tb testing.TB, store rooms, sub *sluice.Subscription) {
	tb.Helper()
	revision, err := store.Subscriptions().Put(tb.Context(), sub.ID, sub, 0)
	require.NoError(tb, err)
	sub.Revision = revision
}

// dump returns all that is in a bucket, by key.
func dump(tb testing.TB, server *natstest.Server, bucket string) map[string]string {
	tb.Helper()
	kv, err := natstest.JetStream(tb, server).KeyValue(tb.Context(), bucket)
	require.NoError(tb, err)
	names, err := kv.Keys(tb.Context())
	if errors.Is(err, jetstream.ErrNoKeysFound) {
		return map[string]string{}
	}
	require.NoError(tb, err)
	all := map[string]string{}
	for _, name := range names {
		entry, err := kv.Get(tb.Context(), name)
		require.NoError(tb, err)
		all[name] = string(entry.Value())
	}
	return all
}

// overwrite changes a record as a client that can write to NATS does.
func overwrite(tb testing.TB, server *natstest.Server, bucket, name, value string) {
	tb.Helper()
	kv, err := natstest.JetStream(tb, server).KeyValue(tb.Context(), bucket)
	require.NoError(tb, err)
	_, err = kv.PutString(tb.Context(), name, value)
	require.NoError(tb, err)
}

func TestSeal_CoversOnlySecrets(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	store := sealing(t, server, ringOf(t, 1))
	want := secretive("orders")
	putNew(t, store, want)
	require.Equal(t, "whsec_hunter-of-secrets-2-orders", want.Secrets[0].Value, "the caller's own is left alone")
	require.Equal(t, "Bearer hunter-of-secrets-1-orders", want.Endpoint.Headers["authorization"])
	keys, err := store.Keys().For(t.Context(), sluice.UseWebhook)
	require.NoError(t, err)
	seed, err := json.Marshal(keys[0].Seed)
	require.NoError(t, err)

	record := dump(t, server, streams.Subscriptions)["orders"]
	require.NotContains(t, record, "hunter-of-secrets")
	require.Equal(t, 7, strings.Count(record, `"enc1.`+ringOf(t, 1).First()), "two secrets, two headers, the URL, the client's secret, its key")
	for _, readable := range []string{"authorization", "/a/**", "active"} {
		require.Contains(t, record, readable)
	}
	key := dump(t, server, streams.Keys)["1"]
	require.Contains(t, key, `"seed":"enc1.`)
	require.Contains(t, key, keys[0].ID)
	require.NotContains(t, key, strings.Trim(string(seed), `"`))

	got, _, err := store.Subscriptions().Get(t.Context(), "orders")
	require.NoError(t, err)
	require.Equal(t, want, got)
	all, err := store.Subscriptions().List(t.Context())
	require.NoError(t, err)
	require.Equal(t, []*sluice.Subscription{want}, all)
	require.Equal(t, want, firstTold(t, store))
}

// firstTold returns the first subscription that a watcher is told of.
func firstTold(t *testing.T, store rooms) *sluice.Subscription {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	told, ended := make(chan natsstore.Entry[*sluice.Subscription], 10), make(chan error, 1)
	go func() {
		ended <- store.Subscriptions().Watch(ctx, func(e natsstore.Entry[*sluice.Subscription]) { told <- e })
	}()
	e := <-told
	require.Equal(t, natsstore.Set, e.Change)
	stop()
	require.ErrorIs(t, <-ended, context.Canceled)
	return e.Value
}

func TestSeal_CoversPlainRecordsAtTheNextStart(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	want := secretive("orders")
	putNew(t, store, want)
	keys, err := store.Keys().For(t.Context(), sluice.UseWebhook)
	require.NoError(t, err)
	was := dump(t, server, streams.Keys)["1"]
	require.Contains(t, dump(t, server, streams.Subscriptions)["orders"], "hunter-of-secrets")
	overwrite(t, server, streams.Keys, "1", strings.Replace(was, `"use":"webhook",`, "", 1)) // there were no uses

	status, err := store.Sealing(t.Context())
	require.NoError(t, err)
	require.Equal(t, sluice.Sealing{Keys: []sluice.SealingKey{}, Plain: 3}, status)
	sealed := sealing(t, server, ringOf(t, 1))
	require.NotContains(t, fmt.Sprint(dump(t, server, streams.Subscriptions), dump(t, server, streams.Keys)), "hunter-of-secrets")
	require.Contains(t, dump(t, server, streams.Keys)["1"], `"enc1.`)
	got, revision, err := sealed.Subscriptions().Get(t.Context(), "orders")
	require.NoError(t, err)
	want.Revision = revision
	require.Equal(t, want, got)
	after, err := sealed.Keys().For(t.Context(), sluice.UseWebhook)
	require.NoError(t, err)
	require.Equal(t, keys, after)
	status, err = sealed.Sealing(t.Context())
	require.NoError(t, err)
	require.Equal(t, sluice.Sealing{Keys: []sluice.SealingKey{{ID: ringOf(t, 1).First(), Known: true, Seals: true, Records: 4}}}, status)

	require.NoError(t, sealed.Provision(t.Context()))
	_, again, err := sealed.Subscriptions().Get(t.Context(), "orders")
	require.NoError(t, err)
	require.Equal(t, revision, again, "nothing is left to do")
}

// Issue 13, attack 13: builds of before sealed secrets and headers and left the URL plain.
func TestURL_ThatWasLeftPlainIsSealedAtStart(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	store := sealing(t, server, ringOf(t, 1))
	want := secretive("orders")
	putNew(t, store, want)
	record := dump(t, server, streams.Subscriptions)["orders"]
	before := regexp.MustCompile(`"url":"enc1[^"]*"`).ReplaceAllString(record, `"url":"`+want.Endpoint.URL+`"`)
	require.NotEqual(t, record, before)
	overwrite(t, server, streams.Subscriptions, "orders", before)

	again := sealing(t, server, ringOf(t, 1))
	require.NotContains(t, dump(t, server, streams.Subscriptions)["orders"], "hunter-of-secrets")
	got, _, err := again.Subscriptions().Get(t.Context(), "orders")
	require.NoError(t, err)
	require.Equal(t, want.Endpoint, got.Endpoint, "the headers, which are bound to the URL, are opened too")
}

// However often it is cut off, wherever that is, what is stored can be opened with both keys, and
// with the new one alone once it is done; until then a start with the new one alone is refused.
func TestSeal_KeyReplacementSurvivesInterruption(t *testing.T) {
	t.Parallel()
	const subs = 400
	server := natstest.New(t)
	first := sealing(t, server, ringOf(t, 1))
	for i := range subs {
		putNew(t, first, secretive(fmt.Sprintf("s%d", i)))
	}
	signs, err := first.Keys().For(t.Context(), sluice.UseWebhook)
	require.NoError(t, err)
	oldID, newID := ringOf(t, 1).First(), ringOf(t, 2).First()

	nc := natstest.Connect(t, "", nats.InProcessServer(server))
	for cuts := range 3 {
		ctx, cut := context.WithCancel(t.Context())
		written := 0
		seen, err := nc.Subscribe("$KV.subscriptions.>", func(*nats.Msg) {
			if written++; written == 20 {
				cut()
			}
		})
		require.NoError(t, err)
		require.NoError(t, nc.Flush())
		err = connected(t, natsstore.Options{Conn: server, Sealer: ringOf(t, 2, 1)}).Provision(ctx)
		cut()
		require.Error(t, err, "it was cut off")
		require.NoError(t, seen.Unsubscribe())
		text := fmt.Sprint(dump(t, server, streams.Subscriptions))
		before, after := strings.Count(text, `"enc1.`+oldID), strings.Count(text, `"enc1.`+newID)
		t.Logf("cut %d: %d texts have the old key, %d the new one", cuts, before, after)
		require.Positive(t, before)
		require.Positive(t, after)
		locked := connected(t, natsstore.Options{Conn: server, Sealer: ringOf(t, 2)})
		var lock *seal.LockedError
		require.ErrorAs(t, locked.Provision(t.Context()), &lock)
		require.Equal(t, []string{"key " + oldID}, lock.Keys)
	}
	sealing(t, server, ringOf(t, 2, 1))
	last := sealing(t, server, ringOf(t, 2))
	all, err := last.Subscriptions().List(t.Context())
	require.NoError(t, err)
	require.Len(t, all, subs)
	for _, sub := range all {
		require.Equal(t, "whsec_hunter-of-secrets-2-"+sub.ID, sub.Secrets[0].Value)
		require.Equal(t, "Bearer hunter-of-secrets-1-"+sub.ID, sub.Endpoint.Headers["authorization"])
	}
	after, err := last.Keys().For(t.Context(), sluice.UseWebhook)
	require.NoError(t, err)
	require.Equal(t, signs, after)
	status, err := connected(t, natsstore.Options{Conn: server, Sealer: ringOf(t, 2, 1)}).Sealing(t.Context())
	require.NoError(t, err)
	require.Equal(t, []sluice.SealingKey{{ID: newID, Known: true, Seals: true, Records: subs + 3}, {ID: oldID, Known: true}}, status.Keys)
}

func TestSeal_ConcurrentServersLoseNoChange(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	const subs = 40
	for i := range subs {
		putNew(t, store, secretive(fmt.Sprintf("s%d", i)))
	}
	writer := connected(t, natsstore.Options{Conn: server, Sealer: ringOf(t, 1)})
	var all sync.WaitGroup
	errs := make([]error, 4)
	for i := range 3 {
		replica := connected(t, natsstore.Options{Conn: server, Sealer: ringOf(t, 1)})
		all.Go(func() { errs[i] = replica.Provision(t.Context()) })
	}
	all.Go(func() {
		for i := range subs {
			errs[3] = errors.Join(errs[3], describe(t.Context(), writer.Subscriptions(), fmt.Sprintf("s%d", i)))
		}
	})
	all.Wait()
	require.NoError(t, errors.Join(errs...))
	list, err := writer.Subscriptions().List(t.Context())
	require.NoError(t, err)
	require.Len(t, list, subs)
	for _, sub := range list {
		require.Equal(t, "changed", sub.Description)
		require.Equal(t, "whsec_hunter-of-secrets-2-"+sub.ID, sub.Secrets[0].Value)
	}
	require.NotContains(t, fmt.Sprint(dump(t, server, streams.Subscriptions)), "hunter-of-secrets")
}

// describe changes a subscription, however often another writer is faster.
func describe(ctx context.Context, subs natsstore.Subscriptions, id string) error {
	for {
		sub, revision, err := subs.Get(ctx, id)
		if err != nil {
			return err
		}
		sub.Description = "changed"
		_, err = subs.Put(ctx, id, sub, revision)
		if sluice.CodeOf(err) != sluice.Conflict {
			return err
		}
	}
}

func TestSeal_ServerWithoutTheKeyDoesNotStart(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	sealing(t, server, ringOf(t, 1)) // there is no subscription and no signing key
	before := dump(t, server, streams.Keys)
	for _, ring := range []*seal.Ring{ringOf(t, 2), nil} {
		var locked *seal.LockedError
		err := connected(t, natsstore.Options{Conn: server, Sealer: ring}).Provision(t.Context())
		require.ErrorAs(t, err, &locked)
		require.Equal(t, []string{"key " + ringOf(t, 1).First()}, locked.Keys)
		require.Contains(t, err.Error(), " in NATS are sealed with key "+ringOf(t, 1).First())
	}
	require.Equal(t, before, dump(t, server, streams.Keys))
	sealing(t, server, ringOf(t, 2, 1))
	sealing(t, server, ringOf(t, 2))
}

func TestSeal_OneOfTwoFirstServersStarts(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	errs := make([]error, 4)
	var all sync.WaitGroup
	for i := range errs {
		store := connected(t, natsstore.Options{Conn: server, Sealer: ringOf(t, byte(i+1))})
		all.Go(func() { errs[i] = store.Provision(t.Context()) })
	}
	all.Wait()
	started := 0
	for _, err := range errs {
		if err == nil {
			started++
			continue
		}
		var locked *seal.LockedError
		require.ErrorAs(t, err, &locked)
	}
	require.Equal(t, 1, started)
}

// Who can write to NATS, and not open anything, gains nothing by moving what is sealed.
func TestSeal_RefusesValuesOfOtherRecords(t *testing.T) {
	t.Parallel()
	secretOf := func(tb testing.TB, record string) string {
		tb.Helper()
		var r struct{ Secrets []sluice.Secret }
		require.NoError(tb, json.Unmarshal([]byte(record), &r))
		return r.Secrets[0].Value
	}
	for name, move := range map[string]func(tb testing.TB, mine, theirs string) string{
		"a secret to another subscription": func(tb testing.TB, mine, theirs string) string {
			tb.Helper()
			return strings.Replace(mine, secretOf(tb, mine), secretOf(tb, theirs), 1)
		},
		"a whole record": func(_ testing.TB, _, theirs string) string { return theirs },
		"a secret into a header": func(tb testing.TB, mine, _ string) string {
			tb.Helper()
			return strings.Replace(mine, `"headers":{`, `"headers":{"x-loot":"`+secretOf(tb, mine)+`",`, 1)
		},
		"the headers to another host": func(_ testing.TB, mine, _ string) string {
			return regexp.MustCompile(`"url":"enc1[^"]*"`).ReplaceAllString(mine, `"url":"https://evil.example/"`)
		},
		"the client to another token endpoint": func(_ testing.TB, mine, _ string) string {
			return strings.Replace(mine, "https://login.example/token", "https://evil.example/token", 1)
		},
		"the URL of another subscription": func(tb testing.TB, mine, theirs string) string {
			tb.Helper()
			url := regexp.MustCompile(`"url":"enc1[^"]*"`)
			return url.ReplaceAllLiteralString(mine, url.FindString(theirs))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := natstest.New(t)
			var log bytes.Buffer
			store := connected(t, natsstore.Options{Conn: server, Sealer: ringOf(t, 1), Log: slog.New(slog.NewTextHandler(&log, nil))})
			require.NoError(t, store.Provision(t.Context()))
			putNew(t, store, secretive("mine"))
			putNew(t, store, secretive("theirs"))
			records := dump(t, server, streams.Subscriptions)
			overwrite(t, server, streams.Subscriptions, "mine", move(t, records["mine"], records["theirs"]))
			require.NoError(t, store.Subscriptions().Delete(t.Context(), "theirs", 0))

			_, _, err := store.Subscriptions().Get(t.Context(), "mine")
			requireCode(t, sluice.Unavailable, err)
			require.ErrorIs(t, err, seal.ErrTampered)
			list, err := store.Subscriptions().List(t.Context())
			require.NoError(t, err)
			require.Len(t, list, 1)
			require.Empty(t, list[0].Secrets)
			require.Empty(t, list[0].Endpoint.Headers)
			require.Zero(t, list[0].Credentials)
			told := firstTold(t, store)
			require.Equal(t, sluice.Paused, told.State, "taken for removed, it would lose its parked lanes")
			require.Empty(t, told.Secrets)
			require.Contains(t, log.String(), "record cannot be opened")
			require.NotContains(t, log.String(), "hunter-of-secrets")
			require.NoError(t, connected(t, natsstore.Options{Conn: server, Sealer: ringOf(t, 2, 1)}).Provision(t.Context()), "the others are served")
		})
	}
}

// start is what a server does with its records before it serves.
func startOf(b *testing.B, server *natstest.Server, ring *seal.Ring, subs int) time.Duration {
	b.Helper()
	began := time.Now()
	store := sealing(b, server, ring)
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	n := 0
	err := store.Subscriptions().Watch(ctx, func(e natsstore.Entry[*sluice.Subscription]) {
		if n++; e.Change == natsstore.CaughtUp {
			stop()
		}
	})
	require.ErrorIs(b, err, context.Canceled)
	require.Equal(b, subs+1, n)
	return time.Since(began)
}

// BenchmarkStart tells what sealing costs a start with 10,000 subscriptions.
func BenchmarkStart(b *testing.B) {
	const subs = 10_000
	made := map[bool]*natstest.Server{}
	rings := map[bool]*seal.Ring{false: nil, true: ringOf(b, 1)}
	for sealed, ring := range rings {
		server := natstest.New(b)
		store := sealing(b, server, ring)
		for i := range subs {
			putNew(b, store, secretive(fmt.Sprintf("s%d", i)))
		}
		made[sealed] = server
	}
	var took [2]time.Duration
	for b.Loop() {
		took[0] += startOf(b, made[false], rings[false], subs)
		took[1] += startOf(b, made[true], rings[true], subs)
	}
	b.ReportMetric(took[0].Seconds()/float64(b.N), "s/plain")
	b.ReportMetric(took[1].Seconds()/float64(b.N), "s/sealed")
	b.ReportMetric(took[1].Seconds()/took[0].Seconds(), "sealed/plain")
	began := time.Now()
	sealing(b, made[false], rings[true])
	b.ReportMetric(time.Since(began).Seconds(), "s/first-seal")
}
