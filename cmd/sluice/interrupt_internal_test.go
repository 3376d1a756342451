package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluice-io/sluice/internal/terminal"

	"github.com/stretchr/testify/require"
)

// errSignal is the cause of a context that a test ends as a signal does.
var errSignal = errors.New("interrupted by a signal: test")

// runUntil carries out a command in its own process's place: the context is the caller's.
func runUntil(ctx context.Context, stdin string, args ...string) (status int, stdout, stderr string) {
	var out, complaints bytes.Buffer
	s := &terminal.Session{Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &complaints, Exit: func(int) {}}
	status = run(ctx, args, s)
	return status, out.String(), complaints.String()
}

// What was sent when the signal came is answered and printed; what was not sent yet is not.
func TestListen_PrintsEventsInFlight(t *testing.T) {
	t.Parallel()
	c := serving(t)
	for i, path := range []string{"/a", "/b", "/a", "/a"} {
		c.must("pub", path, "{}", "--id", fmt.Sprintf("e%d", i))
	}
	for range 20 { // the moment between the request and its line is short
		ctx, interrupt := context.WithCancelCause(t.Context())
		arrived, over, once := make(chan struct{}, 8), make(chan struct{}), sync.Once{}
		receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			arrived <- struct{}{}
			if len(arrived) == 2 {
				once.Do(func() { interrupt(errSignal); close(over) })
			}
			<-over
			w.WriteHeader(http.StatusNoContent)
		}))
		status, stdout, stderr := runUntil(ctx, "", "listen", "--forward", receiver.URL, "--since", "all", "--data", c.data)
		receiver.Close()
		require.Zero(t, status, stderr)
		require.Equal(t, 2, strings.Count(stdout, "→ 204"), "%s%s", stdout, stderr)
		require.Contains(t, stdout, "/a  e0  → 204")
		require.Contains(t, stdout, "/b  e1  → 204")
		require.Len(t, arrived, 2, "nothing is begun after the signal")
	}
}

// interrupting is a server that gets a signal to its client while it answers its nth change, and answers it all the same.
func interrupting(t *testing.T, n int32, answer string) (url string, ctx context.Context, asked *atomic.Int32) {
	t.Helper()
	ctx, interrupt := context.WithCancelCause(t.Context())
	asked = &atomic.Int32{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Method != http.MethodGet && asked.Add(1) == n {
			interrupt(errSignal)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return server.URL, ctx, asked
}

// A token that is shown once is shown, though a signal came while the server issued it.
func TestInterrupt_LosesNoTokenOrSecret(t *testing.T) {
	t.Parallel()
	for range 20 {
		url, ctx, _ := interrupting(t, 1, `{"ok":true,"token":"cap_once","id":"g1","principal":"user:a","verbs":["read"],"object":"*"}`)
		status, stdout, stderr := runUntil(ctx, "", "grant", "create", "user:a", "*", "--verbs", "read", "--for", "1h", "--server", url)
		require.Zero(t, status, stderr)
		require.Contains(t, stdout, "cap_once")
	}
}

// A batch that is under way is counted, none is begun behind it, and what is said is from where to go on.
func TestPub_CountsTheBatchUnderWay(t *testing.T) {
	t.Parallel()
	url, ctx, asked := interrupting(t, 2, `{"ok":true,"events":[{"id":"a","path":"/a","seq":1},{"id":"b","path":"/a","seq":2}]}`)
	status, _, stderr := runUntil(ctx, strings.Repeat("{\"data\":1}\n", 8), "pub", "/a", "--from", "-", "--batch", "2", "--server", url)
	require.Equal(t, terminal.ExitFailure, status)
	require.Contains(t, stderr, "after 4 published events: interrupted by a signal: test")
	require.Equal(t, int32(2), asked.Load())
}

// What was deleted is said; what was not begun is not deleted.
func TestRemove_ReportsEachStepAndStops(t *testing.T) {
	t.Parallel()
	url, ctx, asked := interrupting(t, 2, `{"ok":true}`)
	status, stdout, stderr := runUntil(ctx, "", "stream", "rm", "/a", "/b", "/c", "--yes", "--server", url)
	require.Equal(t, terminal.ExitFailure, status)
	require.Contains(t, stdout, "Deleted stream /b.")
	require.Contains(t, stderr, "/c: ")
	require.Contains(t, stderr, errSignal.Error())
	require.Equal(t, int32(2), asked.Load())
}

// Of several types those that were stored are said, before what went wrong.
func TestTypesPut_ReportsTheStoredType(t *testing.T) {
	t.Parallel()
	url, ctx, _ := interrupting(t, 1, `{"type":"a","namespace":"default","revision":7}`)
	status, stdout, stderr := runUntil(ctx, `[{"type":"a"},{"type":"b"}]`, "types", "put", "-", "--server", url)
	require.Equal(t, terminal.ExitFailure, status)
	require.Contains(t, stdout, "Stored type a in default as revision 7.")
	require.Contains(t, stderr, "b: ")
}

// A replay that was waited for goes on, and the command says how to see it.
func TestReplay_SaysThatItGoesOn(t *testing.T) {
	t.Parallel()
	url, ctx, _ := interrupting(t, 1, `{"id":"r1","subscription":"s1","state":"running","total":9}`)
	status, _, stderr := runUntil(ctx, "", "sub", "replay", "s1", "--wait", "--yes", "--server", url)
	require.Equal(t, terminal.ExitFailure, status)
	require.Contains(t, stderr, errSignal.Error()+"; the replay continues: sluice sub replays s1 r1")
}

// watcher calls a function when a text was written.
type watcher struct {
	bytes.Buffer

	mu   sync.Mutex
	text string
	seen func()
}

func (w *watcher) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := w.Buffer.Write(p)
	if bytes.Contains(w.Bytes(), []byte(w.text)) {
		w.seen()
	}
	return n, err
}

// A demonstration that is interrupted says what came of it, and leaves neither its server nor a directory behind.
func TestDemo_InterruptedStillConcludes(t *testing.T) {
	t.Parallel()
	withDefaults()
	dir := t.TempDir()
	command := exec.CommandContext(t.Context(), "sluice", "demo", "--over", "1h")
	command.Env = append(os.Environ(), "TMPDIR="+dir)
	out := &watcher{text: " 204", seen: sync.OnceFunc(func() { _ = command.Process.Signal(os.Interrupt) })}
	var complaints bytes.Buffer
	command.Stdout, command.Stderr = struct{ io.Writer }{out}, &complaints // without its ReadFrom
	err := command.Run()
	exit, ok := errors.AsType[*exec.ExitError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, terminal.ExitFailure, exit.ExitCode())
	require.Contains(t, complaints.String(), "interrupted by a signal")
	require.Contains(t, complaints.String(), "deliveries did not arrive")
	_, summary, ok := strings.Cut(out.String(), "events published,")
	require.True(t, ok, out.String())
	require.NotContains(t, summary, "evt-", "nothing is printed behind the summary")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left, "the server's directory is gone, and so is the server that would write to it")
}

// Work that goes on when its context is cancelled ends with the grace time or its own end, and a deadline is kept.
func TestOutliving_IsBounded(t *testing.T) {
	t.Parallel()
	parent, cancel := context.WithCancelCause(t.Context())
	ctx, done := terminal.Outliving(parent, time.Millisecond)
	defer done()
	cancel(errSignal)
	<-ctx.Done()
	require.ErrorIs(t, context.Cause(ctx), errSignal)

	expired, stop := context.WithTimeout(t.Context(), time.Nanosecond)
	defer stop()
	ctx, done = terminal.Outliving(expired, time.Hour)
	defer done()
	<-ctx.Done()

	parent, cancel = context.WithCancelCause(t.Context())
	ctx, done = terminal.Outliving(parent, time.Hour)
	cancel(errSignal)
	require.NoError(t, ctx.Err())
	done()
	require.Error(t, ctx.Err())
}

// withDefaults has the processes that tests start begin with SIGHUP and SIGINT as the system has them. Where the tests are run
// by nohup, or in the background of a script, these signals are ignored, and would be ignored in the processes too. A
// signal that is caught here begins with its default there.
func withDefaults() {
	caught := make(chan os.Signal, 1)
	for _, sig := range []os.Signal{syscall.SIGHUP, os.Interrupt} {
		if signal.Ignored(sig) {
			signal.Notify(caught, sig)
		}
	}
}

// However listening ends, by any signal or because the reader of stdout leaves, nothing is left on the server that could make a
// dead letter later.
func TestListen_LeavesNothingBehind(t *testing.T) {
	t.Parallel()
	withDefaults()
	c := serving(t)
	for _, how := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE, os.Kill} {
		receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
		command := exec.CommandContext(t.Context(), "sluice", "listen", "--forward", receiver.URL, "-o", "json", "--data", c.data)
		stdout, err := command.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, command.Start())
		var first struct{ Secret string }
		require.NoError(t, json.NewDecoder(stdout).Decode(&first))
		require.NotEmpty(t, first.Secret)
		if how == syscall.SIGPIPE {
			require.NoError(t, stdout.Close())
			c.must("pub", "/a", "{}") // its line has no reader
		} else {
			require.NoError(t, command.Process.Signal(how))
		}
		err = command.Wait()
		if how == syscall.SIGPIPE {
			exit, ok := errors.AsType[*exec.ExitError](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, terminal.ExitPipe, exit.ExitCode())
		} else if how != os.Kill {
			require.NoError(t, err, "%v", how)
		}
		receiver.Close()
		require.JSONEq(t, `[]`, c.must("sub", "ls", "-o", "json"), "%v", how)
	}
}

// hang is a command that says which signal ended its context, and does not end.
func hang() {
	ctx, _ := terminal.UntilSignalled(context.Background())
	_, _ = io.WriteString(os.Stdout, "ready\n")
	<-ctx.Done()
	_, _ = io.WriteString(os.Stdout, context.Cause(ctx).Error()+"\n")
	<-time.After(time.Hour)
}

// A SIGHUP that nohup has ignored stays ignored, and a second SIGINT ends a command that takes too long to leave.
func TestSignals_NohupAndTheSecondInterrupt(t *testing.T) {
	t.Parallel()
	withDefaults()
	for name, first := range map[string]struct {
		script string
		signal os.Signal
		cause  string
	}{
		"hangup": {`exec hang`, syscall.SIGHUP, "hangup"},
		"nohup":  {`trap '' HUP; exec hang`, syscall.SIGHUP, "terminated"},
		"kill":   {`exec hang`, syscall.SIGTERM, "terminated"},
		"^C":     {`exec hang`, os.Interrupt, "interrupt"},
	} {
		command := exec.CommandContext(t.Context(), "sh", "-c", first.script)
		stdout, err := command.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, command.Start())
		lines := bufio.NewScanner(stdout)
		require.True(t, lines.Scan(), name)
		require.NoError(t, command.Process.Signal(first.signal))
		if name == "nohup" {
			require.NoError(t, command.Process.Signal(syscall.SIGTERM))
		}
		require.True(t, lines.Scan(), name)
		require.Equal(t, "interrupted by a signal: "+first.cause, lines.Text(), name)
		ended := make(chan error, 1)
		go func() { ended <- command.Wait() }()
		requireKilled(t, command.Process, ended)
	}
}

// requireKilled sends SIGINT until it ends the process.
func requireKilled(t *testing.T, p *os.Process, ended <-chan error) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			exit, ok := errors.AsType[*exec.ExitError](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, -1, exit.ExitCode(), "by the signal")
			return
		case <-tick.C:
			_ = p.Signal(os.Interrupt) // it may have ended
		}
	}
}
