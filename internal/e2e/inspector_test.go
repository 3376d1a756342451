package e2e_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jsm.go"
	"github.com/nats-io/jsm.go/api"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/datadir"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
)

// logins are the two ways in which a server whose users are not named is run.
var logins = map[string]func(*config.Config){
	"for development": func(c *config.Config) { c.Dev = true },
	"by default":      func(c *config.Config) { c.Dev = false },
}

// inspected returns a server with a subscription and an event, and how to log in to its NATS.
func inspected(t *testing.T, way func(*config.Config)) (*running, []nats.Option) {
	t.Helper()
	s := start(t, t.TempDir(), func(c *config.Config) {
		c.NATS.Users, c.NATS.Prefix, c.Webhooks.AllowCIDRs = nil, "", []string{"203.0.113.0/24"}
		way(c)
	})
	var login []nats.Option
	if byKey, err := nats.NkeyOptionFromSeed(filepath.Join(s.dir, datadir.NATSLoginFile)); err == nil {
		login = append(login, byKey)
	}
	s.must(t, 201, "POST /v1/subscriptions", `{"id":"orders","pattern":"/none/**","endpoint":{"url":"https://203.0.113.1/hook"}}`)
	put(t, s.api, "/orders/1", 1, 2)
	return s, login
}

// connect is dial without the tester's login.
func connect(t *testing.T, url string, opts ...nats.Option) (jetstream.JetStream, chan error) {
	t.Helper()
	refused := make(chan error, 1000)
	return natstest.Dial(t, url, append(opts, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))...), refused
}

// states returns the configuration, the last sequence, the number of messages and the lasting consumers of every stream.
func states(t *testing.T, js jetstream.JetStream) map[string]string {
	t.Helper()
	found := map[string]string{}
	all := js.ListStreams(t.Context())
	for info := range all.Info() {
		handle, err := js.Stream(t.Context(), info.Config.Name)
		require.NoError(t, err)
		var consumers []string
		names := handle.ListConsumers(t.Context())
		for c := range names.Info() {
			if c.Config.Durable != "" {
				consumers = append(consumers, c.Name)
			}
		}
		require.NoError(t, names.Err())
		text, err := json.Marshal([]any{info.Config, consumers})
		require.NoError(t, err)
		found[info.Config.Name] = string(text)
		own := slices.Contains([]string{"KV_leases", "KV_access", "KV_lanes", "KV_rollups"}, info.Config.Name) // the server writes there by itself
		if info.Config.Name == "EVENTS_default" || strings.HasPrefix(info.Config.Name, "KV_") && !own {
			text, err = json.Marshal([]any{info.State.Msgs, info.State.FirstSeq, info.State.LastSeq})
			require.NoError(t, err)
			found[info.Config.Name] += string(text)
		}
	}
	require.NoError(t, all.Err())
	return found
}

// attacks are requests that would change what belongs to the server.
func attacks(streams []string) map[string]string {
	all := map[string]string{
		"$JS.API.STREAM.CREATE.OTHER": `{"name":"OTHER","subjects":["other"]}`,
		"$KV.subscriptions.orders":    `{}`, "$KV.access.x": `{}`, "attempts.default.orders": `{}`, "dead.default.orders.x": `{}`,
		"ledger.default.x": `{}`, "durable.default.orders.1": `{}`, "events.default._sys.x": `{}`, "trusted.default.a": `{}`,
		"live.default.a": `{}`, "inspect.$JS.API.CONSUMER.DELETE.EVENTS_default.orders": "", "_SLUICE.x": "x", "_R_.x": "x",
		"$JS.API.CONSUMER.DURABLE.CREATE.EVENTS_default.mine": `{"stream_name":"EVENTS_default","config":{"durable_name":"mine","ack_policy":"explicit"}}`,
		"$JS.API.CONSUMER.CREATE.EVENTS_default.orders":       `{"stream_name":"EVENTS_default","config":{"durable_name":"orders","name":"orders","ack_policy":"none"}}`,
		"$JS.API.CONSUMER.CREATE.EVENTS_default.x":            `{"stream_name":"EVENTS_default","config":{"name":"x","deliver_subject":"$KV.subscriptions.orders","ack_policy":"none"}}`,
		"$JS.API.CONSUMER.DELETE.EVENTS_default.orders":       "", "$JS.API.CONSUMER.PAUSE.EVENTS_default.orders": `{"pause_until":"2999-01-01T00:00:00Z"}`,
		"$JS.API.CONSUMER.MSG.NEXT.EVENTS_default.orders": `{"batch":10}`, "$JS.ACK.EVENTS_default.orders.1.1.1.1.1": "+TERM",
		"$JS.API.STREAM.RESTORE.EVENTS_new": `{}`, "$JS.API.ACCOUNT.PURGE.$G": "", "$SYS.REQ.SERVER.PING": "",
	}
	for _, stream := range streams {
		for verb, body := range map[string]string{"DELETE": "", "PURGE": "{}", "UPDATE": `{"name":"` + stream + `","max_msgs":1}`, "MSG.DELETE": `{"seq":1}`, "SNAPSHOT": `{"deliver_subject":"$KV.subscriptions.orders"}`, "RESTORE": "{}", "PEER.REMOVE": `{"peer":"x"}`, "LEADER.STEPDOWN": ""} {
			all["$JS.API.STREAM."+verb+"."+stream] = body
		}
	}
	return all
}

// Attack 5: who reaches the embedded NATS of a server whose users are not named changes nothing of the server's, neither by
// a request nor by where its answer goes.
func TestInspector_ChangesNothing(t *testing.T) {
	t.Parallel()
	for name, way := range logins {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, login := inspected(t, way)
			js, refused := connect(t, s.at.NATS, login...)
			before := states(t, js)
			require.Contains(t, before, "LEDGER")
			var names []string
			for name := range before {
				names = append(names, name)
			}
			for subject, body := range attacks(names) {
				require.NoError(t, js.Conn().PublishRequest(subject, "_INBOX.answer", []byte(body)), subject)
				require.NoError(t, js.Conn().PublishRequest("$JS.API.INFO", subject, nil), subject)
			}
			require.NoError(t, js.Conn().Flush())
			require.ErrorIs(t, <-refused, nats.ErrPermissionViolation, "it is told so")
			require.Equal(t, before, states(t, js))
			for _, reply := range []string{"$KV.subscriptions.orders", "$JS.API.STREAM.DELETE.LEDGER", "attempts.default.orders"} {
				require.NoError(t, js.Conn().PublishRequest("events.default.b", reply, nil), "an acknowledgement that is wanted elsewhere")
			}
			_, err := js.Publish(t.Context(), "events.default.c", nil)
			require.NoError(t, err)
			after := states(t, js)
			require.NotEqual(t, before["EVENTS_default"], after["EVENTS_default"])
			delete(before, "EVENTS_default")
			delete(after, "EVENTS_default")
			require.Equal(t, before, after)
		})
	}
}

// Attack 5: what the nats command does to look at a server goes on without a right to change it.
func TestInspector_SeesAllOfIt(t *testing.T) {
	t.Parallel()
	for name, way := range logins {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, login := inspected(t, way)
			js, refused := connect(t, s.at.NATS, login...)
			live, err := js.Conn().SubscribeSync("events.default.>")
			require.NoError(t, err)
			ack, err := js.Publish(t.Context(), "events.default.orders.2", []byte(`{"total":1}`), jetstream.WithMsgID("x"))
			require.NoError(t, err)
			require.Equal(t, "EVENTS_default", ack.Stream)
			msg, err := live.NextMsg(patience)
			require.NoError(t, err)
			require.Equal(t, "events.default.orders.2", msg.Subject, "sub")
			put(t, s.api, "/orders/3", 1, 1)
			msg, err = live.NextMsg(patience)
			require.NoError(t, err)
			require.Equal(t, "events.default.orders.3", msg.Subject, "each comes once, and what the API publishes comes too")
			requireKept(t, js)
			tools, err := jsm.New(js.Conn(), jsm.WithTimeout(patience))
			require.NoError(t, err)
			log, err := tools.LoadStream("EVENTS_default")
			require.NoError(t, err)
			state, err := log.State(api.JSApiStreamInfoRequest{SubjectsFilter: ">"})
			require.NoError(t, err)
			require.Equal(t, uint64(2), state.Subjects["events.default.orders.1"], "stream subjects")
			consumers, err := tools.ConsumerNames("EVENTS_default")
			require.NoError(t, err)
			require.NotNil(t, consumers, "consumer report")
			pager, err := log.PageContents(jsm.PagerTimeout(patience))
			require.NoError(t, err)
			first, last, err := pager.NextMsg(t.Context())
			require.NoError(t, err, "stream view")
			require.False(t, last)
			require.Contains(t, first.Subject, "events.default.")
			_ = pager.Close() // jsm.go takes another answer for that of the deletion now and then: what counts is that it is gone
			eventually(t, func() bool {
				left, err := tools.ConsumerNames("EVENTS_default")
				return err == nil && len(left) < len(consumers)+1
			}, "the view's consumer is gone")
			require.NoError(t, js.Conn().Flush())
			require.Empty(t, refused)
		})
	}
}

// requireKept reads what is stored as clients do: values, keys, and a log from its beginning by a consumer that is
// pushed and by one that is pulled.
func requireKept(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	kv, err := js.KeyValue(t.Context(), "subscriptions")
	require.NoError(t, err)
	entry, err := kv.Get(t.Context(), "orders")
	require.NoError(t, err, "kv get")
	require.Contains(t, string(entry.Value()), `"orders"`)
	keys, err := kv.Keys(t.Context())
	require.NoError(t, err, "kv ls")
	require.Contains(t, keys, "orders")
	older, err := js.Conn().JetStream(nats.MaxWait(patience))
	require.NoError(t, err)
	sub, err := older.SubscribeSync("", nats.BindStream("EVENTS_default"), nats.EnableFlowControl(), nats.IdleHeartbeat(5*time.Second), nats.AckNone(), nats.DeliverAll())
	require.NoError(t, err, "sub --stream")
	_, err = sub.NextMsg(patience)
	require.NoError(t, err)
	require.NoError(t, sub.Unsubscribe())
	log, err := js.Stream(t.Context(), "EVENTS_default")
	require.NoError(t, err)
	pulled, err := log.OrderedConsumer(t.Context(), jetstream.OrderedConsumerConfig{})
	require.NoError(t, err)
	_, err = pulled.Next()
	require.NoError(t, err)
}

// Without --dev no caller gets in without the key that lies in the data directory, which only its owner reads; a restart keeps it.
func TestInspector_NeedsTheKeyByDefault(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir, func(c *config.Config) { c.Dev, c.NATS.Users, c.NATS.Prefix = false, nil, "" })
	for _, opts := range [][]nats.Option{nil, {nats.UserInfo("anonymous", "")}} {
		eventually(t, func() bool { // a login that takes two seconds is refused for that
			_, err := nats.Connect(s.at.NATS, append(opts, nats.Timeout(patience))...)
			require.Error(t, err)
			return errors.Is(err, nats.ErrAuthorization)
		}, "it is refused")
	}
	file := filepath.Join(dir, datadir.NATSLoginFile)
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	first, err := os.ReadFile(file)
	require.NoError(t, err)
	s.stop(t)
	start(t, dir, func(c *config.Config) { c.Dev, c.NATS.Users, c.NATS.Prefix = false, nil, "" })
	second, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, first, second)
}

// Inspectors that leave consumers behind cost a bounded number of them, and deliveries go on.
func TestInspector_ConsumersAreBounded(t *testing.T) {
	t.Parallel()
	hook := hooktest.New(t, nil)
	s := start(t, t.TempDir(), func(c *config.Config) { c.NATS.Users, c.NATS.Prefix = nil, "" })
	js, _ := connect(t, s.at.NATS)
	made := 0
	for range 40 {
		if _, err := js.CreateConsumer(t.Context(), "EVENTS_default", jetstream.ConsumerConfig{AckPolicy: jetstream.AckNonePolicy}); err == nil {
			made++
		}
	}
	require.Equal(t, 32, made)
	subscribe(t, s.api, wish(hook.URL, quick))
	put(t, s.api, "/a", 1, 1)
	hook.Wait(1)
}
