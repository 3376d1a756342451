package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a feed left out because listening was slow, or lost with its connection or the log, is fetched or said, and
// everything comes once, in order.
func TestListen_FetchesDataThatTheFeedOmits(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancelCause(t.Context())
	var connections, received atomic.Int32
	asked := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/events") { // between 1 and 4
			asked <- r.URL.Query().Get("since") + " to " + r.URL.Query().Get("until")
			_, _ = fmt.Fprintf(w, `{"events":[%s,%s]}`, stored(2), stored(3))
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		asked <- r.Header.Get("Last-Event-ID")
		switch connections.Add(1) {
		case 1:
			_, _ = io.WriteString(w, "id: 0\ndata: {\"subscribed\":true,\"current_seq\":0}\n\n"+frame(1, "a", "x")+
				"data: {\"lagged\":{\"missed_count\":2,\"oldest_available_seq\":4,\"current_seq\":9}}\n\n"+frame(4, "a", "x"))
		case 2:
			w.WriteHeader(http.StatusGone)
			_, _ = io.WriteString(w, `{"ok":false,"error":{"code":"replay_window_exceeded","message":"gone","details":{"oldest_available_seq":7}}}`)
		default:
			_, _ = io.WriteString(w, "id: 6\ndata: {\"subscribed\":true,\"current_seq\":7}\n\n"+frame(7, "a", "x"))
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}
	}))
	defer server.Close()
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if received.Add(1) == 5 {
			interrupt(errSignal)
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	defer receiver.Close()
	status, stdout, stderr := runUntil(ctx, "", "listen", "--forward", receiver.URL, "--since", "all", "--server", server.URL)
	require.Zero(t, status, stderr)
	require.Equal(t, []string{"  1  ", "  2  ", "  3  ", "  4  ", "  7  "}, regexp.MustCompile(`  \d  `).FindAllString(stdout, -1), stdout)
	require.Equal(t, []string{"-1", "1 to 3", "4", "6"}, []string{<-asked, <-asked, <-asked, <-asked})
	require.Contains(t, stderr, "events between 4 and 6 left the log before they were forwarded")
}

// stored is an event in a list.
func stored(seq int) string {
	return fmt.Sprintf(`{"specversion":"1.0","id":"%d","source":"/s","type":"a","path":"/p","sequence":"%020d","time":"2026-05-01T12:00:00Z"}`, seq, seq)
}
