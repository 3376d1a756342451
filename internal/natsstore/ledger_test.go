package natsstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/jsm.go"
	"github.com/nats-io/jsm.go/api"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// entry is the nth of a ledger that tells of two namespaces, and of no namespace.
func entry(n int) *sluice.LedgerEntry {
	return &sluice.LedgerEntry{
		ID: fmt.Sprintf("entry-%d", n), At: time.Date(2026, 11, 21, 0, n, 0, 0, time.UTC), Actor: []string{"ann", "bob"}[n%2],
		Action:    []string{sluice.ActionSubscriptionCreate, sluice.ActionSubscriptionPause, sluice.ActionNamespaceUpdate}[n%3],
		Namespace: []string{"acme", "default", ""}[n%3], Resource: fmt.Sprintf("r%d", n%4), Outcome: sluice.ChangeDone,
	}
}

func write(t *testing.T, ledger natsstore.Ledger, many int) {
	t.Helper()
	for n := range many {
		require.NoError(t, ledger.Append(t.Context(), entry(n)))
	}
}

// numbersOf reads all pages and returns the entries' numbers.
func numbersOf(t *testing.T, ledger natsstore.Ledger, q model.LedgerQuery) (found []int) {
	t.Helper()
	for pages := 0; ; pages++ {
		require.Less(t, pages, 100)
		page, next, err := ledger.Entries(t.Context(), q)
		require.NoError(t, err)
		require.LessOrEqual(t, len(page), q.Limit)
		for _, e := range page {
			require.NotZero(t, e.Seq)
			found = append(found, int(e.Seq)-1)
		}
		if q.Before = next; next == 0 {
			return found
		}
	}
}

func TestLedger_IsReadNewestFirstInPages(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	const many = 700 // more than one look back
	write(t, store.Ledger(), many)
	at := func(n int) time.Time { return entry(n).At }
	for name, tt := range map[string]struct {
		q    model.LedgerQuery
		want func(n int) bool
	}{
		"all":          {model.LedgerQuery{}, func(int) bool { return true }},
		"namespace":    {model.LedgerQuery{Namespace: "acme"}, func(n int) bool { return n%3 == 0 }},
		"resource":     {model.LedgerQuery{Resource: "r1"}, func(n int) bool { return n%4 == 1 }},
		"action":       {model.LedgerQuery{Action: sluice.ActionSubscriptionPause}, func(n int) bool { return n%3 == 1 }},
		"kind":         {model.LedgerQuery{Action: "subscription.*"}, func(n int) bool { return n%3 != 2 }},
		"no namespace": {model.LedgerQuery{Action: "namespace.update"}, func(n int) bool { return n%3 == 2 }},
		"actor":        {model.LedgerQuery{Actor: "bob"}, func(n int) bool { return n%2 == 1 }},
		"nobody":       {model.LedgerQuery{Actor: "eve"}, func(int) bool { return false }},
		"since":        {model.LedgerQuery{Since: at(690)}, func(n int) bool { return n >= 690 }},
		"until":        {model.LedgerQuery{Until: at(3)}, func(n int) bool { return n <= 3 }},
		"several":      {model.LedgerQuery{Namespace: "default", Actor: "ann", Since: at(100), Until: at(200)}, func(n int) bool { return n%6 == 4 && n >= 100 && n <= 200 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var want []int
			for n := many - 1; n >= 0; n-- {
				if tt.want(n) {
					want = append(want, n)
				}
			}
			q := tt.q
			for _, q.Limit = range []int{33, 1000} {
				require.Equal(t, want, numbersOf(t, store.Ledger(), q))
			}
		})
	}
}

func TestLedger_EntryIsWrittenOnceAndRoundTrips(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	want := entry(0)
	want.Old, want.New, want.RequestID, want.Error, want.Intent = []byte(`{"a":1}`), []byte(`{"a":2}`), "r", sluice.Conflict, "i"
	require.NoError(t, store.Ledger().Append(t.Context(), want))
	require.NoError(t, store.Ledger().Append(t.Context(), want), "who does not know whether it was stored asks again")
	_, err := natstest.JetStream(t, server).Publish(t.Context(), "ledger.acme.nonsense.x", []byte("no JSON"))
	require.NoError(t, err)
	all, next, err := store.Ledger().Entries(t.Context(), model.LedgerQuery{Limit: 10})
	require.NoError(t, err)
	require.Zero(t, next)
	want.Seq = 1
	require.Equal(t, []sluice.LedgerEntry{*want}, all, "a foreign message hides no entry")
}

// Issue 3, 6: no delete, no purge, for any caller.
func TestLedger_RefusesDeletesAndPurges(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	write(t, store.Ledger(), 3)
	js := natstest.JetStream(t, server)
	stream, err := js.Stream(t.Context(), "LEDGER")
	require.NoError(t, err)
	for what, err := range map[string]error{
		"delete":          stream.DeleteMsg(t.Context(), 1),
		"secure delete":   stream.SecureDeleteMsg(t.Context(), 1),
		"purge":           stream.Purge(t.Context()),
		"purge a subject": stream.Purge(t.Context(), jetstream.WithPurgeSubject("ledger.acme.>")),
	} {
		require.ErrorContains(t, err, "not permitted", what)
	}
	config := stream.CachedInfo().Config
	config.DenyDelete, config.DenyPurge = false, false
	_, err = js.UpdateStream(t.Context(), config)
	require.Error(t, err, "nor can that be switched off")
	require.NoError(t, store.Provision(t.Context()))
	require.Equal(t, []int{2, 1, 0}, numbersOf(t, store.Ledger(), model.LedgerQuery{Limit: 10}))
	config = configs(t, js)["LEDGER"]
	require.Equal(t, 400*24*time.Hour, config.MaxAge)
	require.Equal(t, jetstream.DiscardNew, config.Discard)
	require.Equal(t, jetstream.FileStorage, config.Storage)
}

func TestLedger_FullOneRefusesAndKeepsEntries(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	write(t, store.Ledger(), 3)
	tools, err := jsm.New(natstest.JetStream(t, server).Conn())
	require.NoError(t, err)
	stream, err := tools.LoadStream("LEDGER")
	require.NoError(t, err)
	require.NoError(t, stream.UpdateConfiguration(stream.Configuration(), func(o *api.StreamConfig) error {
		o.MaxMsgs = 3
		return nil
	}))
	requireCode(t, sluice.Unavailable, store.Ledger().Append(t.Context(), entry(3)))
	require.Equal(t, []int{2, 1, 0}, numbersOf(t, store.Ledger(), model.LedgerQuery{Limit: 10}))
}

func TestLedger_DeletedOneIsUnavailable(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	require.NoError(t, natstest.JetStream(t, server).DeleteStream(t.Context(), "LEDGER"))
	requireCode(t, sluice.Unavailable, store.Ledger().Append(t.Context(), entry(0)))
	require.NoError(t, store.Provision(t.Context()))
	require.NoError(t, store.Ledger().Append(t.Context(), entry(0)), "the next start makes it again")
}

// Decision 0007.
func TestStatus_OmitsSystemEvents(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	sub := &sluice.Subscription{
		ID: "s", Namespace: sluice.DefaultNamespace, Pattern: "/**", Lifecycle: sluice.Lifecycle{State: sluice.Paused, CreatedAt: time.Now().UTC()},
		From: sluice.StartAt{Kind: sluice.StartSeq, Seq: 1},
	}
	sub.SetDefaults()
	keep(t, store, sub)
	require.NoError(t, store.deliveries().EnsureConsumers(t.Context(), sub))
	publish(t, store, sluice.DefaultNamespace, "/_sys/subscriptions/s", "/a", "/_sys/deliveries/s", "/b/c", "/a", "/_sys/x")
	seqs := func(pattern sluice.Pattern, limit int) (found []uint64) {
		t.Helper()
		q := model.EventQuery{Pattern: pattern, Limit: limit}
		for pages := 0; pages == 0 || q.After > 0; pages++ {
			require.Less(t, pages, 1000) // a page ends early on a busy machine
			page, err := store.log.Events(t.Context(), sluice.DefaultNamespace, q)
			require.NoError(t, err)
			for _, e := range page.Events {
				found = append(found, e.Seq)
			}
			q.After = page.Next
		}
		return found
	}
	for _, limit := range []int{1, 2, 100} {
		require.Equal(t, []uint64{2, 4, 5}, seqs("", limit))
		require.Equal(t, []uint64{2, 4, 5}, seqs("/**", limit))
		require.Equal(t, []uint64{2, 5}, seqs("/*", limit))
		require.Equal(t, []uint64{1, 3, 6}, seqs("/_sys/**", limit))
		require.Equal(t, []uint64{1}, seqs("/_sys/subscriptions/*", limit))
	}
	status, err := store.deliveries().Status(t.Context(), sub)
	require.NoError(t, err)
	require.Equal(t, uint64(3), status.Backlog)
	require.Positive(t, status.LagSeconds)
}
