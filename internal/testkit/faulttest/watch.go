package faulttest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime/metrics"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// ResultsEnv names the directory where tests leave what they saw; without it nothing is kept.
const ResultsEnv = "SLUICE_FAULTS"

// Seen is what came of a fault.
type Seen struct {
	ID      string  `json:"id"`
	Events  int     `json:"events"`
	Lost    int     `json:"lost"`
	Twice   int     `json:"twice"`
	Ordered bool    `json:"ordered"`
	Resume  string  `json:"resume"` // how long after the fault the first delivery came; "" if that says nothing
	CPU     string  `json:"cpu"`    // of one core, while nothing could be done; "" if nobody waited
	Memory  float64 `json:"memory"` // MiB that the process grew by at most
	Note    string  `json:"note"`
}

// Watch measures the process while a fault lasts. Its figures are of the whole process: they
// mean something where one test runs at a time.
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

// Begin starts to watch a fault. It fails the test unless the list says that this test tries it.
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

// Wait waits while nothing can be done, and measures what that costs.
func (w *Watch) Wait(d time.Duration) {
	w.tb.Helper()
	w.Waiting()
	<-time.After(d)
	w.Waited()
}

// Waiting begins a time in which nothing can be done.
func (w *Watch) Waiting() { w.waiting, w.used = time.Now(), cpu(w.tb) }

// Waited ends it. A long one must have cost less than a tenth of a core.
func (w *Watch) Waited() {
	w.tb.Helper()
	lasted := time.Since(w.waiting)
	share := float64(cpu(w.tb)-w.used) / float64(lasted)
	if os.Getenv(ResultsEnv) != "" && lasted > 2*time.Second {
		require.Less(w.tb, share, 0.1, "cores that were busy while there was nothing to do")
		w.seen.CPU = percent(share)
	}
}

// Recovered begins the time until the first delivery after the fault; Resumed ends it.
func (w *Watch) Recovered() { w.recovered = time.Now() }

// Resumed ends what Recovered began. Of several times the longest is kept.
func (w *Watch) Resumed() time.Duration {
	took := time.Since(w.recovered)
	w.longest = max(w.longest, took)
	w.seen.Resume = w.longest.Round(10 * time.Millisecond).String()
	return took
}

// End stores what was seen: of so many events, how many were lost and how many sent twice, and
// in a few words what else there is to say. What is lost or out of order fails the test.
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

// cpu returns the time that the process has used.
func cpu(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	require.NoError(tb, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// memory returns what the process has in use, garbage included.
func memory() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64() + s[1].Value.Uint64()
}
