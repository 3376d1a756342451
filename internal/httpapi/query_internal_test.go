package httpapi

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/internal/httpapi/live"
)

// apiRoutes returns the routes that take a token, without preflight requests.
func apiRoutes() (all []httpkit.Route) {
	for _, r := range New(Options{Metrics: http.NotFoundHandler()}).routes() {
		if isAPI(r.Path) && r.Method != http.MethodOptions {
			all = append(all, r)
		}
	}
	return all
}

// A parameter that a route ignores may have been meant: ?dry_run=true; and ?dryrun=true.
func TestQuery_RefusesIgnoredParameters(t *testing.T) {
	t.Parallel()
	const token = "the-root-token"
	h := New(Options{Metrics: http.NotFoundHandler(), Authentication: Authentication{Token: token}}).Handler()
	param := regexp.MustCompile(`:\w+|\*`)
	for _, r := range apiRoutes() {
		for _, query := range []string{"x;y=1", "%zz", "limit=1&types=a;b", "bogus=1"} {
			if query == "bogus=1" && !strings.HasPrefix(r.Path, "/v1/") {
				continue // other parameters are left to the protocol of streams
			}
			req := httptest.NewRequestWithContext(t.Context(), r.Method, param.ReplaceAllString(r.Path, "x"), http.NoBody)
			req.URL.RawQuery = query
			req.Header.Set("Authorization", "Bearer "+token)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, req)
			require.Equal(t, http.StatusBadRequest, w.Code, "%s %s?%s: %s", r.Method, r.Path, query, w.Body)
			require.Contains(t, w.Body.String(), "query", "%s %s?%s", r.Method, r.Path, query)
		}
	}
}

func TestOpenAPI_NamesTheQueryParameters(t *testing.T) {
	t.Parallel()
	doc := document(t)
	segment := regexp.MustCompile(`:(\w+)`)
	for _, r := range apiRoutes() {
		if !strings.HasPrefix(r.Path, "/v1/") {
			continue
		}
		path := strings.Replace(segment.ReplaceAllString(r.Path, "{$1}"), "/*", "/{path}", 1)
		operation, ok := dig(t, doc, "paths", path, strings.ToLower(r.Method)).(map[string]any)
		require.True(t, ok)
		documented := []string{}
		if r.Path == live.Route {
			documented = append(documented, "ticket") // a kind of token
		}
		parameters, _ := operation["parameters"].([]any)
		for _, p := range parameters {
			if ref, isRef := p.(map[string]any)["$ref"].(string); isRef {
				p = dig(t, doc, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
			}
			if dig(t, p, "in") == "query" {
				name, _ := dig(t, p, "name").(string)
				documented = append(documented, name)
			}
		}
		require.ElementsMatch(t, documented, r.Params, "%s %s", r.Method, path)
	}
}
