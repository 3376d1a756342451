package cloudevent

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// What is accepted of a request is accepted again when it is rendered, structured, as a batch
// and in binary mode, and is the same events.
func FuzzParse(f *testing.F) {
	for _, s := range [][3]string{
		{StructuredType, "", `{"specversion":"1.0","id":"1","source":"/s","type":"t","subject":"a/b","time":"2026-05-01T12:00:00+02:00","n":7,"flag":true,"data":{"a": 1}}`},
		{StructuredType, "", `{"specversion":"1.0","id":"1","source":"/s","type":"t","path":"/a","datacontenttype":"text/plain","data":"a\nb"}`},
		{StructuredType, "", `{"specversion":"1.0","id":"1","source":"/s","type":"t","path":"/a","data_base64":"AAE=","datacontenttype":"image/png"}`},
		{StructuredType, "", `{"specversion":"1.0","id":"1","source":"/s","type":"t","path":"/a","time":"9999-12-31T23:59:59-23:59","data":null}`},
		{batchType, "", `[{"specversion":"1.0","id":"1","source":"/s","type":"t","path":"/a"},{"specversion":"1.0","id":"2","source":"/s","type":"t","path":"/b"}]`},
		{jsonType, "", `{"path":"/a","data":{"n":1},"id":"7","subject":""}`},
		{jsonType, "", `[{"path":"/a","id":"1"},{"specversion":"1.0","id":"2","source":"/s","type":"t","path":"/b"}]`},
		{"text/plain", "1", "a\x00b"},
		{"application/json", `"50%25 %C3%A9 \"q\""`, ` {"a":1} `},
		{"", "%", ""},
	} {
		f.Add(s[0], s[1], []byte(s[2]))
	}
	f.Fuzz(func(t *testing.T, contentType, id string, body []byte) {
		header := http.Header{"Content-Type": {contentType}}
		if id != "" {
			for name, value := range map[string]string{"Specversion": "1.0", "Id": id, "Type": "t", "Source": "/s", "Path": "/a"} {
				header.Set("Ce-"+name, value)
			}
		}
		events, err := Parse(header, body, "")
		if err != nil {
			require.Contains(t, []sluice.Code{sluice.InvalidRequest, sluice.Forbidden}, sluice.CodeOf(err), err)
			require.Empty(t, events)
			return
		}
		require.NotEmpty(t, events)
		batch := []byte("[")
		for i := range events {
			e := &events[i]
			require.NoError(t, sluice.CheckEventID(e.ID))
			require.False(t, e.Path.Reserved())
			rendered := e.AppendJSON(nil)
			batch = append(append(batch, rendered...), ',')
			requireParsed(t, events[i:i+1], http.Header{"Content-Type": {StructuredType}}, rendered)
			requireParsed(t, events[i:i+1], binaryMode(e), e.Data)
		}
		batch[len(batch)-1] = ']'
		requireParsed(t, events, http.Header{"Content-Type": {batchType}}, batch)
	})
}

// binaryMode returns the header of the event in binary mode.
func binaryMode(e *sluice.Event) http.Header {
	h := http.Header{"Content-Type": {e.ContentType}, "Ce-Specversion": {"1.0"}}
	for _, a := range e.Attributes() {
		var b strings.Builder
		for _, c := range []byte(a.Value) {
			fmt.Fprintf(&b, "%%%02X", c)
		}
		h.Set("Ce-"+a.Name, b.String())
	}
	return h
}

func requireParsed(t *testing.T, want []sluice.Event, header http.Header, body []byte) {
	t.Helper()
	got, err := Parse(header, body, "")
	require.NoError(t, err, "%v %s", header, body)
	require.Len(t, got, len(want))
	for i := range want {
		require.Equal(t, said(&want[i]), said(&got[i]), "%s", body)
	}
}

// said returns what there is to read in an event: what is left out, and what is empty or the
// default, is alike; and around JSON may be spaces.
func said(e *sluice.Event) map[string]string {
	all := map[string]string{}
	for _, a := range e.Attributes() {
		all[a.Name] = a.Value
	}
	if all["data"] = string(e.Data); e.JSONData() != nil {
		all["data"] = string(bytes.TrimSpace(e.Data))
	}
	if len(e.Data) > 0 {
		all["datacontenttype"] = cmp.Or(e.ContentType, jsonType)
	}
	return all
}
