package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/terminal"
)

const testSecret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="

// A signature of each scheme verifies; the message about another says how to mend it.
func TestVerify_AcceptsSigned(t *testing.T) {
	t.Parallel()
	seed := make([]byte, 32)
	private := privatePrefix + base64.StdEncoding.EncodeToString(seed)
	public := publicPrefix + "O2onvM62pC1io6jQKm8Nc2UyFXcd4kOmOsBIoYtZ2ik=" // of that seed
	sign := func(args ...string) string {
		status, stdout, stderr := runUntil(t.Context(), `{"a":1}`, append([]string{"sign", "--request"}, args...)...)
		require.Zero(t, status, stderr)
		return stdout
	}
	for scheme, keys := range map[string][2]string{
		"standard": {testSecret, "--secret=" + testSecret}, "t-sha256": {testSecret, "--secret=" + testSecret},
		"header": {testSecret, "--secret=" + testSecret}, "ed25519": {private, "--public-key=" + public},
	} {
		request := sign("--scheme", scheme, "--secret", keys[0])
		status, stdout, stderr := runUntil(t.Context(), "POST /hook HTTP/1.1\r\n"+request, "verify", keys[1])
		require.Zero(t, status, stderr)
		require.Equal(t, "The signature is valid (scheme "+scheme+").\n", stdout)
		status, _, stderr = runUntil(t.Context(), strings.Replace(request, `{"a":1}`, `{"a":2}`, 1), "verify", keys[1])
		require.Equal(t, terminal.ExitFailure, status)
		require.Contains(t, stderr, "compare the secret", scheme)
	}
	old := sign("--secret", testSecret, "--at", "2026-01-01T00:00:00Z")
	for _, tt := range []struct{ request, args, stderr string }{
		{sign("--secret", testSecret) + "\n", "", "the body is right without the final line break"},
		{old, "", "pass --any-age"},
		{old, "--any-age", ""},
		{"x\n", "", "header lines, an empty line and the body"},
	} {
		_, _, stderr := runUntil(t.Context(), tt.request, append([]string{"verify", "--secret", testSecret}, strings.Fields(tt.args)...)...)
		require.Contains(t, stderr, tt.stderr)
		require.Equal(t, tt.stderr == "", stderr == "", stderr)
	}
	status, stdout, stderr := runUntil(t.Context(), `{"a":1}`, "sign", "--secret", testSecret, "-o", "json")
	require.Zero(t, status, stderr)
	var headers map[string]string
	require.NoError(t, json.Unmarshal([]byte(stdout), &headers))
	args := []string{"verify", "--secret", testSecret}
	for name, value := range headers {
		args = append(args, "--header", name+": "+value)
	}
	status, _, stderr = runUntil(t.Context(), `{"a":1}`, args...)
	require.Zero(t, status, stderr)
	_, _, stderr = runUntil(t.Context(), "", "verify")
	require.Contains(t, stderr, "a key is required")
}

// The scheme rfc9421 signs the URL, which is that of the request line, or of --url.
func TestVerify_ReadsTheURLOfMessages(t *testing.T) {
	t.Parallel()
	sign := []string{"sign", "--scheme", "rfc9421", "--secret", privatePrefix + base64.StdEncoding.EncodeToString(make([]byte, 32))}
	public := "--public-key=" + publicPrefix + "O2onvM62pC1io6jQKm8Nc2UyFXcd4kOmOsBIoYtZ2ik="
	status, request, stderr := runUntil(t.Context(), `{"a":1}`, append(sign, "--request", "--url", "https://hooks.example/in?k=v")...)
	require.Zero(t, status, stderr)
	require.Contains(t, request, `sig1=("@method" "@authority" "@path" "@query" "content-digest" "content-type" "webhook-id");created=`)
	line, headers, _ := strings.Cut(request, "\n")
	require.Equal(t, "POST /in?k=v HTTP/1.1", line)
	for _, tt := range []struct{ name, request, args, stderr string }{
		{"as it was signed", request, "", ""},
		{"with its URL", headers, "--url https://hooks.example/in?k=v", ""},
		{"behind a proxy", strings.Replace(request, "host: hooks.example", "host: 10.0.0.7:8080", 1), "--url https://hooks.example/in?k=v", ""},
		{"another path", strings.Replace(request, "/in?", "/out?", 1), "", "(here POST hooks.example/out?k=v)"},
		{"another body", strings.Replace(request, `{"a":1}`, `{"a":2}`, 1), "", "compare the keys"},
		{"another end", request + "\n", "", "without the final line break"},
		{"no URL", strings.Replace(headers, "host: ", "not-host: ", 1), "", "pass --url"},
		{"no path", strings.Replace(request, "/in?k=v", "in", 1), "", "the request line"},
	} {
		_, _, stderr := runUntil(t.Context(), tt.request, append([]string{"verify", public}, strings.Fields(tt.args)...)...)
		require.Contains(t, stderr, tt.stderr, tt.name)
		require.Equal(t, tt.stderr == "", stderr == "", "%s: %s", tt.name, stderr)
	}
	_, _, stderr = runUntil(t.Context(), `{"a":1}`, sign...)
	require.Contains(t, stderr, "pass --url")
}

// The receiver prints each request, verifies it, and fails by plan.
func TestReceive_VerifiesAndFailsByPlan(t *testing.T) {
	t.Parallel()
	read, write := io.Pipe()
	defer func() { _ = read.Close() }()
	var stderr strings.Builder
	s := &terminal.Session{Stdin: strings.NewReader(""), Stdout: write, Stderr: &stderr, Exit: func(int) {}}
	ended := make(chan int, 1)
	go func() { // ends after the fourth request
		ended <- run(t.Context(), []string{"receive", "0", "--secret", testSecret, "--fail", "1", "--status", "502", "--limit", "4", "-o", "json"}, s)
		_ = write.Close()
	}()
	lines := json.NewDecoder(read)
	var first struct{ URL string }
	require.NoError(t, lines.Decode(&first))
	signed := func(id, body string) http.Header {
		cmd := signCmd{Secret: testSecret, Scheme: "standard", ID: id, At: time.Now()}
		all, err := cmd.headers([]byte(body))
		require.NoError(t, err)
		header := http.Header{}
		for _, one := range all {
			header.Set(one[0], one[1])
		}
		return header
	}
	post := func(header http.Header, body string) (int, receivedRequest) {
		req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodPost, first.URL+"/hook", strings.NewReader(body))
		require.NoError(t, err)
		req.Header = header
		status := make(chan int, 1)
		go func() {
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				status <- 0
				return
			}
			_ = resp.Body.Close()
			status <- resp.StatusCode
		}()
		var printed receivedRequest
		require.NoError(t, lines.Decode(&printed), stderr.String())
		return <-status, printed
	}
	for _, tt := range []struct {
		header http.Header
		body   string
		status int
	}{
		{signed("e1", "one"), "one", 502}, {signed("e1", "one"), "one", 204}, {signed("e1", "one"), "two", 401}, {signed("e2", "one"), "one", 502},
	} {
		status, printed := post(tt.header, tt.body)
		require.Equal(t, tt.status, status)
		require.Equal(t, tt.status, printed.Status)
		require.Equal(t, tt.body, printed.Body)
		require.Equal(t, tt.status != 401, *printed.Verified)
		require.Equal(t, "/hook", printed.URL)
	}
	require.Zero(t, <-ended, stderr.String())
	http.DefaultClient.CloseIdleConnections()
}

// listen takes a port, and signs with the same secret each time.
func TestListen_TakesPortAndKeepsSecret(t *testing.T) {
	t.Parallel()
	for target, forward := range map[string]string{"3000": "http://127.0.0.1:3000/", "http://localhost:1/x": "http://localhost:1/x"} {
		c := listenCmd{Target: target}
		require.NoError(t, c.target())
		require.Equal(t, forward, c.Forward)
	}
	require.ErrorAs(t, (&listenCmd{}).target(), new(terminal.UsageError))
	require.ErrorAs(t, (&listenCmd{Target: "1", Forward: "http://localhost"}).target(), new(terminal.UsageError))
	s := &terminal.Session{Environ: []string{"HOME=" + t.TempDir()}}
	one, err := s.ListenSecret()
	require.NoError(t, err)
	again, err := s.ListenSecret()
	require.NoError(t, err)
	require.Equal(t, one, again)
	homeless, err := (&terminal.Session{}).ListenSecret()
	require.NoError(t, err)
	require.NotEqual(t, one, homeless)
}
