package delivery_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/delivery"
	outbound "github.com/sluice-io/sluice/internal/endpoint"
	"github.com/sluice-io/sluice/internal/testkit/faulttest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// at serves HTTP on an address of this host; with port 0 on any.
func at(t *testing.T, host string, port int, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	require.NoError(t, err)
	s := httptest.NewUnstartedServer(h)
	require.NoError(t, s.Listener.Close())
	s.Listener = listener
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// Issue 3, "Faults": an endpoint's name gets another address. Events go there soon, whether the
// old place is silent or still answers, badly, over a connection that is kept.
func TestEndpoint_MayMove(t *testing.T) { // S4-50, S4-59
	t.Parallel()
	for _, tt := range []struct {
		id   string
		left func(w http.ResponseWriter, r *http.Request) // what the old place does
	}{
		{"endpoint-moves", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }},
		{"endpoint-moves-away", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }},
	} {
		t.Run(tt.id, func(t *testing.T) {
			t.Parallel()
			tryMove(t, tt.id, tt.left)
		})
	}
}

func tryMove(t *testing.T, id string, left http.HandlerFunc) {
	t.Helper()
	got := faulttest.NewArrivals()
	moved := make(chan struct{})
	take := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // or it goes unnoticed that the sender went away
		id := r.Header.Get("Webhook-Id")
		path, _, _ := strings.Cut(id, "-")
		got.Try(path, id)
		if isClosed(moved) && strings.HasPrefix(r.Context().Value(http.LocalAddrContextKey).(net.Addr).String(), "127.0.0.1:") {
			left(w, r)
			return
		}
		got.Take(id)
	}
	old := at(t, "127.0.0.1", 0, take)
	_, port, err := net.SplitHostPort(old.Listener.Addr().String())
	require.NoError(t, err)
	n, err := strconv.Atoi(port)
	require.NoError(t, err)
	at(t, "127.0.0.2", n, take)

	var dns faulttest.DNS
	dns.Set("127.0.0.1")
	sender := outbound.New(outbound.Options{AllowLoopback: true, Resolver: dns.Resolver()})
	t.Cleanup(sender.Close)
	w := newWorld(t, connect(t), "n", sluice.Policy{Window: 4, Timeout: sluice.Duration(10 * time.Second), Retry: sluice.Retry{
		Preset: sluice.PresetCustom, Steps: []sluice.Duration{sluice.Duration(100 * time.Millisecond)}, MaxAttempts: 100,
	}})
	w.sub.Endpoint.URL = "http://moving.localhost:" + port
	w.sub.Secrets = []sluice.Secret{{Value: "whsec_bmV3LXNlY3JldC1uZXctc2VjcmV0LW5ldy1zZWNyZXQ="}}
	w.ports = func(p *delivery.Deps) { p.Sender = sender }
	proc := w.start(t)
	defer proc.stop()
	sent := map[string][]string{}
	publish := func(n int) {
		for range n {
			path := fmt.Sprint("p", w.total%3)
			id := fmt.Sprintf("%s-%d", path, w.total)
			w.publish(t, sluice.Path("/a/"+path), id)
			sent[path] = append(sent[path], id)
			w.total++
		}
	}
	publish(12)
	require.True(t, within(patience, func() bool { return got.Taken() == w.total }))

	watch := faulttest.Begin(t, id)
	close(moved)
	dns.Set("127.0.0.2")
	watch.Recovered()
	before := got.Taken()
	publish(12)
	require.True(t, within(patience, func() bool { return got.Taken() > before }), "it is found")
	resumed := watch.Resumed()
	require.True(t, within(patience, func() bool { return got.Taken() == w.total && parked(t, w) == 0 }))
	a := got.Compare(sent)
	t.Logf("%+v, %d attempts, resumed after %s", a, got.Tries(), resumed)
	require.Zero(t, a.Twice)
	watch.End(a, fmt.Sprintf("%d attempts for %d events", got.Tries(), w.total))
}
