package export_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-io/sluice/internal/export"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/deliverystore"
	"github.com/sluice-io/sluice/internal/natsstore/streamstore"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/internal/testkit/storetest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what should come soon, on a machine that is busy.
const patience = time.Minute

// world is a store and a directory to export to.
type world struct {
	nats  *natstest.Server
	store storetest.Rooms
	log   *deliverystore.AttemptLog
	dir   string

	mu       sync.Mutex
	exported map[string]int
	failed   map[string]int
	lost     []sluice.Gap // ranges of the log default that are damaged
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{nats: natstest.New(t), dir: filepath.Join(t.TempDir(), "out"), exported: map[string]int{}, failed: map[string]int{}}
	w.store = storetest.Connect(t, natsstore.Options{Conn: w.nats})
	require.NoError(t, w.store.Provision(t.Context()))
	var err error
	w.log, err = w.store.Deliveries.AttemptLog()
	require.NoError(t, err)
	return w
}

func (w *world) Exported(what string, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.exported[what] += n
}

func (w *world) ExportFailed(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed[what]++
}

func (w *world) failures(what string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed[what]
}

func (w *world) gaps(ns string) []sluice.Gap {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ns != "default" {
		return nil
	}
	return slices.Clone(w.lost)
}

func (w *world) damage(gaps ...sluice.Gap) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lost = append(w.lost, gaps...)
}

// missing returns the lost ranges in the file of a namespace, by sequence, without when its log was made.
func (w *world) missing(t *testing.T, ns string) (all []sluice.Gap) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(w.dir, "logs", "events", ns+".unreadable.jsonl"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	require.NoError(t, err)
	for line := range bytes.Lines(data) {
		var m struct {
			sluice.Gap

			Log time.Time `json:"log_created_at"`
		}
		require.NoError(t, json.Unmarshal(line, &m))
		require.False(t, m.Log.IsZero())
		all = append(all, m.Gap)
	}
	slices.SortFunc(all, func(a, b sluice.Gap) int { return cmp.Compare(a.From, b.From) })
	return all
}

// run runs an exporter until the test ends, or what it returns is called.
func (w *world) run(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	e := export.New(w.dir, w.store.Log, w.store.Deliveries, export.Options{Observe: w, Pause: 10 * time.Millisecond, Lost: w.gaps, Look: 10 * time.Millisecond})
	running.Go(func() { _ = e.Run(ctx) }) // it only ends with ctx
	stop = func() { cancel(); running.Wait() }
	t.Cleanup(stop)
	return stop
}

// publish stores events from..to of a namespace.
func (w *world) publish(t *testing.T, ns string, from, to int) {
	t.Helper()
	var events []sluice.Event
	for n := from; n <= to; n++ {
		events = append(events, sluice.Event{ID: fmt.Sprintf("e-%d", n), Path: "/a", Type: "t", Data: fmt.Appendf(nil, "{\n  \"n\": %d\n}\n", n)})
	}
	_, err := w.store.Log.Publish(t.Context(), ns, events)
	require.NoError(t, err)
}

func (w *world) bury(t *testing.T, sub, id string, seq uint64, attempts int) {
	t.Helper()
	d := sluice.DeadLetter{
		Subscription: sub, Namespace: "default", EventID: id, Seq: seq, Path: "/a", Attempts: attempts, Reason: sluice.Exhausted,
		LastError: "status 500", At: time.Now().UTC(),
	}
	if id != "" {
		d.Event = &sluice.Event{Namespace: "default", ID: id, Seq: seq, Path: "/a", Type: "t", Data: []byte(`{"n":  1}`)}
	}
	require.NoError(t, w.log.Bury(t.Context(), d))
}

// lines returns the ids in the files of a namespace, in the order of the files and their lines.
func (w *world) lines(t *testing.T, ns string) (ids []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(w.dir, "logs", "events", ns+"-????-??-??.jsonl"))
	require.NoError(t, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was set aside since
		}
		require.NoError(t, err)
		for line := range bytes.Lines(data) {
			var e sluice.Event
			if json.Unmarshal(line, &e) != nil {
				return append(ids, "half a line") // it may be on its way
			}
			ids = append(ids, e.ID)
		}
	}
	return ids
}

func (w *world) awaitLines(t *testing.T, ns string, last int) {
	t.Helper()
	var want []string
	for n := 1; n <= last; n++ {
		want = append(want, fmt.Sprintf("e-%d", n))
	}
	require.Eventually(t, func() bool { return len(w.lines(t, ns)) >= last }, patience, 10*time.Millisecond)
	require.Equal(t, want, w.lines(t, ns))
}

// files returns the dead letters' files, by their names below the directory.
func (w *world) files(t *testing.T) map[string]sluice.DeadLetter {
	t.Helper()
	found := map[string]sluice.DeadLetter{}
	names, err := filepath.Glob(filepath.Join(w.dir, "events", "dlq", "*", "*.json"))
	require.NoError(t, err)
	for _, name := range names {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		var d sluice.DeadLetter
		require.NoError(t, json.Unmarshal(data, &d), "a file is whole")
		short, err := filepath.Rel(filepath.Join(w.dir, "events", "dlq"), name)
		require.NoError(t, err)
		found[short] = d
	}
	return found
}

// S4-83…87, S4-90: every dead letter is a file with event, last error, attempts, reason and time.
func TestDeadLetter_IsAFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.bury(t, "erp", "order-1", 1, 12)
	w.run(t)
	w.bury(t, "crm", "order-1", 1, 3)
	w.bury(t, "erp", "", 2, 0)
	require.Eventually(t, func() bool { return len(w.files(t)) == 3 }, patience, 10*time.Millisecond)
	files := w.files(t)
	data, err := os.ReadFile(filepath.Join(w.dir, "events", "dlq", "erp", "order-1.json"))
	require.NoError(t, err)
	var members map[string]any
	require.NoError(t, json.Unmarshal(data, &members))
	require.Equal(t, []any{12.0, "exhausted", "status 500", "order-1"},
		[]any{members["attempts"], members["reason"], members["last_error"], members["event"].(map[string]any)["id"]})
	require.Contains(t, string(data), `"data":{"n":  1}`, "byte for byte")
	require.WithinDuration(t, time.Now(), files["erp/order-1.json"].At, patience)
	require.Equal(t, 3, files["crm/order-1.json"].Attempts)
	require.Contains(t, files, "erp/%letter-3.json", "its event was never seen")
	info, err := os.Stat(filepath.Join(w.dir, "events", "dlq", "erp", "order-1.json"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

// S4-83: a delivery that is given up again has the later letter's file, and a letter that is
// discarded leaves its file.
func TestDeadLetter_FileIsReplacedAndOutlivesDiscard(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.run(t)
	w.bury(t, "erp", "e", 1, 3)
	require.Eventually(t, func() bool { return w.files(t)["erp/e.json"].Attempts == 3 }, patience, 10*time.Millisecond)
	w.bury(t, "erp", "e", 1, 6)
	require.Eventually(t, func() bool { return w.files(t)["erp/e.json"].Attempts == 6 }, patience, 10*time.Millisecond)
	require.NoError(t, w.store.Deliveries.DiscardAll(t.Context(), &sluice.Subscription{ID: "erp", Namespace: "default"}))
	w.bury(t, "erp", "f", 2, 1)
	require.Eventually(t, func() bool { return len(w.files(t)) == 2 }, patience, 10*time.Millisecond)
}

// S4-83, S4-90: an event's id leads nowhere else, however it is made up.
func TestFileName_StaysInTheDirectory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ids := []string{"../../x", "/etc/passwd", ".", "..", ".hidden", "a/b", `a\b`, "a b", "é", "%2e%2e", strings.Repeat("../", 100), strings.Repeat("y", 300), strings.Repeat("y", 301)}
	for i, id := range ids {
		w.bury(t, "erp", id, uint64(i+1), 1)
	}
	w.run(t)
	require.Eventually(t, func() bool { return len(w.files(t)) == len(ids) }, patience, 10*time.Millisecond)
	got := map[string]bool{}
	for name, d := range w.files(t) {
		require.Equal(t, "erp", filepath.Dir(name))
		require.LessOrEqual(t, len(filepath.Base(name)), 200)
		got[d.EventID] = true
	}
	require.Len(t, got, len(ids), "each has a file of its own")
	outside, err := os.ReadDir(filepath.Dir(w.dir))
	require.NoError(t, err)
	require.Len(t, outside, 1)
}

// S4-88: all events are in the files of their namespace, one a line, in the order of the log,
// whenever the namespace was made; messages that are no events are not.
func TestEvent_IsALine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.publish(t, "default", 1, 300)
	w.run(t)
	_, _, err := w.store.Namespaces().Put(t.Context(), sluice.Namespace{Name: "acme"})
	require.NoError(t, err)
	w.publish(t, "acme", 1, 2)
	w.publish(t, "default", 301, 900)
	w.awaitLines(t, "default", 900)
	w.awaitLines(t, "acme", 2)
	_, err = os.Stat(filepath.Join(w.dir, "logs", "events", "acme-"+time.Now().UTC().Format(time.DateOnly)+".jsonl"))
	require.NoError(t, err)

	require.NoError(t, w.store.Namespaces().Delete(t.Context(), "acme"))
	_, _, err = w.store.Namespaces().Put(t.Context(), sluice.Namespace{Name: "acme"})
	require.NoError(t, err)
	w.publish(t, "acme", 3, 4)
	w.awaitLines(t, "acme", 4)
}

// S4-88, S4-90: what was written and not accounted for when the process was killed is cut off, and
// what came meanwhile is caught up with: no line is there twice, torn or missing.
func TestCrash_LeavesEveryLineOnceAndWhole(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.run(t)
	w.publish(t, "default", 1, 10)
	w.bury(t, "erp", "a", 1, 1)
	w.awaitLines(t, "default", 10)
	require.Eventually(t, func() bool { return len(w.files(t)) == 1 }, patience, 10*time.Millisecond)
	for _, tail := range []string{`{"specversion":"1.0","id":"e-1`, "{\"id\":\"e-11\"}\n{\"id\":\"e-12\"}\n"} {
		stop()
		files, err := filepath.Glob(filepath.Join(w.dir, "logs", "events", "default-*.jsonl"))
		require.NoError(t, err)
		file, err := os.OpenFile(files[len(files)-1], os.O_APPEND|os.O_WRONLY, 0o600)
		require.NoError(t, err)
		_, err = file.WriteString(tail)
		require.NoError(t, err)
		require.NoError(t, file.Close())
		require.NoError(t, os.WriteFile(filepath.Join(w.dir, "events", "dlq", ".letter.new"), []byte("{"), 0o600))
		from := len(w.files(t))*10 + 1
		w.publish(t, "default", from, from+9)
		w.bury(t, "erp", fmt.Sprint("b", from), uint64(from), 1)
		stop = w.run(t)
		w.awaitLines(t, "default", from+9)
		require.Eventually(t, func() bool { return len(w.files(t)) == (from+9)/10 }, patience, 10*time.Millisecond)
	}
}

// S4-88: files whose position is lost are set aside, not cut.
func TestPosition_LossSetsTheFilesAside(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.run(t)
	w.publish(t, "default", 1, 3)
	w.awaitLines(t, "default", 3)
	stop()
	require.NoError(t, os.Remove(filepath.Join(w.dir, "logs", "events", ".default.position")))
	w.run(t)
	w.publish(t, "default", 4, 5)
	w.awaitLines(t, "default", 5)
	aside, err := filepath.Glob(filepath.Join(w.dir, "logs", "events", "*.before-*"))
	require.NoError(t, err)
	require.Len(t, aside, 1)
}

// restore stores the snapshots of streams in the place of their successors.
func (w *world) restore(t *testing.T, taken map[string]streamstore.Snapshot, data map[string]*bytes.Buffer) {
	t.Helper()
	files, js := streamstore.New(w.store.Store), natstest.JetStream(t, w.nats)
	for name, from := range taken {
		require.NoError(t, js.DeleteStream(t.Context(), name))
		_, err := files.RestoreStream(t.Context(), name, from, data[name])
		require.NoError(t, err)
	}
}

// S4-88, S4-90: sequences that were given out after a backup are given out again after its restoration, to other events and dead
// letters. These are in the files, too.
func TestRestore_SkipsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.publish(t, "default", 1, 3)
	w.bury(t, "erp", "e-1", 1, 1)
	taken, data := map[string]streamstore.Snapshot{}, map[string]*bytes.Buffer{}
	for _, name := range []string{streams.Names{}.EventsStream("default"), streams.Names{}.DeadLetters()} {
		data[name] = new(bytes.Buffer)
		var err error
		taken[name], err = streamstore.New(w.store.Store).SnapshotStream(t.Context(), name, data[name])
		require.NoError(t, err)
	}
	stop := w.run(t)
	w.publish(t, "default", 4, 5)
	w.bury(t, "erp", "e-2", 2, 1)
	w.awaitLines(t, "default", 5)
	require.Eventually(t, func() bool { return len(w.files(t)) == 2 }, patience, 10*time.Millisecond)
	stop()
	w.restore(t, taken, data)
	w.publish(t, "default", 24, 26) // the sequences 4, 5 and 6
	w.bury(t, "erp", "e-24", 4, 1)
	stop = w.run(t)
	want := []string{"e-1", "e-2", "e-3", "e-24", "e-25", "e-26"}
	require.Eventually(t, func() bool { return slices.Equal(want, w.lines(t, "default")) }, patience, 10*time.Millisecond)
	require.Eventually(t, func() bool { return len(w.files(t)) == 3 }, patience, 10*time.Millisecond)
	aside, err := filepath.Glob(filepath.Join(w.dir, "logs", "events", "*.before-*"))
	require.NoError(t, err)
	require.Len(t, aside, 1, "the events that only the log before had")
	stop()
	w.run(t)
	w.publish(t, "default", 27, 27)
	require.Eventually(t, func() bool { return slices.Equal(append(want, "e-27"), w.lines(t, "default")) }, patience, 10*time.Millisecond)
}

// S4-90: what cannot be written is counted, and written as soon as it can be.
func TestWrite_FailureIsCountedAndRepeated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.NoError(t, os.MkdirAll(w.dir, 0o700))
	for _, name := range []string{"events", "logs"} {
		require.NoError(t, os.WriteFile(filepath.Join(w.dir, name), []byte("in the way"), 0o600))
	}
	w.run(t)
	w.publish(t, "default", 1, 2)
	w.bury(t, "erp", "a", 1, 1)
	require.Eventually(t, func() bool { return w.failures(export.Events) > 1 && w.failures(export.DeadLetters) > 1 }, patience, 10*time.Millisecond)
	for _, name := range []string{"events", "logs"} {
		require.NoError(t, os.Remove(filepath.Join(w.dir, name)))
	}
	w.awaitLines(t, "default", 2)
	require.Eventually(t, func() bool { return len(w.files(t)) == 1 }, patience, 10*time.Millisecond)
}

// S4-88: one process at a time exports to a directory; another takes over when it ends.
func TestDirectory_HasOneExporter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stop := w.run(t)
	w.publish(t, "default", 1, 1)
	w.awaitLines(t, "default", 1)
	before := w.failures(export.DeadLetters)
	w.run(t)
	require.Eventually(t, func() bool { return w.failures(export.DeadLetters) > before }, patience, 10*time.Millisecond)
	w.publish(t, "default", 2, 3)
	w.awaitLines(t, "default", 3)
	stop()
	w.publish(t, "default", 4, 5)
	w.awaitLines(t, "default", 5)
}

// S4-88: the files go on where they were when NATS comes back.
func TestExport_ResumesWithNATS(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.run(t)
	w.publish(t, "default", 1, 3)
	w.awaitLines(t, "default", 3)
	w.nats.Restart(t)
	w.publish(t, "default", 4, 6)
	w.awaitLines(t, "default", 6)
}

// Issue 13, F5: the ranges that the files may lack events of are in a file of their own, once: when the export passes them, or
// when they are found, also by a later run.
func TestGap_IsInAFileOfItsOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.damage(sluice.Gap{From: 3, To: 4}, sluice.Gap{From: 20, To: 30})
	stop := w.run(t)
	w.publish(t, "default", 1, 10)
	w.awaitLines(t, "default", 10)
	missing := func(want ...sluice.Gap) {
		t.Helper()
		require.Eventually(t, func() bool { return slices.Equal(want, w.missing(t, "default")) }, patience, 10*time.Millisecond)
	}
	missing(sluice.Gap{From: 3, To: 4})
	w.damage(sluice.Gap{From: 7, To: 7})
	missing(sluice.Gap{From: 3, To: 4}, sluice.Gap{From: 7, To: 7})
	stop()
	w.damage(sluice.Gap{From: 9, To: 9})
	_, _, err := w.store.Namespaces().Put(t.Context(), sluice.Namespace{Name: "acme"})
	require.NoError(t, err)
	w.publish(t, "acme", 1, 5)
	stop = w.run(t)
	w.publish(t, "default", 11, 20)
	w.awaitLines(t, "default", 20)
	w.awaitLines(t, "acme", 5)
	want := []sluice.Gap{{From: 3, To: 4}, {From: 7, To: 7}, {From: 9, To: 9}, {From: 20, To: 30}}
	missing(want...)
	stop()
	w.run(t)
	w.publish(t, "default", 21, 22)
	w.awaitLines(t, "default", 22)
	require.Equal(t, want, w.missing(t, "default"))
	require.Empty(t, w.missing(t, "acme"))
}
