package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/pkg/webhook"
)

// receiverOf returns what a subscriber verifies its requests with.
func receiverOf(t *testing.T, s *running, sub sluice.Subscription, secrets ...string) *webhook.Receiver {
	t.Helper()
	keys, err := webhook.ParseKeys([]byte(s.must(t, http.StatusOK, "GET /.well-known/jwks.json", "", "Authorization", "").text))
	require.NoError(t, err)
	return &webhook.Receiver{
		Scheme: webhook.Scheme(sub.Policy.Signature.Scheme), Secrets: secrets, Keys: keys,
		Header: sub.Policy.Signature.Name, URL: sub.Endpoint.URL, Envelope: webhook.Envelope(sub.Policy.Envelope),
	}
}

// S0-29, S1-66, S1-68…70, S4-49, S4-54, S4-73, C04: every envelope under every scheme, verified as
// subscribers do it: with our package, with the key from the well-known address, and with the
// library of Standard Webhooks.
func TestEnvelope_EveryOneVerifiesUnderEveryScheme(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	hook := hooktest.New(t, nil)
	subs := map[string]sluice.Subscription{}
	for _, envelope := range []string{"cloudevents", "cloudevents-binary", "fact", "attempt", "raw"} {
		for _, scheme := range []string{"standard", "ed25519", "t-sha256", "header", "rfc9421"} {
			path := "/" + envelope + "/" + scheme
			subs[path] = subscribe(t, s.api, wish(hook.URL+path, fmt.Sprintf(`"policy":{"envelope":%q,"signature":{"scheme":%q}}`, envelope, scheme)))
		}
	}
	data := `{"total":118.5,"note":"a < b & c"}`
	_, err := s.api.Publish(t.Context(), sluice.DefaultNamespace, sluice.Event{
		ID: "o-1-created", Path: "/orders/1", Type: "order.created", Source: "/shop", Data: []byte(data),
	})
	require.NoError(t, err)
	requests := hook.Wait(len(subs))
	require.Len(t, requests, len(subs))
	for _, r := range requests {
		sub := subs[r.Path]
		delete(subs, r.Path)
		d := receive(t, receiverOf(t, s, sub, sub.Endpoint.Secret), r)
		require.Equal(t, data, string(d.Data), r.Path)
		require.Equal(t, "o-1-created", d.ID, r.Path)
		require.Equal(t, 1, d.Attempt, r.Path)
		requireOneScheme(t, sub.Policy.Signature.Scheme, r.Header)
		wrong := receiverOf(t, s, sub, "whsec_"+strings.Repeat("A", 44))
		wrong.Keys = nil
		require.Error(t, wrong.VerifyRequest(&http.Request{Header: r.Header}, r.Body), r.Path)
		if sub.Policy.Signature.Scheme == sluice.SchemeStandard {
			theirs, err := standardwebhooks.NewWebhook(sub.Endpoint.Secret)
			require.NoError(t, err)
			require.NoError(t, theirs.Verify(r.Body, r.Header), r.Path)
		}
	}
	require.Empty(t, subs)
}

func requireOneScheme(t *testing.T, scheme sluice.Scheme, header http.Header) {
	t.Helper()
	signature, fole := header.Get(webhook.HeaderSignature), header.Get(webhook.DefaultHeader)
	switch scheme {
	case sluice.SchemeStandard:
		require.Regexp(t, `^v1,\S+$`, signature)
	case sluice.SchemeEd25519:
		require.Regexp(t, `^v1a,\S+$`, signature)
	case sluice.SchemeT:
		require.Regexp(t, `^t=\d+,sha256=[0-9a-f]{64}$`, signature)
	case sluice.SchemeMessage:
		require.Empty(t, signature)
		require.Regexp(t, `^sig1=\("@method" "@authority" "@path" "@query" ("ce-[a-z]+" )*"content-digest" "content-type" "webhook-attempt" "webhook-id"\);created=\d+;keyid="[\w-]+"$`, header.Get("Signature-Input"))
		require.Regexp(t, `^sig1=:\S{88}:$`, header.Get("Signature"))
	case sluice.SchemeHeader:
		require.Empty(t, signature)
		require.Regexp(t, `^sha256=[0-9a-f]{64}$`, fole)
		return
	}
	require.Empty(t, fole)
}

// S0-29…39, S0-42, S0-48: a caller that knows S0 gets what it asks for.
func TestSubscription_OfS0GetsFacts(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	hook := hooktest.New(t, nil)
	body := fmt.Sprintf(`{"target":"entity:urn:e:1","scope":"default","on_change":"webhook","webhook_url":%q,"event_filter":["fact_assert"],"idempotency_key":"k"}`, hook.URL)
	sub := subscribe(t, s.api, body)
	require.Equal(t, []sluice.Preset{sluice.PresetShort}, []sluice.Preset{sub.Policy.Retry.Preset})
	require.Equal(t, 10*time.Second, sub.Policy.Timeout.Std())
	require.Equal(t, "entity:urn:e:1", sub.Target)

	fact := sluice.Event{Path: "/facts/1", Source: "/node", Subject: "urn:e:1", Data: []byte(`{"p":"v"}`)}
	for _, change := range []func(*sluice.Event){
		func(e *sluice.Event) { e.Subject = "urn:e:2" },
		func(e *sluice.Event) { e.Type = "fact_retract" },
		func(e *sluice.Event) { e.Extensions = map[string]string{"resourceid": "f-1", "hlc": "1700000000000.3"} },
	} {
		e := fact
		e.ID, e.Type = "e-1", "fact_assert"
		change(&e)
		if e.Extensions == nil {
			e.ID = "other-" + e.Type
		}
		_, err := s.api.Publish(t.Context(), sluice.DefaultNamespace, e)
		require.NoError(t, err)
	}
	requests := hook.Wait(1)
	require.Equal(t, []string{"e-1"}, idsOf(requests))
	require.JSONEq(t, fmt.Sprintf(`{"subscription_id":%q,"event_id":"e-1","event_type":"fact_assert","entity":"urn:e:1","scope":"default",
		"fact_id":"f-1","hlc":"1700000000000.3","payload":{"p":"v"},"idempotency_key":"e-1"}`, sub.ID), string(requests[0].Body))
	receive(t, receiverOf(t, s, sub, sub.Endpoint.Secret), requests[0])
}

// S0-20, S0-33: a target is compared with what the fact names as its entity: the subject, or the path where there is none.
func TestEntityTarget_IsTheFactsEntity(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	hook := hooktest.New(t, nil)
	sub := subscribe(t, s.api, fmt.Sprintf(`{"target":"entity:/facts/1","on_change":"webhook","webhook_url":%q}`, hook.URL))
	for _, e := range []sluice.Event{
		{ID: "another-subject", Path: "/facts/1", Subject: "urn:e:2"},
		{ID: "another-path", Path: "/facts/2"},
		{ID: "by-path", Path: "/facts/1"},
		{ID: "by-subject", Path: "/facts/3", Subject: "/facts/1"},
	} {
		e.Type, e.Source, e.Data = "fact_assert", "/node", []byte(`{}`)
		_, err := s.api.Publish(t.Context(), sluice.DefaultNamespace, e)
		require.NoError(t, err)
	}
	requests := hook.Wait(2)
	require.ElementsMatch(t, []string{"by-path", "by-subject"}, idsOf(requests))
	for _, r := range requests {
		require.Contains(t, string(r.Body), `"entity":"/facts/1"`)
	}

	// S0-51: what is read again has the shape of what was sent.
	r := s.must(t, http.StatusOK, "GET /v1/subscriptions/"+sub.ID+"/events?after=-1", "")
	var page struct{ Events []json.RawMessage }
	require.NoError(t, json.Unmarshal([]byte(r.text), &page))
	require.Len(t, page.Events, 2)
	sent := map[string]string{requests[0].Header.Get("Webhook-Id"): string(requests[0].Body), requests[1].Header.Get("Webhook-Id"): string(requests[1].Body)}
	require.JSONEq(t, sent["by-path"], string(page.Events[0]))
	require.JSONEq(t, sent["by-subject"], string(page.Events[1]))
	events, err := s.api.SubscriptionEvents(t.Context(), sub.ID, client.WindowQuery{})
	require.NoError(t, err)
	require.Equal(t, "by-path", events.Events[0].ID, "CloudEvents, as asked for")
	s.must(t, http.StatusBadRequest, "GET /v1/subscriptions/"+sub.ID+"/events?envelope=raw", "")
}

// S4-07…15, S4-41, S4-49, S4-54…57, C05: a caller that knows S4 gets its envelope.
func TestSubscription_OfS4GetsSignedAttempts(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	hook := hooktest.New(t, status(http.StatusInternalServerError, func(r hooktest.Request) bool { return r.Number == 1 }))
	sub := subscribe(t, s.api, wish(hook.URL, `"policy":{"envelope":"attempt","signature":{"scheme":"header"},
		"retry":{"preset":"custom","steps":["100ms"],"max_attempts":3}}`))
	_, err := s.api.Publish(t.Context(), sluice.DefaultNamespace, sluice.Event{
		ID: "e-1", Path: "/maps/7", Type: "map.updated", Source: "/maps", Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Extensions: map[string]string{"resourcetype": "map", "resourceid": "7", "authtype": "user", "schemaversion": "2"}, Data: []byte(`{"b":1,"a":2}`),
	})
	require.NoError(t, err)
	for i, r := range hook.Wait(2) {
		d := receive(t, receiverOf(t, s, sub, sub.Endpoint.Secret), r) // both signatures: the header's and the body's
		require.Equal(t, i+1, d.Attempt)
		require.Equal(t, strconv.Itoa(i+1), r.Header.Get(webhook.HeaderAttempt))
		var body struct {
			Event     json.RawMessage
			Attempt   int
			Timestamp time.Time
			Signature string
		}
		require.NoError(t, json.Unmarshal(r.Body, &body))
		require.JSONEq(t, `{"eventId":"e-1","eventType":"map.updated","resourceType":"map","resourceId":"7","projectId":"default",
			"createdAt":"2026-01-02T03:04:05Z","producedBy":"system","payload":{"b":1,"a":2},"version":"2"}`, string(body.Event))
		require.Equal(t, i+1, body.Attempt)
		require.WithinDuration(t, r.At, body.Timestamp, patience)
		require.Len(t, body.Signature, 64)
	}
}

// S1-67: each attempt is signed anew, with its own time.
func TestAttempt_HasItsOwnTimestamp(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	hook := hooktest.New(t, status(http.StatusInternalServerError, func(r hooktest.Request) bool { return r.Number == 1 }))
	sub := subscribe(t, s.api, wish(hook.URL, `"policy":{"signature":{"scheme":"t-sha256"},"retry":{"preset":"custom","steps":["1.1s"]}}`))
	put(t, s.api, "/a", 1, 1)
	var signed []int64
	for _, r := range hook.Wait(2) {
		receive(t, receiverOf(t, s, sub, sub.Endpoint.Secret), r)
		text, _, _ := strings.Cut(strings.TrimPrefix(r.Header.Get(webhook.HeaderSignature), "t="), ",")
		at, err := strconv.ParseInt(text, 10, 64)
		require.NoError(t, err)
		require.WithinDuration(t, r.At, time.Unix(at, 0), 5*time.Second)
		signed = append(signed, at)
	}
	require.Greater(t, signed[1], signed[0])
}

// S4-44, S4-58, C08, C36: the secret is shown once; a rotated one signs along for the overlap.
func TestRotate_LeavesNoGap(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	hook := hooktest.New(t, nil)
	sub := subscribe(t, s.api, wish(hook.URL))
	first := sub.Endpoint.Secret
	require.Regexp(t, `^whsec_\S{44}$`, first, "32 bytes")
	again, err := s.api.Subscription(t.Context(), sub.ID)
	require.NoError(t, err)
	require.Empty(t, again.Endpoint.Secret)
	require.Equal(t, first[len(first)-4:], again.SecretHint)

	rotated, err := s.api.RotateSecret(t.Context(), sub.ID, time.Hour)
	require.NoError(t, err)
	second := rotated.Endpoint.Secret
	require.NotEqual(t, first, second)
	n := 0
	deliverUntil := func(verified func(hooktest.Request) bool) hooktest.Request {
		var last hooktest.Request
		eventually(t, func() bool { // the engine hears of the rotation a moment later
			n++
			put(t, s.api, "/a", n, n)
			last = hook.Wait(n)[n-1]
			return verified(last)
		}, "the rotation takes effect")
		return last
	}
	by := func(secret string, r hooktest.Request) bool {
		return receiverOf(t, s, sub, secret).Verify(r.Header, r.Body) == nil
	}
	r := deliverUntil(func(r hooktest.Request) bool { return by(second, r) })
	require.True(t, by(first, r), "both sign during the overlap")

	third, ok := s.must(t, http.StatusOK, "POST /v1/subscriptions/"+sub.ID+"/secret/rotate", `{"overlap":"0s"}`).field(t, "secret").(string)
	require.True(t, ok)
	r = deliverUntil(func(r hooktest.Request) bool { return by(third, r) })
	require.False(t, by(second, r), "no overlap was asked for")
	require.False(t, by(first, r), "it ends all earlier ones")
}
