package e2e_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// curl opens a feed with the common program, and returns its lines, which end with it.
func (s *running) curl(t *testing.T, args ...string) *bufio.Scanner {
	t.Helper()
	program, err := exec.LookPath("curl")
	if err != nil && os.Getenv("CI") == "" {
		t.Skip("curl is not installed")
	}
	require.NoError(t, err, "CI needs curl")
	cmd := exec.CommandContext(t.Context(), program, append([]string{"-sSN", "--fail-with-body", "--max-time", "60"}, args...)...)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = t.Output()
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed, or is over
	})
	return bufio.NewScanner(out)
}

// frameOf returns the next server-sent event of what curl prints.
func frameOf(t *testing.T, lines *bufio.Scanner) (f shown) {
	t.Helper()
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "id":
			f.ID = value
		case "data":
			require.NoError(t, json.Unmarshal([]byte(value), &f))
		case "":
			if f.Subscribed || f.Seq > 0 || f.Error != nil {
				return f
			}
		}
	}
	require.FailNow(t, "curl ended", "%v", lines.Err())
	return f
}

// S2-123: a user with curl reads a feed, with a token or with a ticket, as docs/feed.md shows it.
func TestFeed_IsReadByCurl(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	put(t, s.api, "/a", 1, 2)
	g := s.grant(t, "user:ann", "scope:default", "read")
	ticket, err := s.api.FeedTicket(t.Context(), "default", time.Minute)
	require.NoError(t, err)
	read := map[string]*bufio.Scanner{
		"a token":    s.curl(t, "-H", "Authorization: Bearer "+g.token, s.at.HTTP+feedAt+"?since=1"),
		"a ticket":   s.curl(t, ticket.URL+"&since=1"),
		"where from": s.curl(t, "-H", "Last-Event-ID: 1", ticket.URL),
	}
	for how, lines := range read {
		ack := frameOf(t, lines)
		require.True(t, ack.Subscribed, how)
		require.Equal(t, "1", ack.ID, how)
	}
	put(t, s.api, "/a", 3, 3)
	for how, lines := range read {
		for _, id := range []string{"2", "3"} {
			f := frameOf(t, lines)
			require.Equal(t, id, f.ID, how)
			require.JSONEq(t, `{"n":`+id+`}`, string(f.Event.Data), how)
		}
	}
	s.must(t, http.StatusOK, "POST /v1/grants/"+g.id+"/revoke", "")
	require.NotNil(t, frameOf(t, read["a token"]).Error)
	require.False(t, read["a token"].Scan(), "and curl is at the end")
}
