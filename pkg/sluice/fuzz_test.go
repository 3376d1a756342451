package sluice_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// A cursor is what its text says, and one text only stands for each.
func FuzzParseCursor(f *testing.F) {
	for _, s := range []string{
		"-1", "now", "0", "00042", "18446744073709551615", "18446744073709551616", "2026-05-01T14:00:00.5+02:00",
		"0000-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "2026-05-01T12:00:00,5Z", "order-17", "all", "last_per_path",
	} {
		f.Add(s, uint64(18))
	}
	f.Fuzz(func(t *testing.T, s string, next uint64) {
		if c, err := sluice.ParseCursor(s); err == nil {
			again, err := sluice.ParseCursor(c.String())
			require.NoError(t, err)
			require.Equal(t, c, again)
			require.True(t, c.Kind != sluice.CursorEvent || c.ID == s)
		} else {
			require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err))
		}
		at, err := sluice.ParseStart(s, next)
		if err != nil {
			require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err))
			return
		}
		require.True(t, at.Kind == sluice.StartTime || at.Seq >= 1)
		stored, err := json.Marshal(at)
		require.NoError(t, err)
		var read sluice.StartAt
		require.NoError(t, json.Unmarshal(stored, &read))
		require.Equal(t, at, read)
	})
}

// A duration is what it is written as; what encoding/json and text say of it is the same.
func FuzzDuration(f *testing.F) {
	for _, s := range []string{`"10s"`, `"-1h30m5.000000001s"`, `"2562047h47m16.854775807s"`, `"9223372036s1h"`, `null`, `10`, `"1µs"`, `"\u0031s"`, `"+.5h"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, data string) {
		var d sluice.Duration
		if err := json.Unmarshal([]byte(data), &d); err != nil {
			require.True(t, !json.Valid([]byte(data)) || sluice.CodeOf(err) == sluice.InvalidRequest, "%v", err)
			return
		}
		written, err := json.Marshal(d)
		require.NoError(t, err)
		var again sluice.Duration
		require.NoError(t, json.Unmarshal(written, &again))
		require.Equal(t, d, again)
		if text, ok := strings.CutPrefix(strings.TrimSpace(data), `"`); ok && !strings.Contains(text, `\`) {
			std, err := time.ParseDuration(strings.TrimSuffix(text, `"`))
			require.NoError(t, err)
			require.Equal(t, std, d.Std())
		}
	})
}

// What was read of a CloudEvent is written so that the same is read again.
func FuzzEventJSON(f *testing.F) {
	for _, s := range []string{
		`{"specversion":"1.0","id":"1","source":"/s","type":"t","path":"/a","namespace":"n","sequence":"00000000000000000007","data":{"a": 1}}`,
		`{"id":"1","datacontenttype":"text/plain","data":"a\u0000b","time":"2026-05-01T12:00:00.5+02:00","n":7,"flag":true}`,
		`{"id":"1","datacontenttype":"image/png","data_base64":"AAE="}`,
		`{"id":"1","data":null,"data_base64":null}`, `{"id":null,"data":7,"data_base64":null}`, `{"id":"1","x":["\xee"]}`,
		`{"id":"1","datacontenttype":"text/plain","data":["not a string"]}`,
		`{"id":"1","time":"9999-12-31T23:59:59-23:59"}`,
		`{"data_base64":"MA0="}`, // white space after the value
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var e sluice.Event
		if json.Unmarshal(data, &e) != nil {
			return
		}
		for range 5 {
			var twice sluice.Event
			require.NoError(t, json.Unmarshal(data, &twice))
			require.Equal(t, e, twice, "the same text is another event")
		}
		written := e.AppendJSON(nil)
		require.True(t, json.Valid(written), "%s", written)
		var again sluice.Event
		require.NoError(t, json.Unmarshal(written, &again), "%s", written)
		require.Equal(t, e.Attributes(), again.Attributes())
		require.Equal(t, string(bytes.TrimSpace(e.Data)), string(bytes.TrimSpace(again.Data)), "%s", written)
		require.Equal(t, compact(t, written), compact(t, again.AppendJSON(nil)), "not the same but for white space")
	})
}

func compact(t *testing.T, data []byte) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, json.Compact(&b, data))
	return b.String()
}
