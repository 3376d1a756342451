//go:build linux

package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/module"
	"github.com/sluice-io/sluice/internal/module/program"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// ids renders an event as its ID.
type ids struct{}

func (ids) Body(_ context.Context, _ *sluice.Subscription, ev *sluice.Event, _ *sluice.Attempt) (body []byte, traceparent string, err error) {
	return []byte(ev.ID), "", nil
}

// reports are the calls of Options.Changed.
type reports struct {
	files [][]string
	err   error
}

func (r *reports) changed(_ context.Context, _ string, _ Approval, files []string) error {
	r.files = append(r.files, files)
	return r.err
}

// open returns a host with a directory of modules.
func open(t *testing.T, dirs string, r *reports) *Host {
	t.Helper()
	h := New(Options{Dirs: []string{dirs}, Copies: filepath.Join(t.TempDir(), "modules"), Log: slog.New(slog.DiscardHandler), Changed: r.changed, Render: ids{}})
	require.NoError(t, h.Open())
	return h
}

const oneHandler = `{"events":[{"eventType":"t","handler":"handlers/run","filter":{"projectScoped":true}}]}`

// writes writes a module with a handler in sh.
func writes(tb testing.TB, dirs, name, script string) {
	tb.Helper()
	for path, text := range map[string]string{module.ManifestFile: oneHandler, "handlers/run": "#!/bin/sh\n" + script + "\n"} {
		path = filepath.Join(dirs, name, path)
		require.NoError(tb, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(tb, os.WriteFile(path, []byte(text), 0o755))
	}
}

// approves enters an approval of the module m as it is.
func (h *Host) approves(t *testing.T) Approval {
	t.Helper()
	h.LookAt(t.Context(), "m")
	m, err := h.Found("m")
	require.NoError(t, err)
	a := Approval{Digest: m.Digest, Files: m.Files}
	h.Set(t.Context(), "m", &a)
	return a
}

// sends runs the handler of the module m on an event.
func (h *Host) sends(t *testing.T) sluice.Attempt {
	t.Helper()
	sub := &sluice.Subscription{
		ID: SubscriptionID("m", "run", sluice.DefaultNamespace), Namespace: sluice.DefaultNamespace, Lifecycle: sluice.Lifecycle{Module: "m"},
		Endpoint: sluice.Endpoint{Exec: []string{"handlers/run"}}, Policy: sluice.Policy{Timeout: sluice.Duration(time.Minute)},
	}
	return h.Send(t.Context(), sub, &sluice.Event{ID: "e", Type: "t", Path: "/a", Namespace: sluice.DefaultNamespace}, 1)
}

func (h *Host) stateOf(t *testing.T, name string) sluice.ModuleState {
	t.Helper()
	m, err := h.Get(name)
	require.NoError(t, err)
	return m.State
}

// What runs is what was approved, from its approval until it is disabled, removed or changed.
func TestHost_RunsApprovedFiles(t *testing.T) {
	t.Parallel()
	dirs, r := t.TempDir(), &reports{}
	h := open(t, dirs, r)
	writes(t, dirs, "m", "echo first; cat")
	h.Look(t.Context())
	require.Equal(t, sluice.ModuleFound, h.stateOf(t, "m"))
	require.Empty(t, h.sends(t).Outcome, "no attempt is made")

	a := h.approves(t)
	require.Equal(t, sluice.ModuleApproved, h.stateOf(t, "m"))
	require.Equal(t, "first\ne", h.sends(t).Output)

	writes(t, dirs, "m", "echo another; cat")
	require.Equal(t, "first\ne", h.sends(t).Output, "the copy runs until the change is seen")
	r.err = errors.New("the store is away")
	for range 2 {
		h.Look(t.Context())
		require.Equal(t, sluice.ModuleChanged, h.stateOf(t, "m"))
		require.Empty(t, h.sends(t).Outcome, "no attempt is made")
	}
	r.err = nil
	for range 2 {
		h.Look(t.Context())
	}
	require.Equal(t, [][]string{{"handlers/run"}, {"handlers/run"}, {"handlers/run"}}, r.files, "until it is heard, and then not again")

	h.approves(t)
	require.Equal(t, "another\ne", h.sends(t).Output)
	a.Disabled = true
	h.Set(t.Context(), "m", &a)
	require.Equal(t, sluice.ModuleDisabled, h.stateOf(t, "m"))
	require.Contains(t, h.sends(t).Error, "disabled")
	h.approves(t)
	h.Set(t.Context(), "m", nil)
	require.Equal(t, sluice.ModuleFound, h.stateOf(t, "m"))
	require.Empty(t, h.sends(t).Outcome, "no attempt is made")
}

// A server with other files than the approved ones reports a change if the module ran there with these last, also before a restart.
func TestHost_ReportsChangesOfFilesThatRan(t *testing.T) {
	t.Parallel()
	dirs, r := t.TempDir(), &reports{}
	h := open(t, dirs, r)
	writes(t, dirs, "m", "echo one")
	h.approves(t)
	writes(t, dirs, "m", "echo second")
	again := New(h.opts)
	require.NoError(t, again.Open())
	again.Look(t.Context())
	a := Approval{Digest: h.ready["m"].Digest, Files: h.ready["m"].Files}
	again.Set(t.Context(), "m", &a)
	require.Equal(t, [][]string{{"handlers/run"}}, r.files, "it changed while the server was down")

	other := open(t, dirs, r)
	other.Look(t.Context())
	other.Set(t.Context(), "m", &a)
	require.Equal(t, sluice.ModuleChanged, other.stateOf(t, "m"))
	require.Len(t, r.files, 1, "it never ran there")
}

// A module with too many files for the record of its approval stops all the same when one of them changes.
func TestHost_ManyFilesAreNotListed(t *testing.T) {
	t.Parallel()
	dirs, r := t.TempDir(), &reports{}
	h := open(t, dirs, r)
	writes(t, dirs, "m", "echo one")
	a := h.approves(t)
	require.Len(t, listed(a.Files), 2)
	many := map[string]module.File{}
	for i := range 5000 {
		many[fmt.Sprint("f", i)] = module.File{}
	}
	a.Files = listed(many)
	require.Nil(t, a.Files)
	h.Set(t.Context(), "m", &a)
	writes(t, dirs, "m", "echo second")
	h.Look(t.Context())
	require.Equal(t, [][]string{nil}, r.files)
	m, err := h.Get("m")
	require.NoError(t, err)
	require.Equal(t, "its files have changed since its approval: check them, then sluice module approve m", m.Reason)
}

// Copies that are not needed any more are removed at the next start.
func TestHost_RemovesOldCopies(t *testing.T) {
	t.Parallel()
	dirs := t.TempDir()
	h := open(t, dirs, &reports{})
	for _, script := range []string{"echo one", "echo second"} {
		writes(t, dirs, "m", script)
		h.approves(t)
	}
	copies := func() []string {
		all, err := filepath.Glob(filepath.Join(h.opts.Copies, "sha256-*", "m"))
		require.NoError(t, err)
		return all
	}
	require.Len(t, copies(), 2)
	require.NoError(t, New(h.opts).Open())
	require.Equal(t, []string{h.ready["m"].Dir}, copies())
}

// A module whose directory goes, or becomes unclear, stops; one that comes back as it was goes on.
func TestHost_StopsWithoutItsFiles(t *testing.T) {
	t.Parallel()
	dirs := t.TempDir()
	h := open(t, dirs, &reports{})
	writes(t, dirs, "m", "cat")
	h.approves(t)
	at, away := filepath.Join(dirs, "m"), filepath.Join(t.TempDir(), "m")
	require.NoError(t, os.Rename(at, away))
	h.LookAt(t.Context(), "m")
	require.Equal(t, sluice.ModuleMissing, h.stateOf(t, "m"))
	require.Empty(t, h.sends(t).Outcome, "no attempt is made")
	require.NoError(t, os.Rename(away, at))
	h.Look(t.Context())
	require.Equal(t, sluice.Delivered, h.sends(t).Outcome)
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(at, "link")))
	h.Look(t.Context())
	require.Equal(t, sluice.ModuleInvalid, h.stateOf(t, "m"))
	require.Empty(t, h.sends(t).Outcome, "no attempt is made")
	_, err := h.Found("m")
	require.ErrorContains(t, err, "link: only directories and regular files")
}

// A file in place of another one of the same size and time is seen.
func TestHost_SeesFileInPlaceOfAnother(t *testing.T) {
	t.Parallel()
	dirs, r := t.TempDir(), &reports{}
	h := open(t, dirs, r)
	writes(t, dirs, "m", "echo 1")
	h.approves(t)
	file := filepath.Join(dirs, "m", "handlers/run")
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file+"2", []byte("#!/bin/sh\necho 2\n"), 0o755))
	require.NoError(t, os.Chtimes(file+"2", info.ModTime(), info.ModTime()))
	require.NoError(t, os.Rename(file+"2", file))
	h.Look(t.Context())
	require.Equal(t, [][]string{{"handlers/run"}}, r.files)
}

// A server that starts again runs the approved files, also if its copies were changed.
func TestHost_DamagedCopyIsMadeAgain(t *testing.T) {
	t.Parallel()
	dirs := t.TempDir()
	h := open(t, dirs, &reports{})
	writes(t, dirs, "m", "echo right")
	h.approves(t)
	copied := filepath.Join(h.ready["m"].Dir, "handlers/run")
	require.NoError(t, os.Chmod(copied, 0o755))
	require.NoError(t, os.WriteFile(copied, []byte("#!/bin/sh\necho wrong\n"), 0o755))
	again := New(h.opts)
	require.NoError(t, again.Open())
	again.approves(t)
	require.Equal(t, "right\n", again.sends(t).Output)
}

// Attempts and lists do not wait while a large module is copied.
func TestHost_CopyHoldsUpNothingElse(t *testing.T) {
	t.Parallel()
	dirs := t.TempDir()
	h := open(t, dirs, &reports{})
	copying := func() bool {
		part, err := filepath.Glob(filepath.Join(h.opts.Copies, "*", ".part-*"))
		return err == nil && len(part) > 0
	}
	answered := false
	for i := 0; !answered && i < 50; i++ {
		name := fmt.Sprint("large", i)
		writes(t, dirs, name, "exit 0")
		require.NoError(t, os.WriteFile(filepath.Join(dirs, name, "data"), make([]byte, 16<<20), 0o600))
		h.LookAt(t.Context(), name)
		m, err := h.Found(name)
		require.NoError(t, err)
		var over atomic.Bool
		go func() {
			defer over.Store(true)
			h.Set(context.Background(), name, &Approval{Digest: m.Digest, Files: m.Files})
		}()
		for !over.Load() && !answered {
			during := copying()
			h.List()
			answered = during && copying()
		}
		require.Eventually(t, over.Load, time.Minute, time.Millisecond)
	}
	require.True(t, answered)
}

// A module cannot hold up the server with a file that becomes a pipe while it is read.
func TestHost_PipeInPlaceOfFileIsRefused(t *testing.T) {
	t.Parallel()
	dirs := t.TempDir()
	h := open(t, dirs, &reports{})
	writes(t, dirs, "m", "exit 0")
	h.LookAt(t.Context(), "m")
	m, err := h.Found("m")
	require.NoError(t, err)
	file := filepath.Join(dirs, "m", "handlers/run")
	require.NoError(t, os.Remove(file))
	require.NoError(t, syscall.Mkfifo(file, 0o700))
	h.Set(t.Context(), "m", &Approval{Digest: m.Digest, Files: m.Files})
	require.Empty(t, h.sends(t).Outcome, "no attempt is made")
	require.Equal(t, sluice.ModuleInvalid, h.stateOf(t, "m"))
}

// The number of modules is bounded, and the ones that are loaded are always the same.
func TestHost_LoadsSoManyModules(t *testing.T) {
	t.Parallel()
	dirs := t.TempDir()
	for i := range maxModules + 2 {
		writes(t, dirs, fmt.Sprintf("m%04d", i), "exit 0")
	}
	h := open(t, dirs, &reports{})
	h.Look(t.Context())
	all := h.List()
	require.Len(t, all, maxModules)
	last := fmt.Sprintf("m%04d", maxModules+1)
	h.LookAt(t.Context(), last)
	_, err := h.Get(last)
	require.Equal(t, sluice.NotFound, sluice.CodeOf(err))
	h.LookAt(t.Context(), "m0000")
	require.Equal(t, sluice.ModuleFound, h.stateOf(t, "m0000"))
}

// No name leads out of the directories.
func TestHost_LooksAtNoOtherDirectory(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	writes(t, parent, "other", "exit 0")
	dirs := filepath.Join(parent, "dirs")
	require.NoError(t, os.Mkdir(dirs, 0o755))
	h := open(t, dirs, &reports{})
	for _, name := range []string{"../other", "", ".", "..", "/", "other"} {
		h.LookAt(t.Context(), name)
	}
	require.Empty(t, h.List())
}

// Two handlers that would have one subscription are refused.
func TestRequests_RefuseOneIDTwice(t *testing.T) {
	t.Parallel()
	m := &module.Module{Name: "m", Manifest: module.Manifest{
		Namespaces: []string{"b", "a-b"}, Handlers: []module.Handler{{ID: "x"}, {ID: "x-a"}},
	}}
	_, err := requests(m)
	require.Equal(t, sluice.Unprocessable, sluice.CodeOf(err))
	require.ErrorContains(t, err, `"m-x-a-b"`)
}

func TestSubscriptionID_StaysApart(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 60)
	require.Equal(t, "m-h", SubscriptionID("m", "h", sluice.DefaultNamespace))
	require.Equal(t, "m-h-eu", SubscriptionID("m", "h", "eu"))
	one, two := SubscriptionID(long, "a-b", "c"), SubscriptionID(long, "a", "b-c")
	require.Len(t, one, maxID)
	require.NotEqual(t, one, two)
}

// The user of programs gets through the data directory, and no other user does.
func TestHost_LetsItsUserIn(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	h := open(t, t.TempDir(), &reports{})
	data := filepath.Dir(h.opts.Copies)
	h.opts.User = &program.User{UID: 65534, GID: 65534}
	require.NoError(t, h.Open())
	info, err := os.Stat(data)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o710), info.Mode().Perm())
	stat, ok := info.Sys().(*syscall.Stat_t)
	require.True(t, ok)
	require.Equal(t, []uint32{0, 65534}, []uint32{stat.Uid, stat.Gid})
}

// A module in a directory that is named by a relative path runs as any other.
func TestTry_RunsFromRelativeDirectory(t *testing.T) {
	dirs := t.TempDir()
	writes(t, dirs, "m", "cat; echo; pwd")
	t.Chdir(dirs)
	m, err := module.Open("m")
	require.NoError(t, err)
	a, err := Try(t.Context(), m, "run", &sluice.Event{ID: "e", Type: "t", Path: "/a", Namespace: sluice.DefaultNamespace}, ids{})
	require.NoError(t, err)
	require.Equal(t, sluice.Delivered, a.Outcome, a.Error)
	lines := strings.Split(a.Output, "\n")
	require.Equal(t, "e", lines[0])
	require.NotContains(t, lines[1], dirs, "it is a copy")
	_, err = Try(t.Context(), m, "none", &sluice.Event{}, ids{})
	require.Equal(t, sluice.NotFound, sluice.CodeOf(err))
}

// What an attempt left in its temporary directory goes with it, and what a killed server left at the next start.
func TestHost_RemovesTemporaryDirectories(t *testing.T) {
	t.Parallel()
	dirs := t.TempDir()
	h := open(t, dirs, &reports{})
	writes(t, dirs, "m", `echo x > "$TMPDIR/x"; mkdir -p "$TMPDIR/a/b/c"; chmod 0500 "$TMPDIR/a/b"; chmod 0 "$TMPDIR/a" "$TMPDIR"`)
	h.approves(t)
	require.Equal(t, sluice.Delivered, h.sends(t).Outcome)
	left := func() []string {
		all, err := filepath.Glob(filepath.Join(h.opts.Copies, ".run-*"))
		require.NoError(t, err)
		return all
	}
	require.Empty(t, left())
	require.NoError(t, os.MkdirAll(filepath.Join(h.opts.Copies, ".run-old", "x"), 0o755))
	require.NoError(t, New(h.opts).Open())
	require.Empty(t, left())
}

// Values of variables that a program gets are masked in its output, and no other variable reaches it.
func TestHost_MasksAndClearsTheEnvironment(t *testing.T) {
	t.Setenv("HOST_SECRET", "sesame-open")
	t.Setenv("HOST_OTHER", "hidden-value")
	dirs := t.TempDir()
	h := open(t, dirs, &reports{})
	writes(t, dirs, "m", "env")
	manifest := strings.Replace(oneHandler, `"filter"`, `"env":["HOST_SECRET","HOST_NONE"],"filter"`, 1)
	require.NoError(t, os.WriteFile(filepath.Join(dirs, "m", module.ManifestFile), []byte(manifest), 0o600))
	h.approves(t)
	names := []string{}
	out := h.sends(t).Output
	for line := range strings.Lines(out) {
		name, _, _ := strings.Cut(line, "=")
		names = append(names, name)
	}
	slices.Sort(names)
	require.Contains(t, out, "HOST_SECRET=***\n")
	require.Equal(t, []string{
		"HOME", "HOST_SECRET", "LANG", "PATH", "PWD", "SLUICE_ATTEMPT", "SLUICE_DEADLINE", "SLUICE_EVENT_ID", "SLUICE_EVENT_PATH", "SLUICE_EVENT_SEQ",
		"SLUICE_EVENT_TYPE", "SLUICE_MODULE", "SLUICE_NAMESPACE", "SLUICE_RUN", "SLUICE_SUBSCRIPTION", "TMPDIR",
	}, slices.DeleteFunc(names, func(n string) bool { return n == "SHLVL" || n == "_" || n == "OLDPWD" }))
}

// BenchmarkLook measures a look at modules that have not changed.
func BenchmarkLook(b *testing.B) {
	dirs := b.TempDir()
	for i := range maxModules {
		writes(b, dirs, fmt.Sprint("m", i), "exit 0")
	}
	h := New(Options{Dirs: []string{dirs}, Copies: filepath.Join(b.TempDir(), "modules"), Log: slog.New(slog.DiscardHandler)})
	h.Look(b.Context())
	for b.Loop() {
		h.Look(b.Context())
	}
}
