package eventlog_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsd"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// trusting returns a store that takes what trusted publishers send, and its server with the users
// ann (trusted), bob, cat (who reads, and is trusted everywhere) and dan, all of acme.
func trusting(tb testing.TB) (rooms, *natstest.Server) {
	tb.Helper()
	server := natstest.NewWith(tb, natsd.Options{Users: []natsd.User{
		{Name: "ann", Password: "x", Namespaces: []string{"acme"}, Trusted: true},
		{Name: "bob", Password: "x", Namespaces: []string{"acme"}},
		{Name: "cat", Password: "x", Namespaces: []string{"*"}, Trusted: true, Read: true},
		{Name: "dan", Password: "x", Namespaces: []string{"acme"}, Read: true},
	}})
	public, sign := server.Login()
	store := connected(tb, natsstore.Options{Conn: server, NKey: public, Sign: sign, Readers: true})
	require.NoError(tb, store.core.Provision(tb.Context()))
	_, _, err := store.core.Namespaces().Put(tb.Context(), sluice.Namespace{Name: "acme"})
	require.NoError(tb, err)
	trusted, err := store.OpenTrusted(tb.Context())
	require.NoError(tb, err)
	ctx, cancel := context.WithCancel(tb.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := trusted.Run(ctx); err != nil {
			tb.Error(err)
		}
	})
	tb.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return store, server
}

func as(tb testing.TB, server *natstest.Server, user string) jetstream.JetStream {
	tb.Helper()
	return natstest.Dial(tb, server.ClientURL(), nats.UserInfo(user, "x"))
}

func said(path, id string) *nats.Msg {
	return &nats.Msg{Subject: "events.acme." + path, Data: []byte(`{"a":1}`), Header: nats.Header{
		"Nats-Msg-Id": {id}, "ce-type": {"t"}, "ce-authtype": {"user"}, "ce-authid": {"eve"}, "ce-region": {"eu"},
	}}
}

func who(e *sluice.Event) string { return e.Extensions["authtype"] + ":" + e.Extensions["authid"] }

// S4-80, C38: who caused an event is believed from trusted publishers only.
func TestTrusted_OnlyTheirAuthAttributesAreBelieved(t *testing.T) {
	t.Parallel()
	store, server := trusting(t)
	ann, bob, cat := as(t, server, "ann"), as(t, server, "bob"), as(t, server, "cat")
	for i, js := range []jetstream.JetStream{ann, bob, cat} {
		ack, err := js.PublishMsg(t.Context(), said("a", strconv.Itoa(i)))
		require.NoError(t, err)
		require.Equal(t, jetstream.PubAck{Stream: "EVENTS_acme", Sequence: uint64(i + 1)}, *ack)
	}
	structured := &nats.Msg{
		Subject: "events.acme.s", Header: nats.Header{"content-type": {"application/cloudevents+json"}},
		Data: []byte(`{"specversion":"1.0","id":"s","type":"t","source":"/s","authtype":"user","authid":"eve"}`),
	}
	for _, js := range []jetstream.JetStream{ann, bob} {
		_, err := js.PublishMsg(t.Context(), structured)
		require.NoError(t, err)
	}
	_, err := store.Publish(t.Context(), "acme", []sluice.Event{
		{ID: "h1", Path: "/h", Extensions: map[string]string{"authtype": "user", "authid": "eve"}},
		{ID: "h2", Path: "/h", Extensions: map[string]string{"authtype": "user", "authid": "eve"}},
	})
	require.NoError(t, err)
	page, err := store.Events(t.Context(), "acme", model.EventQuery{})
	require.NoError(t, err)
	var got []string
	for i := range page.Events {
		e, err := store.Event(t.Context(), "acme", page.Events[i].Seq)
		require.NoError(t, err)
		require.Equal(t, page.Events[i], e, "both ways to read")
		got = append(got, e.ID+" "+who(&e))
	}
	require.Equal(t, []string{"0 user:eve", "1 :", "2 user:eve", "s user:eve", "s :", "h1 user:eve", "h2 user:eve"}, got)
	require.Equal(t, map[string]string{"region": "eu"}, page.Events[1].Extensions, "the rest stays")
}

// C38: who sees a stamp can do nothing with it but repeat what was said.
func TestStamp_CannotBeForgedOrMoved(t *testing.T) {
	t.Parallel()
	store, server := trusting(t)
	ann, bob, dan := as(t, server, "ann"), as(t, server, "bob"), as(t, server, "dan")
	sub, err := dan.Conn().SubscribeSync("events.acme.>")
	require.NoError(t, err)
	require.NoError(t, dan.Conn().Flush())
	_, err = ann.PublishMsg(t.Context(), said("a", "1"))
	require.NoError(t, err)
	seen, err := sub.NextMsg(10 * time.Second)
	require.NoError(t, err)
	stamp := seen.Header.Get("Sluice-Stamp")
	require.NotEmpty(t, stamp)

	forge := func(change func(*nats.Msg)) {
		msg := said("a", "1")
		msg.Header.Set("Sluice-Stamp", stamp)
		change(msg)
		_, err := bob.PublishMsg(t.Context(), msg)
		require.NoError(t, err)
	}
	forge(func(m *nats.Msg) { m.Header.Set("Nats-Msg-Id", "2") })
	forge(func(m *nats.Msg) { m.Header.Set("Nats-Msg-Id", "3"); m.Subject = "events.acme.b" })
	forge(func(m *nats.Msg) { m.Header.Set("Nats-Msg-Id", "4"); m.Header["ce-id"] = []string{"1"} })
	forge(func(m *nats.Msg) { m.Header.Set("Nats-Msg-Id", "5"); m.Header.Set("Sluice-Stamp", "x."+stamp) })
	page, err := store.Events(t.Context(), "acme", model.EventQuery{})
	require.NoError(t, err)
	require.Len(t, page.Events, 5)
	require.Equal(t, "user:eve", who(&page.Events[0]))
	for _, e := range page.Events[1:] {
		require.Equal(t, ":", who(&e), e.Seq)
	}
	for _, name := range []string{"Sluice-Stamp", "sluice-stamp", "SLUICE-Anything"} {
		msg := said("a", "6")
		msg.Header[name] = []string{stamp}
		_, err := ann.PublishMsg(t.Context(), msg)
		require.ErrorContains(t, err, "reserved", name)
	}
}

// A trusted publisher's messages are stored as they came, and JetStream's answers are its own.
func TestTrusted_PublishersSeePlainJetStream(t *testing.T) {
	t.Parallel()
	store, server := trusting(t)
	ann, cat := as(t, server, "ann"), as(t, server, "cat")
	for _, duplicate := range []bool{false, true} {
		ack, err := ann.PublishMsg(t.Context(), said("a", "1"))
		require.NoError(t, err)
		require.Equal(t, jetstream.PubAck{Stream: "EVENTS_acme", Sequence: 1, Duplicate: duplicate}, *ack)
	}
	_, err := ann.PublishMsg(t.Context(), said("a", "2"), jetstream.WithExpectLastSequence(7))
	requireJetStreamError(t, jetstream.JSErrCodeStreamWrongLastSequence, err)
	_, err = ann.PublishMsg(t.Context(), said("a", "lasts"), jetstream.WithMsgTTL(time.Hour))
	requireJetStreamError(t, 10003, err)
	_, err = ann.Publish(t.Context(), "events.acme.$x", nil)
	requireJetStreamError(t, 10003, err)
	_, err = ann.Publish(t.Context(), "events.acme.a=2e", nil)
	requireJetStreamError(t, 10003, err)
	_, err = cat.Publish(t.Context(), "events.nowhere.a", nil, jetstream.WithRetryAttempts(0))
	requireJetStreamError(t, 10008, err)

	require.NoError(t, ann.Conn().Publish("events.acme.b", []byte("no answer wanted")))
	futures := make([]jetstream.PubAckFuture, 500)
	for i := range futures {
		futures[i], err = ann.PublishMsgAsync(said("n", fmt.Sprint("n", i)))
		require.NoError(t, err)
	}
	select {
	case <-ann.PublishAsyncComplete():
	case <-time.After(time.Minute):
		require.FailNow(t, "not all are answered")
	}
	for i, future := range futures {
		require.Equal(t, uint64(i+3), (<-future.Ok()).Sequence, "in order")
	}
	e, err := store.Event(t.Context(), "acme", 2)
	require.NoError(t, err)
	require.Equal(t, []any{sluice.Path("/b"), "no answer wanted"}, []any{e.Path, string(e.Data)})

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	batch := func(id, i, commit string) *nats.Msg {
		msg := said("batch", id+i)
		msg.Header["Nats-Batch-Id"], msg.Header["Nats-Batch-Sequence"] = []string{id}, []string{i}
		if commit != "" {
			msg.Header["Nats-Batch-Commit"] = []string{commit}
		}
		return msg
	}
	for try := 0; ; try++ { // a batch that is idle for two seconds is dropped
		id := fmt.Sprint("b", try, "-")
		_, err = ann.Conn().RequestMsgWithContext(ctx, batch(id, "1", ""))
		require.NoError(t, err)
		answer, err := ann.Conn().RequestMsgWithContext(ctx, batch(id, "2", "1"))
		require.NoError(t, err)
		if strings.Contains(string(answer.Data), `"seq":504`) {
			break
		}
		require.Contains(t, string(answer.Data), "10176")
	}
}

// An event that says who caused it has an id, so that no copy is another event.
func TestTrusted_EventsAlwaysHaveAnID(t *testing.T) {
	t.Parallel()
	store, server := trusting(t)
	ann := as(t, server, "ann")
	for i, id := range []string{"", "_acme-7"} { // the second is of a place, which only the server gives
		msg := said("a", id)
		if id == "" {
			msg.Header.Del("Nats-Msg-Id")
		}
		_, err := ann.PublishMsg(t.Context(), msg)
		require.NoError(t, err)
		e, err := store.Event(t.Context(), "acme", uint64(i+1))
		require.NoError(t, err)
		require.Equal(t, "user:eve", who(&e))
		require.NoError(t, model.CheckChosenID("acme", e.ID))
	}
}

func TestRepublish_IsForReadersOnly(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	for _, readers := range []bool{true, false} {
		store := connected(t, natsstore.Options{Conn: server, Readers: readers})
		require.NoError(t, store.core.Provision(t.Context()))
		stream, err := natstest.JetStream(t, server).Stream(t.Context(), "EVENTS_default")
		require.NoError(t, err)
		require.Equal(t, readers, stream.CachedInfo().Config.RePublish != nil)
	}
}

func requireJetStreamError(t *testing.T, want jetstream.ErrorCode, err error) {
	t.Helper()
	refused, ok := errors.AsType[*jetstream.APIError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, want, refused.ErrorCode, err)
}

func BenchmarkPublishOverNATS(b *testing.B) {
	_, server := trusting(b)
	for _, user := range []string{"bob", "ann", "dan"} {
		js := as(b, server, user)
		b.Run(user+"/one", func(b *testing.B) {
			for b.Loop() {
				if _, err := js.PublishMsg(b.Context(), said("a", "")); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(user+"/many", func(b *testing.B) {
			for b.Loop() {
				if _, err := js.PublishMsgAsync(said("a", ""), jetstream.WithStallWait(10*time.Second)); err != nil {
					b.Fatal(err)
				}
			}
			<-js.PublishAsyncComplete()
		})
	}
}
