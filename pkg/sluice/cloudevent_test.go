package sluice_test

import (
	"encoding/json"
	"strconv"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestEvent_RoundTripsAsCloudEvent(t *testing.T) { // S0-29, S4-07…14
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String()
		ev := sluice.Event{
			Namespace: "acme", Path: "/orders/42", Seq: rapid.Uint64Min(1).Draw(t, "seq"),
			ID: "i" + text.Draw(t, "id"), Type: "t" + text.Draw(t, "type"), Source: "s" + text.Draw(t, "source"),
			Time: time.Unix(rapid.Int64Range(0, 1<<32).Draw(t, "time"), 5).UTC(), Subject: text.Draw(t, "subject"),
			ContentType: rapid.SampledFrom([]string{"application/json", "application/octet-stream", "text/plain"}).Draw(t, "content type"),
			DataSchema:  text.Draw(t, "data schema"),
			Extensions:  map[string]string{"region": "x" + text.Draw(t, "region")},
			Data:        []byte(rapid.SampledFrom([]string{`{"a":"<&>"}`, `[1.0,2]`, `"x"`}).Draw(t, "data")),
		}
		data := ev.AppendJSON(nil)
		require.True(t, json.Valid(data), "%s", data)
		var back sluice.Event
		require.NoError(t, json.Unmarshal(data, &back))
		require.Equal(t, ev, back)
	})
}

func TestEvent_StringsReadBackByEncodingJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
		require.True(t, utf8.Valid(sluice.AppendString(nil, s)))
		var want, got string
		quoted, err := json.Marshal(s)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(quoted, &want))
		require.NoError(t, json.Unmarshal(sluice.AppendString(nil, s), &got))
		require.Equal(t, want, got)
	})
}

func TestEvent_LeavesOutInvalidExtensions(t *testing.T) {
	t.Parallel()
	ev := sluice.Event{ID: "1", Extensions: map[string]string{"Bad_Name": "x", "id": "y", "good1": "z"}}
	require.Equal(t, []sluice.Attribute{{Name: "id", Value: "1"}, {Name: "source", Value: "/"}, {Name: "type", Value: "message"}, {Name: "good1", Value: "z"}}, ev.Attributes())
}

func TestEvent_AttributesAreThoseThatAreSet(t *testing.T) {
	t.Parallel()
	ev := sluice.Event{ID: "1", Stored: time.Unix(0, 0), Extensions: map[string]string{}}
	for i := range 12 {
		ev.Extensions["x"+strconv.Itoa(i)] = "y"
	}
	list := ev.Attributes()
	require.Len(t, list, 16)
	require.Contains(t, list, sluice.Attribute{Name: "time", Value: "1970-01-01T00:00:00Z"}, "when it was stored, if it names no time")
	ev.Time = time.Unix(1, 0)
	require.Contains(t, ev.Attributes(), sluice.Attribute{Name: "time", Value: "1970-01-01T00:00:01Z"})
	bare := sluice.Event{ID: "1"}
	require.JSONEq(t, `{"specversion":"1.0","id":"1","source":"/","type":"message"}`, string(bare.AppendJSON(nil)))
}

// JSON holds what it can as it is; everything else is base64.
func TestEvent_DataIsInTheFormThatHoldsIt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ contentType, data, want string }{
		{"", `{ "a":1}`, `"data":{ "a":1}`},
		{"", `{`, `"data_base64":"ew=="`},
		{"text/plain", `a"b`, `"data":"a\"b"`},
		{"TEXT/CSV", `a`, `"data":"a"`},
		{"text/plain", "\xff", `"data_base64":"/w=="`},
		{"text/json", `{`, `"data_base64":"ew=="`},
		{"application/octet-stream", `a`, `"data_base64":"YQ=="`},
	} {
		ev := sluice.Event{ContentType: c.contentType, Data: []byte(c.data)}
		require.Equal(t, c.want, string(ev.AppendData(nil, "data")), "%s %q", c.contentType, c.data)
	}
}

func TestEvent_ReadsForeignCloudEvents(t *testing.T) {
	t.Parallel()
	ev := sluice.Event{Subject: "old", Extensions: map[string]string{"old": "x"}}
	require.NoError(t, ev.UnmarshalJSON([]byte(`{"id":"1","type":null,"n":7,"b":true,"data_base64":null,"data":{"a":1}}`)))
	require.Equal(t, sluice.Event{ID: "1", Extensions: map[string]string{"n": "7", "b": "true"}, Data: []byte(`{"a":1}`)}, ev)
	require.NoError(t, ev.UnmarshalJSON([]byte(`{"data_base64":"YQ=="}`)))
	require.Equal(t, sluice.Event{Data: []byte("a")}, ev)
	for body, want := range map[string]string{
		`[]`:                  "not a CloudEvent",
		`{"id":{}}`:           "attribute id: use a string, a number or a boolean",
		`{"id":[]}`:           "attribute id: use a string, a number or a boolean",
		`{"time":"noon"}`:     `attribute time: "noon" has an invalid format`,
		`{"sequence":"-1"}`:   `attribute sequence: "-1" has an invalid format`,
		`{"data_base64":"%"}`: "data_base64 is not base64",
		`{"data_base64":7}`:   "data_base64 is not base64",
	} {
		err := ev.UnmarshalJSON([]byte(body))
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err), body)
		require.ErrorContains(t, err, want, body)
	}
}
