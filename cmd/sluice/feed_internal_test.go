package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-io/sluice/internal/terminal"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// frame is an event in a feed, as server-sent event.
func frame(seq int, kind, data string) string {
	ev := sluice.Event{ID: strconv.Itoa(seq), Source: "/s", Type: kind, Path: "/p", Time: time.Unix(1777636800, 0), ContentType: "text/plain", Data: []byte(data)}
	return fmt.Sprintf("id: %d\ndata: {\"seq\":%d,\"event\":%s}\n\n", seq, seq, ev.AppendJSON(nil))
}

// follow carries out sluice feed against a server whose nth connection says the nth text, and is interrupted when the last
// one was said.
func follow(t *testing.T, s terminal.Session, texts []string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	ctx, interrupt := context.WithCancel(t.Context())
	var n atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i := int(n.Add(1))
		if i > len(texts) {
			interrupt() // as ^C does
			<-r.Context().Done()
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprintf(w, "id: 1\ndata: {\"subscribed\":true,\"current_seq\":1}\n\n%s", texts[i-1])
	}))
	t.Cleanup(server.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	var out, complaints bytes.Buffer
	s.Stdin, s.Stdout, s.Stderr, s.Exit = strings.NewReader(""), &out, &complaints, func(int) {}
	status = run(ctx, append([]string{"feed", "--server", server.URL}, args...), &s)
	return status, out.String(), complaints.String()
}

// A user that follows a feed sees gaps and outages of the server, and ends it without an error.
func TestFeed_FollowShowsGapsAndOutages(t *testing.T) {
	t.Parallel()
	texts := []string{
		frame(2, "a", "x") + "data: {\"lagged\":{\"missed_count\":3,\"oldest_available_seq\":6,\"current_seq\":9}}\n\n" + frame(6, "b", "y"),
		"data: {\"error\":{\"code\":\"unavailable\",\"message\":\"bye\",\"details\":{}}}\n\n",
	}
	status, stdout, stderr := follow(t, terminal.Session{Terminal: true}, texts)
	require.Zero(t, status, stderr)
	require.Regexp(t, `^2  \d\d:\d\d:\d\d  a  /p  x\n6  \d\d:\d\d:\d\d  b  /p  y\n$`, stdout)
	for _, said := range []string{
		"sluice: following /** in default; ^C ends it", "sluice: too slow: 3 events before 6 were not shown",
		"sluice: connection lost; reconnecting: ", "sluice: reconnected", "bye",
	} {
		require.Contains(t, stderr, said)
	}

	status, stdout, stderr = follow(t, terminal.Session{Terminal: true, Watched: true}, texts, "-o", "json", "--color", "always")
	require.Zero(t, status)
	require.Empty(t, stderr, "programs read all of it at one place")
	require.NotContains(t, stdout, "\x1b")
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	require.Len(t, lines, 7)
	require.JSONEq(t, `{"subscribed":true,"current_seq":1}`, lines[0])
	require.JSONEq(t, `{"lagged":{"missed_count":3,"oldest_available_seq":6,"current_seq":9},"resume":"2"}`, lines[2])
	require.Contains(t, lines[3], `"resume":"6"`)
	require.Contains(t, lines[4], `{"away":{"code":"unavailable"`)
	require.Contains(t, lines[6], `"message":"bye"`)
}

// Colours are for who watches; each type has its own, which stays; what publishers write moves no cursor.
func TestColours_AreForTerminalsOnly(t *testing.T) {
	t.Parallel()
	texts := []string{frame(2, "order.placed", "x") + frame(3, "order.paid", "y") + frame(4, "order.placed", "\x1b[2J\u202ez")}
	for _, tt := range []struct {
		name    string
		session terminal.Session
		flags   []string
		want    bool
	}{
		{"a terminal", terminal.Session{Watched: true}, nil, true},
		{"no terminal", terminal.Session{Terminal: true}, nil, false},
		{"NO_COLOR", terminal.Session{Watched: true, Environ: []string{"NO_COLOR=1"}}, nil, false},
		{"NO_COLOR that is empty", terminal.Session{Watched: true, Environ: []string{"NO_COLOR="}}, nil, true},
		{"a dumb terminal", terminal.Session{Watched: true, Environ: []string{"TERM=dumb"}}, nil, false},
		{"always", terminal.Session{Environ: []string{"NO_COLOR=1"}}, []string{"--color", "always"}, true},
		{"never", terminal.Session{Watched: true}, []string{"--color=never"}, false},
	} {
		status, stdout, stderr := follow(t, tt.session, texts, tt.flags...)
		require.Zero(t, status, stderr)
		require.Equal(t, tt.want, strings.Contains(stdout, "\x1b"), "%s: %q", tt.name, stdout)
		require.NotContains(t, stdout, "\x1b[2J", tt.name)
		require.NotContains(t, stdout, "\u202e", tt.name)
		require.Contains(t, stdout, "?[2J?z", tt.name)
		if tt.want {
			placed := terminal.Painter{On: true}.Named("order.placed")
			require.Equal(t, 2, strings.Count(stdout, string(placed)), tt.name)
			require.NotContains(t, stdout, strings.Replace(string(placed), "placed", "paid", 1), "another type has another colour")
		}
	}
	used := map[string]bool{}
	for _, kind := range sluice.SystemTypes() {
		used[strings.TrimSuffix(string(terminal.Painter{On: true}.Named(kind)), kind+"\x1b[0m")] = true
	}
	require.Greater(t, len(used), 4, "types are told apart by their colours")
}
