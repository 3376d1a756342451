package e2e_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/datadir"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/client"
)

// handled records what the programs of a module tell a test.
type handled struct {
	arrivals

	running map[int]string       // events by the numbers of the processes that have begun and were not asked about yet
	last    map[string]time.Time // when each event was with a program last
}

// listen hears programs until the test ends. One in ten is told to fail.
func (r *handled) listen(t *testing.T) (addr string) {
	t.Helper()
	at, err := new(net.ListenConfig).Listen(t.Context(), "unix", filepath.Join(t.TempDir(), "s")) // a TCP connection may take the port of a killed server
	require.NoError(t, err)
	t.Cleanup(func() { _ = at.Close() })
	go func() {
		for {
			conn, err := at.Accept()
			if err != nil {
				return
			}
			go r.hear(conn)
		}
	}()
	return at.Addr().String()
}

func (r *handled) hear(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	lines := bufio.NewReader(conn)
	first, err := lines.ReadString('\n')
	if err != nil {
		return
	}
	id, number, _ := strings.Cut(strings.TrimSpace(first), " ")
	pid, _ := strconv.Atoi(number)
	path, n, _ := strings.Cut(id, "-")
	event, _ := strconv.Atoi(n)
	r.mu.Lock()
	r.running[pid], r.last[id] = id, time.Now()
	if r.tries[id]++; r.tries[id] == 1 {
		r.first[path] = append(r.first[path], event)
	}
	r.mu.Unlock()
	if _, err := lines.ReadString('\n'); err != nil {
		return // it was killed
	}
	r.mu.Lock()
	r.requests++
	answer := "fail\n"
	if r.requests%10 != 0 {
		answer = "well\n"
		r.settled[id]++
	}
	r.mu.Unlock()
	_, _ = conn.Write([]byte(answer)) // it may have been killed
}

// quietAddress returns a free address whose port no outgoing connection takes while its server is away.
func quietAddress(t *testing.T) string {
	t.Helper()
	for {
		at, err := new(net.ListenConfig).Listen(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", 20_000+rand.N(12_000)))
		if err == nil {
			require.NoError(t, at.Close())
			return at.Addr().String()
		}
	}
}

// begun returns the processes that have begun since the last call.
func (r *handled) begun() map[int]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.running
	r.running = map[int]string{}
	return all
}

// buildsHandler writes a module whose handler is a program in Go of testdata.
func buildsHandler(tb testing.TB, dirs, name, source, manifest string) {
	tb.Helper()
	dir := filepath.Join(dirs, name)
	require.NoError(tb, os.MkdirAll(filepath.Join(dir, "events"), 0o750))
	require.NoError(tb, os.WriteFile(filepath.Join(dir, "events/subscribe.json"), []byte(manifest), 0o600))
	build := exec.CommandContext(tb.Context(), "go", "build", "-o", filepath.Join(dir, "handlers/run"), "./"+source)
	build.Dir, build.Env = "testdata", append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(tb, err, string(out))
}

// marked returns the processes of the modules of a server.
func marked(tb testing.TB, data string) (pids []string) {
	tb.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	require.NoError(tb, err)
	for _, file := range files {
		env, err := os.ReadFile(file)
		if err == nil && bytes.Contains(env, []byte("SLUICE_RUN="+data)) {
			pids = append(pids, filepath.Base(filepath.Dir(file)))
		}
	}
	return pids
}

const crashModule = `{"events":[{"eventType":"message","handler":"handlers/run","filter":{"projectScoped":true},"pattern":"/crash/*",%s,
	"network":true,"output":"events","publish":[{"pattern":"/made/*","types":["made"]}],"concurrency":%d,"timeout":"20s","retry":{"preset":"custom","steps":["200ms","1s"],"max_attempts":100}}]}`

const crashPaths = 50

// TestModuleCrash_LosesNoEvent kills the server while programs run and their events are published: no event is lost, the order of paths
// is kept, at most the window is repeated for each kill, what programs publish is there once, and no program or child of one outlives its
// server's next start.
func TestModuleCrash_LosesNoEvent(t *testing.T) { // S4-17, S4-22, S4-29, S4-81
	t.Parallel()
	for mode, args := range map[string]string{"exec": `"args":[%q]`, "worker": `"mode":"worker","processes":2,"args":[%q,"worker"]`} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			killsModules(t, args)
		})
	}
}

func killsModules(t *testing.T, args string) {
	t.Helper()
	const window = 8
	events, kills := 100, 2
	if os.Getenv("SLUICE_LONG") != "" {
		events, kills = 20_000, 200
	}
	got := &handled{running: map[int]string{}, last: map[string]time.Time{}, arrivals: *newArrivals()}
	dirs := t.TempDir()
	buildsHandler(t, dirs, "crash", "crashhandler", fmt.Sprintf(crashModule, fmt.Sprintf(args, got.listen(t)), window))
	c := &child{dir: t.TempDir(), http: quietAddress(t), nats: quietAddress(t), env: []string{serveModulesEnv + "=" + dirs}}
	c.start(t)
	t.Cleanup(func() { _ = c.proc.Process.Kill() })
	c.approves(t, "crash")

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	var publishing sync.WaitGroup
	publishing.Go(func() { publish(ctx, t, "nats://"+c.nats, events, crashPaths) })
	seen := c.publications(t)
	var slowest time.Duration
	for k := range kills {
		require.Eventually(t, func() bool { return got.count() > (k+1)*events/(kills+2) }, 2*time.Minute, time.Millisecond)
		seen.next(t)
		c.kill(t)
		before := got.begun()
		began := time.Now()
		c.start(t)
		slowest = max(slowest, time.Since(began))
		for pid, id := range before {
			require.Eventually(t, func() bool { return syscall.Kill(pid, 0) != nil || got.began(pid) || !isProgram(pid, c.dir, id) }, time.Minute, time.Millisecond, id)
		}
	}
	publishing.Wait()
	require.Eventually(t, func() bool { return got.count() == events }, 5*time.Minute, 10*time.Millisecond, "all are handled")
	published := c.made(t, 2*events)
	require.NoError(t, c.proc.Process.Signal(syscall.SIGTERM))
	require.NoError(t, c.proc.Wait())
	require.Empty(t, marked(t, c.dir), "processes that were left")

	got.mu.Lock()
	defer got.mu.Unlock()
	twice := 0
	for _, n := range got.settled {
		twice += n - 1
	}
	again := 0
	for id, at := range published {
		if got.last[id].After(at) {
			again++
		}
	}
	t.Logf("%d events, %d programs, %d kills, %d handled twice, %d of them after their events were published; the slowest start took %s",
		events, got.requests, kills, twice, again, slowest)
	require.LessOrEqual(t, twice, kills*window)
	for path, numbers := range got.first {
		require.IsIncreasing(t, numbers, "first attempts of %s", path)
	}
}

// publications are what programs publish, as it is stored.
type publications struct{ seen chan *nats.Msg }

// publications hears what programs of a child publish until the test ends, through its restarts.
func (c *child) publications(t *testing.T) publications {
	t.Helper()
	nc := natstest.Connect(t, "nats://"+c.nats, asTester(), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	p := publications{make(chan *nats.Msg, 1)} // more are dropped
	_, err := nc.Subscribe(jsNames(t).EventsPrefix()+"default.made.*", func(msg *nats.Msg) {
		select {
		case p.seen <- msg:
		default:
		}
	})
	require.NoError(t, err)
	return p
}

// next returns when the next event is published: the one that it was published for is not acknowledged yet.
func (p publications) next(t *testing.T) {
	t.Helper()
	select {
	case <-p.seen: // an earlier one
	default:
	}
	select {
	case <-p.seen:
	case <-time.After(time.Minute):
		require.Fail(t, "programs publish nothing")
	}
}

// made waits until programs have published n events, two for each that they have handled, and returns by the handled ones when the last
// one was stored. Each is there once, with the handled event as its cause, and those of a path have its order.
func (c *child) made(t *testing.T, n int) map[string]time.Time {
	t.Helper()
	consumer, err := dial(t, "nats://"+c.nats).OrderedConsumer(t.Context(), jsNames(t).EventsStream("default"), jetstream.OrderedConsumerConfig{FilterSubjects: []string{jsNames(t).EventsPrefix() + "default.made.*"}})
	require.NoError(t, err)
	msgs, err := consumer.Messages()
	require.NoError(t, err)
	defer msgs.Stop()
	at, last := map[string]time.Time{}, map[string]int{}
	for i := range n {
		msg, err := msgs.Next(jetstream.NextMaxWait(time.Minute))
		if err != nil {
			require.NoError(t, err, "%d of %d; %s", i, n, c.unpublished(t, n/2, at))
		}
		meta, err := msg.Metadata()
		require.NoError(t, err)
		var data struct {
			Of   string
			Part int
		}
		require.NoError(t, json.Unmarshal(msg.Data(), &data))
		path, number, _ := strings.Cut(data.Of, "-")
		event, err := strconv.Atoi(number)
		require.NoError(t, err)
		require.Equal(t, jsNames(t).EventsPrefix()+"default.made."+path, msg.Subject())
		require.Equal(t, []string{data.Of}, msg.Headers()["ce-causationid"])
		place := 2*event + data.Part
		require.Greater(t, place+1, last[path], "%s part %d is there again, or late", data.Of, data.Part)
		last[path], at[data.Of] = place+1, meta.Timestamp
	}
	info, err := consumer.Info(t.Context())
	require.NoError(t, err)
	require.Zero(t, info.NumPending, "and nothing else")
	return at
}

// unpublished returns the deliveries of events, numbered from 0 as publish does, for which nothing is published.
func (c *child) unpublished(t *testing.T, events int, at map[string]time.Time) (all []string) {
	t.Helper()
	s := &running{api: client.New("http://"+c.http, c.token(t)), at: datadir.Addresses{HTTP: "http://" + c.http}, token: c.token(t)}
	for i := range events {
		id := fmt.Sprintf("p%d-%d", i%crashPaths, i)
		if at[id].IsZero() {
			all = append(all, s.call(t, "GET /v1/subscriptions/crash-run/deliveries/"+id, "").text)
		}
	}
	return all
}

func (r *handled) began(pid int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.running[pid] != ""
}

// isProgram reports whether a process is a worker, or runs a program for an event.
func isProgram(pid int, data, event string) bool {
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	one := bytes.Contains(env, []byte("SLUICE_EVENT_ID="))
	return err == nil && bytes.Contains(env, []byte("SLUICE_RUN="+data)) && (!one || bytes.Contains(env, []byte("SLUICE_EVENT_ID="+event+"\x00")))
}

// approves approves a module of a child.
func (c *child) approves(t *testing.T, name string) {
	t.Helper()
	s := &running{api: client.New("http://"+c.http, c.token(t)), at: datadir.Addresses{HTTP: "http://" + c.http}, token: c.token(t)}
	s.approves(t, name)
}

// A server that is told to end waits for its programs, and ends those whose time is over with all that they have started.
func TestModuleStop_WaitsThenKills(t *testing.T) { // S4-29
	t.Parallel()
	dirs := t.TempDir()
	moduleOf(t, dirs, "stop", `case "$SLUICE_EVENT_ID" in quick) : > "$HOME/quick"; while [ ! -e "$HOME/go" ]; do sleep 0.01; done; echo well;; *) setsid sleep 1000 & sleep 1000 & : > "$HOME/hangs"; wait;; esac`, "events/subscribe.json",
		`{"events":[{"eventType":"t","handler":"handlers/run","filter":{"projectScoped":true},"timeout":"20s","retry":{"preset":"custom","steps":["1h"],"max_attempts":1}}]}`)
	c := &child{dir: t.TempDir(), http: "127.0.0.1:0", nats: "127.0.0.1:0", env: []string{serveModulesEnv + "=" + dirs}}
	c.start(t)
	t.Cleanup(func() { _ = c.proc.Process.Kill() })
	c.approves(t, "stop")
	s := &running{api: client.New("http://"+c.http, c.token(t)), at: datadir.Addresses{HTTP: "http://" + c.http}, token: c.token(t)}
	s.publishes(t, "default", "/a quick", "/b hangs")
	begun := func(event string) (files []string) {
		files, err := filepath.Glob(filepath.Join(c.dir, "modules/.run-*", event))
		require.NoError(t, err)
		return files
	}
	eventually(t, func() bool {
		return len(begun("quick")) == 1 && len(begun("hangs")) == 1 && len(marked(t, c.dir)) >= 4
	}, "both run, with their children")
	require.NoError(t, c.proc.Process.Signal(syscall.SIGTERM))
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(begun("quick")[0]), "go"), nil, 0o600))
	require.NoError(t, c.proc.Wait())
	require.Empty(t, marked(t, c.dir))
	c.start(t)
	s.at.HTTP = "http://" + c.http
	quick, hangs := s.attemptsOf(t, "stop-run", "quick"), s.attemptsOf(t, "stop-run", "hangs")
	require.Len(t, quick, 1)
	require.Equal(t, "well\n", quick[0]["output"])
	require.Len(t, hangs, 1)
	require.Contains(t, hangs[0]["error"], "did not end within its timeout")
	r := s.call(t, "GET /v1/modules/stop", "")
	require.Equal(t, http.StatusOK, r.status)
}
