package program_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/module"
	"github.com/sluice-io/sluice/internal/module/program"
)

// started starts a script that is ready once it has written a line.
func started(t *testing.T, p program.Program) (*program.Process, *bufio.Reader) {
	t.Helper()
	proc, err := (&program.Runner{}).Start(p)
	require.NoError(t, err)
	t.Cleanup(func() {
		proc.Kill()
		<-proc.Done()
		proc.Close()
	})
	out := bufio.NewReader(proc.Out)
	line, err := out.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "on\n", line)
	return proc, out
}

func TestStart_TalksToAProcess(t *testing.T) {
	t.Parallel()
	proc, out := started(t, shell(t, `echo on; while read -r line; do echo "got $line"; echo "log $line" >&2; done; exit 7`))
	for _, word := range []string{"one", "two"} {
		_, err := io.WriteString(proc.In, word+"\n")
		require.NoError(t, err)
		line, err := out.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "got "+word+"\n", line)
	}
	require.NoError(t, proc.In.Close())
	<-proc.Done()
	require.Equal(t, module.Exit{Code: 7}, proc.Exit())
	require.Equal(t, "log one\nlog two\n", proc.Log.Since(0))
	require.Equal(t, "log two\n", proc.Log.Since(8))
}

func TestStop_AsksThenKills(t *testing.T) {
	t.Parallel()
	proc, _ := started(t, shell(t, `trap 'exit 9' TERM; echo on; while :; do sleep 0.01; done`))
	proc.Stop()
	<-proc.Done()
	require.Equal(t, module.Exit{Code: 9}, proc.Exit())
	proc.Stop() // it has ended
	proc.Kill()

	p := shell(t, `trap '' TERM; echo on; while :; do sleep 0.01; done`)
	p.Grace = 50 * time.Millisecond
	proc, _ = started(t, p)
	proc.Stop()
	<-proc.Done()
	require.Equal(t, module.Exit{Code: -1, Signal: syscall.SIGKILL}, proc.Exit())
}

// A process that leaves others behind, which hold its output open, ends with all of them.
func TestStart_EndsTheWholeGroup(t *testing.T) {
	t.Parallel()
	proc, out := started(t, shell(t, `echo on; (trap '' TERM HUP; sleep 1000) & exit 0`))
	<-proc.Done()
	_, err := out.ReadString('\n')
	require.ErrorIs(t, err, io.EOF)
}

func TestTail_KeepsTheLastBytes(t *testing.T) {
	t.Parallel()
	log := &program.Tail{Most: 10}
	for range 100 {
		_, err := log.Write([]byte("abcdefg"))
		require.NoError(t, err)
	}
	require.Equal(t, int64(700), log.Written())
	require.Equal(t, "efgabcdefg", log.Since(0))
	require.Equal(t, "efg", log.Since(697))
	require.Empty(t, log.Since(700))
	_, err := log.Write([]byte(strings.Repeat("x", 25) + "0123456789"))
	require.NoError(t, err)
	require.Equal(t, "0123456789", log.Since(0))
}

// A process that stays dies with its server.
func TestStart_DiesWithItsServer(t *testing.T) {
	t.Parallel()
	p := shell(t, `echo $$ > "$1/child"; while read -r line; do :; done; sleep 1000`)
	server := exec.CommandContext(t.Context(), os.Args[0])
	server.Env = append(os.Environ(), parent+"="+p.Path, stays+"=1")
	require.NoError(t, server.Start())
	pid := numberIn(t, p.Dir, "child")
	require.NoError(t, server.Process.Kill())
	require.Error(t, server.Wait())
	require.Eventually(t, func() bool { return syscall.Kill(pid, 0) != nil || isZombie(t, pid) }, time.Minute, time.Millisecond)
}
