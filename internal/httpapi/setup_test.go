package httpapi_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/catalogue"
	"github.com/sluice-io/sluice/internal/endpoint"
	"github.com/sluice-io/sluice/internal/explain"
	"github.com/sluice-io/sluice/internal/httpapi"
	"github.com/sluice-io/sluice/internal/httpapi/admin"
	"github.com/sluice-io/sluice/internal/httpapi/mirrors"
	"github.com/sluice-io/sluice/internal/ingest"
	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/deliverystore"
	"github.com/sluice-io/sluice/internal/natsstore/eventlog"
	"github.com/sluice-io/sluice/internal/natsstore/records"
	"github.com/sluice-io/sluice/internal/subscription"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/internal/testkit/storetest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

const (
	token = "the-root-token"
	hook  = "https://192.0.2.1/hook"
)

// parts are what the API works with, made of the real ones as the program does.
type parts struct {
	store    storetest.Rooms
	registry *subscription.Registry
	attempts *deliverystore.AttemptLog
	sender   *endpoint.Sender

	catalogue *catalogue.Index
}

func (*parts) Expect(*sluice.Subscription) {}

func (p *parts) Ensure(ctx context.Context, sub *sluice.Subscription) error {
	return p.store.Deliveries.EnsureConsumers(ctx, sub)
}

func (p *parts) Remove(ctx context.Context, sub *sluice.Subscription) error {
	return p.store.Deliveries.RemoveConsumers(ctx, sub)
}

func (p *parts) Place(ctx context.Context, sub *sluice.Subscription) (uint64, error) {
	return p.store.Deliveries.Place(ctx, sub)
}

func (p *parts) PutNamespace(ctx context.Context, ns sluice.Namespace, _ string) (sluice.Namespace, bool, error) {
	ns, created, err := p.store.Namespaces().Put(ctx, ns)
	p.catalogue.SetNamespace(ns)
	return ns, created, err
}

func (p *parts) Namespace(ctx context.Context, name string) (sluice.Namespace, error) {
	return p.store.Namespaces().Get(ctx, name)
}

func (p *parts) Namespaces(ctx context.Context) ([]sluice.Namespace, error) {
	return p.store.Namespaces().List(ctx)
}

func (p *parts) DeleteNamespace(ctx context.Context, name, by string) error {
	if name != sluice.DefaultNamespace {
		if err := p.registry.DeleteAll(ctx, name, by); err != nil {
			return err
		}
	}
	return p.store.Namespaces().Delete(ctx, name)
}

func (p *parts) Read(ctx context.Context, ns string, q model.EventQuery) (model.EventPage, error) {
	page, err := p.store.Log.Events(ctx, ns, q)
	return model.EventPage{Events: page.Events, Next: page.Next}, err
}

func (p *parts) EventAt(ctx context.Context, ns string, seq uint64) (sluice.Event, error) {
	return p.store.Log.Event(ctx, ns, seq)
}

func (p *parts) EventByID(ctx context.Context, ns, id string) (sluice.Event, error) {
	return p.store.Log.EventByID(ctx, ns, id)
}

func (p *parts) State(ctx context.Context, ns string, q model.StateQuery) (model.StatePage, error) {
	page, err := p.store.Log.State(ctx, ns, q)
	return page, err
}

func (p *parts) Status(ctx context.Context, sub *sluice.Subscription) (sluice.Status, error) {
	return p.store.Deliveries.Status(ctx, sub)
}

func (p *parts) LastAttemptAt(ctx context.Context, sub *sluice.Subscription) (time.Time, error) {
	return p.store.Deliveries.LastAttemptAt(ctx, sub)
}

func (p *parts) Test(ctx context.Context, sub *sluice.Subscription, eventType string, data []byte) (sluice.Attempt, error) {
	return p.sender.Send(ctx, sub, &sluice.Event{Namespace: sub.Namespace, Path: "/sample", ID: "sample", Type: cmp.Or(eventType, "sample"), Data: data}, 1), nil
}

func (p *parts) Entries(ctx context.Context, q model.LedgerQuery) ([]sluice.LedgerEntry, uint64, error) {
	return p.store.Ledger().Entries(ctx, q)
}

// Subscription announces nothing: the events of these tests are those that they publish.
func (p *parts) Subscription(context.Context, *sluice.Subscription) {}

// bench is an API on a server of its own.
type bench struct {
	*parts

	nats *natstest.Server
	http *httptest.Server
	log  *logged
}

// logged keeps the log's lines.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logged) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Split(strings.TrimSpace(l.buf.String()), "\n")
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{parts: &parts{catalogue: catalogue.New()}, nats: natstest.New(t), log: &logged{}}
	b.store = storetest.Connect(t, natsstore.Options{Conn: b.nats})
	require.NoError(t, b.store.Provision(t.Context()))
	b.record(t)
	b.sender = endpoint.New(endpoint.Options{AllowLoopback: true, AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}})
	t.Cleanup(b.sender.Close)
	b.registry = subscription.New(subscription.Deps{
		Subscriptions: b.store.Subscriptions(),
		Reservations:  natsstore.OpenBucket[subscription.Reservation](b.store.Store, streams.Reservations),
		Logs:          b.store.Log,
		Endpoints:     b.sender,
		Consumers:     b.parts,
		Replays:       b.store.Deliveries.Replays(),
		ReplayLogs:    b.store.Log,
		Ledger:        ledger.New(b.store.Ledger(), slog.New(slog.DiscardHandler)),
		Announce:      b.parts,
		Now:           time.Now,
		Catalogue:     b.catalogue,
		Labels:        b.catalogue.Labels,
	})
	b.http = httptest.NewServer(httpapi.New(b.options()).Handler())
	t.Cleanup(b.http.Close)
	return b
}

func (b *bench) options() httpapi.Options {
	opts := b.bareOptions()
	opts.Storage = b.store.Storage
	opts.DeadLetters = letters{b.store.Deliveries}
	opts.Catalogue, opts.EventTypes = b.catalogue, catalogue.NewKeeper(b.catalogue, b.store.EventTypes(), b.store.Log, ledger.New(b.store.Ledger(), slog.New(slog.DiscardHandler)))
	opts.Explain = explain.New(b.store.Deliveries, b.store.Log, explain.Options{})
	opts.Attempts = b.store.Deliveries
	opts.Fact = endpoint.Fact
	opts.Mirrors = mirrors.Options{Changes: records.EventLog{Log: b.store.Log}, Summary: b.catalogue.Summary}
	opts.Registry, opts.Namespaces, opts.Ingest, opts.Log, opts.Deliveries, opts.Admin.Audit, opts.Ready = b.registry, b, b.ingest(nil), b, b, b, b.store.Ready
	return opts
}

// ingest is the way of events into the log, with quotas if they are not nil.
func (b *bench) ingest(quotas ingest.Quota) *ingest.Ingest {
	now := time.Now() // it stands still: quotas do not refill during a test
	return ingest.New(ingest.Deps{
		Publisher: eventlog.Exact{Log: b.store.Log}, Catalogue: b.catalogue, Quota: quotas, Now: func() time.Time { return now },
	})
}

// letters are the dead letters as the program gives them to the API.
type letters struct{ *deliverystore.Store }

func (l letters) ListDeadLetters(ctx context.Context, sub *sluice.Subscription, q model.DeadLetterQuery) ([]model.BuriedLetter, uint64, error) {
	return l.Store.ListDeadLetters(ctx, sub, q)
}

func (l letters) Discard(ctx context.Context, sub *sluice.Subscription, event, _ string) error {
	return l.Store.Discard(ctx, sub, event)
}

func (l letters) DiscardAll(ctx context.Context, sub *sluice.Subscription, _ string) error {
	return l.Store.DiscardAll(ctx, sub)
}

func (l letters) Redrivable(ctx context.Context, sub *sluice.Subscription) (model.Redrivable, error) {
	found, err := l.Store.Redrivable(ctx, sub)
	return found, err
}

// bareOptions have no storage behind them.
func (b *bench) bareOptions() httpapi.Options {
	return httpapi.Options{
		Authentication: httpapi.Authentication{Token: token},
		Admin:          admin.Options{JWKS: func(context.Context) ([]byte, error) { return []byte(`{"keys":[]}`), nil }},
		Metrics:        http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "metrics 1\n") }),
		Network:        httpapi.Network{MaxBody: 64 << 10}, Version: "test",
		Logger: slog.New(slog.NewJSONHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug})), LogRequests: httpapi.LogAll,
	}
}

// record lets attempts be recorded for as long as the test runs.
func (b *bench) record(t *testing.T) {
	t.Helper()
	var err error
	b.attempts, err = b.store.Deliveries.AttemptLog()
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = b.attempts.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	text   string
	body   map[string]any
}

func (a *answer) code() string {
	e, _ := a.body["error"].(map[string]any)
	code, _ := e["code"].(string)
	return code
}

func (a *answer) list(t *testing.T, name string) []map[string]any {
	t.Helper()
	items, ok := a.body[name].([]any)
	require.True(t, ok, "%s has no list %s", a.text, name)
	list := make([]map[string]any, len(items))
	for i, item := range items {
		list[i], ok = item.(map[string]any)
		require.True(t, ok)
	}
	return list
}

// do makes a request with the root token; headers are pairs and go before the defaults.
func (b *bench) do(t *testing.T, line, body string, headers ...string) *answer {
	t.Helper()
	method, path, ok := strings.Cut(line, " ")
	require.True(t, ok)
	req, err := http.NewRequestWithContext(t.Context(), method, b.http.URL+path, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := b.http.Client().Do(req)
	require.NoError(t, err)
	data, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	a := &answer{status: resp.StatusCode, header: resp.Header, text: string(data)}
	if method != http.MethodHead && strings.Contains(resp.Header.Get("Content-Type"), "json") {
		require.NoError(t, json.Unmarshal(data, &a.body), a.text)
	}
	return a
}

// must is do, and the status is the expected one.
func (b *bench) must(t *testing.T, status int, line, body string, headers ...string) *answer {
	t.Helper()
	a := b.do(t, line, body, headers...)
	require.Equal(t, status, a.status, "%s: %s", line, a.text)
	return a
}

// subscription makes one and returns its id.
func (b *bench) subscription(t *testing.T, url string) string {
	t.Helper()
	a := b.must(t, http.StatusCreated, "POST /v1/subscriptions", `{"pattern":"/**","endpoint":{"url":"`+url+`"}}`)
	id, ok := a.body["id"].(string)
	require.True(t, ok)
	return id
}

func receiver(t *testing.T) *hooktest.Server {
	t.Helper()
	return hooktest.New(t, func(hooktest.Request) hooktest.Answer { return hooktest.Answer{Status: http.StatusNoContent} })
}
