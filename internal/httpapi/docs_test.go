package httpapi_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// Issue 18, input 32: the first URLs that people open name the product and lead on, without a token.
func TestRoot_NamesTheProductAndItsDocumentation(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	a := b.must(t, http.StatusOK, "GET /", "", "Authorization", "", "Accept", "*/*")
	require.Equal(t, "Sluice", a.body["name"])
	require.Equal(t, "test", a.body["version"])
	for _, name := range []string{"docs", "openapi", "openapi_yaml", "health"} {
		path, ok := a.body[name].(string)
		require.True(t, ok, name)
		b.must(t, http.StatusOK, "GET "+path, "", "Authorization", "")
	}
	page := b.must(t, http.StatusOK, "GET /", "", "Authorization", "", "Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	require.Contains(t, page.header.Get("Content-Type"), "text/html")
	require.Contains(t, page.text, `<a href="/docs">`)
	require.Equal(t, "Accept", page.header.Get("Vary"))
}

func TestDocs_AreAPageWithoutScripts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	page := b.must(t, http.StatusOK, "GET /docs", "", "Authorization", "")
	require.Contains(t, page.header.Get("Content-Type"), "text/html")
	policy := page.header.Get("Content-Security-Policy")
	require.Contains(t, policy, "default-src 'none'; style-src 'self';")
	require.NotContains(t, policy, "script-src")
	require.Contains(t, page.text, `<article id="createSubscription">`)
	style := b.must(t, http.StatusOK, "GET /docs/style.css", "", "Authorization", "")
	require.Contains(t, style.header.Get("Content-Type"), "text/css")
	var document struct {
		OpenAPI string         `json:"openapi"`
		Paths   map[string]any `json:"paths"`
	}
	require.NoError(t, json.Unmarshal([]byte(b.must(t, http.StatusOK, "GET /openapi.json", "", "Authorization", "").text), &document))
	require.Equal(t, "3.1.0", document.OpenAPI)
	require.Contains(t, document.Paths, "/v1/subscriptions")
}

// Issue 18: empty fields are left out of answers.
func TestAnswers_LeaveOutEmptyFields(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	hooks := receiver(t)
	id := b.subscription(t, hooks.URL)
	sub := b.must(t, http.StatusOK, "GET /v1/subscriptions/"+id, "")
	for _, name := range []string{"filter", "metadata", "idempotency_key"} {
		require.NotContains(t, sub.body, name)
	}
	require.NotContains(t, b.must(t, http.StatusOK, "POST /v1/subscriptions/"+id+"/test", "").body, "verdict")
	b.must(t, http.StatusOK, "PATCH /v1/subscriptions/"+id, `{"filter":{"types":["a"]},"metadata":{"a":"b"}}`)
	full := b.must(t, http.StatusOK, "GET /v1/subscriptions/"+id, "")
	require.Equal(t, map[string]any{"types": []any{"a"}}, full.body["filter"])
	require.Equal(t, map[string]any{"a": "b"}, full.body["metadata"])
	b.must(t, http.StatusOK, "PATCH /v1/subscriptions/"+id, `{"filter":null,"metadata":null}`)
	require.NotContains(t, b.must(t, http.StatusOK, "GET /v1/subscriptions/"+id, "").body, "filter")
}
