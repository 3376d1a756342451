package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/testkit/faulttest"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
)

// lines counts the lines of a log.
type lines struct {
	io.Writer

	n atomic.Int64
}

// Write counts and passes on.
func (l *lines) Write(p []byte) (int, error) {
	l.n.Add(int64(bytes.Count(p, []byte("\n"))))
	return l.Writer.Write(p)
}

// taker is an endpoint that fails every seventh request, and knows what it took.
type taker struct {
	*faulttest.Arrivals

	requests atomic.Int64
	url      string
}

func newTaker(t *testing.T) *taker {
	t.Helper()
	a := &taker{Arrivals: faulttest.NewArrivals()}
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	a.url = server.URL
	return a
}

func (a *taker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	id := r.Header.Get("Webhook-Id")
	path, _, _ := strings.Cut(id, "-")
	a.Try(path, id)
	if a.requests.Add(1)%7 == 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	a.Take(id)
}

// feed publishes events over three paths, and remembers those that were acknowledged.
type feed struct {
	js   jetstream.JetStream
	sent map[string][]string
	n    int
}

func newFeed(t *testing.T, url string, opts ...nats.Option) *feed {
	t.Helper()
	js := dial(t, url, append(opts, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))...)
	return &feed{js: js, sent: map[string][]string{}}
}

// publish publishes n events, and does not give up on any before a minute is over.
func (f *feed) publish(t *testing.T, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range n {
		path := fmt.Sprintf("p%d", f.n%3)
		id := fmt.Sprintf("%s-%d", path, f.n)
		f.n++
		for {
			limit, cancel := context.WithTimeout(ctx, 2*time.Second)
			_, err := f.js.Publish(limit, jsNames(t).EventsPrefix()+"default."+path, []byte(`{}`), jetstream.WithMsgID(id))
			cancel()
			if err == nil {
				break
			}
			require.NoError(t, ctx.Err(), "an event is published")
		}
		f.sent[path] = append(f.sent[path], id)
	}
}

// natsWorld is a server whose NATS is elsewhere, behind a link.
type natsWorld struct {
	nats  *natstest.Server
	link  *faulttest.Link
	feed  *feed
	taker *taker
	log   *lines
	long  bool
}

// natsFault is a fault of NATS, or of the way to it. during lets it come and go: it calls
// watch.Recovered when it is over.
type natsFault struct {
	id     string
	during func(t *testing.T, w *natsWorld, watch *faulttest.Watch)
	lines  int64 // warnings that may be logged meanwhile, however long it lasts
}

const natsWindow = 8

// natsFaults returns the faults, and how long their short and long forms last.
func natsFaults() []natsFault {
	pick := func(short, long time.Duration) time.Duration {
		if faulttest.Long() {
			return long
		}
		return short
	}
	return []natsFault{
		{"nats-restart", func(t *testing.T, w *natsWorld, watch *faulttest.Watch) {
			t.Helper()
			for range 3 {
				w.feed.publish(t, 20)
				w.nats.Restart(t)
			}
			watch.Recovered()
		}, 30},
		{"nats-away", func(t *testing.T, w *natsWorld, watch *faulttest.Watch) {
			t.Helper()
			w.nats.Stop(t)
			watch.Wait(pick(3*time.Second, time.Minute))
			w.nats.Start(t)
			watch.Recovered()
		}, 40},
		{"nats-slow", func(t *testing.T, w *natsWorld, watch *faulttest.Watch) {
			t.Helper()
			w.link.Slow(100*time.Millisecond, 64<<10)
			before := w.taker.Taken()
			w.feed.publish(t, 30)
			eventually(t, func() bool { return w.taker.Taken() == before+30 }, "they arrive, slowly")
			watch.Wait(pick(time.Second, 20*time.Second))
			w.link.Slow(0, 0)
			watch.Recovered()
		}, 5},
		{"nats-half-open", func(t *testing.T, w *natsWorld, watch *faulttest.Watch) {
			t.Helper()
			w.link.Swallow()
			watch.Recovered() // who connects again is heard
		}, 60},
		{"nats-cut", func(t *testing.T, w *natsWorld, watch *faulttest.Watch) {
			t.Helper()
			times := 10
			if w.long {
				times = 40
			}
			for range times {
				w.link.Cut()
				w.feed.publish(t, 5)
				<-time.After(300 * time.Millisecond)
			}
			watch.Recovered()
		}, 90},
	}
}

// Issue 3, "Faults": through any fault of NATS, no event that it acknowledged is lost, no path's
// order is broken, deliveries go on by themselves, and waiting for it costs nothing.
func TestFault_EventsOutliveThoseOfNATS(t *testing.T) { // S4-17, S4-22, S0-41, C01
	t.Parallel()
	for _, f := range natsFaults() {
		t.Run(f.id, func(t *testing.T) {
			t.Parallel()
			f.try(t)
		})
	}
}

func (f natsFault) try(t *testing.T) {
	t.Helper()
	w := &natsWorld{nats: natstest.Listening(t), taker: newTaker(t), log: &lines{Writer: t.Output()}, long: faulttest.Long()}
	w.link = faulttest.NewLink(t, strings.TrimPrefix(w.nats.ClientURL(), "nats://"))
	s := startLogging(t, t.TempDir(), func(c *config.Config) { c.NATS.URL = "nats://" + w.link.Addr() }, w.log)
	w.feed = newFeed(t, w.nats.ClientURL())
	subscribe(t, s.api, wish(w.taker.url, `"id":"s"`,
		fmt.Sprintf(`"policy":{"window":%d,"retry":{"preset":"custom","steps":["100ms"],"max_attempts":50}}`, natsWindow)))
	w.feed.publish(t, 30)
	eventually(t, func() bool { return w.taker.Taken() == 30 }, "the first arrive")

	watch := faulttest.Begin(t, f.id)
	logged, began := w.log.n.Load(), time.Now()
	f.during(t, w, watch)
	before := w.taker.Taken()
	w.feed.publish(t, 30)
	patiently(t, func() bool { return w.taker.Taken() > before }, "deliveries go on")
	resumed := watch.Resumed()
	patiently(t, func() bool { return w.taker.Taken() == w.feed.n }, "all arrive")
	statusOf(t, s.api, "s", idle)
	logged = w.log.n.Load() - logged
	require.LessOrEqual(t, logged, f.lines, "warnings")
	a := w.taker.Compare(w.feed.sent)
	t.Logf("%+v, resumed after %s, %d warnings in %s", a, resumed, logged, time.Since(began))
	require.LessOrEqual(t, a.Twice, natsWindow, "at most what was under way is sent twice")
	watch.End(a, fmt.Sprintf("%d warnings logged", logged))
}

// patiently is eventually for what may have to wait until a dead connection is noticed.
func patiently(t *testing.T, condition func() bool, what string) {
	t.Helper()
	within(t, 2*patience, condition, what)
}
