package export

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-io/sluice/pkg/sluice"
)

func stored(seq uint64, at time.Time) sluice.Event {
	return sluice.Event{Namespace: "n", Seq: seq, ID: fmt.Sprint("e-", seq), Path: "/a", Type: "t", Time: at, Stored: at, Data: []byte(`{"a": 1}`)}
}

func contents(t interface{ Fatal(args ...any) }, dir string) map[string]string {
	names, err := filepath.Glob(filepath.Join(dir, logsDir, "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(name)] = string(data)
	}
	return all
}

// S4-88: an event belongs to the day on which it was stored, and a clock that is set back opens no
// file again.
func TestEvent_BelongsToTheFileOfItsDay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, root.Close()) })
	noon := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	l, err := openLog(root, "n", noon, identity{})
	require.NoError(t, err)
	late := stored(2, time.Date(2026, 2, 1, 1, 0, 0, 0, time.FixedZone("", 2*3600)))
	require.NoError(t, l.write([]sluice.Event{stored(1, noon), late, stored(3, noon.Add(12*time.Hour)), stored(4, noon), stored(5, noon.Add(36*time.Hour))}))
	require.NoError(t, l.close())
	line := func(e sluice.Event) string {
		return `{"specversion":"1.0","id":"` + e.ID + `","source":"/n","type":"t","time":"` + e.Time.UTC().Format(time.RFC3339) +
			`","path":"/a","namespace":"n","sequence":"` + fmt.Sprintf("%020d", e.Seq) + `","datacontenttype":"application/json","data":{"a":1}}` + "\n"
	}
	require.Equal(t, map[string]string{
		"n-2026-01-31.jsonl": line(stored(1, noon)) + line(late),
		"n-2026-02-01.jsonl": line(stored(3, noon.Add(12*time.Hour))) + line(stored(4, noon)),
		"n-2026-02-02.jsonl": line(stored(5, noon.Add(36*time.Hour))),
	}, contents(t, dir))
}

// S4-88, S4-90: wherever the process is killed, at any length of its current write, the files
// are in the end what they would have been without that.
func TestCrash_AnywhereYieldsTheSameFiles(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		var events []sluice.Event
		at := begin
		for seq := range uint64(rapid.IntRange(1, 30).Draw(t, "events")) {
			at = at.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "hours")) * time.Hour)
			events = append(events, stored(seq+1, at))
		}
		calm, rough := newRoot(t), newRoot(t)
		writeAll(t, calm, events, func() bool { return false })
		writeAll(t, rough, events, func() bool { return rapid.IntRange(0, 2).Draw(t, "crash") == 0 })
		require.Equal(t, contents(t, calm.Name()), contents(t, rough.Name()))
	})
}

func newRoot(t *rapid.T) *os.Root {
	dir, err := os.MkdirTemp("", "export")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, root.Close()) })
	return root
}

// writeAll writes events in batches. A crash lets the files be as after part of the next batch, and
// the position as before it.
func writeAll(t *rapid.T, root *os.Root, events []sluice.Event, crash func() bool) {
	l, err := openLog(root, "n", time.Time{}, identity{})
	require.NoError(t, err)
	for l.at.Seq < uint64(len(events)) {
		rest := events[l.at.Seq:]
		batch := rest[:rapid.IntRange(1, len(rest)).Draw(t, "batch")]
		if !crash() {
			require.NoError(t, l.write(batch))
			continue
		}
		before, err := root.ReadFile(l.positionFile())
		require.NoError(t, err)
		day, length := l.at.Day, l.at.Bytes
		require.NoError(t, l.write(batch[:1]))
		require.NoError(t, l.close())
		if l.at.Day != day {
			length = 0
		}
		whole, err := root.ReadFile(l.fileOf(l.at.Day))
		require.NoError(t, err)
		torn := rapid.IntRange(int(length), len(whole)).Draw(t, "torn")
		require.NoError(t, root.WriteFile(l.fileOf(l.at.Day), whole[:torn], fileMode))
		if rapid.Bool().Draw(t, "before the position") {
			require.NoError(t, root.WriteFile(l.positionFile(), before, fileMode))
		} else {
			require.NoError(t, root.WriteFile(l.fileOf(l.at.Day), whole, fileMode))
		}
		l, err = openLog(root, "n", time.Time{}, identity{})
		require.NoError(t, err)
	}
	require.NoError(t, l.close())
}

// S4-83: a name is one element of a path, and says which id it is of.
func TestFileName_IsOneElementAndNamesItsID(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"": "%", "order-17": "order-17", "a.b": "a.b", ".": "%2E", "..": "%2E.", "../../x": "%2E.%2F..%2Fx",
		"a b": "a%20b", "%": "%25", "é": "%C3%A9", "a\x00": "a%00",
	} {
		require.Equal(t, want, harmless(id), id)
	}
	rapid.Check(t, func(t *rapid.T) {
		id, other := rapid.String().Draw(t, "id"), rapid.String().Draw(t, "other")
		require.True(t, filepath.IsLocal(harmless(id)))
		require.Equal(t, harmless(id), filepath.Base(harmless(id)))
		require.LessOrEqual(t, len(harmless(id)), maxName)
		require.Equal(t, id == other, harmless(id) == harmless(other))
	})
}

// S4-88: the position of an earlier build, which names no log, goes on, unless the log was restored since.
func TestPosition_OfAnEarlierBuild(t *testing.T) {
	t.Parallel()
	root, err := os.OpenRoot(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, root.Close()) })
	noon := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for _, step := range []struct {
		id   identity
		next uint64
	}{{identity{}, 1}, {identity{is: "a"}, 2}, {identity{is: "b"}, 1}, {identity{is: "c", was: "b"}, 1}, {identity{is: "c", was: "b"}, 2}, {identity{}, 1}, {identity{is: "c", was: "b"}, 1}} {
		l, err := openLog(root, "n", noon, step.id)
		require.NoError(t, err)
		require.Equal(t, step.next, l.at.Seq+1, step.id)
		require.NoError(t, l.write([]sluice.Event{stored(step.next, noon)}))
		require.NoError(t, l.close())
	}
}
