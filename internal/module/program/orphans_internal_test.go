//go:build linux

package program

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A process that was stopped because it seemed to belong to no program goes on once it is seen that its program runs.
func TestOrphans_GoOnIfTheirProgramRuns(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pid")
	mark := MarkName + "=" + file
	adopted.expect(mark)
	defer func() { adopted.ended(0, mark) }()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", `setsid sh -c 'echo $$ > "$0.part"; mv "$0.part" "$0"; exec sleep 1000' "$0" &`, file)
	cmd.Env = []string{mark, "PATH=/usr/bin:/bin"}
	require.NoError(t, cmd.Run())
	var pid int
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(file)
		if err == nil {
			pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		}
		return err == nil
	}, time.Minute, time.Millisecond)
	state := func() string {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		require.NoError(t, err)
		return strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))[0]
	}
	require.NoError(t, unix.Kill(pid, unix.SIGSTOP))
	require.Eventually(t, func() bool { return state() == "T" }, time.Minute, time.Millisecond)
	adopted.mu.Lock()
	adopted.doubtful[pid] = true
	adopted.mu.Unlock()
	adopted.end()
	require.Eventually(t, func() bool { return state() == "S" }, time.Minute, time.Millisecond)
}
