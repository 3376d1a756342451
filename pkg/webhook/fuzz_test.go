package webhook_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/webhook"
)

// signed is a request of one scheme, and what was signed of it.
type signed struct {
	receiver webhook.Receiver
	header   http.Header
	body     []byte
	prefix   string // of the signature in its header
	encode   func([]byte) string
	decode   func(string) ([]byte, error)
	name     string // of the signature's header
	heads    bool   // the id and the timestamp are signed
}

func signedBy(scheme webhook.Scheme, secret, id string, at time.Time, body []byte) (signed, error) {
	s := signed{
		receiver: webhook.Receiver{Scheme: scheme, Secrets: []string{secret}, Now: func() time.Time { return at }}, body: body,
		header: http.Header{}, name: webhook.HeaderSignature, encode: hex.EncodeToString, decode: hex.DecodeString, prefix: "sha256=",
	}
	s.header.Set(webhook.HeaderID, id)
	s.header.Set(webhook.HeaderTimestamp, strconv.FormatInt(at.Unix(), 10))
	var value string
	var err error
	switch scheme {
	case webhook.Standard:
		value, err = webhook.SignStandard(secret, id, at, body)
		s.prefix, s.encode, s.decode, s.heads = "v1,", base64.StdEncoding.EncodeToString, base64.StdEncoding.DecodeString, true
	case webhook.Ed25519:
		seed := bytes.Repeat([]byte{1}, ed25519.SeedSize)
		copy(seed, secret)
		key := ed25519.NewKeyFromSeed(seed)
		s.receiver.Keys = []ed25519.PublicKey{key.Public().(ed25519.PublicKey)}
		value = webhook.SignEd25519(key, id, at, body)
		s.prefix, s.encode, s.decode, s.heads = "v1a,", base64.StdEncoding.EncodeToString, base64.StdEncoding.DecodeString, true
	case webhook.TSHA256:
		value = webhook.SignT(secret, at, body)
		s.prefix = "t=" + strconv.FormatInt(at.Unix(), 10) + ",sha256="
	case webhook.Header:
		value = webhook.SignHeader(secret, body)
		s.name = webhook.DefaultHeader
	}
	s.header.Set(s.name, value)
	return s, err
}

// flipped returns data with one bit changed.
func flipped(data []byte, bit uint) []byte {
	other := bytes.Clone(data)
	other[bit/8%uint(len(data))] ^= 1 << (bit % 8)
	return other
}

func (s *signed) refuses(t *testing.T, what, name, value string, body []byte) {
	t.Helper()
	h := s.header.Clone()
	if name != "" {
		h.Set(name, value)
	}
	require.Error(t, s.receiver.Verify(h, body), "%s: another %s", s.receiver.Scheme, what)
}

// What was signed is believed, and nothing that differs from it in one bit: of the body, the
// signature, the secret, the id or the time.
func FuzzSignatures(f *testing.F) {
	f.Add([]byte("new-secret-new-secret-new-secret"), "evt-1", int64(1_700_000_000), []byte(body), uint(77))
	f.Add([]byte{0}, "a.b", int64(-1), []byte(nil), uint(0))
	f.Add(bytes.Repeat([]byte{9}, 100), " ", int64(1<<40), []byte("x"), uint(1<<20))
	f.Fuzz(func(t *testing.T, key []byte, id string, unix int64, body []byte, bit uint) {
		if len(key) == 0 || id == "" || unix < -1<<50 || unix > 1<<50 {
			return
		}
		at := time.Unix(unix, 0)
		whsec := func(key []byte) string { return webhook.SecretPrefix + base64.StdEncoding.EncodeToString(key) }
		for _, scheme := range []webhook.Scheme{webhook.Standard, webhook.Ed25519, webhook.TSHA256, webhook.Header} {
			s, err := signedBy(scheme, whsec(key), id, at, body)
			require.NoError(t, err)
			require.NoError(t, s.receiver.Verify(s.header, s.body), scheme)

			raw, err := s.decode(strings.TrimPrefix(s.header.Get(s.name), s.prefix))
			require.NoError(t, err)
			s.refuses(t, "signature", s.name, s.prefix+s.encode(flipped(raw, bit)), body)
			s.refuses(t, "signature, cut short", s.name, s.prefix+s.encode(raw[:bit%uint(len(raw))]), body)
			s.refuses(t, "body", "", "", append(bytes.Clone(body), byte(bit)))
			if len(body) > 0 {
				s.refuses(t, "body", "", "", flipped(body, bit))
			}
			if s.heads {
				s.refuses(t, "id", webhook.HeaderID, string(flipped([]byte(id), bit)), body)
				s.refuses(t, "time", webhook.HeaderTimestamp, strconv.FormatInt(unix+1, 10), body)
				s.refuses(t, "time, written differently", webhook.HeaderTimestamp, "0"+strconv.FormatInt(max(unix, 0), 10), body)
			}
			s.receiver.Secrets, s.receiver.Keys = []string{whsec(flipped(key, bit))}, []ed25519.PublicKey{publicOf(2)}
			s.refuses(t, "secret", "", "", body)
		}
	})
}

// The signature inside an Attempt holds for the same JSON however it is written, and for no other.
func FuzzAttemptSignature(f *testing.F) {
	for _, s := range []string{`{"b":1.0,"a":"é"}`, `[]`, `"\ud800"`, `{"a":1,"a":2}`, `1e400`, `{"signature":"x","event":{}}`, "\xff", `-0`, `{"event":1,"Event":2}`} {
		f.Add("secret", []byte(s), 3)
	}
	f.Fuzz(func(t *testing.T, secret string, event []byte, number int) {
		if secret == "" || !json.Valid(event) {
			return
		}
		at := time.Unix(1_700_000_000, 0).UTC()
		unsigned := fmt.Sprintf(`{"event":%s,"attempt":%d,"timestamp":%q}`, event, number, at.Format(time.RFC3339))
		signature, err := webhook.SignAttempt(secret, []byte(unsigned))
		if err != nil {
			return
		}
		r := webhook.Receiver{Secrets: []string{secret}, Now: func() time.Time { return at }}
		with := func(signature string) []byte {
			return fmt.Appendf(nil, `%s,"signature":%q}`, strings.TrimSuffix(unsigned, "}"), signature)
		}
		require.NoError(t, r.VerifyAttempt(with(signature)), "%s", with(signature))
		raw, err := hex.DecodeString(signature)
		require.NoError(t, err)
		require.Error(t, r.VerifyAttempt(with(hex.EncodeToString(flipped(raw, uint(len(event)))))))
		other := bytes.Replace(with(signature), fmt.Appendf(nil, `,"attempt":%d,`, number), fmt.Appendf(nil, `,"attempt":%d,`, number/2+1), 1)
		if !bytes.Equal(other, with(signature)) {
			require.Error(t, r.VerifyAttempt(other), "%s", other)
		}
	})
}

// What is published as keys is read as keys, and nothing else is a key.
func FuzzParseKeys(f *testing.F) {
	f.Add([]byte(`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"},{"kty":"RSA"}]}`))
	f.Add([]byte(`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AA"}]}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		keys, err := webhook.ParseKeys(doc)
		if err != nil {
			require.Empty(t, keys)
			return
		}
		require.NotEmpty(t, keys)
		published := make([]webhook.PublicKey, len(keys))
		for i, key := range keys {
			require.Len(t, key, ed25519.PublicKeySize)
			published[i] = webhook.PublicKey{ID: strconv.Itoa(i), Key: key}
		}
		written, err := webhook.FormatKeys(published...)
		require.NoError(t, err)
		again, err := webhook.ParseKeys(written)
		require.NoError(t, err)
		require.Equal(t, keys, again)
	})
}
