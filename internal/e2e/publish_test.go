package e2e_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/pkg/webhook"
)

// S4-02, S4-19, C38: any NATS client publishes, with or without our headers.
func TestPublish_ByAnyNATSClientIsDelivered(t *testing.T) {
	t.Parallel()
	api, at := serve(t, nil)
	hook := hooktest.New(t, nil)
	subscribe(t, api, wish(hook.URL, `"policy":{"ordering":"all"}`))
	js := dial(t, at.NATS)

	const spaced = `{ "total": 1.50 }`
	require.NoError(t, js.Conn().Publish(jsNames(t).EventsPrefix()+"default.plain.hello", []byte("hello")))
	_, err := js.PublishMsg(t.Context(), &nats.Msg{
		Subject: jsNames(t).EventsPrefix() + "default.files.a=2Etxt",
		Header: nats.Header{
			"Nats-Msg-Id": {"n-1"}, "ce-type": {"order.created"}, "ce-source": {"/shop"}, "ce-subject": {"o-1"},
			"ce-time": {"2026-01-02T03:04:05Z"}, "ce-region": {"eu"}, "content-type": {"application/json"},
		},
		Data: []byte(spaced),
	})
	require.NoError(t, err)
	_, err = js.PublishMsg(t.Context(), &nats.Msg{
		Subject: jsNames(t).EventsPrefix() + "default.orders.2", Header: nats.Header{"content-type": {"application/cloudevents+json"}},
		Data: []byte(`{"specversion":"1.0","id":"n-2","type":"order.paid","source":"/shop","datacontenttype":"text/plain","data":"paid"}`),
	})
	require.NoError(t, err)

	requests := hook.Wait(3)
	plain, headers, structured := parse(t, requests[0]), parse(t, requests[1]), parse(t, requests[2])
	require.Equal(t, "/plain/hello", plain.Path)
	require.Equal(t, sluice.DefaultType, plain.Type)
	require.NotEmpty(t, plain.ID)
	require.NotEmpty(t, plain.Source)
	require.False(t, plain.Time.IsZero())
	require.Equal(t, "hello", string(plain.Data))

	require.Equal(t, "/files/a.txt", headers.Path)
	require.Equal(t, []string{"n-1", "order.created", "/shop", "o-1", "eu"},
		[]string{headers.ID, headers.Type, headers.Source, headers.Subject, headers.Extensions["region"]})
	require.Equal(t, "2026-01-02T03:04:05Z", headers.Time.Format("2006-01-02T15:04:05Z07:00"))
	require.Equal(t, spaced, string(headers.Data), "byte for byte")

	require.Equal(t, []string{"n-2", "order.paid", "/orders/2", "paid"},
		[]string{structured.ID, structured.Type, structured.Path, string(structured.Data)})
	require.Equal(t, []uint64{2, 3, 4}, []uint64{plain.Seq, headers.Seq, structured.Seq})
}

// S4-02, S4-07…12, S4-14, S4-15: four ways to say the same over HTTP.
func TestPublish_ByEveryFormOfTheAPIIsDelivered(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	hook := hooktest.New(t, nil)
	subscribe(t, s.api, wish(hook.URL, `"policy":{"ordering":"all"}`))
	const to, data = "POST /v1/namespaces/default/events", `{"total":118.5,"note":"a < b & c"}`
	event := func(id string) string {
		return `{"specversion":"1.0","id":"` + id + `","type":"order.created","source":"/shop","path":"/orders/1","data":` + data + `}`
	}
	first := s.must(t, http.StatusCreated, to, event("structured"), "Content-Type", "application/cloudevents+json")
	require.JSONEq(t, `{"events":[{"id":"structured","seq":2,"path":"/orders/1","duplicate":false}]}`, first.text)
	s.must(t, http.StatusCreated, to, data,
		"Ce-Specversion", "1.0", "Ce-Id", "binary", "Ce-Type", "order.created", "Ce-Source", "/shop", "Ce-Path", "/orders/1")
	s.must(t, http.StatusCreated, to, `{"id":"short","path":"/orders/1","type":"order.created","source":"/shop","data":`+data+`}`)
	batch := s.must(t, http.StatusCreated, to, "["+event("batch-1")+","+event("batch-2")+"]", "Content-Type", "application/cloudevents-batch+json")
	require.JSONEq(t, `{"events":[{"id":"batch-1","seq":5,"path":"/orders/1","duplicate":false},{"id":"batch-2","seq":6,"path":"/orders/1","duplicate":false}]}`, batch.text)

	for i, r := range hook.Wait(5) {
		d := parse(t, r)
		require.Equal(t, []string{"structured", "binary", "short", "batch-1", "batch-2"}[i], d.ID)
		require.Equal(t, []string{"order.created", "/shop", "/orders/1", "default"}, []string{d.Type, d.Source, d.Path, d.Namespace})
		require.True(t, bytes.Equal([]byte(data), d.Data), "byte for byte: %s", d.Data)
		require.Equal(t, uint64(i+2), d.Seq, "the first is that the subscription was created")
	}
}

// S4-06: a batch of which one event is wrong is not stored at all.
func TestBatch_WithAMistakeIsNotStored(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	good := `{"specversion":"1.0","id":"a","type":"t","source":"/s","path":"/a"}`
	r := s.must(t, http.StatusBadRequest, "POST /v1/namespaces/default/events",
		"["+good+","+strings.Replace(good, `"/a"`, `"/a/*"`, 1)+"]", "Content-Type", "application/cloudevents-batch+json")
	require.Equal(t, "invalid_request", r.field(t, "error.code"))
	require.NotEmpty(t, r.field(t, "request_id"))
	page, err := s.api.Events(t.Context(), sluice.DefaultNamespace, client.EventsQuery{})
	require.NoError(t, err)
	require.Empty(t, page.Items)
}

// S4-04, C01: one id is one event, whichever door it comes through.
func TestPublish_DuplicateArrivesOnce(t *testing.T) {
	t.Parallel()
	api, at := serve(t, nil)
	hook := hooktest.New(t, nil)
	subscribe(t, api, wish(hook.URL, `"policy":{"ordering":"all"}`))
	js := dial(t, at.NATS)
	publish := func(id string) bool {
		ack, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: jsNames(t).EventsPrefix() + "default.d", Header: nats.Header{"Nats-Msg-Id": {id}}, Data: []byte(`{}`)})
		require.NoError(t, err)
		return ack.Duplicate
	}
	post := func(id string) sluice.Stored {
		stored, err := api.Publish(t.Context(), sluice.DefaultNamespace, sluice.Event{ID: id, Path: "/d", Data: []byte(`{}`)})
		require.NoError(t, err)
		return stored[0]
	}
	first := post("from-http")
	require.False(t, first.Duplicate)
	require.True(t, publish("from-http"))
	require.False(t, publish("from-nats"))
	require.Equal(t, sluice.Stored{ID: "from-nats", Seq: first.Seq + 1, Path: "/d", Duplicate: true, Type: sluice.DefaultType}, post("from-nats"))
	require.Equal(t, sluice.Stored{ID: "from-http", Seq: first.Seq, Path: "/d", Duplicate: true, Type: sluice.DefaultType}, post("from-http"))
	require.False(t, publish("last"))
	require.Equal(t, []string{"from-http", "from-nats", "last"}, idsOf(hook.Wait(3)))
}

// S4-11, S4-25, S4-42: namespaces do not see each other.
func TestNamespace_KeepsItsEvents(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	_, err := s.api.PutNamespace(t.Context(), "acme", client.NamespaceSpec{})
	require.NoError(t, err)
	acme, other := hooktest.New(t, nil), hooktest.New(t, nil)
	subscribe(t, s.api, wish(acme.URL, `"namespace":"acme"`))
	subscribe(t, s.api, wish(other.URL))
	for _, ns := range []string{"acme", "default"} {
		_, err := s.api.Publish(t.Context(), ns, sluice.Event{ID: "in-" + ns, Path: "/a"})
		require.NoError(t, err)
	}
	require.Equal(t, []string{"in-acme"}, idsOf(acme.Wait(1)))
	require.Equal(t, "acme", parse(t, acme.Wait(1)[0]).Namespace)
	require.Equal(t, []string{"in-default"}, idsOf(other.Wait(1)))
	require.Equal(t, http.StatusNotFound, s.call(t, "POST /v1/namespaces/nobody/events", `{"path":"/a"}`).status)
}

// S4-28: the broker listens only if it is configured to.
func TestBroker_ListensOnlyIfConfigured(t *testing.T) {
	t.Parallel()
	api, at := serve(t, func(c *config.Config) { c.NATS.Listen = "none" })
	require.Empty(t, at.NATS)
	hook := hooktest.New(t, nil)
	subscribe(t, api, wish(hook.URL))
	put(t, api, "/a", 1, 1)
	hook.Wait(1)
}

// S1-21…25: what a pattern matches, seen from the endpoints.
func TestPattern_ChoosesPaths(t *testing.T) {
	t.Parallel()
	api, _ := serve(t, nil)
	hook := hooktest.New(t, nil)
	paths := []string{"/agents", "/agents/foo", "/agents/foo/bar", "/agents/foo/inbox", "/agents/a b/inbox", "/other/x.y", "/end"}
	want := map[string][]string{
		"/agents/*":        {"/agents/foo", "/end"},
		"/agents/%2A":      {"/agents/foo", "/end"},
		"/agents/**":       {"/agents", "/agents/foo", "/agents/foo/bar", "/agents/foo/inbox", "/agents/a b/inbox", "/end"},
		"/agents/*/inbox":  {"/agents/foo/inbox", "/agents/a b/inbox", "/end"},
		"/**/inbox":        {"/agents/foo/inbox", "/agents/a b/inbox", "/end"},
		"/agents/**/foo/*": {"/agents/foo/bar", "/agents/foo/inbox", "/end"},
		"/other/x.y":       {"/other/x.y", "/end"},
		"/**":              paths,
	}
	names := map[string]string{}
	for pattern := range want {
		id := fmt.Sprintf("p%d", len(names))
		names[pattern] = "/" + id
		subscribe(t, api, wish(hook.URL+"/"+id, `"id":"`+id+`"`, `"pattern":"`+pattern+`"`))
		subscribe(t, api, wish(hook.URL+"/"+id, `"pattern":"/end"`, `"metadata":{"for":"`+id+`"}`, `"idempotency_key":"`+id+`"`))
	}
	total := 0
	for i, path := range paths {
		_, err := api.Publish(t.Context(), sluice.DefaultNamespace, sluice.Event{ID: fmt.Sprint("e", i), Path: sluice.Path(path)})
		require.NoError(t, err)
	}
	for _, list := range want {
		total += len(list)
	}
	total++ // "/**" has the end twice
	got := map[string][]string{}
	for _, r := range hook.Wait(total) {
		got[r.Path] = append(got[r.Path], parse(t, r).Path)
	}
	for pattern, list := range want {
		if pattern == "/**" {
			list = append(list, "/end")
		}
		require.ElementsMatch(t, list, got[names[pattern]], pattern)
	}
}

// S1-26: a star belongs in patterns and stands for a whole segment.
func TestPath_RefusesAStar(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	for _, path := range []string{"/a/*", "/a*b", "/**"} {
		r := s.must(t, http.StatusBadRequest, "POST /v1/namespaces/default/events", `{"path":"`+path+`"}`)
		require.Equal(t, "invalid_request", r.field(t, "error.code"))
	}
	r := s.must(t, http.StatusBadRequest, "POST /v1/subscriptions", `{"pattern":"/a*b","endpoint":{"url":"http://127.0.0.1:1/"}}`)
	require.Equal(t, "invalid_request", r.field(t, "error.code"))
}

// S4-14, S0-37: data of any kind arrives unchanged.
func TestData_ArrivesByteForByte(t *testing.T) {
	t.Parallel()
	api, _ := serve(t, nil)
	hook := hooktest.New(t, nil)
	subscribe(t, api, wish(hook.URL, `"policy":{"ordering":"all","envelope":"raw"}`))
	events := []sluice.Event{
		{Path: "/json", Data: []byte(`{"a<b":"& > \u2028 ü 🚚","n":1e3,"big":12345678901234567890}`)},
		{Path: "/text", ContentType: "text/plain; charset=utf-8", Data: []byte("line\nline ü")},
		{Path: "/bytes", ContentType: "image/png", Data: []byte{0, 0xff, 0x80, '\n'}},
		{Path: "/none"},
	}
	_, err := api.Publish(t.Context(), sluice.DefaultNamespace, events...)
	require.NoError(t, err)
	for i, r := range hook.Wait(len(events)) {
		require.Equal(t, string(events[i].Data), string(r.Body), events[i].Path)
		if events[i].ContentType != "" {
			require.Equal(t, events[i].ContentType, r.Header.Get("Content-Type"))
		}
		require.Equal(t, webhook.Raw, parse(t, r).Envelope)
	}
}

// Issue 18, 8: a request to a namespace that does not exist is answered at once, by NATS (decision 0057).
func TestPublish_UnknownNamespaceIsAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), func(c *config.Config) {
		c.NATS.Users = append(c.NATS.Users, config.NATSUser{Name: "shop", Password: "a password", Namespaces: []string{"*"}},
			config.NATSUser{Name: "bank", Password: "a password", Namespaces: []string{"*"}, Trusted: true})
	})
	shop := dial(t, s.at.NATS, nats.UserInfo("shop", "a password")).Conn()
	_, err := shop.Request(jsNames(t).EventsPrefix()+"nosuch.orders.1", nil, patience)
	require.ErrorIs(t, err, nats.ErrNoResponders)
	bank := dial(t, s.at.NATS, nats.UserInfo("bank", "a password")).Conn()
	answer, err := bank.Request(jsNames(t).EventsPrefix()+"nosuch.orders.1", nil, patience)
	require.NoError(t, err)
	require.Contains(t, string(answer.Data), `"error"`)
}
