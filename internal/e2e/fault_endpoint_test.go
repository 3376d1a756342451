package e2e_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/faulttest"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// endpointFault is something that an endpoint does to what it is sent.
type endpointFault struct {
	id     string
	answer func(n int64) hooktest.Answer   // to the nth request, while it lasts; nil: there is url
	url    func(t *testing.T) (url string) // where no server ever answers; the subscription is patched later
	says   string                          // of an attempt's error
}

// again writes the same again and again, and counts it.
func again(head, body string, written *atomic.Int64, pause time.Duration) func(net.Conn) {
	return func(c net.Conn) {
		if _, err := io.WriteString(c, head); err != nil {
			return
		}
		for {
			n, err := io.WriteString(c, body)
			written.Add(int64(n))
			if err != nil {
				return
			}
			if pause > 0 {
				<-time.After(pause)
			}
		}
	}
}

// endpointFaults returns the faults; written counts what the endless ones get to write.
func endpointFaults(written *atomic.Int64) []endpointFault {
	const patient, huge = "timeout after 1s", "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 104857600\r\n\r\n"
	always := func(a hooktest.Answer) func(int64) hooktest.Answer { return func(int64) hooktest.Answer { return a } }
	raw := func(head, body string, pause time.Duration) func(int64) hooktest.Answer {
		return always(hooktest.Answer{Raw: again(head, body, written, pause)})
	}
	return []endpointFault{
		{id: "endpoint-hangs", answer: always(hooktest.Answer{Hang: true}), says: patient},
		{id: "endpoint-drips", answer: func(n int64) hooktest.Answer {
			if n%2 == 0 {
				return hooktest.Answer{Body: strings.Repeat("x", 1000), Drip: time.Second}
			}
			return hooktest.Answer{Raw: again("", "H", written, time.Second)}
		}, says: patient},
		{id: "endpoint-cuts-body", answer: always(hooktest.Answer{Body: strings.Repeat("x", 1000), Cut: true}), says: "before the response was complete"},
		{id: "endpoint-cuts", answer: always(hooktest.Answer{Cut: true}), says: "closed"},
		{id: "endpoint-huge", answer: raw(huge, strings.Repeat("x", 64<<10), 0), says: "status 500"},
		{id: "endpoint-garbage", answer: raw("", "garbage \x00\xff garbage\r\n", 0), says: "HTTP"},
		{id: "endpoint-1xx", answer: raw("", "HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n", 0), says: ""},
		{id: "endpoint-redirects", answer: always(hooktest.Answer{Status: http.StatusFound, Header: map[string]string{"Location": "/"}}), says: "not followed"},
		{id: "endpoint-expired", url: expired, says: "expired"},
		{id: "endpoint-slow-tls", url: silent, says: patient},
	}
}

// expired returns the address of a server whose certificate has expired.
func expired(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().AddDate(-2, 0, 0), NotAfter: time.Now().AddDate(-1, 0, 0),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL
}

// silent returns the address of a server that takes connections and says nothing.
func silent(t *testing.T) string {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) }) // connections wait in its queue
	return "https://" + l.Addr().String()
}

// Issue 3, "Faults": any fault of an endpoint is a failed attempt, which
// costs little and is tried again by the timetable; other endpoints hear nothing of it, and all
// arrives in order when it has come to its senses.
func TestFault_EventsOutliveThoseOfTheEndpoint(t *testing.T) { // S0-47, S0-48, S4-50, S4-51, C03, C06
	t.Parallel()
	for _, f := range endpointFaults(new(atomic.Int64)) {
		t.Run(f.id, func(t *testing.T) {
			t.Parallel()
			tryEndpoint(t, f.id)
		})
	}
}

func tryEndpoint(t *testing.T, id string) {
	t.Helper()
	var written, asked atomic.Int64
	var f endpointFault
	for _, each := range endpointFaults(&written) {
		if each.id == id {
			f = each
		}
	}
	var well atomic.Bool
	got, healthy := faulttest.NewArrivals(), newTaker(t)
	hook := hooktest.New(t, func(r hooktest.Request) hooktest.Answer {
		id := idOf(r)
		path, _, _ := strings.Cut(id, "-")
		got.Try(path, id)
		if !well.Load() {
			return f.answer(asked.Add(1))
		}
		got.Take(id)
		return hooktest.Answer{}
	})
	url := hook.URL
	if f.url != nil {
		url = f.url(t)
	}
	s := start(t, t.TempDir(), nil)
	const policy = `"policy":{"window":4,"timeout":"1s","retry":{"preset":"custom","steps":["500ms"],"max_attempts":100}}`
	subscribe(t, s.api, wish(url, `"id":"bad"`, policy))
	subscribe(t, s.api, wish(healthy.url, `"id":"good"`, policy))
	feed := newFeed(t, s.at.NATS)

	watch, began := faulttest.Begin(t, f.id), time.Now()
	feed.publish(t, 12)
	eventually(t, func() bool { return healthy.Taken() == 12 }, "the healthy one is not disturbed")
	lasts := 1100 * time.Millisecond
	if faulttest.Long() {
		lasts = 20 * time.Second
	}
	watch.Wait(lasts)
	var a sluice.Attempt
	eventually(t, func() bool {
		delivery, err := s.api.Delivery(t.Context(), "bad", "p0-0")
		if err != nil {
			return false
		}
		i := slices.IndexFunc(delivery.Attempts, func(a sluice.Attempt) bool { return strings.Contains(a.Error, f.says) })
		if i >= 0 {
			a = delivery.Attempts[i]
		}
		return i >= 0
	}, "an attempt has failed as it has to")
	require.Equal(t, sluice.Failed, a.Outcome)
	tries := got.Tries()
	require.LessOrEqual(t, tries, 4*int(1+time.Since(began)/(500*time.Millisecond)), "three paths, two attempts a second each at most")
	require.LessOrEqual(t, written.Load(), int64(tries+1)*8<<20, "what is read of an endless answer is bounded")

	cured := time.Now()
	well.Store(true)
	if f.url != nil {
		s.must(t, http.StatusOK, "PATCH /v1/subscriptions/bad", `{"endpoint":{"url":"`+hook.URL+`"}}`)
	}
	watch.Recovered()
	eventually(t, func() bool { return got.Taken() > 0 }, "deliveries go on")
	resumed := watch.Resumed()
	feed.publish(t, 12)
	statusOf(t, s.api, "bad", func(st sluice.Status) bool { return idle(st) && got.Taken() == 24 })
	arrived := got.Compare(feed.sent)
	t.Logf("%+v, %q, %d attempts while it lasted, %d bytes written, resumed after %s", arrived, a.Error, tries, written.Load(), resumed)
	require.LessOrEqual(t, arrived.Twice, s.failedSince(t, "bad", feed.sent, cured), "only an event whose acceptance came too late is sent again")
	watch.End(arrived, fmt.Sprintf("%q", a.Error))
}

// failedSince returns how many attempts have failed since a time.
func (s *running) failedSince(t *testing.T, id string, sent map[string][]string, since time.Time) (n int) {
	t.Helper()
	for _, event := range slices.Concat(slices.Collect(maps.Values(sent))...) {
		delivery, err := s.api.Delivery(t.Context(), id, event)
		require.NoError(t, err)
		for _, a := range delivery.Attempts {
			if a.Outcome == sluice.Failed && a.StartedAt.Add(a.Duration.Std()).After(since) {
				n++
			}
		}
	}
	return n
}
