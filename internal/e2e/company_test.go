package e2e_test

import (
	"bytes"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/pkg/webhook"
	"github.com/sluice-io/sluice/streams"
)

// Issue 18, 8: two servers with a prefix each, and a program that uses the same names without one,
// share a NATS account. All of them work at the same time, and none sees what the others store.
func TestPrefix_TwoServersShareAnAccount(t *testing.T) { //nolint:tparallel // what is checked last waits for the servers
	t.Parallel()
	shared := natstest.Listening(t)
	js := dial(t, shared.ClientURL())
	stranger := settle(t, js)
	t.Run("together", func(t *testing.T) {
		for _, prefix := range []string{"acme", "beta-2"} {
			t.Run(prefix, func(t *testing.T) {
				t.Parallel()
				s := &tenant{names: streams.Prefixed(prefix), dir: t.TempDir(), js: js, change: func(c *config.Config) {
					c.NATS.URL, c.NATS.Prefix = shared.ClientURL(), prefix
				}}
				s.running = start(t, s.dir, s.change)
				s.publishes(t)
				s.wakes(t)
				s.mirrors(t)
				s.replays(t)
				s.restarts(t)
			})
		}
	})
	stranger.unharmed(t)
	described(t, js, `^(KV_)?(acme|beta-2)_`)
}

// Issue 18, 8: a server stores in the JetStream domain of a leaf node, and reaches it over the hub.
func TestDomain_ServerStoresInAnotherDomain(t *testing.T) {
	t.Parallel()
	hub, leaf := natstest.Domains(t)
	atHub, atLeaf := dial(t, hub), dial(t, leaf)
	s := &tenant{names: streams.Prefixed("acme"), dir: t.TempDir(), js: atLeaf, change: func(c *config.Config) {
		c.NATS.URL, c.NATS.Prefix, c.NATS.Domain = hub, "acme", "leaf"
	}}
	s.running = start(t, s.dir, s.change)
	require.Equal(t, "leaf", s.at.Domain)
	s.publishes(t)
	s.wakes(t)
	s.mirrors(t)
	s.replays(t)
	s.restarts(t)
	described(t, atLeaf, `^(KV_)?acme_`)
	info, err := atHub.AccountInfo(t.Context())
	require.NoError(t, err)
	require.Zero(t, info.Streams, "nothing is stored in the hub's own domain")
}

// Issue 18, 8: a server with another prefix than the data in NATS says so, and what to do.
func TestPrefix_ChangeIsWarnedOf(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := start(t, dir, func(c *config.Config) { c.NATS.Prefix, c.NATS.Users = "acme", nil })
	first.publishes(t, "default", "/a one")
	inspects(t, first)
	first.stop(t)
	var log bytes.Buffer
	for prefix, warns := range map[string]bool{"acme": false, "acne": true} {
		log.Reset()
		again := startLogging(t, dir, func(c *config.Config) { c.NATS.Prefix = prefix }, &log)
		again.stop(t)
		require.Equal(t, warns, strings.Contains(log.String(), "begins with an empty store") && strings.Contains(log.String(), "others=[acme]"), log.String())
	}
}

// inspects publishes and reads as the inspector of a server with the prefix acme.
func inspects(t *testing.T, s *running) {
	t.Helper()
	js := natstest.Dial(t, s.at.NATS)
	ack, err := js.Publish(t.Context(), "acme.events.default.b", nil)
	require.NoError(t, err)
	require.Equal(t, "acme_EVENTS_default", ack.Stream)
	log, err := js.OrderedConsumer(t.Context(), "acme_EVENTS_default", jetstream.OrderedConsumerConfig{FilterSubjects: []string{"acme.events.default.*"}})
	require.NoError(t, err)
	for _, want := range []string{"acme.events.default.a", "acme.events.default.b"} {
		msg, err := log.Next(jetstream.FetchMaxWait(patience))
		require.NoError(t, err)
		require.Equal(t, want, msg.Subject())
	}
	require.NoError(t, js.Conn().Publish("acme.ledger.default.x", nil))
	require.NoError(t, js.Conn().Flush())
	require.ErrorIs(t, js.Conn().LastError(), nats.ErrPermissionViolation, "only the server writes there")
}

// Issue 18, 8: a backup is restored under another prefix, beside what has the old names: the same server goes on.
func TestPrefix_BackupIsRestoredUnderAnother(t *testing.T) {
	t.Parallel()
	shared := natstest.Listening(t)
	js := dial(t, shared.ClientURL())
	s := &tenant{names: streams.Names{}, dir: t.TempDir(), js: js, change: func(c *config.Config) {
		c.NATS.Prefix, c.Secrets.Key = "", sharedKey
	}}
	s.running = start(t, s.dir, s.change)
	s.js = dial(t, s.at.NATS)
	board := refusing("parked")
	parking := hooktest.New(t, status(http.StatusInternalServerError, board.refuses))
	subscribe(t, s.api, wish(parking.URL, `"id":"parks"`, `"pattern":"/parks/*"`, `"policy":{"retry":{"preset":"custom","steps":["1h"],"max_attempts":5}}`))
	s.publishes(t)
	s.wakes(t)
	s.mirrors(t)
	s.replays(t)
	s.running.publishes(t, "default", "/parks/1 parked", "/parks/2 good")
	statusOf(t, s.api, "parks", func(st sluice.Status) bool { return st.Parked == 1 && st.Backlog == 0 && st.InFlight == 0 })
	ann := s.grant(t, "user:ann", "path:default/orders/**", "read")
	s.must(t, http.StatusCreated, "POST /v1/namespaces/low/tombstones", `{"path":"/a/2"}`)
	erased := s.must(t, http.StatusOK, "GET /v1/namespaces/low/observe", "").field(t, "items")
	require.Contains(t, fmt.Sprint(erased), "erased_seq:2")
	before := s.must(t, http.StatusOK, "GET /v1/namespaces/default/events?limit=100", "").field(t, "events")
	s.stop(t)
	old := offline(t, s.dir, "")
	old.NATS.Prefix, old.Secrets.Key = "", sharedKey
	saved := backUp(t, old)

	stranger := settle(t, js)
	s.dir, s.names, s.js = t.TempDir(), streams.Prefixed("acme"), js
	s.change = func(c *config.Config) {
		c.NATS.URL, c.NATS.Prefix, c.Secrets.Key = shared.ClientURL(), "acme", sharedKey
	}
	moved := offline(t, s.dir, shared.ClientURL())
	moved.NATS.Prefix, moved.Secrets.Key = "acme", sharedKey
	require.NoError(t, restore(t, saved, moved))
	entries, err := filepath.Glob(filepath.Join(s.dir, "restore-*"))
	require.NoError(t, err)
	require.Empty(t, entries)
	s.running = start(t, s.dir, s.change)
	require.Equal(t, before, s.must(t, http.StatusOK, "GET /v1/namespaces/default/events?limit=100", "").field(t, "events"), "under the same sequences, with their times")
	s.must(t, http.StatusOK, "GET /v1/namespaces/default/events?pattern=/orders/**", "", as(ann.token)...)
	require.Equal(t, []string{"one 1 one", "two 2 two"}, s.mirrorsOf(t, "high"))
	require.Equal(t, erased, s.must(t, http.StatusOK, "GET /v1/namespaces/low/observe", "").field(t, "items"), "with the records of erased events")
	board.accept()
	s.must(t, http.StatusAccepted, "POST /v1/subscriptions/parks/deliveries/parked/retry", "")
	require.ElementsMatch(t, []string{"parked", "good", "parked"}, idsOf(parking.Wait(3)), "in any order: two paths")
	_, err = s.js.Publish(t.Context(), "acme.events.default.orders.3", []byte(`""`), jetstream.WithMsgID("3"))
	require.NoError(t, err)
	waitFor(t, s.hook, 4)
	statusOf(t, s.api, "orders", idle)
	require.Equal(t, []string{"1", "2", "2", "3"}, idsOf(s.hook.Requests()), "nothing comes again")
	stranger.unharmed(t)
	described(t, js, `^(KV_)?acme_`)
}

// A NATS may accept larger messages than the default, and its backup is restored under another prefix, too.
func TestPrefix_BackupMayHaveLargeEvents(t *testing.T) {
	t.Parallel()
	url := natstest.Custom(t, func(o *server.Options) { o.MaxPayload = 8 << 20 })
	on := func(prefix string) func(*config.Config) {
		return func(c *config.Config) { c.NATS.URL, c.NATS.Prefix, c.Secrets.Key = url, prefix, sharedKey }
	}
	first, second := t.TempDir(), t.TempDir()
	s := start(t, first, on(""))
	s.must(t, http.StatusCreated, "POST /v1/namespaces/default/events", `{"id":"large","path":"/a","data":"`+strings.Repeat("x", 2<<20)+`"}`)
	before := s.must(t, http.StatusOK, "GET /v1/namespaces/default/events/1", "").text
	s.stop(t)
	saved := backUp(t, offline(t, first, url))
	moved := offline(t, second, url)
	moved.NATS.Prefix = "acme"
	require.NoError(t, restore(t, saved, moved))
	s = start(t, second, on("acme"))
	require.Equal(t, before, s.must(t, http.StatusOK, "GET /v1/namespaces/default/events/1", "").text)
}

// described checks that all streams of Sluice have names that match, and that they and their durable consumers have descriptions.
func described(t *testing.T, js jetstream.JetStream, names string) {
	t.Helper()
	list := js.ListStreams(t.Context())
	for info := range list.Info() {
		if name := info.Config.Name; name == "SHOP" || name == "KV_keys" {
			continue
		}
		require.Regexp(t, names, info.Config.Name)
		require.NotEmpty(t, info.Config.Description, info.Config.Name)
		stream, err := js.Stream(t.Context(), info.Config.Name)
		require.NoError(t, err)
		consumers := stream.ListConsumers(t.Context())
		for c := range consumers.Info() {
			require.True(t, c.Config.Durable == "" || c.Config.Description != "", "%s of %s", c.Name, c.Stream)
		}
		require.NoError(t, consumers.Err())
	}
	require.NoError(t, list.Err())
}

// guest is a program with a stream and a bucket whose names a server without a prefix would take.
type guest struct {
	events jetstream.Stream
	keys   jetstream.KeyValue
}

func settle(t *testing.T, js jetstream.JetStream) guest {
	t.Helper()
	events, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "SHOP", Subjects: []string{"events.>", "attempts.>"}})
	require.NoError(t, err)
	keys, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "keys"})
	require.NoError(t, err)
	_, err = keys.PutString(t.Context(), "mine", "of the stranger")
	require.NoError(t, err)
	_, err = js.Publish(t.Context(), "events.default.orders.1", []byte("of the stranger"))
	require.NoError(t, err)
	return guest{events, keys}
}

func (g guest) unharmed(t *testing.T) {
	t.Helper()
	info, err := g.events.Info(t.Context())
	require.NoError(t, err)
	require.Equal(t, uint64(1), info.State.Msgs)
	names, err := g.keys.Keys(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"mine"}, names)
}

// tenant is a server with a prefix, and its receiver.
type tenant struct {
	*running

	names  streams.Names
	dir    string
	js     jetstream.JetStream
	change func(*config.Config)

	hook *hooktest.Server
	sub  sluice.Subscription
}

// publishes publishes over NATS and HTTP; each event is delivered once, signed, and shown by a feed.
func (s *tenant) publishes(t *testing.T) {
	t.Helper()
	s.hook = hooktest.New(t, nil)
	s.sub = subscribe(t, s.api, wish(s.hook.URL, `"id":"orders"`, `"pattern":"/orders/**"`, `"policy":{"ordering":"all"}`))
	mine := s.names.Prefix()
	place := s.must(t, http.StatusOK, "GET /v1/capabilities", "")
	require.Equal(t, []any{mine, s.names.EventsPrefix()}, []any{place.field(t, "nats.prefix"), place.field(t, "nats.subject")})
	feed, _ := s.feed(t, "pattern=/orders/*")
	ack, err := s.js.PublishMsg(t.Context(), &nats.Msg{
		Subject: s.names.EventsPrefix() + "default.orders.1", Header: nats.Header{"Nats-Msg-Id": {"1"}}, Data: []byte(`"` + mine + `"`),
	})
	require.NoError(t, err)
	require.Equal(t, s.names.EventsStream("default"), ack.Stream)
	_, err = s.api.Publish(t.Context(), sluice.DefaultNamespace, sluice.Event{ID: "2", Path: "/orders/2", Data: []byte(`"` + mine + `"`)})
	require.NoError(t, err)
	require.Equal(t, []string{`"` + mine + `"`, `"` + mine + `"`}, feed.events(2))
	feed.stop()
	s.received(t, "1", "2")
	consumer, err := s.js.Consumer(t.Context(), s.names.EventsStream(sluice.DefaultNamespace), "orders")
	require.NoError(t, err)
	require.Equal(t, "subscription orders: push /orders/**", consumer.CachedInfo().Config.Description)
}

// received waits until exactly these events have arrived, of this server and with its signature.
func (s *tenant) received(t *testing.T, ids ...string) {
	t.Helper()
	waitFor(t, s.hook, len(ids))
	statusOf(t, s.api, "orders", idle)
	requests := s.hook.Requests()
	require.Equal(t, ids, idsOf(requests))
	receiver := &webhook.Receiver{Secrets: []string{s.sub.Endpoint.Secret}}
	for _, r := range requests {
		require.Equal(t, `"`+s.names.Prefix()+`"`, string(receive(t, receiver, r).Data))
	}
}

func (s *tenant) wakes(t *testing.T) {
	t.Helper()
	agent := hooktest.New(t, func(hooktest.Request) hooktest.Answer { return hooktest.Answer{Body: `{"done":true}`} })
	s.must(t, http.StatusCreated, "POST /v1/subscriptions", `{"id":"agents","mode":"wake","pattern":"/agents/*","endpoint":{"url":"`+agent.URL+`"}}`)
	s.must(t, http.StatusCreated, "PUT "+durableAt+"/agents/one", "", text()...)
	s.must(t, http.StatusNoContent, "POST "+durableAt+"/agents/one", "first", text()...)
	require.Equal(t, "agents:%2Fagents%2Fone", notice(t, agent.Wait(1)[0]).ConsumerID)
	require.Contains(t, s.must(t, http.StatusOK, "GET "+durableAt+"/agents/one?offset=-1", "").text, "first")
}

func (s *tenant) mirrors(t *testing.T) {
	t.Helper()
	mirrorable(t, s.running)
	s.running.publishes(t, "low", "/a/1 one", "/a/2 two")
	s.must(t, http.StatusCreated, "POST /v1/subscriptions", `{"id":"m","mode":"mirror","namespace":"high","source":"low","depth":"full"}`)
	s.syncs(t)
	require.Equal(t, []string{"one 1 one", "two 2 two"}, s.mirrorsOf(t, "high"))
}

func (s *tenant) replays(t *testing.T) {
	t.Helper()
	rep, err := s.api.Replay(t.Context(), "orders", client.ReplayRequest{EventIDs: []string{"2"}})
	require.NoError(t, err)
	require.Equal(t, sluice.ReplayDone, ended(t, s.api, rep).State)
	s.received(t, "1", "2", "2")
}

// restarts stops the server and starts it again: nothing comes twice, and what was published meanwhile comes.
func (s *tenant) restarts(t *testing.T) {
	t.Helper()
	s.stop(t)
	_, err := s.js.Publish(t.Context(), s.names.EventsPrefix()+"default.orders.3", []byte(`"`+s.names.Prefix()+`"`), jetstream.WithMsgID("3"))
	require.NoError(t, err)
	s.running = start(t, s.dir, s.change)
	s.received(t, "1", "2", "2", "3")
	state := s.must(t, http.StatusOK, "GET /v1/namespaces/default/state?pattern=/orders/*", "").text
	require.Equal(t, 3, strings.Count(state, fmt.Sprintf(`"%s"`, s.names.Prefix())), state)
}
