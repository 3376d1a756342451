package e2e_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// impatient is a server whose patience with callers is short.
func impatient(t *testing.T, change func(*config.Config)) *running {
	t.Helper()
	const short = sluice.Duration(2 * time.Second)
	return start(t, t.TempDir(), func(c *config.Config) {
		c.HTTP.Timeouts = config.Timeouts{Header: short, Request: short, Answer: 2 * short, Idle: short}
		if change != nil {
			change(c)
		}
	})
}

// raw is a connection on which anything can be said.
func (s *running) raw(t *testing.T) net.Conn {
	t.Helper()
	u, err := url.Parse(s.at.HTTP)
	require.NoError(t, err)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", u.Host)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	return conn
}

// head is the beginning of a request with the root token; lines end it.
func (s *running) head(line string, lines ...string) string {
	all := append([]string{line + " HTTP/1.1", "Host: sluice", "Authorization: Bearer " + s.token, "Content-Type: application/json"}, lines...)
	return strings.Join(all, "\r\n") + "\r\n\r\n"
}

// alone waits until no connection is open but the one that asks.
func (s *running) alone(t *testing.T) {
	t.Helper()
	eventually(t, func() bool {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.at.HTTP+"/metrics", nil)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+s.token)
		resp, err := s.api.HTTP.Do(req)
		if err != nil {
			return false // on a busy machine we are too slow for it ourselves
		}
		defer resp.Body.Close() //nolint:errcheck // it was read
		data, err := io.ReadAll(resp.Body)
		return err == nil && strings.Contains(string(data), "\nsluice_http_connections 1\n")
	}, "all other connections are closed")
}

// drip writes a text byte by byte, until it is cut off. Any goroutine may call it.
func drip(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for _, c := range []byte(text) {
		<-tick.C
		if _, err := conn.Write([]byte{c}); err != nil {
			return
		}
	}
	t.Error("the server does not cut it off")
}

// rest is all that the server still says on a connection, until it ends it.
func rest(t *testing.T, conn net.Conn) string {
	t.Helper()
	data, err := io.ReadAll(conn)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the server ends the connection")
	return string(data)
}

// said is what the server answers to a text with nothing behind it. A reset may overtake the answer
// when it has not read all of the text.
func said(t *testing.T, conn net.Conn, text string) string {
	t.Helper()
	if _, err := io.WriteString(conn, text); err == nil {
		_ = conn.(*net.TCPConn).CloseWrite() // it may have ended the connection already
	}
	return rest(t, conn)
}

func TestSlowClient_DrippingAHeaderIsCutOff(t *testing.T) {
	t.Parallel()
	s := impatient(t, nil)
	conn := s.raw(t)
	drip(t, conn, "GET /healthz HTTP/1.1\r\nX-Slow: "+strings.Repeat("x", 2000))
	s.alone(t)
}

func TestSlowClient_DrippingABodyIsCutOff(t *testing.T) {
	t.Parallel()
	s := impatient(t, nil)
	var dripping sync.WaitGroup
	for _, framing := range []string{"Content-Length: 100000", "Transfer-Encoding: chunked"} {
		for _, line := range []string{"POST /v1/namespaces/default/events", "GET /healthz"} {
			conn := s.raw(t)
			_, err := io.WriteString(conn, s.head(line, framing))
			require.NoError(t, err)
			if strings.Contains(framing, "chunked") {
				_, err = io.WriteString(conn, "ffff\r\n")
				require.NoError(t, err)
			}
			dripping.Go(func() { drip(t, conn, strings.Repeat(" ", 2000)) })
		}
	}
	dripping.Wait()
	s.alone(t)
	require.Empty(t, s.must(t, http.StatusOK, "GET /v1/namespaces/default/events", "").field(t, "events"), "half a request does nothing")
}

func TestSlowClient_ReadingNoAnswerIsCutOff(t *testing.T) {
	t.Parallel()
	s := impatient(t, func(c *config.Config) { c.HTTP.Timeouts.Request = sluice.Duration(time.Minute) })
	for n := range 8 { // more than the kernel keeps for a connection of which nothing is read
		eventually(t, func() bool { // an answer that takes over four seconds is cut off
			_, err := s.api.Publish(t.Context(), sluice.DefaultNamespace, sluice.Event{
				ID: strconv.Itoa(n), Path: "/large", Type: "t", Source: "/s", Data: []byte(`"` + strings.Repeat("x", 900<<10) + `"`),
			})
			return err == nil
		}, "it is stored")
	}
	for range 2 {
		conn := s.raw(t)
		require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4<<10))
		_, err := io.WriteString(conn, s.head("GET /v1/namespaces/default/events"))
		require.NoError(t, err)
	}
	s.alone(t)
}

func TestSlowClient_ThousandSilentConnectionsDelayNoOther(t *testing.T) {
	t.Parallel()
	s := impatient(t, nil)
	for range 500 {
		s.raw(t)
		used := s.raw(t)
		_, err := io.WriteString(used, "GET /healthz HTTP/1.1\r\nHost: sluice\r\n\r\n")
		require.NoError(t, err)
	}
	s.must(t, http.StatusOK, "GET /readyz", "")
	s.alone(t)
}

func TestConnections_BeyondTheLimitWait(t *testing.T) {
	t.Parallel()
	s := impatient(t, func(c *config.Config) { c.HTTP.MaxConnections = 3 })
	s.api.HTTP.CloseIdleConnections()
	var silent []net.Conn
	for range 6 {
		silent = append(silent, s.raw(t))
	}
	s.must(t, http.StatusOK, "GET /readyz", "")
	for _, conn := range silent {
		require.Empty(t, rest(t, conn))
	}
	s.alone(t)
}

func TestHeader_LargeOneIsRefused(t *testing.T) {
	t.Parallel()
	s := impatient(t, nil)
	s.must(t, http.StatusOK, "GET /healthz", "", "X-Large", strings.Repeat("x", 60<<10))
	conn := s.raw(t)
	_, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: sluice\r\n")
	require.NoError(t, err)
	for n := 0; n < 2<<10 && err == nil; n++ { // 2 MiB, as far as the peer takes it
		_, err = fmt.Fprintf(conn, "X-Large: %s\r\n", strings.Repeat("x", 1<<10))
	}
	got := rest(t, conn) // a reset may overtake the answer
	require.True(t, got == "" || strings.HasPrefix(got, "HTTP/1.1 431 "), got)
	s.alone(t)
}

// response reads one answer.
func response(t *testing.T, from *bufio.Reader) (int, string) {
	t.Helper()
	resp, err := http.ReadResponse(from, nil)
	require.NoError(t, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode, string(text)
}

func TestBody_ChunkedOneBeyondTheLimitIsRefused(t *testing.T) {
	t.Parallel()
	s := impatient(t, func(c *config.Config) {
		c.HTTP.MaxBody = 1 << 20
		c.HTTP.Timeouts.Request, c.HTTP.Timeouts.Answer = sluice.Duration(time.Minute), sluice.Duration(time.Minute)
	})
	conn := s.raw(t)
	_, err := io.WriteString(conn, s.head("POST /v1/namespaces/default/events", "Transfer-Encoding: chunked"))
	require.NoError(t, err)
	chunk := fmt.Sprintf("%x\r\n%s\r\n", 64<<10, strings.Repeat(" ", 64<<10))
	for range 64 { // four times as much as is taken
		_, err = io.WriteString(conn, chunk)
		require.NoError(t, err)
	}
	_, err = io.WriteString(conn, "0\r\n\r\n")
	require.NoError(t, err)
	status, text := response(t, bufio.NewReader(conn))
	require.Equal(t, http.StatusRequestEntityTooLarge, status)
	require.Contains(t, text, `"request_id"`)
	s.alone(t)
}

const event = `{"path":"/a","id":"lie"}`

func TestBody_FalseLengthDoesNothing(t *testing.T) {
	t.Parallel()
	s := impatient(t, nil)
	const publish = "POST /v1/namespaces/default/events"
	tests := []struct{ name, request, want string }{
		{"more than comes", s.head(publish, "Content-Length: 1000") + event, "HTTP/1.1 400 "},
		{"less than comes", s.head(publish, "Content-Length: 5") + event, "HTTP/1.1 400 "},
		{"two", s.head(publish, fmt.Sprintf("Content-Length: %d\r\nContent-Length: 5", len(event))) + event, "HTTP/1.1 400 "},
		{"negative", s.head(publish, "Content-Length: -1") + event, "HTTP/1.1 400 "},
		{"with a sign", s.head(publish, fmt.Sprintf("Content-Length: +%d", len(event))) + event, "HTTP/1.1 400 "},
		{"two in one", s.head(publish, fmt.Sprintf("Content-Length: %d, 5", len(event))) + event, "HTTP/1.1 400 "},
		{"more than there are numbers", s.head(publish, "Content-Length: 99999999999999999999") + event, "HTTP/1.1 400 "},
		{"a chunk's, more than comes", s.head(publish, "Transfer-Encoding: chunked") + "fff\r\n" + event, "HTTP/1.1 400 "},
		{"a chunk's that is no number", s.head(publish, "Transfer-Encoding: chunked") + "zz\r\n" + event, "HTTP/1.1 400 "},
		{"a chunk's that is too large", s.head(publish, "Transfer-Encoding: chunked") + "ffffffffffffffff1\r\n" + event, "HTTP/1.1 400 "},
		{"a chunk with a very long extension", s.head(publish, "Transfer-Encoding: chunked") + "1;" + strings.Repeat("x", 64<<10) + "\r\n" + event, "HTTP/1.1 400 "},
	}
	for _, tt := range tests {
		conn := s.raw(t)
		got := said(t, conn, tt.request)
		require.True(t, got == "" || strings.HasPrefix(got, tt.want), "%s: %s", tt.name, got)
		require.NotContains(t, got, "HTTP/1.1 2", tt.name)
	}
	require.Empty(t, s.must(t, http.StatusOK, "GET /v1/namespaces/default/events", "").field(t, "events"))
	s.alone(t)
}

// What one server on the way takes for a body must not be a request to the next.
func TestRequest_SmuggledOneIsNotServed(t *testing.T) {
	t.Parallel()
	s := impatient(t, nil)
	inner := s.head("PUT /v1/namespaces/smuggled", "Content-Length: 0")
	both := func(encoding string) string {
		body := "0\r\n\r\n" + inner
		return s.head("POST /v1/namespaces/default/events", fmt.Sprintf("Content-Length: %d", len(body)), encoding) + body
	}
	for _, encoding := range []string{
		"Transfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "Transfer-Encoding: identity, chunked", "Transfer-Encoding: xchunked",
		"Transfer-Encoding : chunked", "Transfer-Encoding: chunked\r\n x", "Transfer-Encoding:\vchunked", "transfer-encoding: CHUNKED", "X: y\nTransfer-Encoding: chunked",
	} {
		conn := s.raw(t)
		got := said(t, conn, both(encoding))
		require.LessOrEqual(t, strings.Count(got, "HTTP/1.1 "), 1, "%q: %s", encoding, got)
	}
	s.must(t, http.StatusNotFound, "GET /v1/namespaces/smuggled", "")
	s.alone(t)
}
