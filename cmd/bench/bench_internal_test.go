package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(loopEnv) != "" || os.Getenv(audienceEnv) != "" || os.Getenv(memberEnv) != "" { // this is a child
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if err := run(ctx, nil, os.Stdout, os.Stderr); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// What is measured works: the numbers are plausible, and nothing is lost on the way.
func TestRows_AreMeasured(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds the server")
	}
	binary := filepath.Join(t.TempDir(), "sluice")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "github.com/sluice-io/sluice/cmd/sluice").CombinedOutput()
	require.NoError(t, err, "%s", out)
	testRows(t, binary)
	t.Run("an append is stored, and waiting readers get it", func(t *testing.T) {
		t.Parallel()
		testStreams(t, binary)
	})
	t.Run("what is published over HTTP arrives", func(t *testing.T) {
		t.Parallel()
		testRest(t, binary)
	})
	t.Run("every delivery of other loads arrives", func(t *testing.T) {
		t.Parallel()
		testVariants(t, binary)
	})
	t.Run("two servers on three replicas deliver everything", func(t *testing.T) {
		t.Parallel()
		testReplicas(t, binary)
	})
	t.Run("each of many subscriptions gets its events, also after a restart", func(t *testing.T) {
		t.Parallel()
		testMany(t, binary)
	})
	t.Run("a published event reaches every subscriber", func(t *testing.T) {
		t.Parallel()
		testFeeds(t, binary)
	})
	t.Run("both systems deliver everything once", func(t *testing.T) {
		t.Parallel()
		testSpeed(t, binary)
	})
}

func testSpeed(t *testing.T, binary string) {
	t.Helper()
	p, e := smoke(), benchEnv(t, binary)
	p.always = 1
	for _, s := range p.tables(e) {
		rows := measured(t, s.(table[sample]), e, "ratio") // an event that does not arrive is an error
		require.Len(t, rows, 2)
		for i, r := range rows {
			require.Zero(t, r.again, i)
			require.Positive(t, r.rate, i)
			require.Positive(t, r.p50, i)
		}
	}
}

func TestSystem_FailedStartIsAnError(t *testing.T) {
	t.Parallel()
	e := benchEnv(t, filepath.Join(t.TempDir(), "none"))
	for _, s := range smoke().tables(e) {
		if s.(table[sample]).rounds > 0 {
			_, err := s.run(t.Context(), e)
			require.ErrorContains(t, err, "no such file")
		}
	}
}

func TestArrival_CountsOnce(t *testing.T) {
	t.Parallel()
	hook, err := listen(t.Context())
	require.NoError(t, err)
	defer hook.close()
	got := hook.expect(2, 2)
	sent := time.Now()
	mark := func(phase, number int) []string {
		data := body(phase, number, sent, 260)
		require.Len(t, data, 260)
		_, rest, _ := bytes.Cut(data, []byte(`"mark":"`))
		text, _, _ := bytes.Cut(rest, []byte(`"`))
		return strings.Fields(string(text))
	}
	require.True(t, got.note(mark(2, 0), 0, sent.Add(time.Millisecond)))
	require.False(t, got.note(mark(2, 0), 0, sent.Add(time.Second)), "again")
	require.False(t, got.note(mark(1, 1), 0, sent), "of another phase")
	require.False(t, got.note(mark(2, 2), 0, sent), "not expected")
	require.False(t, got.note(mark(2, 1), 1, sent), "no such part")
	require.True(t, got.note(mark(2, 0), 1, sent.Add(3*time.Millisecond)))
	<-got.all
	require.Equal(t, time.Millisecond, got.percentile(50))
	require.Equal(t, 3*time.Millisecond, got.percentile(100))
}

func TestPercentile_IsAtLeastThatShare(t *testing.T) {
	t.Parallel()
	few := []time.Duration{30, 10, 20}
	for percent, want := range map[int]time.Duration{0: 10, 33: 10, 34: 20, 50: 20, 99: 30, 100: 30} {
		require.Equal(t, want, percentile(few, percent), "%d", percent)
	}
	require.Zero(t, percentile(nil, 50))
}

func TestProc_ReadsAnyProcessName(t *testing.T) {
	t.Parallel()
	stat := []byte("7 (a) b) S 1 7 7 0 -1 4194560 300 0 0 0 12 3 0 0 20 0 9 0 100 0 0")
	require.Equal(t, 150*time.Millisecond, cpuOf(stat))
	require.Zero(t, cpuOf([]byte("7 (a)")))
	status := []byte("Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n")
	require.Equal(t, int64(1<<20), kib(status, "VmRSS:"))
	require.Zero(t, kib(status, "VmSwap:"))
}
