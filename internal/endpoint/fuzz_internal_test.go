package endpoint

import (
	"bytes"
	"crypto/ed25519"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/pkg/webhook"
)

// oneKey is a key ring of one key.
type oneKey ed25519.PrivateKey

func (k oneKey) SigningKeys() []webhook.SigningKey {
	return []webhook.SigningKey{{ID: "k", Key: ed25519.PrivateKey(k)}}
}

// Every event is sent so that the receiver believes it and reads the same event, in
// every envelope and under every scheme; with a bit of the body changed it does not.
func FuzzRequest(f *testing.F) {
	f.Add("order-17", "order.placed", "/orders/17", "application/json", "eu", []byte(`{"total": 120}`), uint(0))
	f.Add("é \"%41\"", "t", "/a/é", "text/plain; charset=utf-8", "50% \"\\", []byte("a\nb\x00"), uint(5))
	f.Add("\x7f", "\u0085", "/", "image/png", "", []byte{0xff, 0}, uint(10))
	f.Add("1", "t", "/a", "application/x+json", "x", []byte(` {"a": 1, "a": 2} `), uint(15))
	f.Add("é", "t", "/a/é", "application/json", "eu ü", []byte(`{"a": 1}`), uint(21))
	f.Add("1", "t", "/a", "a\r\nb: c", "\r\n", []byte(`null`), uint(16))
	envelopes := []sluice.Envelope{sluice.EnvelopeCloudEvents, sluice.EnvelopeBinary, sluice.EnvelopeFact, sluice.EnvelopeAttempt, sluice.EnvelopeRaw}
	schemes := []sluice.Scheme{sluice.SchemeStandard, sluice.SchemeEd25519, sluice.SchemeT, sluice.SchemeHeader, sluice.SchemeMessage}
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	at := time.Unix(1_700_000_000, 0)
	const secret = "whsec_bmV3LXNlY3JldC1uZXctc2VjcmV0LW5ldy1zZWNyZXQ="
	s := New(Options{Keys: oneKey(private)})
	f.Fuzz(func(t *testing.T, id, kind, path, contentType, region string, data []byte, choice uint) {
		for _, text := range []string{id, kind, path, contentType, region} {
			if !utf8.ValidString(text) {
				return
			}
		}
		if kind == "" {
			kind = sluice.DefaultType
		}
		ev := &sluice.Event{
			Namespace: "acme", Path: sluice.Path(path), Seq: 7, ID: id, Type: kind, Source: "/s", Time: at, Stored: at,
			ContentType: contentType, Extensions: map[string]string{"region": region}, Data: data,
		}
		sub := &sluice.Subscription{ID: "sub", Endpoint: sluice.Endpoint{URL: "https://192.0.2.1/hook"}, Secrets: []sluice.Secret{{Value: secret}}}
		sub.Policy.Envelope = envelopes[choice%5]
		sub.Policy.Signature.Scheme = schemes[choice/5%5]
		req, body, err := s.request(t.Context(), sub, ev, &sluice.Attempt{Number: 3, StartedAt: at})
		if err != nil {
			require.Contains(t, []sluice.Code{sluice.Unprocessable, sluice.TooLarge}, sluice.CodeOf(err), err)
			return
		}
		requireTravels(t, req.Header)
		hook := webhook.Receiver{
			Scheme: webhook.Scheme(sub.Policy.Signature.Scheme), URL: "https://192.0.2.1", Envelope: webhook.Envelope(sub.Policy.Envelope), Secrets: []string{secret},
			Keys: []ed25519.PublicKey{private.Public().(ed25519.PublicKey)}, MaxBytes: 1 << 30, Now: func() time.Time { return at },
		}
		req.Body = io.NopCloser(bytes.NewReader(body))
		d, err := hook.Receive(req)
		require.NoError(t, err)
		requireSame(t, ev, d)
		if len(body) > 0 {
			changed := bytes.Clone(body)
			changed[choice%uint(len(body))] ^= 1 << (choice % 8)
			req.Body = io.NopCloser(bytes.NewReader(changed))
			_, err = hook.Receive(req)
			require.ErrorIs(t, err, webhook.ErrSignature)
		}
	})
}

// requireTravels checks that the header's values can be sent, so that none starts another header.
func requireTravels(t *testing.T, header http.Header) {
	t.Helper()
	for name, values := range header {
		require.Len(t, values, 1, name)
		require.True(t, isHeaderValue(values[0]), "%s: %q", name, values[0])
	}
}

func requireSame(t *testing.T, ev *sluice.Event, d *webhook.Delivery) {
	t.Helper()
	require.Equal(t, 3, d.Attempt)
	if d.Envelope == webhook.Raw {
		require.Equal(t, headerID(ev.ID), d.ID)
		require.Equal(t, string(ev.Data), string(d.Data))
		return
	}
	require.Equal(t, ev.ID, d.ID)
	require.Equal(t, ev.Type, d.Type)
	require.Equal(t, ev.Namespace, d.Namespace)
	if d.Envelope != webhook.CloudEvents && d.Envelope != webhook.Binary {
		return
	}
	require.Equal(t, string(ev.Path), d.Path)
	require.Equal(t, ev.Extensions["region"], d.Extensions["region"])
	require.Equal(t, strings.TrimSpace(string(ev.Data)), strings.TrimSpace(string(d.Data)))
}
