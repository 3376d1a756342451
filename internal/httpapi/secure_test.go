package httpapi_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/httpapi"
	"github.com/sluice-io/sluice/internal/ingest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// changedBench has an API with nothing behind it whose options are changed.
func changedBench(t *testing.T, change func(*httpapi.Options)) *bench {
	t.Helper()
	b := &bench{parts: &parts{}, log: &logged{}}
	opts := b.bareOptions()
	opts.Ready = func(context.Context) error { return nil }
	opts.Ingest = ingest.New(ingest.Deps{Publisher: failing(func(context.Context) error { return sluice.Errorf(sluice.Conflict, "no") })})
	change(&opts)
	b.http = httptest.NewServer(httpapi.New(opts).Handler())
	t.Cleanup(b.http.Close)
	return b
}

// answeredWith is what a peer that asks for the metrics is answered, without a network in between.
func answeredWith(t *testing.T, opts httpapi.Options, peer string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody)
	req.RemoteAddr, req.Host = peer, "127.0.0.1:8080"
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
			continue
		}
		req.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	httpapi.New(opts).Handler().ServeHTTP(w, req)
	return w
}

func TestFailures_DelayTokenGuessersOnly(t *testing.T) {
	t.Parallel()
	b := changedBench(t, func(o *httpapi.Options) { o.FailureBurst, o.FailureEvery = 10, time.Hour })
	for range 10 {
		b.must(t, http.StatusUnauthorized, "GET /v1/capabilities", "", "Authorization", "Bearer guess")
	}
	for _, authorization := range []string{"Bearer guess", "Bearer", "Basic x"} {
		a := b.must(t, http.StatusTooManyRequests, "GET /v1/capabilities", "", "Authorization", authorization)
		require.Equal(t, "quota_exceeded", a.code())
		wait, err := strconv.Atoi(a.header.Get("Retry-After"))
		require.NoError(t, err)
		require.InDelta(t, 3600, wait, 60)
		require.NotEmpty(t, a.header.Get("X-Request-Id"))
	}
	b.must(t, http.StatusTooManyRequests, "GET /v1/nothing", "", "Authorization", "Bearer guess")
	b.must(t, http.StatusUnauthorized, "GET /v1/capabilities", "", "Authorization", "") // a request without a token is no guess
	b.must(t, http.StatusOK, "GET /v1/capabilities", "")
	b.must(t, http.StatusOK, "GET /healthz", "", "Authorization", "")
	require.Contains(t, b.log.lines()[10], `"status":429`)
}

func TestForwardedFor_IsBelievedOfTrustedProxiesOnly(t *testing.T) {
	t.Parallel()
	opts := (&bench{parts: &parts{}, log: &logged{}}).bareOptions()
	opts.FailureBurst, opts.FailureEvery = 1, time.Hour
	const proxy, stranger = "10.1.0.1:1", "203.0.113.7:1"
	const header = "X-Forwarded-For"
	tests := []struct {
		name          string
		trusted       []netip.Prefix
		first, second [2]string // peer, what it says of others
		status        int
	}{
		{"no proxy is trusted", nil, [2]string{stranger, "198.51.100.1"}, [2]string{stranger, "198.51.100.2"}, http.StatusTooManyRequests},
		{"no proxy is trusted, not even this machine", nil, [2]string{"127.0.0.1:1", "198.51.100.1"}, [2]string{"127.0.0.1:2", "198.51.100.2"}, http.StatusTooManyRequests},
		{"a stranger", proxies("10.1.0.0/16"), [2]string{stranger, "198.51.100.1"}, [2]string{stranger, "198.51.100.2"}, http.StatusTooManyRequests},
		{"two callers behind a proxy", proxies("10.1.0.0/16"), [2]string{proxy, "198.51.100.1"}, [2]string{proxy, "198.51.100.2"}, http.StatusUnauthorized},
		{"one caller behind a proxy that makes others up", proxies("10.1.0.0/16"), [2]string{proxy, "1.1.1.1, 198.51.100.1"}, [2]string{proxy, "2.2.2.2, 198.51.100.1"}, http.StatusTooManyRequests},
		{"one caller behind a chain of proxies", proxies("10.1.0.0/16"), [2]string{proxy, "198.51.100.1, 10.1.0.9"}, [2]string{proxy, "198.51.100.1, 10.1.0.8"}, http.StatusTooManyRequests},
		{"one caller who is a proxy of a network that is not named", proxies("10.1.0.0/16"), [2]string{"10.2.0.1:1", "198.51.100.1"}, [2]string{"10.2.0.1:1", "198.51.100.2"}, http.StatusTooManyRequests},
		{"two callers of one /64", proxies("fd00::/8"), [2]string{"[fd00::1]:1", "2001:db8::1"}, [2]string{"[fd00::1]:1", "2001:db8::2"}, http.StatusTooManyRequests},
		{"what a proxy says is no address", proxies("10.1.0.0/16"), [2]string{proxy, "unknown"}, [2]string{proxy, "nobody"}, http.StatusTooManyRequests},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := opts
			o.TrustedProxies = tt.trusted
			handler := httpapi.New(o).Handler()
			var got []int
			for _, from := range [][2]string{tt.first, tt.second} {
				req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/capabilities", http.NoBody)
				req.RemoteAddr = from[0]
				req.Header.Set(header, from[1])
				req.Header.Set("Authorization", "Bearer guess")
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, req)
				got = append(got, w.Code)
			}
			require.Equal(t, []int{http.StatusUnauthorized, tt.status}, got)
		})
	}
}

func proxies(cidr string) []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix(cidr)} }

func TestMetrics_AreForThisMachineAndAdministrators(t *testing.T) {
	t.Parallel()
	opts := (&bench{parts: &parts{}, log: &logged{}}).bareOptions()
	bearer := []string{"Authorization", "Bearer " + token}
	const here, six, mapped, elsewhere = "127.0.0.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1", "10.0.0.7:1"
	tests := []struct {
		name, setting, peer string
		headers             []string
		status              int
	}{
		{"this machine", "", here, nil, http.StatusOK},
		{"this machine over IPv6", httpapi.MetricsLoopback, six, nil, http.StatusOK},
		{"this machine over both", httpapi.MetricsLoopback, mapped, nil, http.StatusOK},
		{"another one", "", elsewhere, nil, http.StatusUnauthorized},
		{"another one that says it is this one", "", elsewhere, []string{"X-Forwarded-For", "127.0.0.1"}, http.StatusUnauthorized},
		{"a client behind a proxy on this machine", "", here, []string{"X-Forwarded-For", "203.0.113.7"}, http.StatusUnauthorized},
		{"a client behind a proxy with Forwarded", "", here, []string{"Forwarded", "for=203.0.113.7"}, http.StatusUnauthorized},
		{"this machine by name", "", here, []string{"Host", "localhost:8080"}, http.StatusOK},
		{"this machine by address", "", here, []string{"Host", "[::1]:8080"}, http.StatusOK},
		{"a page whose name leads to this machine", "", here, []string{"Host", "evil.example"}, http.StatusUnauthorized},
		{"a name that begins as this machine's does", "", here, []string{"Host", "localhost.evil.example:8080"}, http.StatusUnauthorized},
		{"an address of the network", "", here, []string{"Host", "10.0.0.7:8080"}, http.StatusUnauthorized},
		{"a page of another origin", "", here, []string{"Origin", "http://127.0.0.1:3000"}, http.StatusUnauthorized},
		{"an administrator by another name", "", here, append([]string{"Host", "evil.example"}, bearer...), http.StatusOK},
		{"a peer without an address", "", "@", nil, http.StatusUnauthorized},
		{"a wrong token", "", elsewhere, []string{"Authorization", "Bearer x"}, http.StatusUnauthorized},
		{"an administrator", "", elsewhere, bearer, http.StatusOK},
		{"an administrator behind a proxy", "", here, append([]string{"X-Forwarded-For", "203.0.113.7"}, bearer...), http.StatusOK},
		{"open", httpapi.MetricsOpen, elsewhere, nil, http.StatusOK},
		{"anonymous", httpapi.MetricsToken, here, nil, http.StatusUnauthorized},
		{"only an administrator", httpapi.MetricsToken, here, bearer, http.StatusOK},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := opts
			o.MetricsFor = tt.setting
			o.TrustedProxies = proxies("127.0.0.0/8") // which says nothing about who may look
			w := answeredWith(t, o, tt.peer, tt.headers...)
			require.Equal(t, tt.status, w.Code)
			require.Equal(t, tt.status == http.StatusOK, strings.Contains(w.Body.String(), "metrics 1"))
		})
	}
	tokenless := opts
	tokenless.Token = ""
	require.Equal(t, http.StatusUnauthorized, answeredWith(t, tokenless, elsewhere, "Authorization", "Bearer ").Code, "without a token there is no administrator")
}

func TestHeaders_KeepBrowsersFromInterpretingAnswers(t *testing.T) {
	t.Parallel()
	b := changedBench(t, func(*httpapi.Options) {})
	for line, status := range map[string]int{
		"GET /healthz": 200, "HEAD /readyz": 200, "GET /metrics": 200, "GET /openapi.yaml": 200, "GET /v1/capabilities": 200, "GET /nothing": 404, "GET /v1/nothing": 404,
		"DELETE /v1/capabilities": 405, "POST " + events: 400, "POST /v1/subscriptions": 413,
	} {
		body := ""
		if status == http.StatusRequestEntityTooLarge {
			body = strings.Repeat("x", 65<<10)
		}
		header := b.must(t, status, line, body).header
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
			"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'", "Cross-Origin-Resource-Policy": "same-origin",
			"X-Frame-Options": "DENY", "Strict-Transport-Security": "", "Server": "", "X-Powered-By": "",
		} {
			require.Equal(t, want, header.Get(name), "%s: %s", line, name)
		}
		require.NotEmpty(t, header.Get("X-Request-Id"), line)
	}
	require.Equal(t, "no-store", b.must(t, http.StatusUnauthorized, "GET /v1/capabilities", "", "Authorization", "").header.Get("Cache-Control"))
	require.Equal(t, "public, max-age=300", b.must(t, http.StatusOK, "GET /.well-known/jwks.json", "").header.Get("Cache-Control"), "public keys may be kept")
}

func TestHealth_AnswersHEAD(t *testing.T) {
	t.Parallel()
	b := changedBench(t, func(o *httpapi.Options) {
		o.Ready = func(context.Context) error { return sluice.Errorf(sluice.Unavailable, "no") }
	})
	require.Empty(t, b.must(t, http.StatusOK, "HEAD /healthz", "", "Authorization", "").text)
	require.Empty(t, b.must(t, http.StatusServiceUnavailable, "HEAD /readyz", "", "Authorization", "").text)
}

// Routes that read no body, routes that there are not, and anonymous callers get their answer
// with any body: the client here sends everything before it reads anything.
func TestBody_UnreadOneDoesNotCostTheAnswer(t *testing.T) {
	t.Parallel()
	b := changedBench(t, func(*httpapi.Options) {})
	const large = 20 << 20
	sized := fmt.Sprintf("Content-Length: %d\r\n\r\n", large)
	chunked := fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n", large)
	tests := []struct {
		name, line, token, framing string
		status                     int
	}{
		{"no body is read", "GET /v1/capabilities", token, sized, 413},
		{"no body is read, and this one has no end in sight", "GET /v1/capabilities", token, chunked, 200},
		{"no such method", "DELETE /v1/capabilities", token, chunked, 405},
		{"no such address", "POST /v1/nothing", token, chunked, 404},
		{"no token is needed", "GET /healthz", "", chunked, 200},
		{"anonymous", "POST " + events, "x", sized, 401},
		{"anonymous, without a length", "POST " + events, "x", chunked, 401},
		{"too large to be read", "POST " + events, token, sized, 413},
		{"larger than it may become", "POST " + events, token, chunked, 413},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", b.http.Listener.Addr().String())
			require.NoError(t, err)
			defer func() { require.NoError(t, conn.Close()) }()
			_, err = fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer %s\r\n%s", tt.line, tt.token, tt.framing)
			require.NoError(t, err)
			_, err = conn.Write(append(make([]byte, large), "\r\n0\r\n\r\n"...))
			require.NoError(t, err, "all can be sent")
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(t, err)
			text, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, tt.status, resp.StatusCode, "%s", text)
			require.NotEmpty(t, resp.Header.Get("X-Request-Id"))
			require.True(t, resp.Close, "nothing is read as another request")
		})
	}
}

func TestBody_ReadOneKeepsTheConnection(t *testing.T) {
	t.Parallel()
	b := changedBench(t, func(o *httpapi.Options) { o.MaxBody = 8 << 20 })
	for range 3 {
		resp, err := b.http.Client().Post(b.http.URL+"/v1/nothing", "text/plain", strings.NewReader(strings.Repeat("x", 100<<10))) //nolint:noctx // it is a test's own
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusUnauthorized, resp.StatusCode)
		require.False(t, resp.Close, "little of it is read by the way")
	}
	a := b.must(t, http.StatusConflict, "POST "+events, `{"path":"/a","data":"`+strings.Repeat("x", 1<<20)+`"}`)
	require.Empty(t, a.header.Get("Connection"))
}

func TestBody_IsNotSentWhenExpectIsRefused(t *testing.T) {
	t.Parallel()
	b := changedBench(t, func(*httpapi.Options) {})
	transport := &http.Transport{ExpectContinueTimeout: time.Minute}
	t.Cleanup(transport.CloseIdleConnections)
	for line, status := range map[string]int{"POST " + events: 413, "POST /v1/nothing": 413, "GET /healthz": 413} {
		method, path, _ := strings.Cut(line, " ")
		body := &watched{Reader: bytes.NewReader(make([]byte, 20<<20))}
		req, err := http.NewRequestWithContext(t.Context(), method, b.http.URL+path, body)
		require.NoError(t, err)
		req.ContentLength = 20 << 20
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Expect", "100-continue")
		resp, err := transport.RoundTrip(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, status, resp.StatusCode)
		require.False(t, body.read, line)
	}
}

type watched struct {
	io.Reader

	read bool
}

func (w *watched) Read(p []byte) (int, error) {
	w.read = true
	return w.Reader.Read(p)
}

// Input that two parsers may read in two ways is refused, by S2 and in general.
func TestBody_RefusesAmbiguousOrExpensiveOnes(t *testing.T) {
	t.Parallel()
	b := changedBench(t, func(o *httpapi.Options) { o.MaxBody = 32 << 20 })
	var keys strings.Builder
	for i := range 1_000_000 {
		fmt.Fprintf(&keys, `,"k%d":1`, i)
	}
	deep := strings.Repeat(`{"a":`, 10_000) + "1" + strings.Repeat("}", 10_000)
	bodies := map[string]string{
		"nested 10,000 deep": deep, "a million keys": "{" + keys.String()[1:] + "}", "a key twice": `{"path":"/a","path":"/b"}`,
		"no UTF-8": "{\"path\":\"/a\xff\"}", "something behind it": `{"path":"/a"} {}`,
		"half of it": `{"path":"/a"`, "nothing at all": ``,
	}
	routes := map[string][]string{
		"POST " + events:          {"application/json", "application/cloudevents+json", "application/cloudevents-batch+json"},
		"PUT /v1/namespaces/acme": {"application/json"}, "POST /v1/subscriptions": {"application/json"},
	}
	for name, body := range bodies {
		for line, media := range routes {
			for _, m := range media {
				if name == "nothing at all" && strings.HasPrefix(line, "PUT") {
					continue // which is as good as {}
				}
				a := b.must(t, http.StatusBadRequest, line, body, "Content-Type", m)
				require.Equal(t, "invalid_request", a.code(), "%s: %s %s", name, line, m)
			}
		}
	}
}
