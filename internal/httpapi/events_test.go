package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	events     = "/v1/namespaces/default/events"
	structured = "application/cloudevents+json"
	batch      = "application/cloudevents-batch+json"
)

// stored returns the event with the id as it lies in the log.
func (b *bench) stored(t *testing.T, id string) sluice.Event {
	t.Helper()
	e, err := b.store.Log.EventByID(t.Context(), sluice.DefaultNamespace, id)
	require.NoError(t, err)
	return e
}

func TestPublish_StoresStructuredCloudEvents(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	data := "{\"b\":1.0, \"a\" : [ 2 ],\"html\":\"<&>\"}"
	a := b.must(t, http.StatusCreated, "POST "+events, `{"specversion":"1.0","id":"e1","source":"/shop","type":"order.created","time":"2026-01-02T03:04:05.5+01:00",
		"subject":"s","path":"/orders/42","dataschema":"urn:schema","datacontenttype":"application/json","region":"eu","count":7,"flag":true,"nothing":null,
		"namespace":"elsewhere","sequence":"9","data":`+data+`}`, "Content-Type", structured+"; charset=utf-8")
	require.JSONEq(t, `{"events":[{"id":"e1","seq":1,"path":"/orders/42","duplicate":false}]}`, a.text)
	e := b.stored(t, "e1")
	require.Equal(t, data, string(e.Data), "byte for byte")
	require.Equal(t, "/shop", e.Source)
	require.Equal(t, "order.created", e.Type)
	require.Equal(t, "s", e.Subject)
	require.Equal(t, "urn:schema", e.DataSchema)
	require.Equal(t, time.Date(2026, 1, 2, 2, 4, 5, 5e8, time.UTC), e.Time)
	require.Equal(t, map[string]string{"region": "eu", "count": "7", "flag": "true", "authid": "root", "authtype": "system"}, e.Extensions)

	require.Contains(t, b.must(t, http.StatusOK, "GET "+events, "").text, `"data":`+data, "there and back")

	again := b.must(t, http.StatusCreated, "POST "+events, `{"specversion":"1.0","id":"e1","source":"/shop","type":"order.created","path":"/orders/42","data":`+data+`}`, "Content-Type", structured)
	require.JSONEq(t, `{"events":[{"id":"e1","seq":1,"path":"/orders/42","duplicate":true}]}`, again.text)
}

func TestPublish_StoresBinaryCloudEvents(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.must(t, http.StatusCreated, "POST "+events, "a,b\n", "Content-Type", "text/csv", "ce-specversion", "1.0", "ce-id", "e%20%E2%82%AC%", "ce-type", "t",
		"ce-source", `"/quoted \"source\""`, "ce-path", "/a", "ce-region", "eu")
	e := b.stored(t, "e €%")
	require.Equal(t, "a,b\n", string(e.Data))
	require.Equal(t, "text/csv", e.ContentType)
	require.Equal(t, `/quoted "source"`, e.Source)
	require.Equal(t, map[string]string{"region": "eu", "authid": "root", "authtype": "system"}, e.Extensions)
}

func TestPublish_ShortFormNeedsAPathOnly(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	a := b.must(t, http.StatusCreated, "POST "+events, `{"path":"/orders/42","data":{"total": 118.50}}`)
	id, _ := a.list(t, "events")[0]["id"].(string)
	parsed, err := uuid.Parse(id)
	require.NoError(t, err)
	require.Equal(t, uuid.Version(7), parsed.Version())
	e := b.stored(t, id)
	require.Equal(t, sluice.DefaultType, e.Type)
	require.Equal(t, `{"total": 118.50}`, string(e.Data))
	require.WithinDuration(t, time.Now(), e.Time, time.Minute)
	require.NotEmpty(t, e.Source)

	b.must(t, http.StatusCreated, "POST "+events, `{"id":"x","source":"/me","subject":"orders/7","type":"t","time":"2026-01-02T03:04:05Z","data":null}`)
	e = b.stored(t, "x")
	require.Equal(t, sluice.Path("/orders/7"), e.Path, "the subject, where there is no path")
	require.Equal(t, "null", string(e.Data))
	require.Equal(t, 2026, e.Time.Year())
}

// In every form of a request, an id that the server gives to events without one is refused, before
// or after that event came.
func TestPublish_IDsOfPlacesAreTheServers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, err := natstest.JetStream(t, b.nats).Publish(t.Context(), "events.default.orders.1", []byte(`"by NATS"`))
	require.NoError(t, err)
	for _, id := range []string{"_default-1", "_default-2"} {
		one := fmt.Sprintf(`{"specversion":"1.0","source":"/s","type":"message","path":"/evil/1","id":%q`, id)
		for _, r := range [][]string{
			{one + "}", "Content-Type", structured},
			{one + "}", "Content-Type", "application/json"},
			{one + `,"deliverat":"2100-01-01T00:00:00Z"}`, "Content-Type", structured},
			{`[{"specversion":"1.0","source":"/s","type":"t","path":"/a","id":"a"},` + one + "}]", "Content-Type", batch},
			{`[{"path":"/evil/1"},` + one + "}]", "Content-Type", "application/json"},
			{"x", "Content-Type", "text/plain", "Ce-Specversion", "1.0", "Ce-Id", id, "Ce-Type", "t", "Ce-Source", "/s", "Ce-Path", "/evil/1"},
		} {
			a := b.must(t, http.StatusBadRequest, "POST "+events, r[0], r[1:]...)
			require.Contains(t, a.text, "has the form of ids that the server gives", r)
			require.Contains(t, a.text, `"field":"id"`)
		}
	}
	require.Equal(t, []string{"_default-1"}, names(b.must(t, http.StatusOK, "GET "+events, "").list(t, "events"), "id"))
	require.Contains(t, b.must(t, http.StatusOK, "GET "+events+"/_default-1", "").text, "by NATS")
	b.must(t, http.StatusCreated, "POST "+events, `{"path":"/evil/1","id":"_other-1"}`)
}

func TestPublish_BatchKeepsItsOrder(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var items, want []string
	for i := range 5 {
		items = append(items, fmt.Sprintf(`{"specversion":"1.0","id":"b%d","source":"/s","type":"t","path":"/b/%d"}`, i, i))
		want = append(want, fmt.Sprintf("b%d", i))
	}
	a := b.must(t, http.StatusCreated, "POST "+events, "["+strings.Join(items, ",")+"]", "Content-Type", batch)
	require.Equal(t, want, names(a.list(t, "events"), "id"))
	a = b.must(t, http.StatusCreated, "POST "+events, ` [{"path":"/c","id":"c1"},{"path":"/c","id":"c2"},`+items[0]+`]`)
	require.Equal(t, []string{"c1", "c2", "b0"}, names(a.list(t, "events"), "id"))
	a = b.must(t, http.StatusOK, "GET "+events, "")
	require.Equal(t, append(want, "c1", "c2"), names(a.list(t, "events"), "id"))
}

func TestPublish_KeepsTheTrace(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	parent := "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	b.must(t, http.StatusCreated, "POST "+events, `{"path":"/a","id":"a"}`, "traceparent", parent, "tracestate", "x=1")
	require.Equal(t, map[string]string{"traceparent": parent, "tracestate": "x=1", "authid": "root", "authtype": "system"}, b.stored(t, "a").Extensions)
	own := strings.Replace(parent, "0af7", "1111", 1)
	b.must(t, http.StatusCreated, "POST "+events, `{"specversion":"1.0","id":"b","source":"/s","type":"t","path":"/a","traceparent":"`+own+`"}`,
		"Content-Type", structured, "traceparent", parent, "tracestate", "x=1")
	require.Equal(t, map[string]string{"traceparent": own, "authid": "root", "authtype": "system"}, b.stored(t, "b").Extensions)
}

// S4-80: the server states the producer; an event's own claim does not count.
func TestPublish_StampsTheProducer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	stamped := map[string]string{"author": "ann", "authid": "root", "authtype": "system"}
	b.must(t, http.StatusCreated, "POST "+events, `{"specversion":"1.0","id":"s","source":"/s","type":"t","path":"/a","author":"ann",
		"authid":"user:eve","authtype":"user","authclaims":"{}"}`, "Content-Type", structured)
	b.must(t, http.StatusCreated, "POST "+events, "x", "Content-Type", "text/plain", "ce-specversion", "1.0", "ce-id", "b", "ce-type", "t", "ce-source", "/s", "ce-path", "/a",
		"ce-author", "ann", "ce-authid", "user:eve", "ce-authtype", "user", "ce-authclaims", "{}")
	for _, id := range []string{"s", "b"} {
		require.Equal(t, stamped, b.stored(t, id).Extensions, id)
	}
	b.must(t, http.StatusCreated, "POST "+events, `[{"path":"/a","id":"p1"},{"path":"/a","id":"p2"}]`)
	delete(stamped, "author")
	for _, id := range []string{"p1", "p2"} {
		require.Equal(t, stamped, b.stored(t, id).Extensions, id)
	}
}

func TestPublish_TakesDataOfAnyKind(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	tests := []struct{ name, members, want, shown string }{
		{"none", ``, ``, ``},
		{"a number", `,"data":1.50`, `1.50`, `"data":1.50`},
		{"a JSON string", `,"data":"text"`, `"text"`, `"data":"text"`},
		{"text", `,"datacontenttype":"text/plain","data":"a\nb"`, "a\nb", `"data":"a\u000ab"`},
		{"bytes", `,"datacontenttype":"image/png","data_base64":"AAH/"`, "\x00\x01\xff", `"data_base64":"AAH/"`},
		{"JSON of another type", `,"datacontenttype":"application/vnd.x+json","data":{"a": 1}`, `{"a": 1}`, `"data":{"a": 1}`},
	}
	for i, tt := range tests {
		id := fmt.Sprintf("d%d", i)
		b.must(t, http.StatusCreated, "POST "+events, `{"specversion":"1.0","id":"`+id+`","source":"/s","type":"t","path":"/d"`+tt.members+`}`, "Content-Type", structured)
		require.Equal(t, tt.want, string(b.stored(t, id).Data), tt.name)
		require.Contains(t, b.must(t, http.StatusOK, "GET "+events+"/"+id, "").text, tt.shown, tt.name)
	}
}

func TestPublish_RefusesInvalidEvents(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ce := func(replace ...string) string {
		return strings.NewReplacer(replace...).Replace(`{"specversion":"1.0","id":"i","source":"/s","type":"t","path":"/a"}`)
	}
	tests := []struct {
		name, media, body string
		status            int
		text              string
	}{
		{"another content type", "text/plain", "x", 400, "content type"},
		{"no content type", "", "{}", 400, "content type"},
		{"no JSON", structured, "x", 400, "JSON"},
		{"another version", structured, ce("1.0", "0.3"), 400, "specversion"},
		{"no id", structured, ce(`"id":"i",`, ""), 400, "no id"},
		{"an empty id", structured, ce(`"i"`, `""`), 400, "no id"},
		{"no source", structured, ce(`"source":"/s",`, ""), 400, "no source"},
		{"no type", structured, ce(`"type":"t",`, ""), 400, "no type"},
		{"a time", structured, ce(`"path"`, `"time":"noon","path"`), 400, "noon"},
		{"a name", structured, ce(`"path"`, `"Big":"x","path"`), 400, "Big"},
		{"a name with a line", structured, ce(`"path"`, `"a_b":"x","path"`), 400, "a_b"},
		{"an object", structured, ce(`"path"`, `"ext":{},"path"`), 400, "ext"},
		{"a fraction", structured, ce(`"path"`, `"ext":1.5,"path"`), 400, "ext"},
		{"a large number", structured, ce(`"path"`, `"ext":3000000000,"path"`), 400, "ext"},
		{"a control character", structured, ce(`/s`, `a\nb`), 400, "source"},
		{"a long id", structured, ce(`"i"`, `"`+strings.Repeat("i", 300)+`"`), 400, "event id"},
		{"data twice", structured, ce(`"path"`, `"data":1,"data_base64":"AA==","path"`), 400, "data_base64"},
		{"data that is not base64", structured, ce(`"path"`, `"data_base64":"?","path"`), 400, "base64"},
		{"data that is no string", structured, ce(`"path"`, `"data_base64":1,"path"`), 400, "data_base64"},
		{"neither path nor subject", structured, ce(`,"path":"/a"`, ""), 400, "neither path nor subject"},
		{"a path", structured, ce("/a", "a"), 400, "path"},
		{"a path with a star", structured, ce("/a", "/a/*"), 400, "path"},
		{"a reserved path", structured, ce("/a", "/_sys/x"), 403, "reserved"},
		{"another reserved path", structured, ce("/a", "/$x"), 403, "reserved"},
		{"a reserved type (S4-33)", structured, ce(`"t"`, `"sys.start"`), 403, "reserved"},
		{"an empty batch", batch, `[]`, 400, "1 to 1000"},
		{"a large batch", "application/json", "[" + strings.Repeat(`{"path":"/a"},`, 1000) + `{"path":"/a"}]`, 400, "1 to 1000"},
		{"a batch that is none", batch, ce(), 400, "must be a batch"},
		{"one of a batch", batch, "[" + ce() + "," + ce("1.0", "2.0") + "]", 400, "[1]"},
		{"one of a batch that is forbidden", batch, "[" + ce() + "," + ce("/a", "/_sys") + "]", 403, "[1]"},
		{"a field of the short form", "application/json", `{"path":"/a","payload":1}`, 400, "payload"},
		{"a short form without path", "application/json", `{"data":1}`, 400, "neither path nor subject"},
		{"a short form that is reserved", "application/json", `{"path":"/_sys/a"}`, 403, "reserved"},
		{"a short form's time", "application/json", `{"path":"/a","time":"noon"}`, 400, "noon"},
		{"a number", "application/json", `1`, 400, "expected"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := b.must(t, tt.status, "POST "+events, tt.body, "Content-Type", tt.media)
			require.Contains(t, a.text, tt.text)
			want := "invalid_request"
			if tt.status == http.StatusForbidden {
				want = "forbidden"
			}
			require.Equal(t, want, a.code())
		})
	}
	a := b.must(t, http.StatusBadRequest, "POST "+events, "x", "ce-id", "1", "ce-type", "t", "ce-source", "/s", "ce-path", "/a")
	require.Contains(t, a.text, "specversion")
	b.must(t, http.StatusBadRequest, "POST "+events, "x", "ce-specversion", "1.0", "ce-id", "1", "ce-type", "t", "ce-source", "/s", "ce-path", "/a", "ce-a_b", "x")
}

func TestEvents_AreReadPageByPage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range 10 {
		b.must(t, http.StatusCreated, "POST "+events, fmt.Sprintf(`{"path":"/p/%d","id":"e%d","type":"kind.%d"}`, i%2, i, i%3))
	}
	var got []string
	cursor := ""
	for pages := 0; pages == 0 || cursor != ""; pages++ {
		require.Less(t, pages, 5)
		a := b.must(t, http.StatusOK, "GET "+events+"?limit=4&cursor="+cursor, "")
		got = append(got, names(a.list(t, "events"), "id")...)
		cursor, _ = a.body["next_cursor"].(string)
	}
	require.Equal(t, []string{"e0", "e1", "e2", "e3", "e4", "e5", "e6", "e7", "e8", "e9"}, got)

	tests := []struct {
		query string
		want  []string
	}{
		{"since=8", []string{"e8", "e9"}},
		{"since=e7", []string{"e8", "e9"}},
		{"since=now", []string{}},
		{"since=-1&until=2", []string{"e0", "e1"}},
		{"since=e1&until=e3", []string{"e2", "e3"}},
		{"since=" + url.QueryEscape(time.Now().Add(-time.Hour).Format(time.RFC3339)) + "&limit=1", []string{"e0"}},
		{"since=" + url.QueryEscape(time.Now().Add(time.Hour).Format(time.RFC3339)), []string{}},
		{"pattern=/p/1&types=kind.0", []string{"e3", "e9"}},
		{"types=kind.1,kind.2&until=4", []string{"e1", "e2"}},
		{"types=kind.1&types=kind.2&until=4", []string{"e1", "e2"}},
		{"types=kind.*&pattern=/**&until=1", []string{"e0"}},
		{"types=other", []string{}},
	}
	for _, tt := range tests {
		a := b.must(t, http.StatusOK, "GET "+events+"?"+tt.query, "")
		require.Equal(t, tt.want, names(a.list(t, "events"), "id"), tt.query)
	}
	e := b.must(t, http.StatusOK, "GET "+events+"/e3", "")
	require.Equal(t, structured, e.header.Get("Content-Type"))
	require.Equal(t, "/p/1", e.body["path"])
	require.Equal(t, "00000000000000000004", e.body["sequence"])
	require.Equal(t, "e3", b.must(t, http.StatusOK, "GET "+events+"/4", "").body["id"])
}

func TestEvents_FindOddIDs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, id := range []string{"a/b c", "100%", "4711", "?&#"} {
		body, err := json.Marshal(map[string]string{"path": "/a", "id": id})
		require.NoError(t, err)
		b.must(t, http.StatusCreated, "POST "+events, string(body))
		require.Equal(t, id, b.must(t, http.StatusOK, "GET "+events+"/"+url.PathEscape(id), "").body["id"])
	}
}

// C11: what is gone is said to be gone.
func TestEvents_CutLogSaysWhereItBegins(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.must(t, http.StatusCreated, "PUT /v1/namespaces/small", `{"retention":{"max_bytes":2000}}`)
	small := "/v1/namespaces/small/events"
	for i := range 20 {
		b.must(t, http.StatusCreated, "POST "+small, fmt.Sprintf(`{"path":"/p","id":"e%d","data":%q}`, i, strings.Repeat("x", 200)))
	}
	a := b.must(t, http.StatusGone, "GET "+small+"?since=1", "")
	require.Equal(t, "replay_window_exceeded", a.code())
	details, _ := a.body["error"].(map[string]any)["details"].(map[string]any)
	require.Greater(t, details["oldest_available_seq"], float64(2))
	require.InDelta(t, 20, details["current_seq"], 0)
	require.NotEmpty(t, b.must(t, http.StatusOK, "GET "+small+"?since=-1", "").list(t, "events"))
	require.Equal(t, "replay_window_exceeded", b.must(t, http.StatusGone, "GET "+small+"/1", "").code())
}
