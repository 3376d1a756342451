package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/app"
	"github.com/sluice-io/sluice/internal/datadir"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/pkg/webhook"
)

// patience is how long a test waits for what should come soon, on a machine that is busy.
const patience = time.Minute

// quick is a policy whose retries come at once.
const quick = `"policy":{"retry":{"preset":"custom","steps":["100ms"],"max_attempts":100}}`

// patient is quick for an endpoint that fails for as long as a test on a busy machine takes.
const patient = `"policy":{"retry":{"preset":"custom","steps":["100ms","1s"],"max_attempts":100}}`

// running is a server in this process.
type running struct {
	api   *client.Client
	at    datadir.Addresses
	dir   string
	token string

	cancel context.CancelFunc
	ended  chan struct{}
	err    error // of Run; to be read once it has ended
}

// serve runs a server for development on a directory of its own until the test ends.
func serve(t *testing.T, change func(*config.Config)) (*client.Client, datadir.Addresses) {
	t.Helper()
	s := start(t, t.TempDir(), change)
	return s.api, s.at
}

// start runs a server on a directory, until it is stopped or the test ends.
func start(tb testing.TB, dir string, change func(*config.Config)) *running {
	tb.Helper()
	return startWith(tb, dir, change, app.Options{Version: "test", Silent: true})
}

// lastLines keeps the end of a server's log, and prints it if the test fails.
type lastLines struct {
	mu   sync.Mutex
	kept []byte
}

const keptLog = 64 << 10 // bytes

func (l *lastLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kept = append(l.kept, p...); len(l.kept) > 2*keptLog {
		l.kept = slices.Clone(l.kept[len(l.kept)-keptLog:])
	}
	return len(p), nil
}

// endOfLog returns a log of a server whose end is printed if the test fails.
func endOfLog(tb testing.TB) *slog.Logger {
	tb.Helper()
	last := &lastLines{}
	tb.Cleanup(func() {
		last.mu.Lock()
		defer last.mu.Unlock()
		if tb.Failed() {
			tb.Logf("end of the server's log:\n%s", last.kept)
		}
	})
	return slog.New(slog.NewTextHandler(last, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// startLogging is start, and says where warnings and errors are logged.
func startLogging(tb testing.TB, dir string, change func(*config.Config), to io.Writer) *running {
	tb.Helper()
	return startAt(tb, slog.LevelWarn, dir, change, to)
}

// startAt is startLogging, and says from which level on.
func startAt(tb testing.TB, level slog.Level, dir string, change func(*config.Config), to io.Writer) *running {
	tb.Helper()
	log := slog.New(slog.NewTextHandler(to, &slog.HandlerOptions{Level: level}))
	return startWith(tb, dir, change, app.Options{Version: "test", Log: log, Silent: true})
}

// tester may do everything in the embedded NATS: tests look behind the server's back, and break things there.
var tester = config.NATSUser{Name: "tester", Password: "$2a$04$n3yOfsTBTIoBuKmXvBCPfeqYyuyFcctTIWFg9hfoBrP/ZcJQ19w6u", Admin: true}

const testerPassword = "open"

// noSync leaves it to the kernel when data reaches the disk, which only a crash of the machine could tell. A disk that
// takes seconds for a sync keeps the whole store waiting.
const noSync = "1h"

// asTester logs in as the tester. A NATS that knows no users takes no notice.
func asTester() nats.Option { return nats.UserInfo(tester.Name, testerPassword) }

// withTester lets the tester in unless change names others, none, or a NATS that is not embedded.
func withTester(cfg *config.Config, change func(*config.Config)) {
	cfg.NATS.Users = []config.NATSUser{tester}
	if change != nil {
		change(cfg)
	}
	if !cfg.NATS.Embedded() || cfg.NATS.Operator != "" {
		cfg.NATS.Users = nil
	}
}

// startWith is start, and says with what else the server runs.
func startWith(tb testing.TB, dir string, change func(*config.Config), opts app.Options) *running {
	tb.Helper()
	turn(tb)
	if opts.Log == nil {
		opts.Log = endOfLog(tb)
	}
	cfg := config.Default()
	cfg.Data, cfg.Dev = dir, true
	cfg.HTTP.Listen, cfg.NATS.Listen = "127.0.0.1:0", "127.0.0.1:0"
	cfg.ShutdownGrace = sluice.Duration(15 * time.Second) // the machine is busy
	cfg.NATS.Sync = noSync
	placed(tb, &cfg, change)
	if cfg.NATS.URL != "" && cfg.Secrets == (config.Secrets{}) {
		cfg.Secrets.Key = sharedKey
	}
	ctx, cancel := context.WithCancel(tb.Context())
	s := &running{dir: dir, cancel: cancel, ended: make(chan struct{})}
	ready := make(chan datadir.Addresses, 1)
	go func() {
		defer close(s.ended)
		opts.Ready = func(at datadir.Addresses) { ready <- at }
		s.err = app.Run(ctx, cfg, opts)
	}()
	tb.Cleanup(func() { s.stop(tb) })
	select {
	case s.at = <-ready:
	case <-s.ended:
		require.NoError(tb, s.err, "the server starts")
		require.FailNow(tb, "the server ended before it was ready")
	}
	token, err := os.ReadFile(filepath.Join(dir, datadir.RootTokenFile))
	require.NoError(tb, err)
	s.token = strings.TrimSpace(string(token))
	transport := &http.Transport{}
	tb.Cleanup(transport.CloseIdleConnections)
	s.api = client.New(s.at.HTTP, s.token)
	s.api.HTTP = &http.Client{Transport: transport}
	return s
}

// stop tells the server to end and waits until it has.
func (s *running) stop(tb testing.TB) {
	tb.Helper()
	s.cancel()
	<-s.ended
	require.NoError(tb, s.err, "the server ends in order")
}

// reply is an answer of the API, as it came over the wire.
type reply struct {
	status int
	header http.Header
	text   string
}

// field returns a member of the answer's JSON object, or one inside another ("error.code").
func (r reply) field(tb testing.TB, path string) any {
	tb.Helper()
	var value any
	require.NoError(tb, json.Unmarshal([]byte(r.text), &value), r.text)
	for name := range strings.SplitSeq(path, ".") {
		object, ok := value.(map[string]any)
		require.True(tb, ok, "%s of %s", path, r.text)
		value = object[name]
	}
	return value
}

// call makes a request that the client cannot: line is "METHOD /path", headers are pairs.
func (s *running) call(tb testing.TB, line, body string, headers ...string) reply {
	tb.Helper()
	method, path, ok := strings.Cut(line, " ")
	require.True(tb, ok)
	req, err := http.NewRequestWithContext(tb.Context(), method, s.at.HTTP+path, strings.NewReader(body))
	require.NoError(tb, err)
	req.Header.Set("Authorization", "Bearer "+s.token)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := s.api.HTTP.Do(req)
	require.NoError(tb, err)
	data, err := io.ReadAll(resp.Body)
	require.NoError(tb, err)
	require.NoError(tb, resp.Body.Close())
	return reply{resp.StatusCode, resp.Header, string(data)}
}

// must is call, and the answer has the status.
func (s *running) must(tb testing.TB, status int, line, body string, headers ...string) reply {
	tb.Helper()
	r := s.call(tb, line, body, headers...)
	require.Equal(tb, status, r.status, "%s: %s", line, r.text)
	return r
}

// dial connects to a server's NATS as any client does.
func dial(tb testing.TB, url string, opts ...nats.Option) jetstream.JetStream {
	tb.Helper()
	return natstest.Dial(tb, url, append([]nats.Option{asTester()}, opts...)...)
}

// put publishes events of one path, ids and data made of the numbers from first to last.
func put(t *testing.T, api *client.Client, path sluice.Path, first, last int) {
	t.Helper()
	events := make([]sluice.Event, 0, last-first+1)
	for n := first; n <= last; n++ {
		events = append(events, sluice.Event{
			ID: numbered(path, n), Path: path, Type: "test.numbered", Source: "/test", Data: fmt.Appendf(nil, `{"n":%d}`, n),
		})
	}
	_, err := api.Publish(t.Context(), sluice.DefaultNamespace, events...)
	require.NoError(t, err)
}

// numbered returns the id that put gives an event.
func numbered(path sluice.Path, n int) string {
	return fmt.Sprintf("%s-%d", strings.ReplaceAll(string(path[1:]), "/", "-"), n)
}

// wish returns a subscription to everything at an endpoint; more is other members of it.
func wish(url string, more ...string) string {
	members := append([]string{`"endpoint":{"url":"` + url + `"}`}, more...)
	if !strings.Contains(strings.Join(more, ","), `"pattern"`) {
		members = append(members, `"pattern":"/**"`)
	}
	return "{" + strings.Join(members, ",") + "}"
}

// status answers every request with a status, for as long as fails says so, then with 200.
func status(code int, fails func(hooktest.Request) bool) func(hooktest.Request) hooktest.Answer {
	return func(r hooktest.Request) hooktest.Answer {
		if fails(r) {
			return hooktest.Answer{Status: code}
		}
		return hooktest.Answer{}
	}
}

// idOf returns the id of the event that a request brings.
func idOf(r hooktest.Request) string { return r.Header.Get(webhook.HeaderID) }

// idsOf returns the ids of the events of requests.
func idsOf(requests []hooktest.Request) []string {
	ids := make([]string, len(requests))
	for i, r := range requests {
		ids[i] = idOf(r)
	}
	return ids
}

// parse returns what a request says, without looking at its signature.
func parse(t *testing.T, r hooktest.Request) *webhook.Delivery {
	t.Helper()
	d, err := webhook.Parse("", r.Header, r.Body)
	require.NoError(t, err, "%s", r.Body)
	return d
}

// receive returns what a request says if the receiver believes it.
func receive(t *testing.T, receiver *webhook.Receiver, r hooktest.Request) *webhook.Delivery {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), r.Method, "http://receiver"+r.Path, strings.NewReader(string(r.Body)))
	require.NoError(t, err)
	req.Header = r.Header
	d, err := receiver.Receive(req)
	require.NoError(t, err, "%s", r.Body)
	return d
}

// eventually waits until a condition holds. Unlike require.Eventually it asks from the test's own
// goroutine, so that the condition may end the test; and it asks ever more seldom, because most conditions are requests.
func eventually(t *testing.T, condition func() bool, what string) {
	t.Helper()
	within(t, patience, condition, what)
}

// within is eventually with another patience.
func within(t *testing.T, most time.Duration, condition func() bool, what string) {
	t.Helper()
	limit := time.NewTimer(most)
	defer limit.Stop()
	for wait := 2 * time.Millisecond; !condition(); wait = min(wait*3/2, 100*time.Millisecond) {
		select {
		case <-time.After(wait):
		case <-limit.C:
			require.FailNow(t, "it takes too long: "+what)
		}
	}
}

// statusOf waits until a subscription's status is as wanted and returns it.
func statusOf(t *testing.T, api *client.Client, id string, wanted func(sluice.Status) bool) sluice.Status {
	t.Helper()
	var st sluice.Status
	eventually(t, func() bool {
		var err error
		st, err = api.Status(t.Context(), id)
		return err == nil && wanted(st)
	}, "the status of "+id+" is as expected")
	return st
}

// idle is the status of a subscription that has nothing to do.
func idle(st sluice.Status) bool { return st.Backlog == 0 && st.InFlight == 0 && st.Parked == 0 }

// served waits until this server's engine serves a subscription, or does not.
func (s *running) served(t *testing.T, id string, want []string) {
	t.Helper()
	eventually(t, func() bool { return slices.Equal(want, s.servedOf(t, id)) }, "who serves "+id)
}

// servedOf returns which of the subscriptions the server serves now, as its metrics say.
func (s *running) servedOf(t *testing.T, ids ...string) []string {
	t.Helper()
	text := s.must(t, http.StatusOK, "GET /metrics", "").text
	var found []string
	for _, id := range ids {
		if strings.Contains(text, `sluice_attempts_in_flight{namespace="default",subscription="`+id+`"}`) {
			found = append(found, id)
		}
	}
	return found
}

// switchboard decides which events an endpoint refuses, and can change its mind.
type switchboard struct {
	mu      sync.Mutex
	refused map[string]bool
}

func refusing(ids ...string) *switchboard {
	s := &switchboard{refused: map[string]bool{}}
	for _, id := range ids {
		s.refused[id] = true
	}
	return s
}

func (s *switchboard) refuses(r hooktest.Request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused[idOf(r)]
}

// accept lets everything through from now on.
func (s *switchboard) accept() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.refused)
}
