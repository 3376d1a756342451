package module_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/module"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestParseAnswer_FollowsTheTable(t *testing.T) {
	t.Parallel()
	const unclear = "the worker's answer is unclear: "
	for line, want := range map[string]module.Answer{
		`{"id":"7","ok":true}`:                                  {Outcome: sluice.Delivered},
		`{"id":"7","ok":true,"more":1}`:                         {Outcome: sluice.Delivered},
		`{"id":"7","retry":"later","after":"10s"}`:              {Outcome: sluice.Failed, After: 10 * time.Second, Text: "the worker asked for another attempt: later"},
		`{"id":"7","retry":""}`:                                 {Outcome: sluice.Failed, Text: "the worker asked for another attempt"},
		`{"id":"7","dead":"no such order"}`:                     {Outcome: sluice.Refused, Dead: sluice.HandlerRefused, Text: "the worker refused the event: no such order"},
		`{"id":"7","ok":true,"events":[{"path":"/a"},2]}`:       {Outcome: sluice.Delivered, Events: [][]byte{[]byte(`{"path":"/a"}`), []byte("2")}},
		`{"id":"7","ok":true,"events":{}}`:                      {Outcome: sluice.Failed, Text: unclear},
		`{"id":"7","retry":"x","events":[1]}`:                   {Outcome: sluice.Failed, Text: unclear},
		`{"id":"7"}`:                                            {Outcome: sluice.Failed, Text: unclear},
		`{"id":"7","ok":false}`:                                 {Outcome: sluice.Failed, Text: unclear},
		`{"id":"7","ok":true,"dead":"x"}`:                       {Outcome: sluice.Failed, Text: unclear},
		`{"id":"7","ok":true,"after":"1s"}`:                     {Outcome: sluice.Failed, Text: unclear},
		`{"id":"7","ok":"yes"}`:                                 {Outcome: sluice.Failed, Text: unclear},
		`{"after":10,"retry":"x","id":"7"}`:                     {Outcome: sluice.Failed, Text: unclear},
		`{"retry":"x","after":"-1s","id":"7"}`:                  {Outcome: sluice.Failed, Text: unclear},
		`{"id":"7","dead":"` + strings.Repeat("é", 5000) + `"}`: {Outcome: sluice.Refused, Dead: sluice.HandlerRefused, Text: "the worker refused the event: " + strings.Repeat("é", 512)},
	} {
		want.ID = "7"
		got, err := module.ParseAnswer([]byte(line + "\n"))
		require.NoError(t, err, line)
		if want.Text == unclear {
			require.True(t, strings.HasPrefix(got.Text, unclear), got.Text)
			got.Text = unclear
		}
		require.Equal(t, want, got, line)
	}
}

// A line without an id is no answer, and the error shows it.
func TestParseAnswer_RefusesOtherLines(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"", "\n", "handled 7\n", `{"ok":true}`, `{"id":7,"ok":true}`, `{"id":"7","ok":true`, `["7"]`, "null", strings.Repeat("x", 60_000)} {
		_, err := module.ParseAnswer([]byte(line))
		require.ErrorContains(t, err, "on standard output is no answer to an event", line)
		require.Less(t, len(err.Error()), 500)
	}
	require.NoError(t, module.CheckReady([]byte("{\"ready\": true}\n")))
	for _, line := range []string{"", "ready\n", `{"ready":false}`, `{}`, `{"ready":"true"}`} {
		require.ErrorContains(t, module.CheckReady([]byte(line)), `not {"ready":true}`, line)
	}
}

// Whatever white space an event has, it is one line.
func TestAppendEventLine_IsOneLine(t *testing.T) {
	t.Parallel()
	head := module.EventHead{ID: "7", Attempt: 2, Deadline: time.Unix(1, 0).UTC()}
	line, err := module.AppendEventLine(nil, head, []byte("{\r\n  \"data\": \"a\\nb\"\n}"))
	require.NoError(t, err)
	require.JSONEq(t, `{"id":"7","attempt":2,"deadline":"1970-01-01T00:00:01Z","event":{"data": "a\nb"}}`, string(line))
	require.Equal(t, len(line)-1, strings.IndexAny(string(line), "\r\n"))
}

// No reader sees the end of a line within an event, and the caller's body stays as it is.
func TestAppendEventLine_EscapesLineSeparators(t *testing.T) {
	t.Parallel()
	body := []byte("{\"\u2028\":\"\u2029a\u2028\u2029\u2030\\\\\u2028\"}")
	given := string(body)
	line, err := module.AppendEventLine(nil, module.EventHead{}, body)
	require.NoError(t, err)
	require.NotContains(t, string(line), "\u2028")
	require.NotContains(t, string(line), "\u2029")
	require.Equal(t, given, string(body))
	var is struct{ Event map[string]string }
	require.NoError(t, json.Unmarshal(line, &is))
	require.Equal(t, map[string]string{"\u2028": "\u2029a\u2028\u2029\u2030\\\u2028"}, is.Event)
}
