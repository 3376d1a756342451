package webhook_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/webhook"
)

func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

func TestDelivery_ReadsEveryEnvelope(t *testing.T) {
	t.Parallel()
	at := time.Date(2025, 1, 2, 3, 4, 5, 600, time.UTC)
	tests := []struct {
		name   string
		header http.Header
		body   string
		want   webhook.Delivery
	}{
		{
			"structured", header("content-type", "application/cloudevents+json; charset=utf-8", "webhook-attempt", "2"),
			`{"specversion":"1.0","id":"e1","source":"/s","type":"t","subject":"x","time":"2025-01-02T03:04:05.0000006Z",
			 "datacontenttype":"application/json","dataschema":"urn:s","path":"/a/b","namespace":"acme","sequence":"00000000000000000012",
			 "region":"eu","level":3,"data": {"n":  1}}`,
			webhook.Delivery{
				Envelope: webhook.CloudEvents, Attempt: 2, ID: "e1", Type: "t", Source: "/s", Subject: "x", Namespace: "acme", Path: "/a/b",
				Seq: 12, Time: at, ContentType: "application/json", DataSchema: "urn:s",
				Extensions: map[string]string{"region": "eu", "level": "3"}, Data: []byte(`{"n":  1}`),
			},
		},
		{
			"structured text", header("content-type", "application/cloudevents+json"),
			`{"specversion":"1.0","id":"e1","source":"/s","type":"t","datacontenttype":"text/plain","data":"a\nb"}`,
			webhook.Delivery{Envelope: webhook.CloudEvents, ID: "e1", Type: "t", Source: "/s", ContentType: "text/plain", Data: []byte("a\nb")},
		},
		{
			"structured bytes", header("content-type", "application/cloudevents+json"),
			`{"specversion":"1.0","id":"e1","source":"/s","type":"t","datacontenttype":"image/png","data_base64":"AP8="}`,
			webhook.Delivery{Envelope: webhook.CloudEvents, ID: "e1", Type: "t", Source: "/s", ContentType: "image/png", Data: []byte{0, 255}},
		},
		{
			"structured without data", header("content-type", "application/cloudevents+json"),
			`{"specversion":"1.0","id":"e1","source":"/s","type":"t"}`,
			webhook.Delivery{Envelope: webhook.CloudEvents, ID: "e1", Type: "t", Source: "/s", ContentType: "application/json"},
		},
		{
			"binary", header("content-type", "text/csv", "ce-specversion", "1.0", "ce-id", "e1", "ce-type", "t", "ce-source", "/s%20s",
				"ce-subject", "50%25 %", "ce-time", "2025-01-02T03:04:05.0000006Z", "ce-sequence", "7", "ce-path", "/a", "ce-namespace", "acme", "ce-region", "%E2%82%AC"),
			"a,b",
			webhook.Delivery{
				Envelope: webhook.Binary, ID: "e1", Type: "t", Source: "/s s", Subject: "50%25 %", Namespace: "acme", Path: "/a", Seq: 7, Time: at,
				ContentType: "text/csv", Extensions: map[string]string{"region": "€"}, Data: []byte("a,b"),
			},
		},
		{
			"fact", header("content-type", "application/json", "webhook-attempt", "1"),
			`{"subscription_id":"s1","event_id":"e1","event_type":"t","entity":"/a/b","scope":"acme","fact_id":"f","hlc":"1.2","payload":{"n":1},"idempotency_key":"e1"}`,
			webhook.Delivery{
				Envelope: webhook.Fact, Subscription: "s1", Attempt: 1, ID: "e1", Type: "t", Subject: "/a/b", Path: "/a/b", Namespace: "acme",
				ContentType: "application/json", Extensions: map[string]string{"hlc": "1.2", "resourceid": "f"}, Data: []byte(`{"n":1}`),
			},
		},
		{
			"fact of bytes", header("content-type", "application/json"),
			`{"subscription_id":"s1","event_id":"e1","event_type":"t","entity":"urn:x","scope":"acme","payload_base64":"AP8=","idempotency_key":"e1"}`,
			webhook.Delivery{
				Envelope: webhook.Fact, Subscription: "s1", ID: "e1", Type: "t", Subject: "urn:x", Namespace: "acme",
				ContentType: "application/octet-stream", Data: []byte{0, 255},
			},
		},
		{
			"attempt", header("content-type", "application/json"),
			`{"event":{"eventId":"e1","eventType":"t","resourceType":"map","resourceId":"7","projectId":"acme","createdAt":"2025-01-02T03:04:05.0000006Z",
			 "producedBy":"user","payload":null,"version":"1"},"attempt":4,"timestamp":"2025-01-02T03:04:05Z","signature":"00"}`,
			webhook.Delivery{
				Envelope: webhook.Attempt, Attempt: 4, ID: "e1", Type: "t", Namespace: "acme", Time: at, ContentType: "application/json",
				Extensions: map[string]string{"resourcetype": "map", "resourceid": "7", "authtype": "user", "schemaversion": "1"},
			},
		},
		{
			"raw", header("content-type", "application/json", "webhook-id", "e1", "webhook-attempt", "many"), `{"event":1}`,
			webhook.Delivery{Envelope: webhook.Raw, ID: "e1", ContentType: "application/json", Data: []byte(`{"event":1}`)},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, envelope := range []webhook.Envelope{"", tt.want.Envelope} {
				d, err := webhook.Parse(envelope, tt.header, []byte(tt.body))
				require.NoError(t, err)
				require.Equal(t, tt.want, *d)
			}
		})
	}
}

func TestDelivery_RefusesForeignBodies(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", "[]", "null", "{", `{"id":"e1"}`, `{"id":"e1","type":"t","data_base64":7}`, `{"event":[]}`, `{"event_id":{}}`} {
		for _, envelope := range []webhook.Envelope{webhook.CloudEvents, webhook.Binary, webhook.Fact, webhook.Attempt, webhook.Raw, "other"} {
			_, err := webhook.Parse(envelope, header(), []byte(body))
			require.ErrorIs(t, err, webhook.ErrMalformed, "%s %s", envelope, body)
		}
	}
}

func FuzzVerifyAndParse(f *testing.F) {
	f.Add("t=1700000000,sha256=00", "application/json", []byte(`{"event":{},"attempt":1,"timestamp":"2023-11-14T22:13:20Z","signature":"00"}`))
	f.Add("v1,AAAA v1a,AAAA", "application/cloudevents+json", []byte(`{"specversion":"1.0","id":"1","type":"t","data":"x"}`))
	f.Add("sha256=", "text/plain", []byte(nil))
	f.Fuzz(func(t *testing.T, signature, contentType string, body []byte) {
		h := headers(signature)
		h.Set("Content-Type", contentType)
		for _, scheme := range []webhook.Scheme{webhook.Standard, webhook.Ed25519, webhook.TSHA256, webhook.Header} {
			r := webhook.Receiver{Scheme: scheme, Secrets: []string{newSecret}, Now: signedAt}
			r.Keys = append(r.Keys, publicOf(1))
			require.Error(t, r.Verify(h, body))
			require.Error(t, r.VerifyAttempt(body))
		}
		if d, err := webhook.Parse("", h, body); err == nil {
			require.NotEmpty(t, d.ID)
		}
	})
}

// Issue 18, item 10.
func TestParseBatch_ReadsArraysOfEventsOnly(t *testing.T) {
	t.Parallel()
	header := http.Header{"Content-Type": {"application/cloudevents-batch+json; charset=utf-8"}, webhook.HeaderAttempt: {"3"}}
	one := `{"specversion":"1.0","id":"a","source":"/s","type":"t","path":"/p","sequence":"7","data":[1]}`
	all, err := webhook.ParseBatch(header, []byte("["+one+"]"))
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, []any{"a", "/p", uint64(7), 3, "[1]"}, []any{all[0].ID, all[0].Path, all[0].Seq, all[0].Attempt, string(all[0].Data)})
	all, err = webhook.ParseBatch(header, []byte("[]"))
	require.NoError(t, err)
	require.Empty(t, all)

	for _, body := range []string{one, "[" + one + ",{}]", "[1]", "", "[" + one} {
		_, err = webhook.ParseBatch(header, []byte(body))
		require.ErrorIs(t, err, webhook.ErrMalformed, body)
	}
	_, err = webhook.ParseBatch(http.Header{"Content-Type": {"application/cloudevents+json"}}, []byte("["+one+"]"))
	require.ErrorIs(t, err, webhook.ErrMalformed)
	_, err = webhook.Parse("", header, []byte("["+one+"]"))
	require.ErrorIs(t, err, webhook.ErrSetup, "and says what to call")
}
