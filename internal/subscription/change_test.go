package subscription_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/subscription"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// S4-45.
func TestPause_AndResumeChangeTheState(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.create(t, minimal).ID
	steps := []struct {
		name    string
		do      func() (*sluice.Subscription, error)
		state   sluice.State
		enabled bool
	}{
		{"pause", func() (*sluice.Subscription, error) { return b.Pause(t.Context(), id, "root") }, sluice.Paused, false},
		{"pause again", func() (*sluice.Subscription, error) { return b.Pause(t.Context(), id, "root") }, sluice.Paused, false},
		{"resume", func() (*sluice.Subscription, error) { return b.Resume(t.Context(), id, "root") }, sluice.Active, true},
		{"resume again", func() (*sluice.Subscription, error) { return b.Resume(t.Context(), id, "root") }, sluice.Active, true},
		{"switch off", func() (*sluice.Subscription, error) {
			return b.Patch(t.Context(), id, []byte(`{"enabled":false}`), 0, "root")
		}, sluice.Paused, false},
		{"switch on", func() (*sluice.Subscription, error) {
			return b.Patch(t.Context(), id, []byte(`{"enabled":null}`), 0, "root")
		}, sluice.Active, true},
		{"disable", func() (*sluice.Subscription, error) {
			require.NoError(t, b.Disable(t.Context(), id, "failing"))
			return b.Get(t.Context(), id)
		}, sluice.Disabled, false},
		{"pause what is disabled", func() (*sluice.Subscription, error) { return b.Pause(t.Context(), id, "root") }, sluice.Disabled, false},
		{"resume what is disabled", func() (*sluice.Subscription, error) { return b.Resume(t.Context(), id, "root") }, sluice.Active, true},
	}
	for _, step := range steps {
		sub, err := step.do()
		require.NoError(t, err, step.name)
		require.Equal(t, step.state, sub.State, step.name)
		require.Equal(t, step.enabled, sub.Enabled, step.name)
		stored, err := b.Get(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, sub, stored, step.name)
	}
}

func TestCreate_DisabledOneIsPaused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	sub := b.create(t, strings.Replace(minimal, "{", `{"enabled":false,`, 1))
	require.Equal(t, sluice.Paused, sub.State)
}

// A decision about an owner that the subscription does not have any more ends nothing.
func TestRevoke_ComparesTheOwner(t *testing.T) { // S0-64
	t.Parallel()
	b := newBench(t)
	sub := b.create(t, minimal)
	for _, change := range []func(*sluice.Subscription){
		func(s *sluice.Subscription) { s.CreatedBy = "user:ann" }, func(s *sluice.Subscription) { s.Grant = "other" },
	} {
		earlier := *sub
		change(&earlier)
		revoked, err := b.Revoke(t.Context(), &earlier)
		require.NoError(t, err)
		require.False(t, revoked)
		now, err := b.Get(t.Context(), sub.ID)
		require.NoError(t, err)
		require.Equal(t, sluice.Active, now.State)
	}
	for range 2 {
		revoked, err := b.Revoke(t.Context(), sub)
		require.NoError(t, err)
		require.True(t, revoked)
	}
	now, err := b.Get(t.Context(), sub.ID)
	require.NoError(t, err)
	require.Equal(t, []string{string(sluice.Cancelled), sluice.ReasonAccessRevoked}, []string{string(now.State), now.Reason})
	require.False(t, b.hasConsumer(t, sub.ID))
}

// S0-49, S0-77, C06.
func TestCancel_KeepsTheRecordAndEndsDelivery(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.create(t, minimal).ID
	require.NoError(t, b.gone(t.Context(), id))
	require.NoError(t, b.gone(t.Context(), id))
	_, err := b.Cancel(t.Context(), &sluice.Subscription{ID: "missing"}, func() error { return nil })
	require.NoError(t, err)
	require.False(t, b.hasConsumer(t, id))
	sub, err := b.Get(t.Context(), id)
	require.NoError(t, err)
	require.NoError(t, b.Disable(t.Context(), id, "late"))
	late, err := b.Get(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, sub, late, "nothing was written")
	require.Equal(t, sluice.Cancelled, sub.State)
	require.Equal(t, "endpoint_gone", sub.Reason)
	require.NotNil(t, sub.CancelledAt)

	_, err = b.Resume(t.Context(), id, "root")
	requireCode(t, sluice.Conflict, err)
	_, err = b.Pause(t.Context(), id, "root")
	requireCode(t, sluice.Conflict, err)
	_, err = b.Rotate(t.Context(), id, time.Hour, "root")
	requireCode(t, sluice.Conflict, err)
	_, err = b.Patch(t.Context(), id, []byte(`{"description":"x"}`), 0, "root")
	requireCode(t, sluice.Conflict, err)

	require.NotEqual(t, id, b.create(t, minimal).ID, "its place is free")
	require.NoError(t, b.Delete(t.Context(), id, "root"))
}

// S0-10, S0-86.
func TestDelete_RemovesTheSubscription(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := b.create(t, strings.Replace(minimal, "{", `{"idempotency_key":"k",`, 1))
	require.NoError(t, b.Delete(t.Context(), first.ID, "root"))
	require.False(t, b.hasConsumer(t, first.ID))
	_, err := b.Get(t.Context(), first.ID)
	requireCode(t, sluice.SubscriptionMissing, err)
	requireCode(t, sluice.SubscriptionMissing, b.Delete(t.Context(), first.ID, "root"))

	second := b.create(t, strings.Replace(minimal, "{", `{"idempotency_key":"k",`, 1))
	require.NotEqual(t, first.ID, second.ID, "an id is never used again")
	_, created, err := b.Create(t.Context(), parse(t, minimal), "root")
	require.NoError(t, err)
	require.False(t, created)
}

func TestDelete_CanBeRepeatedAfterInterruption(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.create(t, minimal).ID
	b.consumers.fail = []error{errors.New("power cut")}
	requireCode(t, sluice.Internal, b.Delete(t.Context(), id, "root"))
	sub, err := b.Get(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, sluice.Cancelled, sub.State)
	b.consumers.fail = []error{errors.New("power cut")}
	requireCode(t, sluice.Internal, b.DeleteAll(t.Context(), sub.Namespace, "root"))
	broken := b.needs
	broken.Replays = stuck{broken.Replays}
	require.ErrorContains(t, subscription.New(broken).Delete(t.Context(), id, "root"), "remove replays")
	_, err = b.Get(t.Context(), id)
	require.NoError(t, err, "it can be deleted again")
	require.NoError(t, b.Delete(t.Context(), id, "root"))
	require.False(t, b.hasConsumer(t, id))
}

// stuck cannot remove anything.
type stuck struct{ subscription.Replays }

func (stuck) Remove(context.Context, string) error { return errors.New("power cut") }

func TestDelete_TakesAllOfANamespace(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.makeAcme(t)
	b.create(t, `{"namespace":"acme","pattern":"/a","endpoint":{"url":"`+url+`"}}`)
	b.create(t, `{"namespace":"acme","pattern":"/b","endpoint":{"url":"`+url+`"}}`)
	other := b.create(t, minimal)
	require.NoError(t, b.DeleteAll(t.Context(), "acme", "root"))
	page, err := b.List(t.Context(), subscription.Query{})
	require.NoError(t, err)
	require.Len(t, page.Subscriptions, 1)
	require.Equal(t, other.ID, page.Subscriptions[0].ID)
}

// C08: what can change.
func TestPatch_ChangesDeliverySettings(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	old := b.create(t, strings.Replace(minimal, "{", `{"metadata":{"a":"1","b":"2"},`, 1))
	sub, err := b.Patch(t.Context(), old.ID, []byte(`{
		"id":"`+old.ID+`","pattern":"/orders/**",
		"endpoint":{"url":"https://192.0.2.9/other","headers":{"x-env":"prod"}},
		"filter":{"types":["order.*"]}, "policy":{"window":8,"retry":{"preset":"short"}}, "replay_window":"2h",
		"description":"text","metadata":{"a":null,"c":"3"}}`), old.Revision, "root")
	require.NoError(t, err)
	require.Empty(t, sub.Endpoint.Secret)
	require.Equal(t, "https://192.0.2.9/other", sub.Endpoint.URL)
	require.Equal(t, map[string]string{"x-env": "prod"}, sub.Endpoint.Headers)
	require.Equal(t, []string{"order.*"}, sub.Filter.Types)
	require.Equal(t, 8, sub.Policy.Window)
	require.Equal(t, sluice.PresetShort, sub.Policy.Retry.Preset)
	require.Equal(t, sluice.EnvelopeCloudEvents, sub.Policy.Envelope)
	require.Equal(t, int64(7200), sub.ReplayWindowS)
	require.Equal(t, "text", sub.Description)
	require.Equal(t, map[string]string{"b": "2", "c": "3"}, sub.Metadata)
	require.Greater(t, sub.Revision, old.Revision)
	require.Equal(t, []string{old.Endpoint.Secret}, sub.LiveSecrets(time.Now()))
	require.True(t, old.CreatedAt.Equal(sub.CreatedAt))

	same, err := b.Patch(t.Context(), old.ID, []byte(`{"description":"text"}`), 0, "root")
	require.NoError(t, err)
	require.Equal(t, sub.Revision, same.Revision, "nothing changed, nothing written")
	back, err := b.Patch(t.Context(), old.ID, []byte(`{"policy":{"window":null},"filter":null}`), 0, "root")
	require.NoError(t, err)
	require.Equal(t, 64, back.Policy.Window)
	require.Empty(t, back.Filter.Types)
	b.consumers.fail = []error{errors.New("power cut")}
	_, err = b.Patch(t.Context(), old.ID, []byte(`{"description":"other"}`), 0, "root")
	require.ErrorContains(t, err, "power cut")
}

// C08: what cannot.
func TestPatch_RefusesFixedFields(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	sub := b.create(t, strings.Replace(minimal, `"}}`, `","secret":"`+strings.Repeat("s", 32)+`"},"policy":{"signature":{"scheme":"t-sha256"}}}`, 1))
	tests := []struct {
		name, patch string
		want        sluice.Code
	}{
		{"id", `{"id":"other"}`, sluice.InvalidRequest},
		{"namespace", `{"namespace":"other"}`, sluice.InvalidRequest},
		{"mode", `{"mode":"wake"}`, sluice.InvalidRequest},
		{"pattern", `{"pattern":"/other"}`, sluice.InvalidRequest},
		{"target", `{"target":"scope:default"}`, sluice.InvalidRequest},
		{"start", `{"start":"all"}`, sluice.InvalidRequest},
		{"idempotency_key", `{"idempotency_key":"k"}`, sluice.InvalidRequest},
		{"state", `{"state":"paused"}`, sluice.InvalidRequest},
		{"revision", `{"revision":1000}`, sluice.InvalidRequest},
		{"created_at", `{"created_at":null}`, sluice.InvalidRequest},
		{"created_by", `{"created_by":"me"}`, sluice.InvalidRequest},
		{"replay_window_s", `{"replay_window_s":1}`, sluice.InvalidRequest},
		{"secret", `{"endpoint":{"secret":"` + strings.Repeat("x", 40) + `"}}`, sluice.InvalidRequest},
		{"no URL", `{"endpoint":null}`, sluice.InvalidRequest},
		{"http", `{"endpoint":{"url":"http://192.0.2.1/"}}`, sluice.InsecureURL},
		{"a private address", `{"endpoint":{"url":"https://10.0.0.1/"}}`, sluice.BlockedAddress},
		{"unknown field", `{"colour":"red"}`, sluice.InvalidRequest},
		{"unknown filter (S4-78)", `{"filter":{"colour":"red"}}`, sluice.UnknownFilter},
		{"a window that is none", `{"policy":{"window":-1}}`, sluice.InvalidRequest},
		{"a timetable that is none", `{"policy":{"retry":{"preset":"custom"}}}`, sluice.InvalidRequest},
		{"a scheme that the secret does not suit", `{"policy":{"signature":{"scheme":"standard"}}}`, sluice.InvalidRequest},
		{"no object", `[]`, sluice.InvalidRequest},
		{"null", `null`, sluice.InvalidRequest},
		{"nothing", ``, sluice.InvalidRequest},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := b.Patch(t.Context(), sub.ID, []byte(tt.patch), 0, "root")
			requireCode(t, tt.want, err)
			stored, err := b.Get(t.Context(), sub.ID)
			require.NoError(t, err)
			require.Equal(t, sub.Revision, stored.Revision)
		})
	}
	_, err := b.Patch(t.Context(), sub.ID, []byte(`{}`), sub.Revision+1, "root")
	requireCode(t, sluice.RevisionMismatch, err)
	_, err = b.Patch(t.Context(), "nobody", []byte(`{}`), 0, "root")
	requireCode(t, sluice.SubscriptionMissing, err)
}

func TestPatch_MovesTheReservation(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	sub := b.create(t, minimal)
	kv, err := b.js.KeyValue(t.Context(), streams.Reservations)
	require.NoError(t, err)
	reserved := func() []string {
		keys, err := kv.Keys(t.Context())
		require.NoError(t, err)
		require.Len(t, keys, 1)
		entry, err := kv.Get(t.Context(), keys[0])
		require.NoError(t, err)
		return []string{keys[0], strconv.FormatUint(entry.Revision(), 10)}
	}
	first := reserved()
	_, err = b.Patch(t.Context(), sub.ID, []byte(`{"description":"x"}`), 0, "root")
	require.NoError(t, err)
	require.Equal(t, first, reserved(), "it is the same wish")
	_, err = b.Patch(t.Context(), sub.ID, []byte(`{"endpoint":{"url":"`+url+`2"}}`), 0, "root")
	require.NoError(t, err)
	require.NotEqual(t, first[0], reserved()[0], "in place of the first one")

	other, created, err := b.Create(t.Context(), parse(t, strings.Replace(minimal, url, url+"2", 1)), "root")
	require.NoError(t, err)
	require.False(t, created)
	require.Equal(t, sub.ID, other.ID)
	require.NotEqual(t, sub.ID, b.create(t, minimal).ID)
}

func TestChange_ConcurrentOnesAreAllMade(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id := b.create(t, minimal).ID
	const many = 8
	errs := make([]error, many)
	var wg sync.WaitGroup
	for i := range many {
		wg.Go(func() {
			_, errs[i] = subscription.New(b.needs).Patch(t.Context(), id, fmt.Appendf(nil, `{"metadata":{"k%d":"v"}}`, i), 0, "root")
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	sub, err := b.Get(t.Context(), id)
	require.NoError(t, err)
	require.Len(t, sub.Metadata, many)
}

// S0-08: newest first, page by page.
// The order of the IDs does not depend on when the subscriptions were created.
func TestList_IsOrderedByID(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, id := range []string{"c", "a", "d", "b"} {
		_, _, err := b.Put(t.Context(), id, parse(t, minimal), "root")
		require.NoError(t, err)
	}
	var got []string
	q := subscription.Query{ByID: true, Limit: 3}
	for range 2 {
		page, err := b.List(t.Context(), q)
		require.NoError(t, err)
		for _, sub := range page.Subscriptions {
			got = append(got, sub.ID)
		}
		q.Cursor = page.NextCursor
	}
	require.Equal(t, []string{"a", "b", "c", "d"}, got)
	require.Empty(t, q.Cursor)

	for _, byID := range []bool{true, false} {
		page, err := b.List(t.Context(), subscription.Query{ByID: byID, Limit: 1})
		require.NoError(t, err)
		_, err = b.List(t.Context(), subscription.Query{ByID: !byID, Cursor: page.NextCursor})
		requireCode(t, sluice.InvalidRequest, err)
	}
}

func TestList_IsNewestFirst(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.makeAcme(t)
	var want []string
	for i := range 7 {
		ns := "default"
		if i%2 == 1 {
			ns = "acme"
		}
		sub := b.create(t, fmt.Sprintf(`{"namespace":%q,"pattern":"/p%d","endpoint":{"url":%q}}`, ns, i, url))
		want = append([]string{sub.ID}, want...)
	}
	_, err := b.Pause(t.Context(), want[0], "root")
	require.NoError(t, err)

	var got []string
	q := subscription.Query{Limit: 3}
	for pages := 0; pages == 0 || q.Cursor != ""; pages++ {
		require.Less(t, pages, 3)
		page, err := b.List(t.Context(), q)
		require.NoError(t, err)
		for _, sub := range page.Subscriptions {
			require.Empty(t, sub.Endpoint.Secret)
			got = append(got, sub.ID)
		}
		q.Cursor = page.NextCursor
	}
	require.Equal(t, want, got)

	for name, tt := range map[string]struct {
		q    subscription.Query
		want int
	}{
		"namespace": {subscription.Query{Namespace: "acme"}, 3},
		"mode":      {subscription.Query{Mode: sluice.Push}, 7},
		"no mode":   {subscription.Query{Mode: "wake"}, 0},
		"state":     {subscription.Query{State: sluice.Paused}, 1},
		"both":      {subscription.Query{State: sluice.Paused, Namespace: "acme"}, 0},
	} {
		page, err := b.List(t.Context(), tt.q)
		require.NoError(t, err)
		require.Len(t, page.Subscriptions, tt.want, name)
	}
	_, err = b.List(t.Context(), subscription.Query{Cursor: "???"})
	requireCode(t, sluice.InvalidRequest, err)
}

// A pause or a patch is answered when this replica acts on it: what is published then is not delivered, or as changed.
func TestChange_WaitsUntilThisReplicaActsOnIt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var waited []uint64
	b.needs.Applied = func(_ context.Context, revision uint64) { waited = append(waited, revision) }
	b.Registry = subscription.New(b.needs)
	sub := b.create(t, minimal)
	require.Empty(t, waited)
	paused, err := b.Pause(t.Context(), sub.ID, "root")
	require.NoError(t, err)
	require.Equal(t, []uint64{paused.Revision}, waited)
	require.Greater(t, paused.Revision, sub.Revision)
	patched, err := b.Patch(t.Context(), sub.ID, []byte(`{"description":"d"}`), 0, "root")
	require.NoError(t, err)
	require.Equal(t, []uint64{paused.Revision, patched.Revision}, waited)
	_, err = b.Pause(t.Context(), "missing", "root")
	require.Error(t, err)
	require.Len(t, waited, 2)
}
