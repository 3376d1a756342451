package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/testkit/faulttest"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	stopGrace = 2 * time.Second
	stopBound = 15 * time.Second // on 4ec7227 it was 18 and 33 seconds
)

// logText is a log that is written and read at once.
type logText struct {
	mu  sync.Mutex
	all strings.Builder
	to  io.Writer
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all.Write(p)
	return l.to.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// holder is an endpoint that answers no request before it is told to, and then all.
type holder struct {
	*faulttest.Arrivals

	url     string
	release func()
}

func newHolder(t *testing.T) *holder {
	t.Helper()
	released := make(chan struct{})
	h := &holder{Arrivals: faulttest.NewArrivals(), release: sync.OnceFunc(func() { close(released) })}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		id := r.Header.Get("Webhook-Id")
		path, _, _ := strings.Cut(id, "-")
		h.Try(path, id)
		<-released
		h.Take(id)
	}))
	t.Cleanup(server.Close)
	t.Cleanup(h.release)
	h.url = server.URL
	return h
}

// F10: a server that is told to end when NATS does not answer ends at its deadline, with any unwritten records, says once what
// that was, and the next one sends it again.
func TestStop_EndsWithoutNATS(t *testing.T) { // S4-17, S4-22
	t.Parallel()
	for _, fault := range []struct {
		id           string
		breaks, mend func(t *testing.T, nats *natstest.Server, link *faulttest.Link)
	}{
		{
			"stop-away",
			func(t *testing.T, nats *natstest.Server, _ *faulttest.Link) { t.Helper(); nats.Stop(t) },
			func(t *testing.T, nats *natstest.Server, _ *faulttest.Link) { t.Helper(); nats.Start(t) },
		},
		{
			"stop-silent",
			func(_ *testing.T, _ *natstest.Server, link *faulttest.Link) { link.Isolate() },
			func(_ *testing.T, _ *natstest.Server, link *faulttest.Link) { link.Join() },
		},
	} {
		t.Run(fault.id, func(t *testing.T) {
			t.Parallel()
			nats := natstest.Listening(t)
			link := faulttest.NewLink(t, strings.TrimPrefix(nats.ClientURL(), "nats://"))
			change := func(c *config.Config) {
				c.NATS.URL, c.ShutdownGrace = "nats://"+link.Addr(), sluice.Duration(stopGrace)
			}
			log, dir, hook := &logText{to: t.Output()}, t.TempDir(), newHolder(t)
			s := startLogging(t, dir, change, log)
			subscribe(t, s.api, wish(hook.url, `"id":"s"`, quick))
			feed := newFeed(t, nats.ClientURL())
			feed.publish(t, 3)
			eventually(t, func() bool { return hook.Tries() == 3 }, "the attempts are under way")

			watch := faulttest.Begin(t, fault.id)
			fault.breaks(t, nats, link)
			began := time.Now()
			s.cancel()
			hook.release()
			select {
			case <-s.ended:
			case <-time.After(stopBound):
				require.FailNow(t, "it does not end")
			}
			took := time.Since(began)
			require.NoError(t, s.err)
			require.Len(t, regexp.MustCompile(`(?m)^.*stopped before all writes finished.*$`).FindAllString(log.String(), -1), 1)
			require.Contains(t, log.String(), "deliveries: 3")

			fault.mend(t, nats, link)
			watch.Recovered()
			start(t, dir, change)
			eventually(t, func() bool { return hook.Tries() >= 6 }, "they are sent again")
			watch.Resumed()
			feed.publish(t, 3)
			eventually(t, func() bool { return hook.Taken() == 6 }, "and the next ones")
			watch.End(hook.Compare(feed.sent), fmt.Sprintf("it ended %.0f s after it was told to, with shutdown_grace %s; unrecorded attempts are sent again", took.Seconds(), stopGrace))
		})
	}
}
