package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/module"
	"github.com/sluice-io/sluice/internal/module/program"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Approval is the stored record of an approved module. It is stored under the name of the module,
// one for all servers. Its slices and maps are not changed in place.
type Approval struct {
	Digest   string                 `json:"digest"`
	Files    map[string]module.File `json:"files"` // null: too many
	By       string                 `json:"by"`
	At       time.Time              `json:"at"`
	Disabled bool                   `json:"disabled,omitempty"`
	Unsafe   *Unsafe                `json:"unsafe,omitempty"` // set when the module became unsafe after its approval
	// Subscriptions are the IDs of the subscriptions of its handlers.
	Subscriptions []string `json:"subscriptions"`

	Revision uint64 `json:"-"`
}

// stopped reports whether the module does not run even with the approved files.
func (a *Approval) stopped() bool { return a.Disabled || a.Unsafe != nil }

// maxListed is the maximum size of the list of files in the record of an approval, in bytes of
// JSON.
const maxListed = 512 << 10

// listed returns the files for the record of an approval; nil if there are too many.
func listed(files map[string]module.File) map[string]module.File {
	const other = 128 // bytes of a file besides its path
	size := 0
	for path := range files {
		size += len(path) + other
	}
	if size > maxListed {
		return nil
	}
	return files
}

// changed returns the paths at which the current files differ from the approved ones; none if the
// approval does not list its files.
func (a *Approval) changed(now map[string]module.File) []string {
	if a.Files == nil {
		return nil
	}
	return module.Changed(a.Files, now)
}

// Options configure a Host. With Dirs, the fields Copies, Log, Changed, Render and Publish are
// required.
type Options struct {
	Dirs   []string // each contains modules as subdirectories
	Copies string   // directory in the data directory, for the copies of approved modules; an absolute path
	User   *program.User
	Every  time.Duration // interval between two scans of the directories; default 5 s
	Idle   time.Duration // time without an event after which workers are stopped; default 5 min
	Log    *slog.Logger
	Now    func() time.Time

	// Changed is called once when a scan finds that the files of an approved module that ran here
	// differ from the approved ones, and again if it returns an error.
	Changed func(ctx context.Context, name string, approval Approval, files []string) error
	Render  Renderer
	Publish Publisher
	Moved   func() // called when the modules that run here (Ready) have changed; may be nil
	API     API
}

// Host finds and runs the modules of this server. Its methods are safe for concurrent use. Lock
// order: looking or settling, then mu, then the lock of a pool. No program runs, and no file is
// read, while mu is held.
type Host struct {
	opts   Options
	runner program.Runner

	restrictions []string // restrictions of programs that are in force here
	live         live

	looking  sync.Mutex    // held during a scan
	looked   time.Time     // end of the last scan; guarded by looking
	lasted   time.Duration // duration of the last scan; guarded by looking
	settling sync.Mutex    // held while copying the modules that may run

	mu        sync.Mutex // taken after the other locks, and held briefly
	found     map[string]found
	approvals map[string]Approval
	ready     map[string]*module.Module // verified copies, by name
	said      map[string]string         // the last reason that was logged, by name
	told      map[string]string         // the last digest that Changed was called for, by name
	pools     pools
	execs     map[string]int // running programs other than workers, by subscription
}

// found is a module's directory.
type found struct {
	module *module.Module
	err    error  // why it is not loaded
	print  string // fingerprint of its files
}

// New returns a host. Without directories it has no modules.
func New(opts Options) *Host {
	opts.Every, opts.Idle = cmp.Or(opts.Every, 5*time.Second), cmp.Or(opts.Idle, 5*time.Minute)
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Host{
		opts: opts, runner: program.Runner{As: opts.User},
		found: map[string]found{}, approvals: map[string]Approval{}, ready: map[string]*module.Module{}, said: map[string]string{}, told: map[string]string{},
		pools: pools{of: map[string]*pool{}}, execs: map[string]int{},
	}
}

// Open kills the programs that a killed server left behind, and removes their files. Call it before
// Run and Set, once. It finds the programs by a mark in their environment, which contains
// Options.Copies. So it does not kill those of another server with other copies.
func (h *Host) Open() error {
	if len(h.opts.Dirs) == 0 {
		return nil
	}
	if err := os.MkdirAll(h.opts.Copies, 0o755); err != nil { //nolint:gosec // programs may run as another user
		return fmt.Errorf("modules: %w", err)
	}
	if err := h.letIn(); err != nil {
		return fmt.Errorf("modules.user: %w", err)
	}
	if err := program.Sweep(program.MarkName + "=" + h.opts.Copies + string(filepath.Separator)); err != nil {
		return fmt.Errorf("end programs of a killed server: %w", err)
	}
	var err error
	if h.runner.Cgroup, err = program.OpenCgroup(); err != nil {
		h.opts.Log.Warn("programs of modules have no control groups", slog.Any("error", err))
	}
	h.restrictions = append(program.InForce(), h.runner.Cgroup.InForce()...)
	h.sayInForce()
	left, err := filepath.Glob(filepath.Join(h.opts.Copies, ".run-*"))
	for _, dir := range left {
		h.removeTemp(dir)
	}
	return errors.Join(err, h.removeOld())
}

// letIn permits the group of the user that programs run as to traverse the data directory to the
// copies. That user still cannot list the directory or open other files in it.
func (h *Host) letIn() error {
	as := h.opts.User
	if as == nil {
		return nil
	}
	data := filepath.Dir(h.opts.Copies)
	return cmp.Or(os.Chown(data, -1, int(as.GID)), os.Chmod(data, 0o710)) //nolint:gosec // intended
}

// Found returns the module with a name as it is on this server. Codes NotFound; Unprocessable if it
// is not loaded. The module is as of the last scan: call LookAt before for the present files.
func (h *Host) Found(name string) (*module.Module, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	is, ok := h.found[name]
	switch {
	case !ok:
		return nil, h.unknown(name)
	case is.err != nil:
		return nil, sluice.Errorf(sluice.Unprocessable, "module %q is not loaded: %v", name, is.err)
	}
	return is.module, nil
}

// List returns the modules that are on this server or approved, sorted by name. The result is not
// nil. A module that is approved and not here has the state missing.
func (h *Host) List() []sluice.Module {
	h.mu.Lock()
	defer h.mu.Unlock()
	names := slices.AppendSeq(slices.Collect(maps.Keys(h.found)), maps.Keys(h.approvals))
	slices.Sort(names)
	names = slices.Compact(names)
	all := make([]sluice.Module, len(names))
	for i, name := range names {
		all[i] = h.shown(name)
	}
	return all
}

// Get returns one module, with its processes here. Code NotFound.
func (h *Host) Get(name string) (sluice.Module, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, here := h.found[name]
	_, approved := h.approvals[name]
	if !here && !approved {
		return sluice.Module{}, h.unknown(name)
	}
	m := h.shown(name)
	m.Server, m.Running = h.opts.API.Replica, h.running(name)
	return m, nil
}

// unknown returns the error for a module that is not on this server.
func (h *Host) unknown(name string) error {
	if len(h.opts.Dirs) == 0 {
		return sluice.Errorf(sluice.NotFound, "module %q is not here: this server has no directories of modules; set modules.dirs", name)
	}
	return sluice.Errorf(sluice.NotFound, "module %q is not in the directories of this server (modules.dirs: %s)", name, strings.Join(h.opts.Dirs, ", "))
}

func (h *Host) shown(name string) sluice.Module {
	is, here := h.found[name]
	a, approved := h.approvals[name]
	m := sluice.Module{Name: name, State: sluice.ModuleFound, Digest: is.digest(), Restrictions: h.restrictions}
	if is.module != nil {
		m.Handlers = Handlers(is.module)
		m.System = slices.ContainsFunc(is.module.Manifest.Handlers, func(h module.Handler) bool { return h.System })
	}
	if approved {
		m.Approved, m.ApprovedBy, m.ApprovedAt = a.Digest, a.By, &a.At
	}
	switch {
	case !here:
		m.State, m.Reason = sluice.ModuleMissing, "it is not in the directories of this server (modules.dirs)"
	case is.err != nil:
		m.State, m.Reason = sluice.ModuleInvalid, is.err.Error()
	case !approved:
		m.Reason = "it waits for its approval: sluice module approve " + name
	case a.Disabled:
		m.State, m.Reason = sluice.ModuleDisabled, "an admin has disabled it"
	case a.Unsafe != nil:
		m.State, m.Reason = sluice.ModuleUnsafe, a.Unsafe.Reason
	case a.Digest != is.module.Digest: // not a secret: of files
		m.State, m.Changed = sluice.ModuleChanged, a.changed(is.module.Files)
		m.Reason = ChangedReason(name, m.Changed)
	case h.ready[name] == nil:
		m.State, m.Reason = sluice.ModuleInvalid, h.said[name]
	default:
		m.State = sluice.ModuleApproved
	}
	return m
}

// ChangedReason returns why a changed module does not run.
func ChangedReason(name string, files []string) string {
	const most = 5
	shown := strings.Join(files[:min(len(files), most)], ", ")
	if len(files) > most {
		shown += ", …"
	}
	if shown != "" {
		shown = " (" + shown + ")"
	}
	return "its files have changed since its approval" + shown + ": check them, then sluice module approve " + name
}

// Handlers returns the handlers of a module, with the subscriptions that an approval creates. They
// are in the order of the manifest. The URLs of endpoints are hidden in part.
func Handlers(m *module.Module) []sluice.ModuleHandler {
	all := make([]sluice.ModuleHandler, len(m.Manifest.Handlers))
	for i := range m.Manifest.Handlers {
		all[i] = shownHandler(m, &m.Manifest.Handlers[i])
	}
	return all
}

func shownHandler(m *module.Module, h *module.Handler) sluice.ModuleHandler {
	shown := sluice.ModuleHandler{
		ID: h.ID, EventType: h.Type, Program: h.Program, Mode: string(h.Mode), Pattern: h.Pattern, Namespaces: m.Manifest.Namespaces,
		Publish: h.Publish, Read: h.Read, PrintsEvents: h.Output == module.OutputEvents, Network: h.Network, Endpoint: h.Endpoint, URL: sluice.HideURL(h.URL),
	}
	for _, ns := range m.Manifest.Namespaces {
		shown.Subscriptions = append(shown.Subscriptions, SubscriptionID(m.Name, h.ID, ns))
	}
	return shown
}
