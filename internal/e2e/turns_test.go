package e2e_test

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// turns has the tests whose servers run. On a busy machine no more than two tests run servers at a time: with all that may
// run in parallel, a request to a server could take longer than the server waits for its NATS.
var turns = struct {
	mu   sync.Mutex
	held map[string]int // servers that a test has started, by the name of the test
}{held: map[string]int{}}

const (
	turnsIfBusy = 2
	busyLoad    = 2 // processes for each processor that run or want to
)

// turn waits until a test may start a server. A test that has started one may always start another one.
func turn(tb testing.TB) {
	tb.Helper()
	test, _, _ := strings.Cut(tb.Name(), "/")
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !takeTurn(test, load()) {
		<-tick.C
	}
	tb.Cleanup(func() {
		turns.mu.Lock()
		defer turns.mu.Unlock()
		if turns.held[test]--; turns.held[test] == 0 {
			delete(turns.held, test)
		}
	})
}

func takeTurn(test string, load float64) bool {
	turns.mu.Lock()
	defer turns.mu.Unlock()
	if turns.held[test] == 0 && len(turns.held) >= turnsIfBusy && load > busyLoad*float64(runtime.NumCPU()) {
		return false
	}
	turns.held[test]++
	return true
}

// load returns the average number of processes that ran or wanted to in the last minute; 0 if the system does not tell.
func load() (load float64) {
	text, err := os.ReadFile("/proc/loadavg")
	if err == nil {
		_, err = fmt.Sscan(string(text), &load)
	}
	if err != nil {
		return 0
	}
	return load
}

func TestTurn_OnABusyMachineTwoTestsRunServers(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a", "b", "c"} {
		t.Cleanup(func() { turns.mu.Lock(); delete(turns.held, name); turns.mu.Unlock() })
	}
	idle, busy := 1.0, 1000.0
	require.True(t, takeTurn("a", idle))
	require.True(t, takeTurn("b", idle))
	require.True(t, takeTurn("b", busy), "its second server")
	require.False(t, takeTurn("c", busy))
	require.True(t, takeTurn("c", idle))
}
