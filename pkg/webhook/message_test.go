package webhook_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	httpsig "github.com/remitly-oss/httpsig-go"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/webhook"
)

// RFC 9421, B.1.4 and B.2.6.
func TestMessage_SignsTheExampleOfRFC9421(t *testing.T) {
	t.Parallel()
	block, _ := pem.Decode([]byte("-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ+DYvh6SEqVTm50DFtMDoQikTmiCqirVv9mWG9qfSnF\n-----END PRIVATE KEY-----\n"))
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	require.NoError(t, err)
	input, signature := webhook.SignMessage([]webhook.SigningKey{{ID: "test-key-ed25519", Key: key.(ed25519.PrivateKey)}}, time.Unix(1618884473, 0), []webhook.Component{
		{Name: "date", Value: "Tue, 20 Apr 2021 02:07:55 GMT"},
		{Name: "@method", Value: "POST"},
		{Name: "@path", Value: "/foo"},
		{Name: "@authority", Value: "example.com"},
		{Name: "content-type", Value: "application/json"},
		{Name: "content-length", Value: "18"},
	})
	require.Equal(t, `sig1=("date" "@method" "@path" "@authority" "content-type" "content-length");created=1618884473;keyid="test-key-ed25519"`, input)
	require.Equal(t, "sig1=:wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw==:", signature)
	hash := sha256.Sum256([]byte(`{"hello": "world"}`))
	require.Equal(t, "sha-256=:X48E9qOokqqrvdts8nOJRJN3OWDUoyWxBf7kbu9DBPE=:", webhook.DigestOf(hash[:]), "RFC 9530, appendix D")
}

// message returns a signed request as a receiver gets it.
func message(t *testing.T, at time.Time, seeds ...byte) *http.Request {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "https://hooks.example/in/7?k=v", bytes.NewReader([]byte(body)))
	hash := sha256.Sum256([]byte(body))
	for name, value := range map[string]string{"Content-Type": "application/json", "Webhook-Id": "evt-1", "Content-Digest": webhook.DigestOf(hash[:])} {
		req.Header.Set(name, value)
	}
	var keys []webhook.SigningKey
	for _, seed := range seeds {
		keys = append(keys, webhook.SigningKey{ID: "key-" + strconv.Itoa(int(seed)), Key: keyOf(seed)})
	}
	input, signature := webhook.SignMessage(keys, at, append(webhook.URLComponents(req.URL),
		webhook.Component{Name: "content-digest", Value: req.Header.Get("Content-Digest")}, webhook.Component{Name: "content-type", Value: "application/json"},
		webhook.Component{Name: "webhook-id", Value: "evt-1"},
	))
	req.Header.Set("Signature-Input", input)
	req.Header.Set("Signature", signature)
	return req
}

// fetcher gives a library of another project the key.
type fetcher struct{ key ed25519.PublicKey }

func (f fetcher) FetchByKeyID(_ context.Context, _ http.Header, id string) (httpsig.KeySpecer, error) {
	return httpsig.KeySpec{KeyID: id, Algo: httpsig.Algo_ED25519, PubKey: f.key}, nil
}

func (f fetcher) Fetch(ctx context.Context, h http.Header, _ httpsig.MetadataProvider) (httpsig.KeySpecer, error) {
	return f.FetchByKeyID(ctx, h, "")
}

func TestMessage_IsAcceptedByAnotherLibrary(t *testing.T) {
	t.Parallel()
	profile := httpsig.DefaultVerifyProfile
	profile.RequiredFields = httpsig.Fields("content-digest", "@method", "@authority", "@path", "@query", "webhook-id") // its "@target-uri" is without the path
	for _, seeds := range [][]byte{{1}, {1, 2}} {
		found, err := httpsig.Verify(message(t, time.Now(), seeds...), fetcher{publicOf(1)}, profile)
		require.NoError(t, err)
		require.Equal(t, "sig1", found.Label)
	}
	_, err := httpsig.Verify(message(t, time.Now(), 1), fetcher{publicOf(2)}, profile)
	require.Error(t, err)
}

func TestMessage_ReceiverAcceptsOnlyWholeSignatures(t *testing.T) {
	t.Parallel()
	at := signedAt()
	var examples []example
	hook := webhook.Receiver{Scheme: webhook.Message, Keys: []ed25519.PublicKey{publicOf(1)}, Now: func() time.Time { return at }}
	for name, c := range map[string]struct {
		change func(req *http.Request)
		want   error
	}{
		"as it was signed":      {func(*http.Request) {}, nil},
		"another method":        {func(req *http.Request) { req.Method = http.MethodPut }, webhook.ErrSignature},
		"another query":         {func(req *http.Request) { req.URL.RawQuery = "k=w" }, webhook.ErrSignature},
		"another host":          {func(req *http.Request) { req.Host = "other.example" }, webhook.ErrSignature},
		"another path":          {func(req *http.Request) { req.URL.Path = "/in/8" }, webhook.ErrSignature},
		"the same host":         {func(req *http.Request) { req.Host = "Hooks.Example:443" }, nil},
		"another id":            {func(req *http.Request) { req.Header.Set("Webhook-Id", "evt-2") }, webhook.ErrSignature},
		"another type":          {func(req *http.Request) { req.Header.Set("Content-Type", "text/plain") }, webhook.ErrSignature},
		"no id":                 {func(req *http.Request) { req.Header.Del("Webhook-Id") }, webhook.ErrUnsigned},
		"no digest":             {func(req *http.Request) { req.Header.Del("Content-Digest") }, webhook.ErrUnsigned},
		"another digest":        {func(req *http.Request) { req.Header.Set("Content-Digest", "sha-256=:AAAA:") }, webhook.ErrSignature},
		"a digest as text":      {func(req *http.Request) { req.Header.Set("Content-Digest", `sha-256="a"`) }, webhook.ErrSignature},
		"no signature":          {func(req *http.Request) { req.Header.Del("Signature") }, webhook.ErrUnsigned},
		"a signature as text":   {func(req *http.Request) { req.Header.Set("Signature", `sig1="a"`) }, webhook.ErrUnsigned},
		"garbage":               {func(req *http.Request) { req.Header.Set("Signature-Input", `sig1=(`) }, webhook.ErrUnsigned},
		"a list that is none":   {func(req *http.Request) { req.Header.Set("Signature-Input", `sig1=1`) }, webhook.ErrUnsigned},
		"too much":              {func(req *http.Request) { req.Header.Set("Signature-Input", strings.Repeat("a=(),", 9000)+"a=()") }, webhook.ErrUnsigned},
		"the body is uncovered": {func(req *http.Request) { replace(req, `"content-digest" `, "") }, webhook.ErrUnsigned},
		"covered twice":         {func(req *http.Request) { replace(req, `"@method"`, `"@method" "@method"`) }, webhook.ErrUnsigned},
		"unknown component":     {func(req *http.Request) { replace(req, `"@method"`, `"@method" "@status"`) }, webhook.ErrUnsigned},
		"component parameter":   {func(req *http.Request) { replace(req, `"webhook-id"`, `"webhook-id";bs`) }, webhook.ErrUnsigned},
		"no time":               {func(req *http.Request) { replace(req, `created`, `nonce`) }, webhook.ErrUnsigned},
		"another time":          {func(req *http.Request) { replace(req, `=1700000000`, `=1700000001`) }, webhook.ErrSignature},
		"an old time":           {func(req *http.Request) { replace(req, `=1700000000`, `=1699999699`) }, webhook.ErrTimestamp},
	} {
		req := message(t, at, 1)
		c.change(req)
		require.ErrorIs(t, hook.VerifyRequest(req, []byte(body)), c.want, name)
		if name != "too much" { // for a file
			examples = append(examples, exampleOf(name, req, body, c.want == nil))
		}
	}
	for name, seeds := range map[string][]byte{"another key": {2}, "both keys of a rotation": {2, 1}} {
		examples = append(examples, exampleOf(name, message(t, at, seeds...), body, len(seeds) == 2))
	}
	examples = append(examples, exampleOf("another body", message(t, at, 1), body+" ", false))
	sameExamples(t, examples)
	require.ErrorIs(t, hook.VerifyRequest(message(t, at, 1), []byte(body+" ")), webhook.ErrSignature)
	require.NoError(t, hook.VerifyRequest(message(t, at, 2, 1), []byte(body)), "during a rotation either key verifies")
	require.ErrorIs(t, hook.VerifyRequest(message(t, at, 2), []byte(body)), webhook.ErrSignature)
	inside := message(t, at, 1)
	inside.TLS, inside.Host = nil, "10.0.0.7:8080"
	proxied := hook
	proxied.URL = "https://hooks.example"
	require.NoError(t, proxied.VerifyRequest(inside, []byte(body)))
	require.ErrorIs(t, hook.Verify(inside.Header, []byte(body)), webhook.ErrSetup)
	hook.Keys = nil
	require.ErrorIs(t, hook.VerifyRequest(message(t, at, 1), []byte(body)), webhook.ErrSetup)
}

// example is a request of this test, and whether key 1 verifies it, for receivers in other languages.
type example struct {
	Name    string            `json:"name"`
	Method  string            `json:"method"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
	Genuine bool              `json:"genuine"`
}

func exampleOf(name string, req *http.Request, text string, genuine bool) example {
	e := example{name, req.Method, "https://" + req.Host + req.URL.EscapedPath() + "?" + req.URL.RawQuery, map[string]string{}, text, genuine}
	for header, values := range req.Header {
		e.Headers[strings.ToLower(header)] = strings.Join(values, ", ")
	}
	return e
}

// sameExamples compares examples with the file that scripts/interop reads; UPDATE_EXAMPLES=1 writes it.
func sameExamples(t *testing.T, examples []example) {
	t.Helper()
	const file = "testdata/rfc9421.json"
	slices.SortFunc(examples, func(a, b example) int { return strings.Compare(a.Name, b.Name) })
	keys, err := webhook.FormatKeys(webhook.PublicKey{ID: "key-1", Key: publicOf(1)})
	require.NoError(t, err)
	text, err := json.MarshalIndent(map[string]any{"now": signedAt().Unix(), "jwks": json.RawMessage(keys), "requests": examples}, "", "  ")
	require.NoError(t, err)
	text = append(text, '\n')
	if os.Getenv("UPDATE_EXAMPLES") != "" {
		require.NoError(t, os.WriteFile(file, text, 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), string(text), "UPDATE_EXAMPLES=1 writes %s", file)
}

func replace(req *http.Request, old, with string) {
	req.Header.Set("Signature-Input", strings.Replace(req.Header.Get("Signature-Input"), old, with, 1))
}
