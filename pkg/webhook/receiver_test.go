package webhook_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/webhook"
)

const (
	oldSecret = "whsec_b2xkLXNlY3JldC1vbGQtc2VjcmV0LW9sZC1zZWNyZXQ="
	newSecret = "whsec_bmV3LXNlY3JldC1uZXctc2VjcmV0LW5ldy1zZWNyZXQ="
	body      = `{"a": 1,  "b":"<é>"}`
)

func signedAt() time.Time { return time.Unix(1_700_000_000, 0) }

func keyOf(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
}

func publicOf(seed byte) ed25519.PublicKey {
	return keyOf(seed).Public().(ed25519.PublicKey)
}

func standard(t *testing.T, secret string, at time.Time) string {
	t.Helper()
	signature, err := webhook.SignStandard(secret, "evt-1", at, []byte(body))
	require.NoError(t, err)
	return signature
}

func headers(signature string) http.Header {
	h := http.Header{}
	h.Set(webhook.HeaderID, "evt-1")
	h.Set(webhook.HeaderTimestamp, strconv.FormatInt(signedAt().Unix(), 10))
	h.Set(webhook.HeaderSignature, signature)
	h.Set(webhook.DefaultHeader, signature)
	return h
}

// S1-67…70, S4-49, register C04.
func TestVerify_AcceptsOnlySignaturesOfItsSecrets(t *testing.T) {
	t.Parallel()
	at := signedAt()
	sum := func(s string) string { return s[strings.LastIndex(s, "sha256="):] }
	long := strings.Repeat("v1,AAAA ", 16)
	tests := []struct {
		name      string
		receiver  webhook.Receiver
		signature string
		want      error
	}{
		{"standard", webhook.Receiver{Secrets: []string{newSecret}}, standard(t, newSecret, at), nil},
		{"standard, the older of two secrets", webhook.Receiver{Secrets: []string{newSecret, oldSecret}}, standard(t, oldSecret, at), nil},
		{"standard, the second of two signatures", webhook.Receiver{Secrets: []string{oldSecret}}, standard(t, newSecret, at) + " " + standard(t, oldSecret, at), nil},
		{"standard, among other versions", webhook.Receiver{Secrets: []string{newSecret}}, "v1a,AAAA v9,x " + standard(t, newSecret, at), nil},
		{"standard, another secret", webhook.Receiver{Secrets: []string{oldSecret}}, standard(t, newSecret, at), webhook.ErrSignature},
		{"standard, another time", webhook.Receiver{Secrets: []string{newSecret}}, standard(t, newSecret, at.Add(time.Second)), webhook.ErrSignature},
		{"standard, behind more signatures than are looked at", webhook.Receiver{Secrets: []string{newSecret}}, long + standard(t, newSecret, at), webhook.ErrSignature},
		{"standard, cut short", webhook.Receiver{Secrets: []string{newSecret}}, standard(t, newSecret, at)[:20], webhook.ErrUnsigned},
		{"standard, none", webhook.Receiver{Secrets: []string{newSecret}}, "", webhook.ErrUnsigned},
		{"standard, empty", webhook.Receiver{Secrets: []string{newSecret}}, "v1,", webhook.ErrSignature},
		{"standard, receiver without secret", webhook.Receiver{}, standard(t, newSecret, at), webhook.ErrSetup},
		{"standard, receiver with an empty secret", webhook.Receiver{Secrets: []string{""}}, standard(t, newSecret, at), webhook.ErrSetup},
		{"standard, receiver with a secret that is only the prefix", webhook.Receiver{Secrets: []string{"whsec_"}}, standard(t, newSecret, at), webhook.ErrSetup},
		{"standard, receiver with a broken secret", webhook.Receiver{Secrets: []string{newSecret, "whsec_?"}}, standard(t, newSecret, at), webhook.ErrSetup},
		{"unknown scheme", webhook.Receiver{Scheme: "none", Secrets: []string{newSecret}}, standard(t, newSecret, at), webhook.ErrSetup},

		{"ed25519", webhook.Receiver{Scheme: webhook.Ed25519, Keys: []ed25519.PublicKey{publicOf(1), publicOf(2)}}, webhook.SignEd25519(keyOf(2), "evt-1", at, []byte(body)), nil},
		{"ed25519, another key", webhook.Receiver{Scheme: webhook.Ed25519, Keys: []ed25519.PublicKey{publicOf(1)}}, webhook.SignEd25519(keyOf(2), "evt-1", at, []byte(body)), webhook.ErrSignature},
		{"ed25519, an HMAC instead", webhook.Receiver{Scheme: webhook.Ed25519, Keys: []ed25519.PublicKey{publicOf(1)}}, standard(t, newSecret, at), webhook.ErrUnsigned},
		{"ed25519, receiver without key", webhook.Receiver{Scheme: webhook.Ed25519}, standard(t, newSecret, at), webhook.ErrSetup},
		{"ed25519, receiver with a broken key", webhook.Receiver{Scheme: webhook.Ed25519, Keys: []ed25519.PublicKey{{1}}}, webhook.SignEd25519(keyOf(2), "evt-1", at, []byte(body)), webhook.ErrSetup},

		{"t-sha256", webhook.Receiver{Scheme: webhook.TSHA256, Secrets: []string{oldSecret, newSecret}}, webhook.SignT(newSecret, at, []byte(body)), nil},
		{"t-sha256, two sums", webhook.Receiver{Scheme: webhook.TSHA256, Secrets: []string{newSecret}}, webhook.SignT(oldSecret, at, []byte(body)) + "," + sum(webhook.SignT(newSecret, at, []byte(body))), nil},
		{"t-sha256, a second time", webhook.Receiver{Scheme: webhook.TSHA256, Secrets: []string{newSecret}}, "t=1," + webhook.SignT(newSecret, at, []byte(body)), webhook.ErrTimestamp},
		{"t-sha256, time not a number", webhook.Receiver{Scheme: webhook.TSHA256, Secrets: []string{newSecret}}, "t=now,sha256=00", webhook.ErrUnsigned},
		{"t-sha256, another secret", webhook.Receiver{Scheme: webhook.TSHA256, Secrets: []string{oldSecret}}, webhook.SignT(newSecret, at, []byte(body)), webhook.ErrSignature},
		{"t-sha256, without time", webhook.Receiver{Scheme: webhook.TSHA256, Secrets: []string{newSecret}}, sum(webhook.SignT(newSecret, at, []byte(body))), webhook.ErrUnsigned},
		{"t-sha256, without secret", webhook.Receiver{Scheme: webhook.TSHA256}, webhook.SignT(newSecret, at, []byte(body)), webhook.ErrSetup},

		{"header", webhook.Receiver{Scheme: webhook.Header, Secrets: []string{newSecret}}, webhook.SignHeader(newSecret, []byte(body)), nil},
		{"header, another name", webhook.Receiver{Scheme: webhook.Header, Header: "x-other", Secrets: []string{newSecret}}, webhook.SignHeader(newSecret, []byte(body)), webhook.ErrUnsigned},
		{"header, another secret", webhook.Receiver{Scheme: webhook.Header, Secrets: []string{oldSecret}}, webhook.SignHeader(newSecret, []byte(body)), webhook.ErrSignature},
		{"header, without prefix", webhook.Receiver{Scheme: webhook.Header, Secrets: []string{newSecret}}, webhook.SignHeader(newSecret, []byte(body))[7:], webhook.ErrUnsigned},
		{"header, empty sum", webhook.Receiver{Scheme: webhook.Header, Secrets: []string{newSecret}}, "sha256=", webhook.ErrUnsigned},
		{"header, without secret", webhook.Receiver{Scheme: webhook.Header}, webhook.SignHeader(newSecret, []byte(body)), webhook.ErrSetup},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.receiver.Now = signedAt
			require.ErrorIs(t, tt.receiver.Verify(headers(tt.signature), []byte(body)), tt.want)
		})
	}
}

// S1-70.
func TestVerify_RefusesReformattedJSON(t *testing.T) {
	t.Parallel()
	again := []byte(`{"a":1,"b":"<é>"}`)
	for scheme, signature := range map[webhook.Scheme]string{
		webhook.Standard: standard(t, newSecret, signedAt()),
		webhook.Ed25519:  webhook.SignEd25519(keyOf(1), "evt-1", signedAt(), []byte(body)),
		webhook.TSHA256:  webhook.SignT(newSecret, signedAt(), []byte(body)),
		webhook.Header:   webhook.SignHeader(newSecret, []byte(body)),
	} {
		r := webhook.Receiver{Scheme: scheme, Secrets: []string{newSecret}, Keys: []ed25519.PublicKey{publicOf(1)}, Now: signedAt}
		require.NoError(t, r.Verify(headers(signature), []byte(body)), scheme)
		require.ErrorIs(t, r.Verify(headers(signature), again), webhook.ErrSignature, scheme)
	}
}

// S1-67.
func TestVerify_AcceptsTimesWithinTheTolerance(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name      string
		off       time.Duration
		tolerance time.Duration
		want      error
	}{
		{"five minutes ago", 5 * time.Minute, 0, nil},
		{"five minutes ahead", -5 * time.Minute, 0, nil},
		{"longer ago", 5*time.Minute + time.Second, 0, webhook.ErrTimestamp},
		{"further ahead", -5*time.Minute - time.Second, 0, webhook.ErrTimestamp},
		{"stricter", 2 * time.Second, time.Second, webhook.ErrTimestamp},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for scheme, signature := range map[webhook.Scheme]string{
				webhook.Standard: standard(t, newSecret, signedAt()),
				webhook.Ed25519:  webhook.SignEd25519(keyOf(1), "evt-1", signedAt(), []byte(body)),
				webhook.TSHA256:  webhook.SignT(newSecret, signedAt(), []byte(body)),
			} {
				r := webhook.Receiver{
					Scheme: scheme, Secrets: []string{newSecret}, Keys: []ed25519.PublicKey{publicOf(1)},
					Tolerance: tt.tolerance, Now: func() time.Time { return signedAt().Add(tt.off) },
				}
				require.ErrorIs(t, r.Verify(headers(signature), []byte(body)), tt.want, scheme)
			}
		})
	}
}

func TestVerify_RefusesAbsurdTimes(t *testing.T) {
	t.Parallel()
	for _, timestamp := range []string{"", "x", "1e9", "-9223372036854775808", "9223372036854775807", "99999999999999999999"} {
		h := headers(standard(t, newSecret, signedAt()))
		h.Set(webhook.HeaderTimestamp, timestamp)
		r := webhook.Receiver{Secrets: []string{newSecret}, Now: signedAt}
		require.Error(t, r.Verify(h, []byte(body)), timestamp)
	}
}

// Register C04: the scheme is Standard Webhooks as others implement it.
func TestStandard_AgreesWithTheReferenceLibrary(t *testing.T) {
	t.Parallel()
	theirs, err := standardwebhooks.NewWebhook(newSecret)
	require.NoError(t, err)
	at := time.Now()

	ours, err := webhook.SignStandard(newSecret, "evt-1", at, []byte(body))
	require.NoError(t, err)
	h := headers("v1,AAAA " + ours)
	h.Set(webhook.HeaderTimestamp, strconv.FormatInt(at.Unix(), 10))
	require.NoError(t, theirs.Verify([]byte(body), h))

	signature, err := theirs.Sign("evt-1", at, []byte(body))
	require.NoError(t, err)
	require.Equal(t, signature, ours)
	h.Set(webhook.HeaderSignature, signature)
	r := webhook.Receiver{Secrets: []string{newSecret}}
	require.NoError(t, r.Verify(h, []byte(body)))
}

// The vector of the Standard Webhooks specification, and HMAC-SHA256's well-known one.
func TestSign_MatchesKnownVectors(t *testing.T) {
	t.Parallel()
	signature, err := webhook.SignStandard("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek",
		time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	require.NoError(t, err)
	require.Equal(t, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=", signature)
	require.Equal(t, "sha256=f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8",
		webhook.SignHeader("key", []byte("The quick brown fox jumps over the lazy dog")))
}

// S4-56, S4-57, register C05.
func TestSignBody_CoversCanonicalJSON(t *testing.T) {
	t.Parallel()
	const unsigned = `{"event":{"b":1.0,"a":"é"},"attempt":3,"timestamp":"2023-11-14T22:13:20Z"}`
	signature, err := webhook.SignAttempt(newSecret, []byte(unsigned))
	require.NoError(t, err)
	r := webhook.Receiver{Secrets: []string{oldSecret, newSecret}, Now: signedAt}
	otherForm := `{"signature":"` + signature + `", "timestamp":"2023-11-14T22:13:20Z", "attempt":3, "event":{"a":"\u00e9","b":1}}`
	require.NoError(t, r.VerifyAttempt([]byte(otherForm)))

	tests := []struct {
		name, from, to string
		want           error
	}{
		{"another attempt", `"attempt":3`, `"attempt":4`, webhook.ErrSignature},
		{"another event", `"b":1`, `"b":2`, webhook.ErrSignature},
		{"another time", "22:13:20Z", "22:13:21Z", webhook.ErrSignature},
		{"a time long ago", "22:13:20Z", "22:03:20Z", webhook.ErrTimestamp},
		{"no event", `"event"`, `"ev"`, webhook.ErrMalformed},
		{"a repeated name", `"b":1`, `"b":1,"b":1`, webhook.ErrMalformed},
		{"no hex", signature, "zz", webhook.ErrUnsigned},
		{"no signature", signature, "", webhook.ErrSignature},
		{"no JSON", `"event"`, `event`, webhook.ErrMalformed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.ErrorIs(t, r.VerifyAttempt([]byte(strings.Replace(otherForm, tt.from, tt.to, 1))), tt.want)
		})
	}
	require.ErrorIs(t, (&webhook.Receiver{}).VerifyAttempt([]byte(otherForm)), webhook.ErrSetup)
	_, err = webhook.SignAttempt(newSecret, []byte(`{"a":1,"a":2}`))
	require.Error(t, err)
}

func TestReceive_AnswersTheReason(t *testing.T) {
	t.Parallel()
	signed := func(body string) *http.Request {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body))
		req.Header.Set(webhook.DefaultHeader, webhook.SignHeader(newSecret, []byte(body)))
		req.Header.Set("Content-Type", "application/json")
		return req
	}
	unsigned := signed("{}")
	unsigned.Header.Del(webhook.DefaultHeader)
	broken := signed("{}")
	broken.Body = http.NoBody
	structured := signed("{}")
	structured.Header.Set("Content-Type", "application/cloudevents+json")
	inner := signed(`{"event":{"eventId":"1","eventType":"t"},"attempt":1,"timestamp":"2023-11-14T22:13:20Z","signature":"00"}`)
	tests := []struct {
		name   string
		req    *http.Request
		want   error
		status int
	}{
		{"not signed", unsigned, webhook.ErrUnsigned, 401},
		{"another body", broken, webhook.ErrSignature, 401},
		{"signed outside, not inside", inner, webhook.ErrSignature, 401},
		{"too large", signed(strings.Repeat("a", 200)), webhook.ErrTooLarge, 413},
		{"no CloudEvent", structured, webhook.ErrMalformed, 400},
	}
	r := webhook.Receiver{Scheme: webhook.Header, Secrets: []string{newSecret}, MaxBytes: 150, Now: signedAt}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := r.Receive(tt.req)
			require.ErrorIs(t, err, tt.want)
			require.Equal(t, tt.status, webhook.Status(err))
		})
	}
	require.Equal(t, 500, webhook.Status(webhook.ErrSetup))
	require.Equal(t, 400, webhook.Status(errors.New("reset")))
}

func TestJWKS_KeysRoundTrip(t *testing.T) {
	t.Parallel()
	doc, err := webhook.FormatKeys(webhook.PublicKey{ID: "k1", Key: publicOf(1)})
	require.NoError(t, err)
	require.JSONEq(t, `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k1","use":"sig","alg":"EdDSA","x":"`+
		base64.RawURLEncoding.EncodeToString(publicOf(1))+`"}]}`, string(doc))
	keys, err := webhook.ParseKeys([]byte(strings.Replace(string(doc), "[", `[{"kty":"RSA","n":"AQAB"},{"kty":"OKP","crv":"Ed25519","x":"AA"},`, 1)))
	require.NoError(t, err)
	require.Equal(t, []ed25519.PublicKey{publicOf(1)}, keys)
	for _, bad := range []string{"", "{}", `{"keys":[{"kty":"OKP","crv":"X25519","x":"AA"}]}`} {
		_, err := webhook.ParseKeys([]byte(bad))
		require.Error(t, err, bad)
	}
}
