package terminal

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A table on a terminal has colours, relative times and "none"; elsewhere, it is as plain as before.
func TestTable_SuitsTerminal(t *testing.T) {
	t.Parallel()
	past := FormatTime(time.Now().Add(-90 * time.Second))
	rows := [][]string{{"é", "delivered", past, "dead"}, {"long", "dead: exhausted", "-", past + "x"}}
	table := func(s Session) string {
		var out bytes.Buffer
		s.Stdout = &out
		require.NoError(t, s.Table("ID | STATE | AT | NOTE", rows))
		return out.String()
	}
	plain := "ID    STATE            AT                    NOTE\n" +
		"é     delivered        " + past + "  dead\nlong  dead: exhausted  -                     " + past + "x\n"
	require.Equal(t, plain, table(Session{}))
	require.Equal(t, plain[strings.Index(plain, "\n")+1:], table(Session{Flags: Flags{NoHeaders: true}}))
	require.Equal(t, strings.ReplaceAll(plain[:strings.Index(plain, "\n")], " ", ""), strings.ReplaceAll(table(Session{Flags: Flags{Output: FormatWide}})[:len(plain)-1], " ", "")[:len("IDSTATEATNOTE")])
	watched := "ID    STATE            AT      NOTE\né     \x1b[32mdelivered\x1b[0m        1m ago  dead\nlong  \x1b[31mdead: exhausted\x1b[0m  -       " + past + "x\n"
	require.Equal(t, watched, table(Session{Watched: true}))
	require.NotContains(t, table(Session{Watched: true, Environ: []string{"NO_COLOR=1"}}), "\x1b")
	require.Contains(t, table(Session{Watched: true, Flags: Flags{Output: FormatWide}}), past+" ")
	var out bytes.Buffer
	empty := Session{Stdout: &out, Watched: true}
	require.NoError(t, empty.Table("ID", nil))
	require.Equal(t, "none\n", out.String())
	out.Reset()
	require.NoError(t, empty.Facts("status", "503", "id", "ok"))
	require.Equal(t, "status  \x1b[31m503\x1b[0m\nid      ok\n", out.String())
}

// Times are said in their largest unit, past or future.
func TestTable_TimesAreRelative(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 5, time.UTC)
	for want, at := range map[string]time.Time{
		"0s ago": now, "12s ago": now.Add(-12 * time.Second), "59m ago": now.Add(-59*time.Minute - 59*time.Second), "47h ago": now.Add(-47 * time.Hour),
		"2d ago": now.Add(-48 * time.Hour), "in 5m": now.Add(5 * time.Minute), "in 3d": now.Add(72 * time.Hour),
	} {
		require.Equal(t, want, sinceOrUntil(FormatTime(at), now))
	}
	for _, other := range []string{"", "-", "text", "2026-01-01T12:00:00+01:00", "2026"} {
		require.Equal(t, other, sinceOrUntil(other, now))
	}
}

// Each format prints the same value.
func TestShow_Formats(t *testing.T) {
	t.Parallel()
	type item struct {
		ID string `json:"id"`
		N  int    `json:"n"`
	}
	list := []item{{"a", 1}, {"b", 2}}
	for format, want := range map[string][2]string{
		FormatJSON:  {"[\n  {\n    \"id\": \"a\",\n    \"n\": 1\n  },\n  {\n    \"id\": \"b\",\n    \"n\": 2\n  }\n]\n", "{\"id\":\"a\",\"n\":1}\n"},
		FormatLines: {"{\"id\":\"a\",\"n\":1}\n{\"id\":\"b\",\"n\":2}\n", "{\"id\":\"a\",\"n\":1}\n"},
		FormatYAML:  {"- id: a\n  \"n\": 1\n- id: b\n  \"n\": 2\n", "---\nid: a\n\"n\": 1\n"},
		FormatName:  {"a\nb\n", "a\n"},
		"table":     {"the table\n", "{\"id\":\"a\",\"n\":1}\n"},
	} {
		var out bytes.Buffer
		s := Session{Flags: Flags{Output: format}, Stdout: &out}
		require.NoError(t, s.Show(list, func() error { return s.Say("the table") }))
		require.Equal(t, want[0], out.String(), format)
		require.Equal(t, format != "table", s.IsJSON(), format)
		out.Reset()
		require.NoError(t, s.PrintLine(list[0]))
		require.Equal(t, want[1], out.String(), format)
	}
	s := Session{Flags: Flags{Output: FormatName}, Stdout: new(bytes.Buffer)}
	require.ErrorAs(t, s.Show(map[string]int{"n": 1}, nil), new(UsageError))
	require.NoError(t, s.Show(map[string]any{"published": 1, "event": map[string]any{"id": "e"}}, nil))
	require.Equal(t, "e\n", s.Stdout.(*bytes.Buffer).String())
}

// A watched list is shown until the context ends; only a failure of the first time ends it.
func TestWatching_RepeatsUntilEnd(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	var out bytes.Buffer
	s := &Session{Stdout: &out, Watched: true}
	times := 0
	require.NoError(t, Watching{Watch: true}.Repeat(ctx, s, func() error {
		if times++; times == 2 {
			cancel()
			return errors.New("it failed")
		}
		return s.Say("shown")
	}))
	require.Equal(t, "\x1b[H\x1b[2Jshown\n\x1b[H\x1b[2Jsluice: it failed\n", out.String())
	require.Error(t, Watching{Watch: true}.Repeat(t.Context(), s, func() error { return errors.New("it failed") }))
	require.Error(t, Watching{}.Repeat(t.Context(), s, func() error { return errors.New("it failed") }))
}
