package streams_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

func TestNamespace_RetentionAndWindowHaveDefaults(t *testing.T) {
	t.Parallel()
	hour, week := sluice.Duration(time.Hour), 168*time.Hour
	for _, c := range []struct {
		name            string
		age, dedup      sluice.Duration
		wantAge, wantDe time.Duration
	}{
		{"defaults", 0, 0, week, time.Hour},
		{"for ever", -1, 0, 0, time.Hour},
		{"a window within a long retention", 3 * hour, 2 * hour, 3 * time.Hour, 2 * time.Hour},
		{"a window above the retention", hour, 2 * hour, time.Hour, time.Hour},
		{"the default window above the retention", hour / 2, 0, time.Hour / 2, time.Hour / 2},
		{"a long window in a log for ever", -1, 1000 * hour, 0, 1000 * time.Hour},
	} {
		ns := sluice.Namespace{Name: "acme", Retention: sluice.Retention{MaxAge: c.age}, DedupWindow: c.dedup}
		s := streams.Names{}.Events(ns)
		require.Equal(t, c.wantAge, s.MaxAge, c.name)
		require.Equal(t, c.wantDe, s.Dedup, c.name)
	}
}

func TestLayout_JetStreamAcceptsEveryDescription(t *testing.T) {
	t.Parallel()
	for _, s := range append(streams.Names{}.Singles(), streams.Names{}.Events(sluice.Namespace{Name: "acme"})) {
		require.NotZero(t, s.MaxConsumers, s.Name) // 1,000 otherwise, -1 does not lift it
		require.True(t, s.MaxAge == 0 || s.Dedup <= s.MaxAge, s.Name)
		require.NotEmpty(t, s.Subjects, s.Name)
	}
	for _, b := range streams.Buckets() {
		require.NotZero(t, b.MaxConsumers, b.Name)
		require.False(t, b.AllowDirect, b.Name)
		require.Equal(t, 1, b.History, b.Name)
	}
}

// S3, S4: the ledger is kept for half a year at least, and whole.
func TestLedger_IsKeptForHalfAYear(t *testing.T) {
	t.Parallel()
	all := streams.Names{}.Singles()
	i := slices.IndexFunc(all, func(s streams.Stream) bool { return s.Name == streams.Names{}.Ledger() })
	require.GreaterOrEqual(t, i, 0)
	require.GreaterOrEqual(t, all[i].MaxAge, 180*24*time.Hour)
	require.True(t, all[i].DenyDelete)
	require.True(t, all[i].DenyPurge)
	require.True(t, all[i].RefuseFull)
	require.Zero(t, all[i].MaxBytes)
}

func TestLayout_StreamSubjectsHoldPublishedEvents(t *testing.T) {
	t.Parallel()
	singles := streams.Names{}.Singles()
	at := func(name string) string {
		i := slices.IndexFunc(singles, func(s streams.Stream) bool { return s.Name == name })
		require.GreaterOrEqual(t, i, 0, name)
		return singles[i].Subjects[0]
	}
	require.Equal(t, "attempts.>", at(streams.Names{}.Attempts()))
	require.Equal(t, "attempts.ns.sub", streams.Names{}.AttemptsSubject("ns", "sub"))
	require.Equal(t, "dead.>", at(streams.Names{}.DeadLetters()))
	require.Equal(t, "dead.ns.sub.>", streams.Names{}.DeadLettersSubject("ns", "sub"))
	require.Equal(t, "ledger.>", at(streams.Names{}.Ledger()))
	require.Equal(t, "ledger.ns.subscription.pause", streams.Names{}.LedgerSubject("ns", sluice.ActionSubscriptionPause))
	require.Equal(t, "ledger._.grant.revoke", streams.Names{}.LedgerSubject("", "grant.revoke"))
	require.Equal(t, "ledger.*.>", streams.Names{}.LedgerFilter("", ""))
	require.Equal(t, "ledger.ns.subscription.>", streams.Names{}.LedgerFilter("ns", "subscription.*"))
	require.Equal(t, []string{"events.ns.>", "durable.ns.>"}, streams.Names{}.Events(sluice.Namespace{Name: "ns"}).Subjects)
}

func TestTrustedSubject_IsStoredUnderItsPath(t *testing.T) {
	t.Parallel()
	require.Equal(t, "trusted.ns.>", streams.Names{}.TrustedSubjects("ns"))
	require.Equal(t, "live.*.>", streams.Names{}.LiveSubjects(streams.AnyNamespace))
	require.Equal(t, "events.ns._sys", streams.Names{}.SystemRoot("ns"))
	stored, ok := streams.Names{}.FromTrusted("trusted.ns.orders.1")
	require.True(t, ok)
	require.Equal(t, streams.Names{}.Subject("ns", "/orders/1"), stored)
	_, ok = streams.Names{}.FromTrusted("events.ns.orders.1")
	require.False(t, ok)
}

func TestPushConsumers_OneForEachFilter(t *testing.T) {
	t.Parallel()
	sub := &sluice.Subscription{ID: "s", Namespace: "ns", Pattern: "/a/**", From: sluice.StartAt{Kind: sluice.StartSeq, Seq: 7}}
	sub.SetDefaults()
	sub.Policy.Window = 9
	consumers := streams.Names{}.PushConsumers(sub)
	require.Len(t, consumers, 2)
	require.Equal(t, streams.Consumer{
		Name: "s_root", Stream: "EVENTS_ns", Description: "subscription s: push /a/**", Filter: streams.Filter{Subject: "events.ns.a", Exact: true},
		Start: sub.From, AckWait: 30 * time.Second, MaxPending: 9, MaxDeliver: -1,
	}, consumers[1])

	sub.Policy.Ordering = sluice.OrderAll
	consumers = streams.Names{}.PushConsumers(sub)
	require.Len(t, consumers, 1)
	require.Equal(t, streams.Filter{Subject: "events.ns.>"}, consumers[0].Filter)
}
