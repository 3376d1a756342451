package ingest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/catalogue"
	"github.com/sluice-io/sluice/internal/durable"
	"github.com/sluice-io/sluice/internal/grants"
	"github.com/sluice-io/sluice/internal/httpapi"
	"github.com/sluice-io/sluice/internal/httpapi/dstreams"
	"github.com/sluice-io/sluice/internal/ingest"
	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/eventlog"
	"github.com/sluice-io/sluice/internal/natsstore/records"
	"github.com/sluice-io/sluice/internal/quota"
	"github.com/sluice-io/sluice/internal/schedule/action"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/internal/testkit/storetest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// entries is a namespace, acme, and all ways of events into it.
type entries struct {
	t         *testing.T
	store     storetest.Rooms
	index     *authz.Index
	authority *grants.Authority
	catalogue *catalogue.Index
	quotas    *quota.Quotas
	looped    error     // the refusal of the loop guard, nil: none
	now       time.Time // of the quotas
	http      *httptest.Server
	perform   *action.Performer
	root, ann caller
}

// caller is a principal with its token.
type caller struct {
	sluice.Creator

	token string
}

// refusal is the answer to a caller, or the recorded outcome.
type refusal struct {
	Code    sluice.Code
	Message string
	Details map[string]any
}

// CheckNew is the loop guard: an append names no cause, so the refusal is the test's.
func (e *entries) CheckNew(context.Context, string, string, []sluice.Event) error { return e.looped }

// grantRecords stores grants, and the index knows them at once.
type grantRecords struct {
	natsstore.Bucket[authz.Record]

	index *authz.Index
}

func (r grantRecords) Put(ctx context.Context, key string, record authz.Record, revision uint64) (uint64, error) {
	stored, err := r.Bucket.Put(ctx, key, record, revision)
	if err == nil {
		r.index.Set(key, record, stored)
	}
	return stored, err
}

func newEntries(t *testing.T) *entries {
	t.Helper()
	const rootToken = "the-root-token"
	store := storetest.Connect(t, natsstore.Options{Conn: natstest.New(t)})
	require.NoError(t, store.Provision(t.Context()))
	e := &entries{t: t, store: store, index: authz.NewIndex(), catalogue: catalogue.New(), quotas: quota.NewQuotas(), now: time.Now()}
	e.index.CaughtUp()
	ways := ingest.Deps{Access: e.index, Quota: e.quotas, Catalogue: e.catalogue, Causes: e, Publisher: store.Log, Now: func() time.Time { return e.now }}
	e.perform = action.New(action.Deps{Ingest: ingest.New(ways), Access: e.index, Now: time.Now})
	log := slog.New(slog.DiscardHandler)
	e.authority = grants.New(grants.Deps{
		Records: grantRecords{natsstore.OpenBucket[authz.Record](store.Store, streams.Access), e.index}, Index: e.index, Ledger: ledger.New(store.Ledger(), log), Now: time.Now,
		Keys: func(ctx context.Context) ([]grants.Key, error) {
			keys, err := store.Keys().For(ctx, sluice.UseGrant)
			if err != nil {
				return nil, err
			}
			return []grants.Key{{ID: keys[0].ID, Private: keys[0].Private()}}, nil
		},
	})
	ways.Publisher = eventlog.Exact{Log: store.Log}
	e.http = httptest.NewServer(httpapi.New(httpapi.Options{
		Authentication: httpapi.Authentication{Token: rootToken, Authority: e.authority, Access: e.index},
		Publishing:     httpapi.Publishing{Ingest: ingest.New(ways)},
		Store:          httpapi.Store{Ready: store.Ready},
		Network:        httpapi.Network{MaxBody: 4 << 20},
		Streams:        dstreams.Options{Engine: durable.New(records.Paths{Log: store.Log}, time.Now)},
	}).Handler())
	t.Cleanup(e.http.Close)
	e.namespace(t, sluice.Namespace{Name: "acme"})
	e.root = caller{sluice.Creator{CreatedBy: sluice.Root}, rootToken}
	e.ann = e.grant(t, "user:ann")
	return e
}

// namespace creates or changes a namespace.
func (e *entries) namespace(t *testing.T, ns sluice.Namespace) {
	t.Helper()
	ns, _, err := e.store.Namespaces().Put(t.Context(), ns)
	require.NoError(t, err)
	e.catalogue.SetNamespace(ns)
	e.quotas.Set(ns)
}

// grant returns a caller that may publish on /a and below.
func (e *entries) grant(t *testing.T, who sluice.Principal) caller {
	t.Helper()
	object, err := sluice.ParseObject("path:acme/a/**")
	require.NoError(t, err)
	m, err := e.authority.Mint(t.Context(), sluice.Caller{Principal: sluice.Root}, grants.Wish{Principal: who, Verbs: []sluice.Verb{sluice.VerbPublish}, Object: &object, ExpiresAt: time.Now().Add(time.Hour)})
	require.NoError(t, err)
	return caller{sluice.Creator{CreatedBy: who, Grant: m.ID, CreatedAt: time.Now()}, m.Token}
}

// request makes an HTTP request, and returns the refusal.
func (e *entries) request(t *testing.T, by caller, method, url, body string) refusal {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, e.http.URL+url, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+by.token)
	req.Header.Set("Content-Type", "application/json")
	resp, err := e.http.Client().Do(req)
	require.NoError(t, err)
	data, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	var is struct{ Error refusal }
	if len(data) > 0 {
		require.NoError(t, json.Unmarshal(data, &is), "%s", data)
	}
	return is.Error
}

// newStream is the path of a stream that is created with its first events, below the attempt's.
const newStream = "/new"

// attempt is an event that a caller publishes.
type attempt struct {
	by   caller
	ns   string
	path sluice.Path
	data string
}

// fire performs an action, and returns the outcome that is recorded, with the words of the server's log.
func (e *entries) fire(t *testing.T, a attempt, perform func(f action.Firing) error) refusal {
	t.Helper()
	act := sluice.Action{Path: a.path, Type: sluice.DefaultType, Data: json.RawMessage(a.data)}
	err := perform(action.Firing{Creator: a.by.Creator, Event: act.Event(a.ns, "firing")})
	if err == nil {
		return refusal{}
	}
	is, ok := errors.AsType[*sluice.Error](err)
	require.True(t, ok, "%v", err)
	if denied, ok := errors.AsType[ingest.Denied](err); ok {
		require.Equal(t, []any{sluice.Forbidden, "the creator may not publish on " + string(a.path)}, []any{is.Code, is.Message}, "the reason is not told to others")
		is, ok = errors.AsType[*sluice.Error](denied)
		require.True(t, ok)
		return refusal{Code: is.Code, Message: is.Message}
	}
	return refusal{Code: sluice.Code(model.DispatchOutcome(err)), Message: is.Message}
}

// all publishes by every entry, and returns the refusals.
func (e *entries) all(t *testing.T, a attempt) map[string]refusal {
	t.Helper()
	url := "/v1/namespaces/" + a.ns + "/events"
	one := fmt.Sprintf(`{"id":%%q,"path":%q,"data":%s}`, a.path, a.data)
	batch := e.request(t, a.by, http.MethodPost, url, fmt.Sprintf("["+one+"]", "of-a-batch"))
	return map[string]refusal{
		"event":  e.request(t, a.by, http.MethodPost, url, fmt.Sprintf(one, "alone")),
		"batch":  batch,
		"append": e.request(t, a.by, http.MethodPost, "/streams/"+a.ns+string(a.path), a.data),
		"stream": e.request(t, a.by, http.MethodPut, "/streams/"+a.ns+string(a.path)+newStream, a.data),
		"scheduled event or appointment": e.fire(t, a, func(f action.Firing) error {
			_, err := e.perform.Perform(t.Context(), f)
			return err
		}),
		"watch": e.fire(t, a, func(f action.Firing) error {
			return action.Watched{Performer: e.perform}.Perform(t.Context(), f.Creator, f.Event)
		}),
	}
}

// counted is what differs from entry to entry in the words of a refusal: how many bytes it counts.
var counted = regexp.MustCompile(`this request has \d+`)

// All entries refuse the same, with the same code and in the same words.
func TestEntries_RefuseTheSameInTheSameWords(t *testing.T) {
	t.Parallel()
	const schema = `{"type":"object","properties":{"n":{"type":"integer"}}}`
	for _, c := range []struct {
		name    string
		prepare func(*entries, *attempt)
		code    sluice.Code
		words   string
	}{
		{"all is well", func(*entries, *attempt) {}, "", ""},
		{"no right for the path", func(_ *entries, a *attempt) { a.path = "/b/1" }, sluice.CapabilityRequired, "a grant with the verb publish for path:acme/b/1"},
		{"another's namespace", func(_ *entries, a *attempt) { a.ns = "nowhere" }, sluice.NotFound, "not found, or not visible to you"},
		{"unknown namespace", func(e *entries, a *attempt) { a.by, a.ns = e.root, "nowhere" }, sluice.NotFound, `namespace "nowhere" not found`},
		{"system path", func(e *entries, a *attempt) { a.by, a.path = e.root, "/_sys/x" }, sluice.Forbidden, "paths that start with /_sys or /$ are reserved"},
		{"type not in the catalogue", func(e *entries, _ *attempt) {
			e.namespace(e.t, sluice.Namespace{Name: "acme", Catalogue: sluice.CatalogueStrict})
		}, sluice.UnknownEventType, `"message"`},
		{"data that the schema refuses", func(e *entries, a *attempt) {
			e.namespace(e.t, sluice.Namespace{Name: "acme", Catalogue: sluice.CatalogueStrict})
			e.catalogue.SetType(sluice.EventType{Namespace: "acme", Type: sluice.DefaultType, Schema: json.RawMessage(schema)})
			a.data = `{"n":"one"}`
		}, sluice.InvalidEventData, "the data at /n does not match the schema of message"},
		{"no quota left", func(e *entries, _ *attempt) {
			e.namespace(e.t, sluice.Namespace{Name: "acme", Quota: sluice.Quota{EventsPerSecond: 0.01, Burst: 1}})
			require.NoError(e.t, e.quotas.Take("acme", 1, 0, e.now))
		}, sluice.QuotaExceeded, "retry in 100 s"},
		{"more than the quota ever allows", func(e *entries, _ *attempt) {
			e.namespace(e.t, sluice.Namespace{Name: "acme", Quota: sluice.Quota{BytesPerSecond: 1}})
		}, sluice.TooLarge, "accepts at most 1 bytes at once"},
		{"more than the log takes", func(_ *entries, a *attempt) { a.data = `"` + strings.Repeat("x", 2<<20) + `"` }, sluice.TooLarge, "the size limit of the NATS server"},
		{"loop", func(e *entries, _ *attempt) {
			e.looped = sluice.Errorf(sluice.EventLoopDetected, "event loop").With("chain", []sluice.Link{{Path: "/secret"}}).With("hops", 1)
		}, sluice.EventLoopDetected, "event loop"},
		{"full store", func(e *entries, _ *attempt) {
			require.NoError(e.t, e.store.Bind(e.t.Context(), sluice.StorageTight, 1))
		}, sluice.Unavailable, "the store is"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := newEntries(t)
			a := attempt{by: e.ann, ns: "acme", path: "/a/1", data: `{"n":1}`}
			for _, path := range []string{"/a/1", "/b/1"} {
				require.Equal(t, refusal{}, e.request(t, e.root, http.MethodPut, "/streams/acme"+path, ""))
			}
			c.prepare(e, &a)
			all := e.all(t, a)
			for entry, is := range all {
				require.Equal(t, c.code, is.Code, "%s: %s", entry, is.Message)
				require.Contains(t, is.Message, c.words, entry)
				require.NotContains(t, is.Details, "chain", entry)
				require.Equal(t, say(all["event"]), say(is), entry)
			}
		})
	}
}

// say returns the words of a refusal that all entries share.
func say(r refusal) string {
	return strings.ReplaceAll(counted.ReplaceAllString(r.Message, "this request has so many"), newStream, "")
}

// C14: the causation chain is for callers that may read the namespace, at every entry.
func TestEntries_ShowTheChainToReaders(t *testing.T) {
	t.Parallel()
	e := newEntries(t)
	require.Equal(t, refusal{}, e.request(t, e.root, http.MethodPut, "/streams/acme/a/1", ""))
	e.looped = sluice.Errorf(sluice.EventLoopDetected, "event loop").With("chain", []sluice.Link{{Path: "/secret"}}).With("hops", 1)
	for by, shown := range map[caller]bool{e.root: true, e.ann: false} {
		all := e.all(t, attempt{by: by, ns: "acme", path: "/a/1", data: `{"n":1}`})
		for _, entry := range []string{"event", "batch", "append", "stream"} {
			_, has := all[entry].Details["chain"]
			require.Equal(t, shown, has, "%s by %s", entry, by.CreatedBy)
			require.Contains(t, all[entry].Details, "hops", entry)
		}
	}
}
