package eventlog

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

func someEvent() *rapid.Generator[sluice.Event] {
	return rapid.Custom(func(t *rapid.T) sluice.Event {
		name := rapid.StringMatching(`x[a-z0-9]{0,10}|traceparent|tracestate`)
		at := rapid.Int64Range(0, 4e9).Draw(t, "seconds")
		e := sluice.Event{
			Namespace:   "acme",
			Path:        sluice.Path(rapid.StringMatching(`(/[^*/\x00-\x1f\x7f]{0,12}){1,4}/x`).Filter(undotted).Draw(t, "path")),
			Seq:         rapid.Uint64Range(1, 1<<60).Draw(t, "seq"),
			ID:          rapid.StringN(1, 40, -1).Draw(t, "id"),
			Type:        rapid.StringN(1, 20, -1).Draw(t, "type"),
			Source:      rapid.StringN(1, 20, -1).Draw(t, "source"),
			Time:        time.Unix(at, rapid.Int64Range(0, 999_999_999).Draw(t, "nanoseconds")).UTC(),
			Stored:      time.Unix(at, 5).UTC(),
			Subject:     rapid.String().Draw(t, "subject"),
			DataSchema:  rapid.String().Draw(t, "dataschema"),
			ContentType: rapid.SampledFrom([]string{"", "application/json", "text/plain; charset=utf-8"}).Draw(t, "content type"),
			Extensions:  rapid.MapOfN(name, rapid.String(), 0, 4).Draw(t, "extensions"),
			Data:        rapid.SliceOf(rapid.Byte()).Draw(t, "data"),
		}
		if e.Path.Reserved() && !isSystem(e.Path) {
			e.Path = "/a" + e.Path // the others have no owner
		}
		if len(e.Extensions) == 0 {
			e.Extensions = nil
		}
		if len(e.Data) == 0 {
			e.Data = nil
		}
		return e
	})
}

// undotted reports whether a path has no segment that HTTP clients resolve.
func undotted(path string) bool {
	return !strings.Contains(path+"/", "/./") && !strings.Contains(path+"/", "/../")
}

// What is published is what is read, byte for byte, after it went over the wire.
func TestEvent_RoundTrips(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := someEvent().Draw(t, "event")
		require.NoError(t, checkEvent(&want))
		msg := message(streams.Names{}, "acme", &want)
		for _, values := range msg.Header {
			for _, c := range []byte(values[0]) {
				require.True(t, c >= ' ' && c <= '~', "%q would not travel", values[0])
			}
		}
		got, err := new(stamps).eventOf(msg.Subject, msg.Header, msg.Data, want.Seq, want.Stored)
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
}

func FuzzEventOf(f *testing.F) {
	f.Add("events.acme.a", "ce-subject", `"%41%"`, "application/cloudevents+json", []byte(`{"data":1}`))
	f.Add("events.acme", "Nats-Msg-Id", "", "", []byte(nil))
	f.Add("events.acme.a", "CE-authid", "ann", "application/cloudevents+json", []byte(`{"ID":"1","id":"2","Id":"3"}`))
	f.Fuzz(func(t *testing.T, subject, name, value, contentType string, data []byte) {
		header := nats.Header{strings.ToUpper(name): {"x"}, name: {value}, "content-type": {contentType}, "Content-Type": {"x"}, strings.ToLower(name): {"y"}}
		e, err := new(stamps).eventOf(subject, header, data, 7, time.Unix(1, 0))
		for range 5 {
			again, err2 := new(stamps).eventOf(subject, header, data, 7, time.Unix(1, 0))
			require.Equal(t, e, again, "the same message is another event")
			require.Equal(t, err, err2)
		}
		require.Equal(t, uint64(7), e.Seq)
		require.NotEmpty(t, e.ID)
		require.NotEmpty(t, e.Type)
		if err != nil {
			require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err))
			return
		}
		require.Equal(t, subject, streams.Names{}.Subject(e.Namespace, e.Path))
	})
}

func TestDecode_ForeignMessagesAreEvents(t *testing.T) {
	t.Parallel()
	stored := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	plain := sluice.Event{
		Namespace: "acme", Path: "/a", Seq: 9, ID: "_acme-9", Type: "message", Source: "/namespaces/acme",
		Time: stored, Stored: stored, Data: []byte("hello"),
	}
	with := func(change func(*sluice.Event)) sluice.Event {
		e := plain
		change(&e)
		return e
	}
	tests := []struct {
		name   string
		header nats.Header
		data   string
		want   sluice.Event
	}{
		{"without headers", nil, "hello", plain},
		{
			"names in any case",
			nats.Header{"CE-Id": {"1"}, "Ce-TYPE": {"t"}, "Content-Type": {"text/plain"}},
			"hello",
			with(func(e *sluice.Event) { e.ID, e.Type, e.ContentType = "1", "t", "text/plain" }),
		},
		{"the id is Nats-Msg-Id", nats.Header{"Nats-Msg-Id": {"m"}}, "hello", with(func(e *sluice.Event) { e.ID = "m" })},
		{"ce-id goes before Nats-Msg-Id", nats.Header{"Nats-Msg-Id": {"m"}, "ce-id": {"c"}}, "hello", with(func(e *sluice.Event) { e.ID = "c" })},
		{"Nats-Msg-Id is another place", nats.Header{"Nats-Msg-Id": {"_acme-8"}}, "hello", plain},
		{"ce-id is another place", nats.Header{"ce-id": {"_acme-8"}}, "hello", plain},
		{"ce-id is a place with escapes", nats.Header{"ce-id": {"_ac%6De-8"}, "Nats-Msg-Id": {"_acme-7"}}, "hello", plain},
		{"ce-id is a place, Nats-Msg-Id is not", nats.Header{"Nats-Msg-Id": {"m"}, "ce-id": {"_acme-8"}}, "hello", with(func(e *sluice.Event) { e.ID = "m" })},
		{"ce-id is a place of another namespace", nats.Header{"ce-id": {"_acm-8"}}, "hello", with(func(e *sluice.Event) { e.ID = "_acm-8" })},
		{"structured with another place", nats.Header{"content-type": {structuredType}}, `{"id":"_acme-8"}`, with(func(e *sluice.Event) { e.Data = nil })},
		{
			"quotes and percent signs",
			nats.Header{"ce-subject": {`"50% of \"%C3%A4\""`}},
			"hello",
			with(func(e *sluice.Event) { e.Subject = `50% of "ä"` }),
		},
		{"a time that is none", nats.Header{"ce-time": {"yesterday"}}, "hello", plain},
		{
			"trace context",
			nats.Header{"Traceparent": {"00-1-2-01"}, "ce-region": {"eu"}},
			"hello",
			with(func(e *sluice.Event) { e.Extensions = map[string]string{"traceparent": "00-1-2-01", "region": "eu"} }),
		},
		{
			"structured with JSON",
			nats.Header{"content-type": {"application/cloudevents+json; charset=utf-8"}},
			`{"specversion":"1.0","id":"s","type":"t","source":"/s","time":"2026-01-02T04:04:05+01:00","n":7,"flag":true,"gone":null,"data":{"a":1}}`,
			with(func(e *sluice.Event) {
				e.ID, e.Type, e.Source, e.Time = "s", "t", "/s", stored.Truncate(time.Second)
				e.Extensions = map[string]string{"n": "7", "flag": "true"}
				e.Data = []byte(`{"a":1}`)
			}),
		},
		{
			"structured with text",
			nats.Header{"content-type": {structuredType}},
			`{"id":"s","datacontenttype":"text/plain","data":"a\nb"}`,
			with(func(e *sluice.Event) { e.ID, e.ContentType, e.Data = "s", "text/plain", []byte("a\nb") }),
		},
		{
			"structured with bytes",
			nats.Header{"content-type": {structuredType}},
			`{"id":"s","datacontenttype":"image/png","data_base64":"AAE="}`,
			with(func(e *sluice.Event) { e.ID, e.ContentType, e.Data = "s", "image/png", []byte{0, 1} }),
		},
		{
			"structured without data or id",
			nats.Header{"content-type": {structuredType}, "Nats-Msg-Id": {"m"}},
			`{}`,
			with(func(e *sluice.Event) { e.ID, e.Data = "m", nil }),
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := new(stamps).eventOf("events.acme.a", test.header, []byte(test.data), 9, stored)
			require.NoError(t, err)
			require.Equal(t, test.want, got)
		})
	}
}

func TestDecode_OtherMessagesKeepTheirPlace(t *testing.T) {
	t.Parallel()
	structured := nats.Header{"content-type": {structuredType}}
	tests := []struct {
		name, subject string
		header        nats.Header
		data          string
	}{
		{"a token that is no segment", "events.acme.a=zz", nil, "x"},
		{"not the canonical subject", "events.acme.=41", nil, "x"},
		{"a body that is no JSON", "events.acme.a", structured, "x"},
		{"data_base64 that is none", "events.acme.a", structured, `{"data_base64":"%"}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			e, err := new(stamps).eventOf(test.subject, test.header, []byte(test.data), 3, time.Unix(1, 0))
			require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err))
			require.Equal(t, "_acme-3", e.ID)
			require.Equal(t, "acme", e.Namespace)
			require.Equal(t, uint64(3), e.Seq)
			require.Equal(t, test.data, string(e.Data))
		})
	}
}

func TestEncode_RefusesUnstorableEvents(t *testing.T) {
	t.Parallel()
	ok := sluice.Event{ID: "1", Path: "/a"}
	require.NoError(t, checkEvent(&ok))
	tests := []struct {
		name string
		give sluice.Event
	}{
		{"no id", sluice.Event{Path: "/a"}},
		{"no path", sluice.Event{ID: "1"}},
		{"an extension's name", sluice.Event{ID: "1", Path: "/a", Extensions: map[string]string{"a b": ""}}},
		{"an extension that is an attribute", sluice.Event{ID: "1", Path: "/a", Extensions: map[string]string{"id": ""}}},
		{"a content type with a line break", sluice.Event{ID: "1", Path: "/a", ContentType: "a\r\nb"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(checkEvent(&test.give)))
		})
	}
}
