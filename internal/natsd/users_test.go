package natsd_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/natsd"
)

const patience = time.Minute

// guarded returns a server with the users, and JetStream as its own process has it: with the logs
// of the namespaces acme and other, told again as the product does.
func guarded(t *testing.T, users ...natsd.User) (*natsd.Server, jetstream.JetStream) {
	t.Helper()
	s := start(t, natsd.Options{StoreDir: t.TempDir(), Sync: "2m", Users: users})
	js := dial(t, "", within(s)...)
	for _, ns := range []string{"acme", "other"} {
		_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
			Name: "EVENTS_" + ns, Subjects: []string{"events." + ns + ".>"}, AllowAtomicPublish: true, AllowDirect: true,
			RePublish: &jetstream.RePublish{Source: "events." + ns + ".>", Destination: "live." + ns + ".>"},
		})
		require.NoError(t, err)
	}
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "KV_secrets", Subjects: []string{"$KV.secrets.>", "private.>"}})
	require.NoError(t, err)
	return s, js
}

// within returns how a connection of the server's own process logs in.
func within(s *natsd.Server) []nats.Option {
	public, sign := s.Login()
	return []nats.Option{nats.InProcessServer(s), nats.Nkey(public, sign)}
}

// someone is a client, and what the server tells it that it may not do.
type someone struct {
	jetstream.JetStream

	nc      *nats.Conn
	refused chan error
}

func login(t *testing.T, s *natsd.Server, opts ...nats.Option) someone {
	t.Helper()
	refused := make(chan error, 100)
	js := dial(t, s.ClientURL(), append(opts, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))...)
	return someone{js, js.Conn(), refused}
}

// requireRefused says that the server refused the last that was done.
func (c someone) requireRefused(t *testing.T, what string) {
	t.Helper()
	select {
	case err := <-c.refused:
		require.ErrorIs(t, err, nats.ErrPermissionViolation, what)
	case <-time.After(patience):
		require.Fail(t, "the server says nothing", what)
	}
}

func (c someone) requireQuiet(t *testing.T, what string) {
	t.Helper()
	require.NoError(t, c.nc.Flush())
	require.Empty(t, c.refused, what)
}

func stored(t *testing.T, js jetstream.JetStream, stream string) map[string]uint64 {
	t.Helper()
	handle, err := js.Stream(t.Context(), stream)
	require.NoError(t, err)
	info, err := handle.Info(t.Context(), jetstream.WithSubjectFilter(">"))
	require.NoError(t, err)
	return info.State.Subjects
}

var ann = natsd.User{Name: "ann", Password: "sesame", Namespaces: []string{"acme"}}

// C38: a publisher reaches the logs of its namespaces and nothing else.
func TestPublisher_ReachesOnlyItsNamespaces(t *testing.T) {
	t.Parallel()
	kinds := map[string]natsd.User{"a publisher": {}, "one who reads": {Read: true}, "a trusted one": {Trusted: true}, "a trusted one who reads": {Trusted: true, Read: true}}
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kind.Name, kind.Password, kind.Namespaces = "ann", "sesame", []string{"acme"}
			s, js := guarded(t, kind)
			c := login(t, s, nats.UserInfo("ann", "sesame"))
			for _, subject := range []string{
				"events.other.a", "events.acme._sys", "events.acme._sys.subscriptions.x", "events.acme", "events.other._sys.x",
				"trusted.acme.a", "trusted.other.a", "live.acme.a", "attempts.acme.x", "dead.acme.x", "ledger.acme.x",
				"$KV.secrets.a", "private.a", "$JS.API.INFO", "$JS.API.STREAM.NAMES", "$JS.API.STREAM.DELETE.EVENTS_acme", "$JS.API.STREAM.PURGE.EVENTS_acme",
				"$JS.API.DIRECT.GET.EVENTS_acme", "$JS.API.CONSUMER.CREATE.EVENTS_acme", "$JS.ACK.EVENTS_acme.c.1.1.1.1.1", "$SYS.REQ.SERVER.PING", "$SYS.REQ.USER.INFO",
				"_INBOX.a.b", "_R_.a", "anything",
			} {
				require.NoError(t, c.nc.PublishRequest(subject, "_INBOX.answer", []byte("x")))
				c.requireRefused(t, subject)
			}
			require.NoError(t, c.nc.Publish("events.acme.a.b", nil))
			c.requireQuiet(t, "its own")
			require.Empty(t, stored(t, js, "EVENTS_other"))
			require.Empty(t, stored(t, js, "KV_secrets"))
			if !kind.Trusted { // what is sent to trusted subjects is stored by the product
				require.Equal(t, map[string]uint64{"events.acme.a.b": 1}, stored(t, js, "EVENTS_acme"))
			}
		})
	}
}

// C38: the acknowledgement arrives with what clients have by default, duplicates, expectations and batches included.
func TestPublisher_GetsItsAcknowledgement(t *testing.T) {
	t.Parallel()
	for name, user := range map[string]natsd.User{"one namespace": ann, "any": {Namespaces: []string{"*"}}, "who reads": {Namespaces: []string{"acme"}, Read: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			user.Name, user.Password = "ann", "sesame"
			s, _ := guarded(t, user)
			c := login(t, s, nats.UserInfo("ann", "sesame"))
			for i, duplicate := range []bool{false, true} {
				ack, err := c.PublishMsg(t.Context(), &nats.Msg{Subject: "events.acme.a", Header: nats.Header{"Nats-Msg-Id": {"1"}}})
				require.NoError(t, err)
				require.Equal(t, jetstream.PubAck{Stream: "EVENTS_acme", Sequence: 1, Duplicate: duplicate}, *ack, i)
			}
			_, err := c.Publish(t.Context(), "events.acme.a", nil, jetstream.WithExpectLastSequence(7))
			refused, ok := errors.AsType[*jetstream.APIError](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, jetstream.JSErrCodeStreamWrongLastSequence, refused.ErrorCode)
			future, err := c.PublishAsync("events.acme.b", nil)
			require.NoError(t, err)
			select {
			case ack := <-future.Ok():
				require.Equal(t, uint64(2), ack.Sequence)
			case err := <-future.Err():
				require.NoError(t, err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			for try := 0; ; try++ { // a batch that is idle for two seconds is dropped
				id := strconv.Itoa(try)
				_, err = c.nc.RequestMsgWithContext(ctx, &nats.Msg{Subject: "events.acme.c", Header: nats.Header{"Nats-Batch-Id": {id}, "Nats-Batch-Sequence": {"1"}}})
				require.NoError(t, err)
				answer, err := c.nc.RequestMsgWithContext(ctx, &nats.Msg{Subject: "events.acme.c", Header: nats.Header{"Nats-Batch-Id": {id}, "Nats-Batch-Sequence": {"2"}, "Nats-Batch-Commit": {"1"}}})
				require.NoError(t, err)
				if strings.Contains(string(answer.Data), `"seq":4`) {
					break
				}
				require.Contains(t, string(answer.Data), "10176")
			}
		})
	}
}

// C38: what acknowledges a publish is written where its sender says, within his account only.
func TestPublisher_AnswersStayInItsAccount(t *testing.T) {
	t.Parallel()
	s, js := guarded(t, ann, natsd.User{Name: "cat", Password: "sesame", Namespaces: []string{"acme"}, Read: true})
	for _, name := range []string{"ann", "cat"} {
		c := login(t, s, nats.UserInfo(name, "sesame"))
		for _, reply := range []string{
			"$KV.secrets.a", "private.a", "events.acme._sys.x", "events.other.a", "publish.acme._sys.x", "publish.other.a", "trusted.acme.a",
			"$JS.API.STREAM.PURGE.EVENTS_acme", "$JS.API.STREAM.DELETE.KV_secrets",
		} {
			require.NoError(t, c.nc.PublishRequest("events.acme.a", reply, nil))
		}
		c.requireQuiet(t, "a reply needs no permission")
		_, err := c.Publish(t.Context(), "events.acme.last", nil)
		require.NoError(t, err)
	}
	require.Equal(t, map[string]uint64{"events.acme.a": 18, "events.acme.last": 2}, stored(t, js, "EVENTS_acme"))
	require.Empty(t, stored(t, js, "EVENTS_other"))
	require.Empty(t, stored(t, js, "KV_secrets"))
}

// C38: a publisher sees nothing of others, nor of what is stored.
func TestPublisher_ReadsNothing(t *testing.T) {
	t.Parallel()
	s, js := guarded(t, ann, natsd.User{Name: "bob", Password: "sesame", Namespaces: []string{"acme"}})
	a, b := login(t, s, nats.UserInfo("ann", "sesame")), login(t, s, nats.UserInfo("bob", "sesame"))
	for _, subject := range []string{">", "events.acme.>", "events.>", "live.acme.>", "trusted.>", "$KV.>", "$JS.>", "$SYS.>", "_R_.>", "attempts.>"} {
		_, err := a.nc.SubscribeSync(subject)
		require.NoError(t, err)
		require.NoError(t, a.nc.Flush())
		a.requireRefused(t, subject)
	}
	others, err := a.nc.SubscribeSync("_INBOX.>")
	require.NoError(t, err)
	a.requireQuiet(t, "its own inbox")
	_, err = b.Publish(t.Context(), "events.acme.a", []byte("of bob"))
	require.NoError(t, err)
	_, err = js.Publish(t.Context(), "events.acme.a", []byte("of the server"))
	require.NoError(t, err)
	require.NoError(t, a.nc.PublishRequest("events.acme.a", "_INBOX.mine", nil))
	msg, err := others.NextMsg(patience)
	require.NoError(t, err)
	require.Equal(t, "_INBOX.mine", msg.Subject, "the first that comes is its own")
	require.Contains(t, string(msg.Data), `"seq":3`)
}

// C38: who may read sees what is stored in its namespaces, once, from any publisher.
func TestReader_SeesTheEventsOfItsNamespaces(t *testing.T) {
	t.Parallel()
	for _, namespace := range []string{"acme", "*"} {
		t.Run(namespace, func(t *testing.T) {
			t.Parallel()
			s, js := guarded(t, ann, natsd.User{Name: "cat", Password: "sesame", Namespaces: []string{namespace}, Read: true})
			c := login(t, s, nats.UserInfo("cat", "sesame"))
			sub, err := c.nc.SubscribeSync("events." + namespace + ".>")
			require.NoError(t, err)
			c.requireQuiet(t, "its namespace")
			for _, subject := range []string{"live.acme.>", "publish.>", "events.>", "$KV.>", "trusted.>"} {
				_, err := c.nc.SubscribeSync(subject)
				require.NoError(t, err)
				require.NoError(t, c.nc.Flush())
				c.requireRefused(t, subject)
			}
			a := login(t, s, nats.UserInfo("ann", "sesame"))
			for range 2 {
				_, err = a.Publish(t.Context(), "events.acme.a", []byte("of ann"), jetstream.WithMsgID("1"))
				require.NoError(t, err)
			}
			_, err = c.Publish(t.Context(), "events.acme.b.c", []byte("its own"))
			require.NoError(t, err)
			_, err = js.Publish(t.Context(), "events.acme._sys.x", []byte("of the server"))
			require.NoError(t, err)
			for _, want := range [][]string{{"events.acme.a", "of ann", "1"}, {"events.acme.b.c", "its own", "2"}, {"events.acme._sys.x", "of the server", "3"}} {
				msg, err := sub.NextMsg(patience)
				require.NoError(t, err)
				require.Equal(t, want, []string{msg.Subject, string(msg.Data), msg.Header.Get("Nats-Sequence")})
			}
		})
	}
}

func TestUsers_OfDifferentNamespacesAreIsolated(t *testing.T) {
	t.Parallel()
	s, js := guarded(t,
		natsd.User{Name: "ann", Password: "sesame", Namespaces: []string{"acme"}, Read: true},
		natsd.User{Name: "bob", Password: "sesame", Namespaces: []string{"other"}, Read: true})
	for name, not := range map[string]string{"ann": "other", "bob": "acme"} {
		c := login(t, s, nats.UserInfo(name, "sesame"))
		require.NoError(t, c.nc.Publish("events."+not+".a", nil))
		c.requireRefused(t, "publish")
		_, err := c.nc.SubscribeSync("events." + not + ".>")
		require.NoError(t, err)
		require.NoError(t, c.nc.Flush())
		c.requireRefused(t, "subscribe")
	}
	require.Empty(t, stored(t, js, "EVENTS_acme"))
	require.Empty(t, stored(t, js, "EVENTS_other"))
}

func TestUsers_LogInWithPasswordHashOrKey(t *testing.T) {
	t.Parallel()
	const hash = "$2a$04$n3yOfsTBTIoBuKmXvBCPfeqYyuyFcctTIWFg9hfoBrP/ZcJQ19w6u" // of "open"
	pair, err := nkeys.CreateUser()
	require.NoError(t, err)
	public, err := pair.PublicKey()
	require.NoError(t, err)
	s, _ := guarded(t, ann,
		natsd.User{Name: "bob", Password: hash, Namespaces: []string{"acme"}},
		natsd.User{Name: "cat", NKey: public, Namespaces: []string{"acme"}},
		natsd.User{Name: "dan", Password: "sesame", Admin: true})
	own, sign := s.Login()
	for name, opt := range map[string]nats.Option{"a password": nats.UserInfo("ann", "sesame"), "a hash": nats.UserInfo("bob", "open"), "an nkey": nats.Nkey(public, pair.Sign)} {
		_, err := login(t, s, opt).Publish(t.Context(), "events.acme.a", nil)
		require.NoError(t, err, name)
	}
	for name, opts := range map[string][]nats.Option{
		"nobody":               nil,
		"a wrong password":     {nats.UserInfo("ann", "guess")},
		"the hash itself":      {nats.UserInfo("bob", hash)},
		"no password":          {nats.UserInfo("ann", "")},
		"a stranger":           {nats.UserInfo("eve", "sesame")},
		"another's key":        {nats.Nkey(public, func([]byte) ([]byte, error) { return make([]byte, 64), nil })},
		"the server's, abroad": {nats.Nkey(own, sign)},
	} {
		require.ErrorIs(t, refusal(s.ClientURL(), opts...), nats.ErrAuthorization, name)
	}
	streams := login(t, s, nats.UserInfo("dan", "sesame")).ListStreams(t.Context())
	found := 0
	for range streams.Info() {
		found++
	}
	require.NoError(t, streams.Err())
	require.Equal(t, 3, found, "an admin sees everything")
}

// What was stored before there were users is there when there are some, and the other way round.
func TestUsers_ChangesKeepTheStreams(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for round, users := range [][]natsd.User{nil, {ann}, {ann}, nil} {
		s, err := natsd.Start(t.Context(), natsd.Options{StoreDir: dir, Sync: "2m", Users: users})
		require.NoError(t, err)
		opts := []nats.Option{nats.InProcessServer(s)}
		if users != nil {
			opts = within(s)
		}
		js := dial(t, "", opts...)
		_, err = js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: "EVENTS_acme", Subjects: []string{"events.acme.>"}})
		require.NoError(t, err)
		ack, err := js.Publish(t.Context(), "events.acme.a", nil)
		require.NoError(t, err)
		require.Equal(t, uint64(round+1), ack.Sequence)
		js.Conn().Close()
		require.NoError(t, s.Shutdown())
	}
}

func TestPublisher_UnknownNamespaceIsReported(t *testing.T) {
	t.Parallel()
	s, _ := guarded(t, natsd.User{Name: "ann", Password: "sesame", Namespaces: []string{"*"}})
	_, err := login(t, s, nats.UserInfo("ann", "sesame")).Publish(t.Context(), "events.nowhere.a", nil, jetstream.WithRetryAttempts(0))
	require.ErrorIs(t, err, jetstream.ErrNoStreamResponse)
}
