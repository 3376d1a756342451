package host_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/module/host"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// running returns the processes of the only handler.
func (s *workshop) running(t *testing.T) sluice.ModuleRun {
	t.Helper()
	m, err := s.host.Get("m")
	require.NoError(t, err)
	require.Len(t, m.Running, 1)
	return m.Running[0]
}

// The processes of a worker are counted, with their events, and those that wait.
func TestRunning_CountsWorkersAndTheirEvents(t *testing.T) { // S4-29
	t.Parallel()
	s := newWorkshop(t, threaded(t), `,"concurrency":2`)
	require.Equal(t, sluice.ModuleRun{Handler: "run", Subscription: "m-run"}, s.running(t))

	var wg sync.WaitGroup
	wg.Go(func() { s.sendAll(t, 3, func(int) any { return "wait" }) })
	require.Eventually(t, func() bool {
		is := s.running(t)
		return is.Processes == 1 && is.Ready == 1 && is.Events == 2 && is.Waiting == 1
	}, patience, time.Millisecond)
	s.goes()
	wg.Wait()
	require.Equal(t, sluice.ModuleRun{Handler: "run", Subscription: "m-run", Processes: 1, Ready: 1}, s.running(t))
}

// A crash is counted, with its reason, and the time of the next start while it is not over.
func TestRunning_NamesTheLastCrash(t *testing.T) {
	t.Parallel()
	s := newWorkshop(t, threaded(t), "")
	before := time.Now()
	var is sluice.ModuleRun
	for n := 1; n <= 10 && is.NextStart == nil; n++ { // the first pauses are short
		require.Equal(t, sluice.Failed, s.send(t, "crash", 1, "crash").Outcome)
		is = s.running(t)
		require.Equal(t, n, is.Crashes)
	}
	require.Equal(t, "the program ended with exit code 3: about to crash", is.LastCrash)
	require.NotNil(t, is.NextStart)
	require.True(t, is.LastCrashAt.After(before) && is.NextStart.After(*is.LastCrashAt))

	require.Equal(t, sluice.Delivered, s.send(t, "good", 1, "").Outcome)
	require.Nil(t, s.running(t).NextStart)
}

// A program of the mode exec is counted while it runs.
func TestRunning_CountsPrograms(t *testing.T) {
	t.Parallel()
	s := newWorkshop(t, "#!/bin/sh\necho ready >\"$TMPDIR/seen-e\"\nwhile ! [ -e \"$TMPDIR/go\" ]; do sleep 0.01; done\n", `,"mode":"exec"`)
	var wg sync.WaitGroup
	wg.Go(func() { s.send(t, "e", 1, nil) })
	s.saw(t, "e")
	require.Equal(t, sluice.ModuleRun{Handler: "run", Subscription: "m-run", Processes: 1, Events: 1}, s.running(t))
	s.goes()
	wg.Wait()
	require.Equal(t, sluice.ModuleRun{Handler: "run", Subscription: "m-run"}, s.running(t))
}

// Of a module that does not run here nothing is shown, and of one that is nowhere the directories are named.
func TestRunning_NothingOfAStoppedModule(t *testing.T) {
	t.Parallel()
	s := newWorkshop(t, "#!/bin/sh\n", "")
	s.host.Set(t.Context(), "m", nil)
	m, err := s.host.Get("m")
	require.NoError(t, err)
	require.Empty(t, m.Running)

	_, err = s.host.Get("none")
	require.ErrorContains(t, err, s.dir)
	_, err = host.New(host.Options{}).Get("none")
	require.ErrorContains(t, err, "set modules.dirs")
}
