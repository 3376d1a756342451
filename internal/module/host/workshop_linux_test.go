package host_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/module"
	"github.com/sluice-io/sluice/internal/module/host"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const patience = time.Minute

// render renders events as CloudEvents.
type render struct{}

func (render) Body(_ context.Context, _ *sluice.Subscription, ev *sluice.Event, _ *sluice.Attempt) ([]byte, string, error) {
	return ev.AppendJSON(nil), "", nil
}

// workshop is a host with one module, whose worker is a script.
type workshop struct {
	host *host.Host
	sub  *sluice.Subscription
	dir  string // of the modules

	copies string
}

// pythonWorker is a worker in Python: handle(message) returns the members of the answer besides the id.
const pythonWorker = `#!/usr/bin/env python3
import json, os, signal, sys, time
def say(**members):
    print(json.dumps(members), flush=True)
def answer(message, **members):
    say(id=message["id"], **members)
say(ready=True)
for line in sys.stdin:
    message = json.loads(line)
    event = message["event"]
    do = event["data"]
`

func python(t *testing.T, body string) string {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("needs python3")
	}
	return pythonWorker + "    " + strings.ReplaceAll(strings.TrimSpace(body), "\n", "\n    ") + "\n"
}

// newWorkshop returns a host whose module has a worker, unless members say another mode. Members are of the manifest's event.
func newWorkshop(tb testing.TB, script, members string, change ...func(*host.Options)) *workshop {
	tb.Helper()
	dirs := tb.TempDir()
	dir := filepath.Join(dirs, "m")
	if !strings.Contains(members, `"mode"`) {
		members += `,"mode":"worker"`
	}
	for path, text := range map[string]string{
		module.ManifestFile: `{"events":[{"eventType":"t","handler":"handlers/run","filter":{"projectScoped":true}` + members + `}]}`,
		"handlers/run":      script,
	} {
		path = filepath.Join(dir, path)
		require.NoError(tb, os.MkdirAll(filepath.Dir(path), 0o750))
		require.NoError(tb, os.WriteFile(path, []byte(text), 0o700))
	}
	s := &workshop{dir: dirs, copies: tb.TempDir()}
	opts := host.Options{
		Dirs: []string{dirs}, Copies: s.copies, Log: slog.New(slog.NewTextHandler(tb.Output(), nil)), Render: render{},
		Changed: func(context.Context, string, host.Approval, []string) error { return nil },
	}
	for _, c := range change {
		c(&opts)
	}
	s.host = host.New(opts)
	require.NoError(tb, s.host.Open())
	tb.Cleanup(func() { s.host.Close(context.Background()) })
	s.approve(tb)
	return s
}

// approve approves the module as it is.
func (s *workshop) approve(tb testing.TB) {
	tb.Helper()
	s.host.Look(tb.Context())
	m, err := s.host.Found("m")
	require.NoError(tb, err)
	s.host.Set(tb.Context(), "m", &host.Approval{Digest: m.Digest, Files: m.Files})
	h := m.Manifest.Handlers[0]
	s.sub = &sluice.Subscription{ID: "m-run", Namespace: "default", Lifecycle: sluice.Lifecycle{Module: "m"}, Pattern: h.Pattern, Policy: h.Policy, Endpoint: sluice.Endpoint{Exec: h.Command()}}
	s.sub.SetDefaults()
}

// send makes an attempt of an event whose data is do.
func (s *workshop) send(tb testing.TB, id string, number int, do any) sluice.Attempt {
	tb.Helper()
	return s.host.Send(tb.Context(), s.sub, eventOf(id, do), number)
}

func eventOf(id string, do any) *sluice.Event {
	data, err := json.Marshal(do)
	if err != nil {
		panic(err)
	}
	return &sluice.Event{ID: id, Namespace: "default", Type: "t", Path: "/a", ContentType: "application/json", Data: data}
}

// threaded is a worker in Python that handles each event in a thread. An event's data is what it does: seen() says that it has the
// event, and wait() returns when the test lets it go.
func threaded(t *testing.T) string {
	t.Helper()
	return strings.Replace(python(t, `
threading.Thread(target=handle, args=(message, event["id"], do), daemon=True).start()`), "say(ready=True)\n", `
import threading
home = os.environ["HOME"]
def seen(id): open(home + "/seen-" + id, "w").close()
def wait():
    while not os.path.exists(home + "/go"): time.sleep(0.002)
def handle(message, id, do):
    seen(id)
    if do == "hang": return
    if do == "wait": wait()
    if do == "wait, pid":
        wait()
        do = "pid"
    if do == "crash with all":
        while len([f for f in os.listdir(home) if f.startswith("seen")]) < 5 and not os.path.exists(home + "/go"): time.sleep(0.002)
        do = "crash"
    if do == "crash":
        print("about to crash", file=sys.stderr, flush=True)
        os._exit(3)
    if do == "die half-way":
        sys.stdout.write('{"id":"' + message["id"]); sys.stdout.flush(); os._exit(4)
    if do == "kill": os.kill(os.getpid(), signal.SIGSEGV); time.sleep(60)
    if do == "print": print("hello")
    if do == "flood":
        while True: print("x" * 1000)
    if do == "long": sys.stdout.write("x" * 1100000); sys.stdout.flush(); time.sleep(60)
    if do == "unknown": say(id="999", ok=True)
    if do == "twice": answer(message, ok=True); answer(message, ok=True); return
    if do == "pid": return answer(message, retry=str(os.getpid()))
    if do.startswith("/"):
        print("key is", os.environ["MODULE_KEY"], file=sys.stderr, flush=True)
        try: return answer(message, retry=open(do).read())
        except OSError as e: return answer(message, retry=e.strerror + " " + os.environ["MODULE_KEY"])
    if do == "env": return answer(message, retry=" ".join(sorted(os.environ)))
    answer(message, ok=True)
say(ready=True)
`, 1)
}

// saw waits until a worker has an event.
func (s *workshop) saw(t *testing.T, event string) {
	t.Helper()
	require.Eventually(t, func() bool { return len(s.files("seen-"+event)) > 0 }, patience, time.Millisecond, event)
}

// files returns the files of a name in the workers' temporary directories.
func (s *workshop) files(name string) []string {
	files, err := filepath.Glob(filepath.Join(s.copies, ".run-*", name))
	if err != nil {
		panic(err)
	}
	return files
}

// goes lets what waits in a worker go on, but in those of some directories.
func (s *workshop) goes(but ...string) {
	for _, dir := range s.files("") {
		if !slices.Contains(but, dir) {
			_ = os.WriteFile(filepath.Join(dir, "go"), nil, 0o600) // it may have ended
		}
	}
}

// within returns the site with another timeout of attempts.
func (s *workshop) within(timeout time.Duration) *workshop {
	other, sub := *s, *s.sub
	sub.Policy.Timeout = sluice.Duration(timeout)
	other.sub = &sub
	return &other
}

// sendAll makes attempts of n events at once, "0" and so on, each with its number plus one. Data is that of every event, or what a
// function returns for its number.
func (s *workshop) sendAll(t *testing.T, n int, data func(i int) any) []sluice.Attempt {
	t.Helper()
	all := make([]sluice.Attempt, n)
	var wg sync.WaitGroup
	for i := range n {
		var do any
		if data != nil {
			do = data(i)
		}
		ev := eventOf(strconv.Itoa(i), do)
		wg.Go(func() { all[i] = s.host.Send(t.Context(), s.sub, ev, i+1) })
	}
	wg.Wait()
	return all
}

// compiled returns the binary of a Go program.
func compiled(tb testing.TB, text string) string {
	tb.Helper()
	dir := tb.TempDir()
	file, binary := filepath.Join(dir, "main.go"), filepath.Join(dir, "worker")
	require.NoError(tb, os.WriteFile(file, []byte(text), 0o600))
	build := exec.CommandContext(tb.Context(), "go", "build", "-o", binary, file)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(tb, err, string(out))
	read, err := os.ReadFile(binary)
	require.NoError(tb, err)
	return string(read)
}
