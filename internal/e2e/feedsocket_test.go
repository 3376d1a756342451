package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/gobwas/ws"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/testkit/sockettest"
	"github.com/sluice-io/sluice/internal/websocket"
)

// upgrading is the headers of a handshake.
func upgrading() []string {
	return []string{
		"Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==",
	}
}

// S2-123: what is no handshake is answered as any other request that is wrong.
func TestWebSocket_InvalidHandshakeIsAnError(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	for _, wrong := range [][]string{
		{"Sec-WebSocket-Version", "8"}, {"Sec-WebSocket-Key", "short"}, {"Sec-WebSocket-Key", ""}, {"Connection", "keep-alive"},
	} {
		r := s.must(t, http.StatusBadRequest, "GET "+feedAt, "", append(upgrading(), wrong...)...)
		require.Equal(t, "invalid_request", r.field(t, "error.code"))
		require.Contains(t, r.field(t, "error.message"), "not a WebSocket handshake")
		require.Equal(t, "13", r.header.Get("Sec-WebSocket-Version"))
		require.NotEmpty(t, r.field(t, "request_id"))
	}
	s.must(t, http.StatusBadRequest, "GET "+feedAt, "a body", upgrading()...)
	require.Contains(t, s.must(t, http.StatusOK, "GET /metrics", "").text, "\nsluice_feeds 0\n", "none was left open")
}

// dialled opens a feed over a WebSocket, and reads the acknowledgement. Messages are the client's own.
func (s *running) dialled(t *testing.T, query string, headers ...string) *sockettest.Conn {
	t.Helper()
	header := http.Header{"Authorization": {"Bearer " + s.token}}
	for i := 0; i < len(headers); i += 2 {
		header.Set(headers[i], headers[i+1])
	}
	conn, _, err := sockettest.Dial(t.Context(), s.api.HTTP, s.at.HTTP+feedAt+"?"+query, header) //nolint:bodyclose // it is the connection's
	require.NoError(t, err)
	t.Cleanup(conn.CloseNow)
	text, err := conn.Read(t.Context())
	require.NoError(t, err)
	require.Contains(t, string(text), `"subscribed":true`)
	return conn
}

// over reads to the end of a feed over a WebSocket: the codes of the last frame, if it is an error, and of the close.
func over(t *testing.T, conn *sockettest.Conn) (said string, code ws.StatusCode, why string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		text, err := conn.Read(ctx)
		if err == nil {
			var f shown
			require.NoError(t, json.Unmarshal(text, &f))
			if f.Error != nil {
				said = f.Error.Code
			}
			continue
		}
		var end *sockettest.CloseError
		require.ErrorAs(t, err, &end, "it ends with a close")
		return said, end.Code, end.Reason
	}
}

// S2-123: a WebSocket says why it closes, in a last frame and in its close, unless its reader closed it or said what it may not.
func TestWebSocket_StatesItsCloseReason(t *testing.T) {
	t.Parallel()
	lines := &logLines{}
	s := startAt(t, slog.LevelInfo, t.TempDir(), func(c *config.Config) { c.Log.Requests = "all" }, lines)
	g := s.grant(t, "user:ann", "path:default/a/**", "read")

	left := s.dialled(t, "", "X-Request-Id", "left")
	require.NoError(t, left.Close(ws.StatusNormalClosure, "enough"), "the close is answered")

	talks := s.dialled(t, "", "X-Request-Id", "talks")
	require.NoError(t, talks.Write([]byte("hello")))
	said, code, why := over(t, talks)
	require.Empty(t, said)
	require.Equal(t, ws.StatusPolicyViolation, code, why)

	ended := s.dialled(t, "pattern=/a/**", append(as(g.token), "X-Request-Id", "ended")...)
	s.must(t, http.StatusOK, "POST /v1/grants/"+g.id+"/revoke", "")
	said, code, why = over(t, ended)
	require.Contains(t, []string{"forbidden", "not_found"}, said)
	require.Equal(t, ws.StatusPolicyViolation, code)
	require.Equal(t, said, why)

	gone := s.dialled(t, "", "X-Request-Id", "gone")
	gone.CloseNow()

	stays := s.dialled(t, "pattern=/b/*", "X-Request-Id", "stays")
	put(t, s.api, "/b/1", 1, 3)
	s.cancel()
	said, code, why = over(t, stays)
	require.Equal(t, "unavailable", said)
	require.Equal(t, websocket.TryAgain, code)
	require.Equal(t, "unavailable", why)
	s.stop(t)
	for _, id := range []string{"left", "talks", "ended", "gone", "stays"} {
		line := lines.of(id)
		require.Len(t, line, 1, "one line a feed: %s", id)
		require.Regexp(t, `status=101 bytes=[1-9]`, line[0])
		require.Equal(t, id == "ended", strings.Contains(line[0], " code="), line[0])
	}
}

// logLines is a log in memory.
type logLines struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// of returns the lines of requests with an id.
func (l *logLines) of(id string) (lines []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return regexp.MustCompile(`(?m)^.*msg=request .*request_id=`+id+`\b.*$`).FindAllString(l.all.String(), -1)
}

// S2-123: pings are answered while events come, and with any other frames, events come whole and in order.
func TestWebSocket_AnswersPingsBetweenEvents(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	put(t, s.api, "/a", 1, 500)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn := s.dialled(t, "since=-1")
	read := make(chan error, 1)
	go func() {
		for n := 1; n <= 500; {
			text, err := conn.Read(ctx)
			if err == nil && strings.Contains(string(text), "heartbeat") {
				continue
			}
			if err == nil && !strings.Contains(string(text), fmt.Sprintf(`"data":{"n":%d}`, n)) {
				err = fmt.Errorf("%s, not %d", text, n)
			}
			if err != nil {
				read <- err
				return
			}
			n++
		}
		close(read)
		_, _ = conn.Read(ctx) // pongs
	}()
	for range 5 {
		require.NoError(t, conn.Ping(ctx))
	}
	require.NoError(t, <-read)
	require.NoError(t, conn.Ping(ctx))
}

// An idle WebSocket takes a fraction of what its request took: its stack is gone with it. The bound is generous: it counts
// what the clients take, who are in the same process, and the race detector.
func TestWebSocket_IdleOneTakesLittleMemory(t *testing.T) { //nolint:paralleltest // it measures this process
	const count, most = 500, 64 << 10
	s := start(t, t.TempDir(), nil)
	inUse := func() uint64 {
		runtime.GC()
		runtime.GC() // what was pooled is free after two
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapInuse + m.StackInuse
	}
	open := func() {
		conn := s.raw(t)
		_, err := io.WriteString(conn, s.head("GET "+feedAt,
			"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="))
		require.NoError(t, err)
		var got []byte
		for b := make([]byte, 512); !bytes.Contains(got, []byte(`"current_seq"`)); {
			n, err := conn.Read(b)
			require.NoError(t, err, "%s", got)
			got = append(got, b[:n]...)
		}
	}
	for range 20 {
		open() // warm up
	}
	before := inUse()
	for range count {
		open()
	}
	after := inUse()
	require.Contains(t, s.must(t, http.StatusOK, "GET /metrics", "").text, fmt.Sprintf("\nsluice_feeds %d\n", count+20))
	each := (after - min(before, after)) / count
	t.Logf("%.1f KiB each", float64(each)/1024)
	require.Less(t, each, uint64(most))
}

// S2-123: over TLS, too, events come, and the end is said.
func TestWebSocket_WorksOverTLS(t *testing.T) {
	t.Parallel()
	s := startTLS(t, nil)
	r, _ := s.socket(t, "since=-1")
	put(t, s.api, "/a", 1, 40)
	for n := 1; n <= 40; n++ {
		require.Equal(t, []string{fmt.Sprintf(`{"n":%d}`, n)}, r.events(1))
	}
	conn := s.dialled(t, "")
	require.NoError(t, conn.Close(ws.StatusNormalClosure, ""))
	stays := s.dialled(t, "")
	s.cancel()
	said, code, _ := over(t, stays)
	require.Equal(t, "unavailable", said)
	require.Equal(t, websocket.TryAgain, code)
}
