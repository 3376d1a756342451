package endpoint_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-io/sluice/internal/endpoint"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/pkg/webhook"
)

// requestOf returns what a receiver gets for ev under sub, and now as the sender saw it.
func requestOf(t *testing.T, sub *sluice.Subscription, ev *sluice.Event) hooktest.Request {
	t.Helper()
	server := hooktest.New(t, nil)
	sub.Endpoint.URL = server.URL
	s := sender(t, endpoint.Options{AllowLoopback: true, Version: "1.2.3", Keys: newRing()})
	a := s.Send(t.Context(), sub, ev, 3)
	require.Equal(t, sluice.Delivered, a.Outcome, a.Error)
	return server.Wait(1)[0]
}

// requireBody compares bytes: the same JSON written differently would not verify.
func requireBody(t *testing.T, r hooktest.Request, want string) {
	t.Helper()
	require.Equal(t, want, string(r.Body))
}

func rich() *sluice.Event {
	ev := event()
	ev.Subject, ev.DataSchema = "sub/ject", "https://schema.example/1"
	ev.Extensions = map[string]string{
		"region": "eu", "resourcetype": "map", "resourceid": "r-7", "hlc": "170.3", "authtype": "user", "schemaversion": "2",
		"id": "forged", "sequence": "forged", "not_allowed": "x", "Upper": "x", "data": "forged",
	}
	return ev
}

func TestEnvelope_RendersStructuredCloudEventsExactly(t *testing.T) {
	t.Parallel()
	r := requestOf(t, subscription(""), rich())
	requireBody(t, r, `{"specversion":"1.0","id":"evt-1","source":"/shop","type":"map.updated","time":"2025-01-02T03:04:05.0000006Z",`+
		`"subject":"sub/ject","dataschema":"https://schema.example/1","path":"/maps/7","namespace":"acme","sequence":"00000000000000000012",`+
		`"authtype":"user","hlc":"170.3","region":"eu","resourceid":"r-7","resourcetype":"map","schemaversion":"2",`+
		`"datacontenttype":"application/json","data":{"a": 1,  "b":"<é> & \u2028"}}`)
	require.Equal(t, "application/cloudevents+json; charset=utf-8", r.Header.Get("Content-Type"))
	require.Equal(t, "Sluice/1.2.3", r.Header.Get("User-Agent"))
	require.Equal(t, "evt-1", r.Header.Get("webhook-id"))
	require.Equal(t, "3", r.Header.Get("webhook-attempt"))
	require.Equal(t, rich().AppendJSON(nil), r.Body)
}

func TestEnvelope_EncodesDataThatJSONCannotHold(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, contentType, data, want string
	}{
		{"json", "", ` [1] `, `"datacontenttype":"application/json","data": [1] }`},
		{"json by suffix", "application/x+JSON; a=b", `1e400`, `"datacontenttype":"application/x+JSON; a=b","data":1e400}`},
		{"not the json that it claims", "application/json", `{"a"`, `"datacontenttype":"application/json","data_base64":"eyJhIg=="}`},
		{"text", "text/plain", "a\"b\\\n<>\x01é", `"datacontenttype":"text/plain","data":"a\"b\\\u000a<>\u0001é"}`},
		{"text that is no text", "text/plain", "\xff", `"datacontenttype":"text/plain","data_base64":"/w=="}`},
		{"bytes", "image/png", "\x00\xff", `"datacontenttype":"image/png","data_base64":"AP8="}`},
		{"nothing", "image/png", "", `"sequence":"00000000000000000012"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ev := event()
			ev.ContentType, ev.Data = tt.contentType, []byte(tt.data)
			got := string(ev.AppendJSON(nil))
			require.True(t, json.Valid([]byte(got)), got)
			require.Equal(t, tt.want, got[len(got)-len(tt.want):])
		})
	}
}

// S0-30…39.
func TestFact_HasTheSpecifiedMembers(t *testing.T) {
	t.Parallel()
	sub := subscription("")
	sub.Policy.Envelope = sluice.EnvelopeFact
	requireBody(t, requestOf(t, sub, rich()), `{"subscription_id":"sub-1","event_id":"evt-1","event_type":"map.updated","entity":"sub/ject","scope":"acme",`+
		`"fact_id":"r-7","hlc":"170.3","payload":{"a": 1,  "b":"<é> & \u2028"},"idempotency_key":"evt-1"}`)

	ev := event()
	ev.Data = nil
	r := requestOf(t, sub, ev)
	requireBody(t, r, `{"subscription_id":"sub-1","event_id":"evt-1","event_type":"map.updated","entity":"/maps/7","scope":"acme",`+
		`"hlc":"1735787046000.12","payload":null,"idempotency_key":"evt-1"}`)
	require.Equal(t, "application/json", r.Header.Get("Content-Type"))
}

// S4-54…57.
func TestAttempt_HasTheSpecifiedMembers(t *testing.T) {
	t.Parallel()
	sub := subscription("")
	sub.Policy.Envelope = sluice.EnvelopeAttempt
	for _, tt := range []struct {
		ev   *sluice.Event
		want string
	}{
		{event(), `{"event":{"eventId":"evt-1","eventType":"map.updated","resourceType":"maps","resourceId":"7","projectId":"acme",` +
			`"createdAt":"2025-01-02T03:04:05.0000006Z","producedBy":"system","payload":{"a": 1,  "b":"<é> & \u2028"},"version":"1"},"attempt":3,"timestamp":"`},
		{rich(), `{"event":{"eventId":"evt-1","eventType":"map.updated","resourceType":"map","resourceId":"r-7","projectId":"acme",` +
			`"createdAt":"2025-01-02T03:04:05.0000006Z","producedBy":"user","payload":{"a": 1,  "b":"<é> & \u2028"},"version":"2"},"attempt":3,"timestamp":"`},
	} {
		r := requestOf(t, sub, tt.ev)
		require.Equal(t, tt.want, string(r.Body[:len(tt.want)]))
		require.Regexp(t, `^20\d\d-[^"]*Z","signature":"[0-9a-f]{64}"}$`, string(r.Body[len(tt.want):]))
	}
}

// S4-13 knows a user, an AI and the system; CloudEvents' auth context knows more.
func TestAttempt_ProducedByHasThreeValues(t *testing.T) {
	t.Parallel()
	sub := subscription("")
	sub.Policy.Envelope = sluice.EnvelopeAttempt
	for authType, want := range map[string]string{
		"": "system", "system": "system", "service_account": "system", "api_key": "system", "ai_agent": "ai_agent",
		"user": "user", "app_user": "user", "unauthenticated": "user", "unknown": "user", "\"}": "user",
	} {
		ev := event()
		ev.Extensions = map[string]string{sluice.AuthType: authType}
		var body struct{ Event struct{ ProducedBy string } }
		require.NoError(t, json.Unmarshal(requestOf(t, sub, ev).Body, &body))
		require.Equal(t, want, body.Event.ProducedBy, authType)
	}
}

func TestRaw_IsTheDataOnly(t *testing.T) {
	t.Parallel()
	sub := subscription("")
	sub.Policy.Envelope = sluice.EnvelopeRaw
	ev := rich()
	ev.ContentType, ev.Data = "image/png; x=y", []byte("\x00\xff")
	r := requestOf(t, sub, ev)
	require.Equal(t, ev.Data, r.Body)
	require.Equal(t, "image/png; x=y", r.Header.Get("Content-Type"))
	for name := range r.Header {
		require.False(t, strings.HasPrefix(name, "Ce-"), name)
	}
	ev.Data = nil
	require.Empty(t, requestOf(t, sub, ev).Body)
}

// CloudEvents HTTP binding, 3.1.3.2.
func TestBinary_PercentEncodesHeaders(t *testing.T) {
	t.Parallel()
	sub := subscription("")
	sub.Policy.Envelope = sluice.EnvelopeBinary
	ev := rich()
	ev.Path, ev.Subject = "/käse/a b", "50% \"€\"\r\nx: y"
	r := requestOf(t, sub, ev)
	require.Equal(t, "/k%C3%A4se/a%20b", r.Header.Get("Ce-Path"))
	require.Equal(t, "50%25%20%22%E2%82%AC%22%0D%0Ax:%20y", r.Header.Get("Ce-Subject"))
	require.Equal(t, "evt-1", r.Header.Get("Ce-Id"))
	require.Empty(t, r.Header.Get("Ce-Not_allowed"))
	d, err := webhook.Parse("", r.Header, r.Body)
	require.NoError(t, err)
	require.Equal(t, ev.Subject, d.Subject)
	require.Equal(t, string(ev.Path), d.Path)
}

func receiver(scheme sluice.Scheme, secrets ...string) *webhook.Receiver {
	public := newRing().key.Public().(ed25519.PublicKey)
	return &webhook.Receiver{Scheme: webhook.Scheme(scheme), Secrets: secrets, Keys: []ed25519.PublicKey{public}}
}

func received(t *testing.T, r hooktest.Request) *http.Request {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader(r.Body))
	req.Header = r.Header
	return req
}

// Registers C04 and C05; S1-66…70; S4-49.
func TestEnvelope_ReceiversReadAllUnderEveryScheme(t *testing.T) {
	t.Parallel()
	schemes := []sluice.Scheme{"", sluice.SchemeStandard, sluice.SchemeEd25519, sluice.SchemeT, sluice.SchemeHeader, sluice.SchemeMessage}
	for _, envelope := range []sluice.Envelope{"", sluice.EnvelopeCloudEvents, sluice.EnvelopeBinary, sluice.EnvelopeFact, sluice.EnvelopeAttempt, sluice.EnvelopeRaw} {
		for _, scheme := range schemes {
			t.Run(string(envelope)+"/"+string(scheme), func(t *testing.T) {
				t.Parallel()
				sub := subscription("")
				sub.Policy.Envelope, sub.Policy.Signature.Scheme = envelope, scheme
				r := requestOf(t, sub, rich())
				hook := receiver(scheme, newSecret)
				hook.URL = sub.Endpoint.URL
				d, err := hook.Receive(received(t, r))
				require.NoError(t, err)
				require.Equal(t, "evt-1", d.ID)
				require.Equal(t, 3, d.Attempt)
				require.Equal(t, rich().Data, d.Data)
				r.Body = append(r.Body, ' ')
				_, err = hook.Receive(received(t, r))
				require.ErrorIs(t, err, webhook.ErrSignature)
			})
		}
	}
}

func TestSignature_HasExactlyOneScheme(t *testing.T) {
	t.Parallel()
	tests := []struct {
		signature sluice.Signature
		names     []string
		prefix    string
	}{
		{sluice.Signature{}, []string{"Webhook-Timestamp", "Webhook-Signature"}, "v1,"},
		{sluice.Signature{Scheme: sluice.SchemeEd25519}, []string{"Webhook-Timestamp", "Webhook-Signature"}, "v1a,"},
		{sluice.Signature{Scheme: sluice.SchemeMessage}, []string{"Content-Digest", "Signature-Input", "Signature"}, "sig1=:"},
		{sluice.Signature{Scheme: sluice.SchemeT}, []string{"Webhook-Signature"}, "t="},
		{sluice.Signature{Scheme: sluice.SchemeHeader}, []string{"X-Fole-Signature"}, "sha256="},
		{sluice.Signature{Scheme: sluice.SchemeHeader, Name: "x-mine"}, []string{"X-Mine"}, "sha256="},
	}
	for _, tt := range tests {
		sub := subscription("")
		sub.Policy.Signature = tt.signature
		sub.Endpoint.Headers = map[string]string{"x-env": "prod", "x-fole-signature": "forged"}
		header := requestOf(t, sub, event()).Header
		require.True(t, strings.HasPrefix(header.Get(tt.names[len(tt.names)-1]), tt.prefix))
		require.Equal(t, "prod", header.Get("X-Env"))
		for _, name := range append(tt.names, "Content-Length", "Content-Type", "User-Agent", "Webhook-Id", "Webhook-Attempt", "X-Env", "X-Fole-Signature", "Connection") {
			header.Del(name)
		}
		require.Empty(t, header)
	}
}

// Register C08.
func TestSignature_RotationSignsWithBothSecretsWherePossible(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		scheme  sluice.Scheme
		expires time.Duration
		oldToo  error
	}{
		{"standard", sluice.SchemeStandard, time.Hour, nil},
		{"standard, over", sluice.SchemeStandard, -time.Hour, webhook.ErrSignature},
		{"t-sha256", sluice.SchemeT, time.Hour, webhook.ErrSignature},
		{"header", sluice.SchemeHeader, time.Hour, webhook.ErrSignature},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			sub := subscription("")
			sub.Policy.Signature.Scheme = tt.scheme
			sub.Secrets = append(sub.Secrets, sluice.Secret{Value: oldSecret, ExpiresAt: time.Now().Add(tt.expires)})
			r := requestOf(t, sub, event())
			require.NoError(t, receiver(tt.scheme, newSecret).Verify(r.Header, r.Body))
			require.ErrorIs(t, receiver(tt.scheme, oldSecret).Verify(r.Header, r.Body), tt.oldToo)
		})
	}
}

func TestSignature_IsAcceptedByTheReferenceLibrary(t *testing.T) {
	t.Parallel()
	theirs, err := standardwebhooks.NewWebhook(oldSecret)
	require.NoError(t, err)
	for _, id := range []string{"evt-1", "a.b", "with space", " ü%20\r\n"} {
		sub, ev := subscription(""), event()
		sub.Secrets = append(sub.Secrets, sluice.Secret{Value: oldSecret})
		ev.ID = id
		r := requestOf(t, sub, ev)
		require.NoError(t, theirs.Verify(r.Body, r.Header))
		d, err := webhook.Parse("", r.Header, r.Body)
		require.NoError(t, err)
		require.Equal(t, id, d.ID)
	}
}

func TestEnvelope_CloudEventsSDKReceivesBothForms(t *testing.T) {
	t.Parallel()
	for _, envelope := range []sluice.Envelope{sluice.EnvelopeCloudEvents, sluice.EnvelopeBinary} {
		for contentType, data := range map[string]string{"": `{"a":1}`, "text/plain": "hello\n", "image/png": "\x00\xff"} {
			sub, ev := subscription(""), rich()
			sub.Policy.Envelope, ev.ContentType, ev.Data = envelope, contentType, []byte(data)
			got, err := cehttp.NewEventFromHTTPRequest(received(t, requestOf(t, sub, ev)))
			require.NoError(t, err)
			require.NoError(t, got.Validate())
			require.Equal(t, "evt-1", got.ID())
			require.Equal(t, "map.updated", got.Type())
			require.Equal(t, "/shop", got.Source())
			require.Equal(t, "sub/ject", got.Subject())
			require.Equal(t, "https://schema.example/1", got.DataSchema())
			require.True(t, ev.Time.Equal(got.Time()))
			require.Equal(t, "/maps/7", got.Extensions()["path"])
			require.Equal(t, "acme", got.Extensions()["namespace"])
			require.Equal(t, "00000000000000000012", got.Extensions()["sequence"])
			require.Equal(t, "eu", got.Extensions()["region"])
			require.Equal(t, data, string(got.Data()), "%s %s", envelope, contentType)
		}
	}
}

func TestEnvelope_AnyEventRoundTripsAsCloudEvent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String()
		ev := &sluice.Event{
			Namespace: "acme", Path: sluice.Path("/" + text.Draw(t, "path")), Seq: rapid.Uint64Min(1).Draw(t, "seq"),
			ID: "i" + text.Draw(t, "id"), Type: "t" + text.Draw(t, "type"), Source: "s" + text.Draw(t, "source"), Subject: text.Draw(t, "subject"),
			Time:        time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "time"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns")).UTC(),
			ContentType: rapid.SampledFrom([]string{"application/json", "text/plain", "image/png"}).Draw(t, "content type"),
			Extensions:  map[string]string{"region": "r" + text.Draw(t, "region")},
			Data:        rapid.OneOf(rapid.SliceOf(rapid.Byte()), rapid.Just([]byte(`{"a": [1, "é"]}`))).Draw(t, "data"),
		}
		body := ev.AppendJSON(nil)
		require.True(t, json.Valid(body), "%s", body)
		d, err := webhook.Parse(webhook.CloudEvents, http.Header{}, body)
		require.NoError(t, err)
		require.Equal(t, string(ev.Data), string(d.Data))
		d.Data, d.ContentType = nil, ""
		require.Equal(t, webhook.Delivery{
			Envelope: webhook.CloudEvents, Namespace: "acme", Path: string(ev.Path), Seq: ev.Seq, ID: ev.ID, Type: ev.Type, Source: ev.Source,
			Subject: ev.Subject, Time: ev.Time, Extensions: ev.Extensions,
		}, *d)
	})
}

// C10: a sample has no place to lead to, a publisher's dataref does not pass for ours, and raw says nothing of the rest.
func TestProjection_LeavesTheEventUnchanged(t *testing.T) {
	t.Parallel()
	server := hooktest.New(t, nil)
	s := sender(t, endpoint.Options{
		AllowLoopback: true, Keys: newRing(), PublicURL: "https://sluice.example/",
		Summary: func(*sluice.Event) []byte { return []byte(`{"a":1}`) },
	})
	ev := rich()
	ev.Extensions["dataref"] = "https://elsewhere.example"
	before := ev.AppendJSON(nil)
	sub := subscription(server.URL)
	sub.Policy.Projection = sluice.ProjectionSummary
	require.Equal(t, sluice.Delivered, s.Send(t.Context(), sub, ev, 1).Outcome)
	require.Equal(t, string(before), string(ev.AppendJSON(nil)))
	sample := event()
	sample.Seq, sample.Data = 0, bytes.Repeat([]byte("x"), 11<<20) // what is left out is not too large
	sub.Policy.Projection = sluice.ProjectionNone
	require.Equal(t, sluice.Delivered, s.Send(t.Context(), sub, sample, 1).Outcome)
	sub.Policy.Envelope = sluice.EnvelopeRaw
	require.Equal(t, sluice.Refused, s.Send(t.Context(), sub, ev, 1).Outcome)

	requests := server.Wait(2)
	require.Contains(t, string(requests[0].Body), `"dataref":"https://sluice.example/v1/namespaces/acme/events/12"`)
	require.Contains(t, string(requests[0].Body), `"data":{"a":1}}`)
	require.NotContains(t, string(requests[0].Body), "elsewhere")
	require.NotContains(t, string(requests[1].Body), "data")
}
