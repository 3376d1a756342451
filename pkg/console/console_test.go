package console_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/console"
)

// answer is a response that was read. sent is the size of its body as it came.
type answer struct {
	status int
	header http.Header
	body   string
	sent   int
}

func get(t *testing.T, address string, header ...string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	require.NoError(t, err)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req) // as it is sent: compressed, without redirects
	require.NoError(t, err)
	defer func() { require.NoError(t, resp.Body.Close()) }()
	sent, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	a := answer{resp.StatusCode, resp.Header, string(sent), len(sent)}
	if resp.Header.Get("Content-Encoding") == "gzip" && !resp.Uncompressed {
		zipped, err := gzip.NewReader(bytes.NewReader(sent))
		require.NoError(t, err)
		plain, err := io.ReadAll(zipped)
		require.NoError(t, err)
		a.body = string(plain)
	}
	return a
}

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// Every view is a URL, and every file that the page names is there.
func TestHandler_ServesViewsAndFiles(t *testing.T) { // issue 19, parts 3 and 6
	t.Parallel()
	base := serve(t, console.Handler("/ops/sluice/", console.Options{}))
	for _, view := range []string{"/ops/sluice/", "/ops/sluice/subscriptions/orders", "/ops/sluice/events/acme/a.b%2Fc"} {
		page := get(t, base+view)
		require.Equal(t, http.StatusOK, page.status, view)
		require.Contains(t, page.body, `content="/ops/sluice"`)
		files := regexp.MustCompile(`(?:src|href)="(/[^"]+)"`).FindAllStringSubmatch(page.body, -1)
		require.Len(t, files, 2)
		for _, f := range files {
			file := get(t, base+f[1], "Accept-Encoding", "gzip")
			require.Equal(t, http.StatusOK, file.status, f[1])
			require.Equal(t, "gzip", file.header.Get("Content-Encoding"))
			require.NotEmpty(t, file.body)
			require.Equal(t, http.StatusNotModified, get(t, base+f[1], "If-None-Match", file.header.Get("ETag")).status)
		}
	}
	for _, strange := range []string{"/", "/ops/sluice/assets/none.js", "/ops/sluice/assets/..%2fconsole.go"} {
		require.Equal(t, http.StatusNotFound, get(t, base+strange).status, strange)
	}
}

// Scripts come from the own origin, no string becomes a script, and no other site shows the page in a frame.
func TestHandler_HasAStrictPolicy(t *testing.T) { // issue 19, part 4
	t.Parallel()
	page := get(t, serve(t, console.Handler("/console", console.Options{}))+"/console/")
	policy := page.header.Get("Content-Security-Policy")
	for _, rule := range []string{"default-src 'none'", "script-src 'self'", "connect-src 'self'", "form-action 'none'", "require-trusted-types-for 'script'", "frame-ancestors 'none'"} {
		require.Contains(t, policy, rule)
	}
	require.NotContains(t, policy, "unsafe")
	require.Equal(t, "DENY", page.header.Get("X-Frame-Options"))
	require.Equal(t, "no-referrer", page.header.Get("Referrer-Policy"))
	require.Empty(t, page.header.Values("Set-Cookie"))
	require.NotRegexp(t, `<script[^>]*>[^<]|<style|style=|https?://`, page.body)

	framed := get(t, serve(t, console.Handler("/portal", console.Options{Page: "portal", Title: "<Acme>", FrameAncestors: []string{"https://app.example.com"}}))+"/portal/")
	require.Contains(t, framed.header.Get("Content-Security-Policy"), "frame-ancestors https://app.example.com")
	require.Empty(t, framed.header.Get("X-Frame-Options"))
	require.Contains(t, framed.body, `<title>&lt;Acme&gt;</title>`)
	require.Contains(t, framed.body, `<meta name="sluice-ancestors" content="https://app.example.com">`, "with which it talks")
	require.Contains(t, page.body, `<meta name="sluice-ancestors" content="">`)
	require.Contains(t, page.body, `<meta name="sluice-readonly" content="false">`)
	calm := get(t, serve(t, console.Handler("/console", console.Options{ReadOnly: true}))+"/console/")
	require.Contains(t, calm.body, `<meta name="sluice-readonly" content="true">`)
}

// Pages of other origins load the script of the element, and nothing else.
func TestHandler_OnlyTheElementIsForOthers(t *testing.T) { // issue 19, part 2
	t.Parallel()
	base := serve(t, console.Handler("/portal", console.Options{Page: "portal"}))
	element := get(t, base+"/portal/element.js")
	require.Equal(t, http.StatusOK, element.status)
	require.Equal(t, "*", element.header.Get("Access-Control-Allow-Origin"))
	require.Equal(t, "cross-origin", element.header.Get("Cross-Origin-Resource-Policy"))
	for _, path := range []string{"/portal/", "/portal/assets/portal.js", "/portal/assets/style.css"} {
		own := get(t, base+path)
		require.Empty(t, own.header.Get("Access-Control-Allow-Origin"), path)
		require.Equal(t, "same-origin", own.header.Get("Cross-Origin-Resource-Policy"), path)
	}
}

// Another Go program forwards the calls to its server, with the caller's token and without its own cookies.
func TestHandler_ForwardsCallsToAServer(t *testing.T) { // issue 19, part 6
	t.Parallel()
	server := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.URL.RequestURI()+" "+r.Header.Get("Authorization")+" "+r.Header.Get("Cookie"))
	}))
	target, err := url.Parse(server)
	require.NoError(t, err)
	base := serve(t, console.Handler("/sluice", console.Options{Server: target}))
	require.Contains(t, get(t, base+"/sluice/").body, `<meta name="sluice-api" content="/sluice/api">`)
	call := get(t, base+"/sluice/api/v1/events?a=%2F", "Authorization", "Bearer x", "Cookie", "session=secret")
	require.Equal(t, http.StatusOK, call.status)
	require.Equal(t, "/v1/events?a=%2F Bearer x ", call.body)
}

// What a page loads first is at most 60 KiB compressed, and 1 MiB on disk.
func TestHandler_IsSmall(t *testing.T) { // issue 19, bar
	t.Parallel()
	base := serve(t, console.Handler("/console", console.Options{}))
	sum := 0
	queue := []string{"/console/"}
	for seen := map[string]bool{}; len(queue) > 0; queue = queue[1:] {
		if seen[queue[0]] {
			continue
		}
		seen[queue[0]] = true
		file := get(t, base+queue[0], "Accept-Encoding", "gzip")
		sum += file.sent
		for _, found := range regexp.MustCompile(`(?:src|href)="(/[^"]+)"|from"\./([^"]+)"|import"\./([^"]+)"`).FindAllStringSubmatch(file.body, -1) {
			queue = append(queue, found[1]+strings.TrimSuffix("/console/assets/"+found[2]+found[3], "/console/assets/"))
		}
	}
	t.Logf("%d bytes", sum)
	require.Less(t, sum, 60<<10)
}
