package sluice_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestAnEventIsAStructuredCloudEventAndBack(t *testing.T) { // S0-29, S4-07…14
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String()
		ev := sluice.Event{
			Namespace: "acme", Path: "/orders/42", Seq: rapid.Uint64Min(1).Draw(t, "seq"),
			ID: "i" + text.Draw(t, "id"), Type: "t" + text.Draw(t, "type"), Source: "s" + text.Draw(t, "source"),
			Time: time.Unix(rapid.Int64Range(0, 1<<32).Draw(t, "time"), 5).UTC(), Subject: text.Draw(t, "subject"),
			ContentType: rapid.SampledFrom([]string{"application/json", "application/octet-stream", "text/plain"}).Draw(t, "content type"),
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

func TestAStringIsWrittenAsEncodingJSONReadsIt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
		var want, got string
		quoted, err := json.Marshal(s)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(quoted, &want))
		require.NoError(t, json.Unmarshal(sluice.AppendString(nil, s), &got))
		require.Equal(t, want, got)
	})
}

func TestAnExtensionThatCloudEventsDoesNotAllowIsLeftOut(t *testing.T) {
	t.Parallel()
	ev := sluice.Event{ID: "1", Extensions: map[string]string{"Bad_Name": "x", "id": "y", "good1": "z"}}
	require.Equal(t, []sluice.Attribute{{Name: "id", Value: "1"}, {Name: "source", Value: "/"}, {Name: "type", Value: "message"}, {Name: "good1", Value: "z"}}, ev.Attributes())
}
