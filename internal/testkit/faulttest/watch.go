package faulttest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// ResultsEnv is the environment variable with the directory for results of tests. Without it no
// results are kept.
const ResultsEnv = "SLUICE_FAULTS"

// Seen is the result of a fault's test.
type Seen struct {
	ID      string  `json:"id"`
	Events  int     `json:"events"`
	Lost    int     `json:"lost"`
	Twice   int     `json:"twice"`
	Ordered bool    `json:"ordered"`
	Resume  string  `json:"resume"` // time from the fault to the first delivery; "" if that is meaningless
	CPU     string  `json:"cpu"`    // of one core, during the fault; "" if there was no waiting
	Memory  float64 `json:"memory"` // maximum growth of the process in MiB
	Note    string  `json:"note"`
}

// Watch measures the whole process during a fault, so its figures are meaningful only if one test
// runs at a time. Its methods are for the goroutine of the test.
type Watch struct {
	tb    testing.TB
	seen  Seen
	began uint64 // memory
	stop  chan struct{}
	parts sync.WaitGroup

	mu   sync.Mutex
	most uint64

	waiting   time.Time
	used      time.Duration
	recovered time.Time
	longest   time.Duration
}

// Begin starts to watch a fault. It fails the test unless the list assigns the fault to this test.
func Begin(tb testing.TB, id string) *Watch {
	tb.Helper()
	w := &Watch{tb: tb, seen: Seen{ID: id}, stop: make(chan struct{}), began: memory()}
	name, _, _ := strings.Cut(tb.Name(), "/")
	known := false
	for _, f := range Faults() {
		known = known || f.ID == id && strings.HasSuffix(f.Test, "."+name)
	}
	require.True(tb, known, "%s is not listed as what %s tries", id, name)
	w.parts.Go(w.sample)
	tb.Cleanup(func() {
		close(w.stop)
		w.parts.Wait()
	})
	return w
}

func (w *Watch) sample() {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		w.mu.Lock()
		w.most = max(w.most, memory())
		w.mu.Unlock()
		select {
		case <-tick.C:
		case <-w.stop:
			return
		}
	}
}

// Wait waits while no work is possible, and measures the cost.
func (w *Watch) Wait(d time.Duration) {
	w.tb.Helper()
	w.Waiting()
	<-time.After(d)
	w.Waited()
}

// Waiting begins a period in which no work is possible.
func (w *Watch) Waiting() { w.waiting, w.used = time.Now(), CPU(w.tb) }

// Waited ends the period that Waiting began. If results are kept, a long period must have cost less
// than a tenth of a core.
func (w *Watch) Waited() {
	w.tb.Helper()
	lasted := time.Since(w.waiting)
	share := float64(CPU(w.tb)-w.used) / float64(lasted)
	if os.Getenv(ResultsEnv) != "" && lasted > 2*time.Second {
		require.Less(w.tb, share, 0.1, "cores that were busy while there was nothing to do")
		w.seen.CPU = percent(share)
	}
}

// Recovered begins the time until the first delivery after the fault; Resumed ends it.
func (w *Watch) Recovered() { w.recovered = time.Now() }

// Resumed ends the time that Recovered began, and returns it. The longest of several times is kept.
func (w *Watch) Resumed() time.Duration {
	took := time.Since(w.recovered)
	w.longest = max(w.longest, took)
	w.seen.Resume = w.longest.Round(10 * time.Millisecond).String()
	return took
}

// End stores the result: the number of events, lost ones and those sent twice, and a short note.
// Lost or misordered events fail the test. Call it once, at the end. The file is <ID>.json in the
// directory that ResultsEnv names; without that, nothing is stored.
func (w *Watch) End(a Arrived, note string) {
	w.tb.Helper()
	w.seen.Events, w.seen.Lost, w.seen.Twice, w.seen.Ordered, w.seen.Note = a.Events, a.Lost, a.Twice, a.Disorder == "", note
	require.Zero(w.tb, a.Lost, "events lost")
	require.Empty(w.tb, a.Disorder, "a path's first deliveries are in order")
	w.mu.Lock()
	if w.most > w.began {
		w.seen.Memory = float64(w.most-w.began) / (1 << 20)
	}
	w.mu.Unlock()
	dir := os.Getenv(ResultsEnv)
	if dir == "" {
		return
	}
	data, err := json.MarshalIndent(w.seen, "", "\t")
	require.NoError(w.tb, err)
	require.NoError(w.tb, os.WriteFile(filepath.Join(dir, w.seen.ID+".json"), data, 0o600)) //nolint:gosec // an id of the list, in a directory of ours
}

// memory returns the process's heap and stack memory in use, including garbage, in bytes.
func memory() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64() + s[1].Value.Uint64()
}
