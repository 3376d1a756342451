package subscription_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/jsm.go"
	"github.com/nats-io/jsm.go/api"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/subscription"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// entries returns the ledger, oldest first.
func (b *bench) entries(t *testing.T) []sluice.LedgerEntry {
	t.Helper()
	all, _, err := b.store.Ledger().Entries(t.Context(), model.LedgerQuery{Limit: 1000})
	require.NoError(t, err)
	slices.Reverse(all)
	return all
}

// ledgerStream returns the stream as an operator's tool has it.
func (b *bench) ledgerStream(t *testing.T) *jsm.Stream {
	t.Helper()
	tools, err := jsm.New(b.js.Conn())
	require.NoError(t, err)
	stream, err := tools.LoadStream("LEDGER")
	require.NoError(t, err)
	return stream
}

// fill makes the ledger so small that nothing goes in any more.
func (b *bench) fill(t *testing.T) {
	t.Helper()
	stream := b.ledgerStream(t)
	require.NoError(t, stream.UpdateConfiguration(stream.Configuration(), func(o *api.StreamConfig) error {
		o.MaxBytes = 1
		return nil
	}))
}

// S2-04, S2-05, S0-49: every change is one entry and one announcement, and what changes nothing
// is neither.
func TestChange_LeavesOneEntryAndOneAnnouncement(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	secret := "whsec_" + strings.Repeat("c2VjcmV0", 6)
	sub, _, err := b.Put(t.Context(), "mine", parse(t, `{"pattern":"/a","endpoint":{"url":"`+url+`","secret":"`+secret+`","headers":{"x-key":"hidden"}}}`), "ann")
	require.NoError(t, err)
	secrets := []string{secret, strings.TrimPrefix(secret, "whsec_"), "hidden"}
	ok := func(_ *sluice.Subscription, err error) { t.Helper(); require.NoError(t, err) }
	ok(b.Pause(t.Context(), "mine", "bob"))
	ok(b.Resume(t.Context(), "mine", "bob"))
	ok(b.Patch(t.Context(), "mine", []byte(`{"description":"d","policy":{"window":8}}`), 0, "ann"))
	ok(b.Patch(t.Context(), "mine", []byte(`{"enabled":false}`), 0, "ann"))
	ok(b.Resume(t.Context(), "mine", "ann"))
	rotated, err := b.Rotate(t.Context(), "mine", time.Hour, "ann")
	require.NoError(t, err)
	secrets = append(secrets, rotated.Endpoint.Secret)
	require.NoError(t, b.Disable(t.Context(), "mine", "it fails"))
	ok(b.Resume(t.Context(), "mine", "ann"))
	require.NoError(t, b.gone(t.Context(), "mine"))
	require.NoError(t, b.Delete(t.Context(), "mine", "cid"))

	type line struct{ actor, action, old, now string }
	var got []line
	for _, e := range b.entries(t) {
		require.Equal(t, []any{"default", "mine", sluice.ChangeDone, sluice.Code("")}, []any{e.Namespace, e.Resource, e.Outcome, e.Error})
		got = append(got, line{e.Actor, e.Action, string(e.Old), string(e.New)})
	}
	require.Len(t, got, 11)
	for i, part := range map[int]string{0: `"state":"active"`, 6: rotated.SecretHint, 9: "cancelled_at"} {
		require.Contains(t, got[i].now, part)
	}
	require.Contains(t, got[10].old, `"state":"cancelled"`)
	got[0].now, got[6].old, got[6].now, got[9].old, got[9].now, got[10].old = "", "", "", "", "", ""
	active, paused := `{"enabled":true,"state":"active"}`, `{"enabled":false,"state":"paused"}`
	require.Equal(t, []line{
		{"ann", "subscription.create", "", ""},
		{"bob", "subscription.pause", active, paused},
		{"bob", "subscription.resume", paused, active},
		{"ann", "subscription.update", `{"description":"","policy":{"window":64}}`, `{"description":"d","policy":{"window":8}}`},
		{"ann", "subscription.update", active, paused},
		{"ann", "subscription.resume", paused, active},
		{"ann", "subscription.rotate", "", ""},
		{"system", "subscription.disable", active, `{"enabled":false,"reason":"it fails","state":"disabled"}`},
		{"ann", "subscription.resume", `{"enabled":false,"reason":"it fails","state":"disabled"}`, active},
		{"system", "subscription.cancel", "", ""},
		{"cid", "subscription.delete", "", ""},
	}, got)
	require.Equal(t, []string{
		"subscription.created", "subscription.paused", "subscription.resumed", "subscription.updated", "subscription.paused", "subscription.resumed",
		"subscription.secret_rotated", "subscription.disabled", "subscription.resumed", "subscription.cancelled", "subscription.deleted",
	}, b.heard.kinds)
	b.requireWithout(t, append(secrets, sub.Endpoint.Secret))
}

// S2-21, S2-41: an update tells what it changed, as it was and as it is, and nothing that is secret; an end tells whose it was.
func TestAnnouncement_NamesTheChangeAndTheEndingPrincipal(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, _, err := b.Put(t.Context(), "mine", parse(t, `{"pattern":"/a","endpoint":{"url":"`+url+`","headers":{"x-key":"hidden"}}}`), "ann")
	require.NoError(t, err)
	ok := func(_ *sluice.Subscription, err error) { t.Helper(); require.NoError(t, err) }
	ok(b.Patch(t.Context(), "mine", []byte(`{"description":"d","endpoint":{"url":"`+url+`?token=hidden","headers":{"x-key":"hidden too"}}}`), 0, "ann"))
	ok(b.Patch(t.Context(), "mine", []byte(`{"description":"d"}`), 0, "ann"))
	ok(b.Pause(t.Context(), "mine", "bob"))
	ok(b.Patch(t.Context(), "mine", []byte(`{"enabled":true}`), 0, "ann"))
	ok(b.Seek(t.Context(), "mine", "all", "ann"))
	require.NoError(t, b.gone(t.Context(), "mine"))
	require.NoError(t, b.Delete(t.Context(), "mine", "cid"))
	b.create(t, strings.Replace(minimal, "{", `{"id":"other",`, 1))
	require.NoError(t, b.Delete(t.Context(), "other", "cid"))

	type line struct{ kind, by, old, now string }
	var got []line
	for _, n := range b.heard.all {
		got = append(got, line{n.Type, n.CancelledBy, string(n.Old), string(n.New)})
	}
	require.NoError(t, b.heard.err)
	require.Contains(t, got[4].now, `"sought_at"`)
	got[4].now = ""
	require.Equal(t, []line{
		{kind: "subscription.created"},
		{
			"subscription.updated", "", `{"description":"","endpoint":{"headers":{"x-key":"***"},"url":"https://192.0.2.1/***"}}`,
			`{"description":"d","endpoint":{"headers":{"x-key":"***"},"url":"https://192.0.2.1/***"}}`,
		},
		{kind: "subscription.paused"},
		{"subscription.resumed", "", `{"enabled":false,"state":"paused"}`, `{"enabled":true,"state":"active"}`},
		{"subscription.updated", "", `{}`, ""},
		{kind: "subscription.cancelled", by: "system"},
		{kind: "subscription.deleted", by: "cid"},
		{kind: "subscription.created"},
		{kind: "subscription.deleted", by: "cid"},
	}, got)
}

// requireWithout looks for texts in the ledger's messages as they are stored.
func (b *bench) requireWithout(t *testing.T, texts []string) {
	t.Helper()
	stream, err := b.js.Stream(t.Context(), "LEDGER")
	require.NoError(t, err)
	last := stream.CachedInfo().State.LastSeq
	require.NotZero(t, last)
	for seq := uint64(1); seq <= last; seq++ {
		msg, err := stream.GetMsg(t.Context(), seq)
		require.NoError(t, err)
		raw, err := json.Marshal(msg)
		require.NoError(t, err)
		for _, text := range texts {
			require.NotContains(t, string(msg.Data), text)
			require.NotContains(t, string(raw), text)
		}
	}
}

func TestChange_EmptyOneIsNotInTheLedger(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	body := strings.Replace(minimal, "{", `{"id":"mine",`, 1)
	b.create(t, body)
	before := len(b.entries(t))
	for range 3 {
		_, created, err := b.Create(t.Context(), parse(t, body), "root")
		require.NoError(t, err)
		require.False(t, created)
		_, err = b.Resume(t.Context(), "mine", "root")
		require.NoError(t, err)
		_, err = b.Patch(t.Context(), "mine", []byte(`{"description":""}`), 0, "root")
		require.NoError(t, err)
	}
	_, err := b.Patch(t.Context(), "mine", []byte(`{"policy":{"window":-1}}`), 0, "root")
	requireCode(t, sluice.InvalidRequest, err)
	require.NoError(t, b.Disable(t.Context(), "nobody", "x"))
	requireCode(t, sluice.SubscriptionMissing, b.Delete(t.Context(), "nobody", "root"))
	require.Len(t, b.entries(t), before)
	require.Len(t, b.heard.kinds, 1)
}

// S2-05, S2-06, S2-132, S2-133: who reacts to an announcement by asking finds what it announces, in
// the store and in the ledger.
func TestAnnouncement_FollowsStoreAndLedger(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	asked := 0
	b.heard.react = func(kind string, told *sluice.Subscription) {
		asked++
		is, err := b.Get(t.Context(), told.ID)
		if kind == sluice.TypeSubscriptionDeleted {
			requireCode(t, sluice.SubscriptionMissing, err)
		} else {
			require.NoError(t, err)
			require.Equal(t, []any{told.State, told.Reason, told.Revision}, []any{is.State, is.Reason, is.Revision}, kind)
		}
		require.Len(t, b.entries(t), asked)
	}
	id := b.create(t, minimal).ID
	ok := func(_ *sluice.Subscription, err error) { t.Helper(); require.NoError(t, err) }
	ok(b.Pause(t.Context(), id, "root"))
	ok(b.Patch(t.Context(), id, []byte(`{"enabled":true}`), 0, "root"))
	ok(b.Rotate(t.Context(), id, 0, "root"))
	require.NoError(t, b.Disable(t.Context(), id, "x"))
	require.NoError(t, b.gone(t.Context(), id))
	require.NoError(t, b.Delete(t.Context(), id, "root"))
	require.Equal(t, 7, asked)
}

// Issue 3, 6: security-relevant changes fail closed.
func TestChange_FailsWithoutTheLedger(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	old := b.create(t, minimal)
	b.fill(t)
	_, _, err := b.Create(t.Context(), parse(t, `{"pattern":"/b","endpoint":{"url":"`+url+`"}}`), "root")
	requireCode(t, sluice.Unavailable, err)
	_, _, err = b.Put(t.Context(), "mine", parse(t, minimal), "root")
	requireCode(t, sluice.Unavailable, err)
	_, err = b.Pause(t.Context(), old.ID, "root")
	requireCode(t, sluice.Unavailable, err)
	_, err = b.Patch(t.Context(), old.ID, []byte(`{"description":"x"}`), 0, "root")
	requireCode(t, sluice.Unavailable, err)
	_, err = b.Rotate(t.Context(), old.ID, 0, "root")
	requireCode(t, sluice.Unavailable, err)
	requireCode(t, sluice.Unavailable, b.Delete(t.Context(), old.ID, "root"))
	requireCode(t, sluice.Unavailable, b.DeleteAll(t.Context(), "default", "root"))

	page, err := b.List(t.Context(), subscription.Query{})
	require.NoError(t, err)
	require.Len(t, page.Subscriptions, 1)
	require.Equal(t, old.Revision, page.Subscriptions[0].Revision)
	require.Equal(t, []string{"subscription.created"}, b.heard.kinds)
	require.True(t, b.hasConsumer(t, old.ID))
}

// S0-49: a subscription whose endpoint is gone is disabled in any state of the ledger.
func TestDisable_DoesNotDependOnTheLedger(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var lines bytes.Buffer
	b.needs.Ledger = ledger.New(b.store.Ledger(), slog.New(slog.NewTextHandler(&lines, nil)))
	r := subscription.New(b.needs)
	id := b.create(t, minimal).ID
	b.fill(t)
	require.NoError(t, r.Disable(t.Context(), id, "it fails"))
	sub, err := r.Get(t.Context(), id)
	require.NoError(t, err)
	_, err = r.Cancel(t.Context(), sub, func() error { return nil })
	require.NoError(t, err)
	sub, err = r.Get(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, sluice.Cancelled, sub.State)
	require.False(t, b.hasConsumer(t, id))
	require.Equal(t, 2, strings.Count(lines.String(), "could not record change in ledger"))
	require.Contains(t, lines.String(), id)
}

func TestDelete_FailureIsInTheLedger(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.create(t, minimal).ID
	b.consumers.fail = []error{errors.New("power cut")}
	requireCode(t, sluice.Internal, b.Delete(t.Context(), id, "root"))
	all := b.entries(t)
	require.Len(t, all, 3)
	intent, failed := all[1], all[2]
	require.Equal(t, []any{sluice.ActionSubscriptionDelete, sluice.ChangeDone}, []any{intent.Action, intent.Outcome})
	require.Equal(t, []any{sluice.ActionSubscriptionDelete, sluice.ChangeFailed, sluice.Internal, intent.ID},
		[]any{failed.Action, failed.Outcome, failed.Error, failed.Intent})
	require.Equal(t, []string{"subscription.created"}, b.heard.kinds, "it is not gone")
}

// Of changes at once each is made once, and the entries say which: those that did not fail are
// as many as there were changes, and lead from the first state to the last.
func TestChange_ConcurrentOnesHaveOneEntryEach(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.create(t, minimal).ID
	const many = 8
	errs := make([]error, many)
	var wg sync.WaitGroup
	for i := range many {
		wg.Go(func() {
			_, errs[i] = b.Patch(t.Context(), id, []byte(`{"description":"`+string(rune('a'+i))+`"}`), 0, "root")
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	all, failed := b.entries(t), map[string]bool{}
	for _, e := range all {
		failed[e.Intent] = true
	}
	next := map[string]string{}
	for _, e := range all {
		if e.Action == sluice.ActionSubscriptionUpdate && e.Outcome == sluice.ChangeDone && !failed[e.ID] {
			next[string(e.Old)] = string(e.New)
		}
	}
	require.Len(t, next, many)
	at := `{"description":""}`
	for range many {
		at = next[at]
		require.NotEmpty(t, at)
	}
	sub, err := b.Get(t.Context(), id)
	require.NoError(t, err)
	require.JSONEq(t, `{"description":"`+sub.Description+`"}`, at)
}

// A lost access ends the subscription, and is announced once, under a type of its own.
func TestAnnouncement_AccessLossHasItsOwnType(t *testing.T) { // S0-64, C13
	t.Parallel()
	b := newBench(t)
	b.create(t, strings.Replace(minimal, "{", `{"id":"mine",`, 1))
	for range 2 {
		sub, err := b.Get(t.Context(), "mine")
		require.NoError(t, err)
		_, err = b.Revoke(t.Context(), sub)
		require.NoError(t, err)
	}
	require.False(t, b.hasConsumer(t, "mine"))
	entries := b.entries(t)
	require.Len(t, entries, 2)
	e := entries[1]
	require.Equal(t, []any{"system", "subscription.cancel", sluice.ChangeDone}, []any{e.Actor, e.Action, e.Outcome})
	require.Contains(t, string(e.New), `"reason":"access_revoked"`)
	require.Equal(t, []string{"subscription.created", "subscription_cancelled_access_revoked"}, b.heard.kinds)
}

// A record that has lost its secrets can be mended.
func TestPatch_RecordWithoutSecretsIsNoPanic(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.create(t, minimal).ID
	sub, revision, err := b.store.Subscriptions().Get(t.Context(), id)
	require.NoError(t, err)
	sub.Secrets = nil
	_, err = b.store.Subscriptions().Put(t.Context(), id, sub, revision)
	require.NoError(t, err)
	after, err := b.Patch(t.Context(), id, []byte(`{"description":"x"}`), 0, "root")
	require.NoError(t, err)
	require.Equal(t, "x", after.Description)
}
