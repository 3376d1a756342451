package host_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/catalogue"
	"github.com/sluice-io/sluice/internal/ingest"
	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/loopguard"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/module"
	"github.com/sluice-io/sluice/internal/module/host"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/eventlog"
	"github.com/sluice-io/sluice/internal/natsstore/records"
	"github.com/sluice-io/sluice/internal/quota"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/internal/testkit/storetest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// site is a module whose program prints the data of its event, with a log.
type site struct {
	host   *host.Host
	store  storetest.Rooms
	index  *authz.Index
	quotas *quota.Quotas
	sub    *sluice.Subscription
	lost   error  // of the next answer of the log
	fails  error  // of the next publish, which stores nothing
	id     string // of the first event of the last publish
	away   error  // of the next lookup by an ID
}

// lookups are those of a site.
type lookups struct {
	host.Log

	site *site
}

// RecentByID returns an event by its ID, unless the log is away.
func (l lookups) RecentByID(ctx context.Context, ns, id string) (sluice.Event, error) {
	if err := l.site.away; err != nil {
		l.site.away = nil
		return sluice.Event{}, err
	}
	return l.Log.RecentByID(ctx, ns, id)
}

// data renders an event as its data.
type data struct{}

func (data) Body(_ context.Context, _ *sluice.Subscription, ev *sluice.Event, _ *sluice.Attempt) (body []byte, traceparent string, err error) {
	return ev.Data, "", nil
}

// Publish stores events, and loses an answer.
func (s *site) Publish(ctx context.Context, ns string, events []sluice.Event) ([]sluice.Stored, error) {
	s.id = events[0].ID
	if err := s.fails; err != nil {
		s.fails = nil
		return nil, err
	}
	stored, err := eventlog.Exact{Log: s.store.Log, Shows: host.MayRepeat}.Publish(ctx, ns, events)
	if s.lost != nil && err == nil {
		err, s.lost = s.lost, nil
	}
	return stored, err
}

// printing returns a site whose manifest declares what it publishes, with a script before the data is printed. The approver is ann, who may
// publish on /invoices/** alone.
func printing(t *testing.T, declared, script string) *site {
	t.Helper()
	return publishing(t, `"output":"events","publish":`+declared, script+"\nexec cat")
}

// publishing returns a site with members of the manifest and a script.
func publishing(t *testing.T, members, script string) *site {
	t.Helper()
	store := storetest.Connect(t, natsstore.Options{Conn: natstest.New(t)})
	require.NoError(t, store.Provision(t.Context()))
	_, _, err := store.Namespaces().Put(t.Context(), sluice.Namespace{Name: "acme", DedupWindow: sluice.Duration(2 * time.Minute)})
	require.NoError(t, err)
	s := &site{store: store, index: authz.NewIndex(), quotas: quota.NewQuotas()}
	s.grants(time.Now().Add(time.Hour))
	s.index.CaughtUp()
	guard, err := loopguard.New(store.Log, records.NewMarks(store.Store, ledger.New(store.Ledger(), nil)), loopguard.Options{})
	require.NoError(t, err)
	guard.CaughtUp()
	in := ingest.New(ingest.Deps{Access: s.index, Quota: s.quotas, Catalogue: catalogue.New(), Causes: guard, Publisher: ingest.Remembered{Publisher: s, Guard: guard}})
	dirs := t.TempDir()
	for path, text := range map[string]string{
		module.ManifestFile: `{"namespaces":["acme"],"events":[{"eventType":"t","handler":"handlers/run","filter":{"projectScoped":true},"env":["HOST_TEST_WORD"],` + members + `}]}`,
		"handlers/run":      "#!/bin/sh\n" + script + "\n",
	} {
		path = filepath.Join(dirs, "billing", path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o755))
	}
	s.host = host.New(host.Options{
		Dirs: []string{dirs}, Copies: filepath.Join(t.TempDir(), "modules"), Log: slog.New(slog.DiscardHandler), Render: data{},
		Publish: host.Ingested{Ingest: in, Log: lookups{records.NewModuleLog(store.Log, store.Store), s}, Now: time.Now},
	})
	require.NoError(t, s.host.Open())
	t.Cleanup(func() { s.host.Close(context.WithoutCancel(t.Context())) })
	s.host.Look(t.Context())
	m, err := s.host.Found("billing")
	require.NoError(t, err)
	s.host.Set(t.Context(), "billing", &host.Approval{Digest: m.Digest, Files: m.Files})
	s.sub = &sluice.Subscription{
		ID: host.SubscriptionID("billing", "run", "acme"), Namespace: "acme", Lifecycle: sluice.Lifecycle{Module: "billing", CreatedBy: "user:ann", Grant: "g1"},
		Endpoint: sluice.Endpoint{Exec: []string{"handlers/run"}}, Policy: sluice.Policy{Timeout: sluice.Duration(time.Minute)},
	}
	return s
}

// grants gives ann her rights until a time.
func (s *site) grants(until time.Time) {
	s.index.Set("grant.g1", authz.Record{Grant: &authz.Granted{Grant: sluice.Grant{
		ID: "g1", Principal: "user:ann", Verbs: []sluice.Verb{sluice.VerbPublish, sluice.VerbSubscribe},
		Object: sluice.Object{Namespace: "acme", Pattern: "/invoices/**"}, IssuedBy: sluice.Root, IssuedAt: time.Now(), ExpiresAt: until,
	}}}, 1)
}

// handles stores an event with the lines that are to be printed, and runs the program on it.
func (s *site) handles(t *testing.T, lines ...string) (sluice.Event, sluice.Attempt) {
	t.Helper()
	ev := sluice.Event{Namespace: "acme", Path: "/orders/1", ID: strings.ReplaceAll(t.Name(), "/", "-") + lines[0][:min(len(lines[0]), 20)], Type: "t", Source: "/test", Time: time.Now(), Data: []byte(strings.Join(lines, "\n"))}
	stored, err := s.store.Log.Publish(t.Context(), "acme", []sluice.Event{ev})
	require.NoError(t, err)
	ev.Seq, ev.Stored = stored[0].Seq, time.Now()
	return ev, s.host.Send(t.Context(), s.sub, &ev, 1)
}

// again runs the program on an event again.
func (s *site) again(t *testing.T, ev *sluice.Event, change ...string) sluice.Attempt {
	t.Helper()
	if len(change) > 0 {
		ev.Data = []byte(strings.Join(change, "\n"))
	}
	return s.host.Send(t.Context(), s.sub, ev, 1)
}

// published returns the events that are not on /orders.
func (s *site) published(t *testing.T) (all []sluice.Event) {
	t.Helper()
	page, err := s.store.Log.Events(t.Context(), "acme", model.EventQuery{Limit: 1000})
	require.NoError(t, err)
	for _, ev := range page.Events {
		if ev.Path != "/orders/1" {
			all = append(all, ev)
		}
	}
	return all
}

const invoice = `{"path":"/invoices/1","type":"invoice.made"}`

// What is broken or refused in one line is given up with the line and the reason, and nothing of the output is published: it is never right
// later.
func TestPublish_RefusedLinesAreDeadLetters(t *testing.T) {
	t.Parallel()
	s := printing(t, `[{"pattern":"/invoices/**","types":["invoice.*"]},{"pattern":"/other/**"}]`, "")
	for line, want := range map[string]string{
		`{"path":"/invoices/1","type":"payment.made"}`:                                     "event 2 was refused: module \"billing\" does not declare that it publishes payment.made on /invoices/1",
		`{"path":"/orders/1","type":"invoice.made"}`:                                       "does not declare",
		`{"path":"/other/1","type":"x"}`:                                                   "event 2 was refused: this requires a grant with the verb publish",
		`{"path":"/_sys/modules/billing","type":"invoice.made"}`:                           "reserved",
		`{"path":"/invoices/1","type":"sys.start"}`:                                        "reserved",
		`{"path":"/invoices/../orders","type":"invoice.made"}`:                             "event 2",
		`{"path":"/invoices/1","type":"invoice.made","more":1}`:                            `field "more" is unknown`,
		`{"path":"/invoices/1","type":"invoice.made","type":"x"}`:                          "duplicate",
		`{"path":"/invoices/1","type":"invoice.made","deliver_at":"2099-01-01T00:00:00Z"}`: "deliverat is not allowed",
		`{"path":"/invoices/1","type":"invoice.made"`:                                      "event 2",
		`{"path":"/invoices/1","type":"invoice.made"} {}`:                                  "event 2",
		`[` + invoice + `]`: "event 2",
		`a log line`:        "event 2 was refused: ",
		"{\"path\":\"/invoices/1\",\"type\":\"invoice.\xff\"}":                                                        "UTF-8",
		"{\"path\":\"/invoices/1\",\"type\":\"invoice.\x00\"}":                                                        "event 2",
		`{"path":"/invoices/1","type":"invoice.\u0000"}`:                                                              "control characters",
		`{"specversion":"1.0","id":"1","source":"/s","type":"invoice.made","path":"/invoices/1","namespace":"other"}`: "publishes nothing in other",
		`{"specversion":"1.0","id":"1","source":"/s","type":"invoice.made","path":"/invoices/1","namespace":7}`:       "event 2",
		`{"specversion":"1.0","source":"/s","type":"invoice.made","path":"/invoices/1"}`:                              "has no id",
		strings.Repeat(invoice+"\n", 1000) + invoice:                                                                  "more than 1000 events",
	} {
		_, a := s.handles(t, invoice, line)
		require.Equal(t, []any{sluice.Refused, sluice.OutputRefused}, []any{a.Outcome, a.Dead}, line[:min(len(line), 100)])
		require.Contains(t, a.Error, want)
		require.LessOrEqual(t, len(a.Error), 700)
	}
	require.Empty(t, s.published(t))
}

// A program that floods its standard output is given up, and ends.
func TestPublish_FloodIsRefused(t *testing.T) {
	t.Parallel()
	s := printing(t, `[{"pattern":"/invoices/**"}]`, "head -c 3000000 /dev/zero")
	_, a := s.handles(t, invoice)
	require.Equal(t, []any{sluice.Refused, sluice.OutputRefused}, []any{a.Outcome, a.Dead}, a.Error)
	require.Contains(t, a.Error, "more than 1048576 bytes")
	require.Empty(t, s.published(t))
}

// An attempt that is repeated publishes nothing twice: after a crash, and after a lost answer.
func TestPublish_RepeatPublishesOnce(t *testing.T) {
	t.Parallel()
	s := printing(t, `[{"pattern":"/invoices/**"}]`, "")
	second := `{"path":"/invoices/2","type":"invoice.made"}`
	s.lost = sluice.Errorf(sluice.Unavailable, "the answer is lost")
	ev, a := s.handles(t, invoice, second)
	require.Equal(t, sluice.Failed, a.Outcome, "it is tried again")
	require.Contains(t, a.Error, "the answer is lost")
	require.Len(t, s.published(t), 2)
	for range 2 {
		a = s.again(t, &ev)
		require.Equal(t, []any{sluice.Delivered, 2}, []any{a.Outcome, a.Published}, a.Error)
	}
	// Another run of the program prints other events: those of the first stand, and one that was not there is added.
	a = s.again(t, &ev, `{"path":"/invoices/other","type":"invoice.made"}`, second, `{"path":"/invoices/3","type":"invoice.made"}`)
	require.Equal(t, sluice.Delivered, a.Outcome, a.Error)
	require.Len(t, s.published(t), 3)
}

// An attempt that prints other data than one whose answer was lost is tried again while it is unknown which events are stored.
func TestPublish_FailedLookupIsTriedAgain(t *testing.T) {
	t.Parallel()
	s := printing(t, `[{"pattern":"/invoices/**"}]`, "")
	at := func(second int) string {
		return fmt.Sprintf(`{"path":"/invoices/1","type":"invoice.made","data":%d}`, second)
	}
	s.lost = sluice.Errorf(sluice.Unavailable, "the answer is lost")
	ev, a := s.handles(t, at(1))
	require.Equal(t, sluice.Failed, a.Outcome, a.Error)
	s.away = sluice.Errorf(sluice.Unavailable, "NATS is away")
	a = s.again(t, &ev, at(2))
	require.Equal(t, []any{sluice.Failed, ""}, []any{a.Outcome, string(a.Dead)}, a.Error)
	require.Contains(t, a.Error, "NATS is away")
	a = s.again(t, &ev, at(3))
	require.Equal(t, []any{sluice.Delivered, 1}, []any{a.Outcome, a.Published}, a.Error)
	require.Len(t, s.published(t), 1)
}

// An event that is handled again when its namespace has forgotten the IDs publishes nothing twice either.
func TestPublish_OldEventPublishesNothingTwice(t *testing.T) {
	t.Parallel()
	s := printing(t, `[{"pattern":"/invoices/**"}]`, "")
	ns, err := s.store.Namespaces().Get(t.Context(), "acme")
	require.NoError(t, err)
	ns.DedupWindow = sluice.Duration(time.Second)
	_, _, err = s.store.Namespaces().Put(t.Context(), ns)
	require.NoError(t, err)
	ev, a := s.handles(t, invoice)
	require.Equal(t, sluice.Delivered, a.Outcome, a.Error)
	is := s.published(t)[0]
	require.Eventually(t, func() bool {
		_, err := s.store.Log.RecentByID(t.Context(), "acme", is.ID)
		return sluice.CodeOf(err) == sluice.NotFound
	}, time.Minute, 20*time.Millisecond)
	a = s.again(t, &ev, invoice, `{"path":"/invoices/2","type":"invoice.made"}`)
	require.Equal(t, sluice.Delivered, a.Outcome, a.Error)
	require.Len(t, s.published(t), 2)
}

// taken returns a site and an event that has been handled once. The program printed invoice, which was not stored, and another publisher has
// taken its ID since, with the same content.
func taken(t *testing.T, window time.Duration) (*site, sluice.Event) {
	t.Helper()
	s := printing(t, `[{"pattern":"/invoices/**"}]`, "")
	ns, err := s.store.Namespaces().Get(t.Context(), "acme")
	require.NoError(t, err)
	ns.DedupWindow = sluice.Duration(window)
	_, _, err = s.store.Namespaces().Put(t.Context(), ns)
	require.NoError(t, err)
	s.fails = sluice.Errorf(sluice.Unavailable, "full")
	ev, a := s.handles(t, invoice)
	require.Equal(t, sluice.Failed, a.Outcome, a.Error)
	_, err = s.store.Log.Publish(t.Context(), "acme", []sluice.Event{{
		Namespace: "acme", Path: "/invoices/1", ID: s.id, Type: "invoice.made", Source: "/modules/billing",
		Extensions: map[string]string{sluice.AuthID: "user:eve", sluice.CausationID: ev.ID},
	}})
	require.NoError(t, err)
	return s, ev
}

// An event of another publisher that has the ID of a printed one, and even its content, is not taken for it.
func TestPublish_TakenIDIsNoRepeat(t *testing.T) {
	t.Parallel()
	s, ev := taken(t, 2*time.Minute)
	a := s.again(t, &ev, invoice, `{"path":"/invoices/2","type":"invoice.made"}`)
	require.Equal(t, []any{sluice.Refused, sluice.OutputRefused}, []any{a.Outcome, a.Dead}, a.Error)
	require.Contains(t, a.Error, "belongs to an event")
	require.Len(t, s.published(t), 1, "nothing of the output is stored")
}

// The same holds of one that is found in the log when its namespace has forgotten the ID.
func TestPublish_ForgottenIDWasTaken(t *testing.T) {
	t.Parallel()
	s, ev := taken(t, time.Second)
	require.Eventually(t, func() bool {
		_, err := s.store.Log.RecentByID(t.Context(), "acme", s.id)
		return sluice.CodeOf(err) == sluice.NotFound
	}, time.Minute, 20*time.Millisecond)
	a := s.again(t, &ev)
	require.Equal(t, []any{sluice.Delivered, 1}, []any{a.Outcome, a.Published}, a.Error)
	require.Len(t, s.published(t), 2)
}

// The ID of a printed event depends on a secret of the log, so others cannot compute it.
func TestPublish_IDsDependOnASecret(t *testing.T) {
	t.Parallel()
	ids := map[string]bool{}
	for range 2 {
		s := printing(t, `[{"pattern":"/invoices/**"}]`, "")
		_, a := s.handles(t, invoice)
		require.Equal(t, sluice.Delivered, a.Outcome, a.Error)
		ids[s.id] = true
	}
	require.Len(t, ids, 2)
}

// No program takes the ID of another event, or gives an event to another cause, producer or workflow.
func TestPublish_AttributesAreTheServers(t *testing.T) {
	t.Parallel()
	s := printing(t, `[{"pattern":"/invoices/**"}]`, "")
	forged := `{"specversion":"1.0","id":"taken","source":"/s","type":"x","path":"/invoices/2","causationid":"other","correlationid":"other","authid":"root","authtype":"system","authclaims":"all","sequence":"1"}`
	_, err := s.store.Log.Publish(t.Context(), "acme", []sluice.Event{{Namespace: "acme", Path: "/invoices/0", ID: "taken", Type: "x", Source: "/s"}})
	require.NoError(t, err)
	ev, a := s.handles(t, forged, forged)
	require.Equal(t, []any{sluice.Delivered, 2}, []any{a.Outcome, a.Published}, a.Error)
	for _, is := range s.published(t)[1:] {
		require.True(t, strings.HasPrefix(is.ID, "mod-"))
		require.Equal(t, map[string]string{"causationid": ev.ID, "correlationid": ev.ID, "authid": "module:billing", "authtype": "service_account"}, is.Extensions)
	}
}

// A quota that is used up passes: the attempt is tried again, no earlier than the quota allows.
func TestPublish_QuotaIsTriedAgain(t *testing.T) {
	t.Parallel()
	s := printing(t, `[{"pattern":"/invoices/**"}]`, "")
	s.quotas.Set(sluice.Namespace{Name: "acme", Quota: sluice.Quota{EventsPerSecond: 0.01, Burst: 2}})
	_, a := s.handles(t, invoice, invoice)
	require.Equal(t, sluice.Delivered, a.Outcome, a.Error)
	_, a = s.handles(t, invoice+" ", invoice)
	require.Equal(t, sluice.Failed, a.Outcome, a.Error)
	require.GreaterOrEqual(t, a.RetryAfter, time.Second)
}

// When the grant of the approver has ended, so have the rights of the module.
func TestPublish_EndsWithTheApproversGrant(t *testing.T) {
	t.Parallel()
	s := printing(t, `[{"pattern":"/invoices/**"}]`, "")
	s.grants(time.Now().Add(-time.Second))
	_, a := s.handles(t, invoice)
	require.Equal(t, []any{sluice.Refused, sluice.OutputRefused}, []any{a.Outcome, a.Dead}, a.Error)
	require.Contains(t, a.Error, "requires a grant")
	require.Empty(t, s.published(t))
}

// A program that fails publishes nothing, and neither does a test, of an event that is not stored.
func TestPublish_OnlyWhenTheEventIsHandled(t *testing.T) {
	t.Parallel()
	s := printing(t, `[{"pattern":"/invoices/**"}]`, `[ "$SLUICE_EVENT_SEQ" = 0 ] || { cat; echo "not now" >&2; exit 75; }`)
	_, a := s.handles(t, invoice)
	require.Equal(t, []any{sluice.Failed, "not now\n", 0}, []any{a.Outcome, a.Output, a.Published}, a.Error)
	a = s.again(t, &sluice.Event{Namespace: "acme", Path: "/orders/1", ID: "test", Type: "t"}, invoice)
	require.Equal(t, []any{sluice.Delivered, 0}, []any{a.Outcome, a.Published}, a.Error)
	require.Empty(t, s.published(t))
}

// The values of variables are masked in a refused line, too.
func TestPublish_RefusedLineIsMasked(t *testing.T) {
	t.Setenv("HOST_TEST_WORD", "opensesame")
	s := printing(t, `[{"pattern":"/invoices/**"}]`, `echo "{$HOST_TEST_WORD}"`)
	_, a := s.handles(t, invoice)
	require.Contains(t, a.Error, "{***}")
	require.NotContains(t, a.Error, "opensesame")
}

// The events in a worker's answer are published as those that a program prints.
func TestPublish_WorkersAnswerWithEvents(t *testing.T) {
	t.Parallel()
	s := publishing(t, `"mode":"worker","output":"events","publish":[{"pattern":"/invoices/**"}]`, `echo '{"ready":true}'
while read -r line; do
  id=${line#*'"id":"'}; id=${id%%'"'*}; event=${line#*'"event":'}
  echo '{"id":"'"$id"'","ok":true,"events":'"$event"
done`)
	ev, a := s.handles(t, "["+invoice+`,{"path":"/invoices/2","type":"invoice.made"}]`)
	require.Equal(t, []any{sluice.Delivered, 2}, []any{a.Outcome, a.Published}, a.Error)
	a = s.again(t, &ev)
	require.Equal(t, []any{sluice.Delivered, 2}, []any{a.Outcome, a.Published}, a.Error)
	for _, is := range s.published(t) {
		require.Equal(t, []string{ev.ID, "module:billing"}, []string{is.Extensions["causationid"], is.Extensions["authid"]})
	}
	_, a = s.handles(t, "["+invoice+` ,{"path":"/orders/1","type":"invoice.made"}]`)
	require.Equal(t, []any{sluice.Refused, sluice.OutputRefused}, []any{a.Outcome, a.Dead}, a.Error)
	require.Contains(t, a.Error, "event 2 was refused")
	require.Len(t, s.published(t), 2)
}
