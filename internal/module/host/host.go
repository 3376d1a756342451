package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
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

// Approval is what is stored of a module.
type Approval struct {
	Digest   string                 `json:"digest"`
	Files    map[string]module.File `json:"files"`
	By       string                 `json:"by"`
	At       time.Time              `json:"at"`
	Disabled bool                   `json:"disabled,omitempty"`
	// Its subscriptions.
	Subscriptions []string `json:"subscriptions"`

	Revision uint64 `json:"-"`
}

// Options configure a Host.
type Options struct {
	Dirs   []string // each has modules as its directories
	Copies string   // directory in the data directory, for the copies of approved modules; an absolute path
	User   *program.User
	Every  time.Duration // between two looks at the directories; 5 s
	Log    *slog.Logger
	Now    func() time.Time

	// Changed is called once when the files of an approved module are found to be others than those that were approved,
	// and again if it returns an error.
	Changed func(ctx context.Context, name string, approval Approval, files []string) error
	Render  Renderer
}

// Host knows the modules of this server.
type Host struct {
	opts   Options
	runner program.Runner

	mu        sync.Mutex
	found     map[string]found
	approvals map[string]Approval
	ready     map[string]*module.Module // verified copies, by name
	said      map[string]string         // the last reason that was logged, by name
	told      map[string]string         // the last digest that Changed was called for, by name
}

// found is a module's directory.
type found struct {
	module *module.Module
	err    error // why it is not loaded
	print  string
}

// New returns a host. Without directories it has no modules.
func New(opts Options) *Host {
	opts.Every = cmp.Or(opts.Every, 5*time.Second)
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Host{
		opts: opts, runner: program.Runner{As: opts.User},
		found: map[string]found{}, approvals: map[string]Approval{}, ready: map[string]*module.Module{}, said: map[string]string{}, told: map[string]string{},
	}
}

// Open removes what a killed server left behind: its programs, and their files.
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
	if err := program.Sweep(envMark + "=" + h.opts.Copies); err != nil {
		return fmt.Errorf("end programs of a killed server: %w", err)
	}
	left, err := filepath.Glob(filepath.Join(h.opts.Copies, ".run-*"))
	for _, dir := range left {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}

// letIn lets the user of programs, and its group alone, pass through the data directory to the copies. It cannot list the directory,
// and every other file in it is closed to it.
func (h *Host) letIn() error {
	as := h.opts.User
	if as == nil {
		return nil
	}
	data := filepath.Dir(h.opts.Copies)
	return cmp.Or(os.Chown(data, -1, int(as.GID)), os.Chmod(data, 0o710)) //nolint:gosec // that is meant
}

// Run looks at the directories until the context is done.
func (h *Host) Run(ctx context.Context) error {
	if len(h.opts.Dirs) == 0 {
		<-ctx.Done()
		return nil
	}
	clock := time.NewTicker(h.opts.Every)
	defer clock.Stop()
	for {
		h.Look(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-clock.C:
		}
	}
}

// Look reads the modules that have changed since the last look.
func (h *Host) Look(ctx context.Context) {
	seen := map[string]string{} // directory by name
	for _, dir := range h.opts.Dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			h.opts.Log.WarnContext(ctx, "directory of modules not readable", slog.String("dir", dir), slog.Any("error", err))
			continue
		}
		for _, entry := range entries {
			path := filepath.Join(dir, entry.Name())
			if _, err := os.Stat(filepath.Join(path, module.ManifestFile)); err == nil && seen[entry.Name()] == "" {
				seen[entry.Name()] = path
			}
		}
	}
	h.mu.Lock()
	maps.DeleteFunc(h.found, func(name string, _ found) bool { return seen[name] == "" })
	h.mu.Unlock()
	for name, dir := range seen {
		h.read(ctx, name, dir)
	}
	h.settle(ctx)
}

// read reads a module unless it looks as it did.
func (h *Host) read(ctx context.Context, name, dir string) {
	print := fingerprint(dir)
	h.mu.Lock()
	was, ok := h.found[name]
	h.mu.Unlock()
	if ok && was.print == print && print != "" {
		return
	}
	is := found{print: print}
	is.module, is.err = module.Open(dir)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.found[name] = is
	if is.err != nil {
		h.say(ctx, name, is.err.Error())
	} else {
		h.say(ctx, name, "")
	}
}

// say logs why a module is not loaded, once.
func (h *Host) say(ctx context.Context, name, reason string) {
	if h.said[name] == reason {
		return
	}
	h.said[name] = reason
	if reason != "" {
		h.opts.Log.WarnContext(ctx, "module not loaded", slog.String("module", name), slog.String("reason", reason))
	}
}

// fingerprint returns a text that changes with the files of a directory, without reading them; "" if it is not readable.
func fingerprint(dir string) string {
	var text strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && !d.IsDir() {
			_, err = text.WriteString(path + " " + info.Mode().String() + " " + info.ModTime().Format(time.RFC3339Nano) + " " + inode(info) + "\n")
		}
		return err
	})
	if err != nil {
		return ""
	}
	return text.String()
}

// Set enters the approval of a module; nil: it has none any more.
func (h *Host) Set(ctx context.Context, name string, a *Approval) {
	h.mu.Lock()
	if a == nil {
		delete(h.approvals, name)
	} else {
		h.approvals[name] = *a
	}
	h.mu.Unlock()
	h.settle(ctx)
}

// change is an approved module whose files are others now.
type change struct {
	name     string
	approval Approval
	files    []string
}

// settle decides which modules run: those that are approved, not disabled, and whose files here are the approved ones.
func (h *Host) settle(ctx context.Context) {
	for _, c := range h.decide(ctx) {
		if err := h.opts.Changed(ctx, c.name, c.approval, c.files); err != nil {
			h.opts.Log.WarnContext(ctx, "changed module not suspended yet", slog.String("module", c.name), slog.Any("error", err))
			h.mu.Lock()
			h.told[c.name] = ""
			h.mu.Unlock()
		}
	}
}

// decide enters which modules run, and returns those that have changed and were not reported yet.
func (h *Host) decide(ctx context.Context) (changes []change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.ready, func(name string, _ *module.Module) bool {
		a, ok := h.approvals[name]
		return !ok || a.Disabled || h.found[name].digest() != a.Digest // not a secret: of files
	})
	for name, a := range h.approvals {
		is := h.found[name].module
		switch {
		case a.Disabled || h.ready[name] != nil || is == nil: // nil: missing here, or invalid
		case is.Digest == a.Digest: // not a secret: of files
			h.enter(ctx, is)
		case h.told[name] != is.Digest: // not a secret: of files
			h.told[name] = is.Digest
			changes = append(changes, change{name, a, module.Changed(a.Files, is.Files)})
		}
	}
	return changes
}

// enter has a module's programs run.
func (h *Host) enter(ctx context.Context, m *module.Module) {
	ready, err := h.copy(m)
	if err != nil {
		h.say(ctx, m.Name, err.Error())
		return
	}
	h.say(ctx, m.Name, "")
	h.ready[m.Name], h.told[m.Name] = ready, ""
	h.opts.Log.InfoContext(ctx, "module runs", slog.String("module", m.Name), slog.String("digest", m.Digest))
}

func (f found) digest() string {
	if f.module == nil {
		return ""
	}
	return f.module.Digest
}

// copy returns the module whose directory is a verified copy.
func (h *Host) copy(m *module.Module) (*module.Module, error) {
	dir := filepath.Join(h.opts.Copies, strings.ReplaceAll(m.Digest, ":", "-"), m.Name)
	there, err := module.Open(dir)
	if err == nil && there.Digest == m.Digest { // not a secret: of files
		return there, nil
	}
	if err := os.RemoveAll(dir); err != nil { // it is damaged, or there is none
		return nil, err
	}
	if err := m.CopyTo(dir); err != nil {
		return nil, err
	}
	return module.Open(dir)
}

// Found returns the module of a name as it is here. Code NotFound; Unprocessable if it is not loaded.
func (h *Host) Found(name string) (*module.Module, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	is, ok := h.found[name]
	switch {
	case !ok:
		return nil, sluice.Errorf(sluice.NotFound, "module %q is not in the directories of this server (modules.dirs)", name)
	case is.err != nil:
		return nil, sluice.Errorf(sluice.Unprocessable, "module %q is not loaded: %v", name, is.err)
	}
	return is.module, nil
}

// List returns the modules that are here or approved, by name.
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

// Get returns one module. Code NotFound.
func (h *Host) Get(name string) (sluice.Module, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, here := h.found[name]
	_, approved := h.approvals[name]
	if !here && !approved {
		return sluice.Module{}, sluice.Errorf(sluice.NotFound, "module %q is not in the directories of this server (modules.dirs)", name)
	}
	return h.shown(name), nil
}

func (h *Host) shown(name string) sluice.Module {
	is, here := h.found[name]
	a, approved := h.approvals[name]
	m := sluice.Module{Name: name, State: sluice.ModuleFound, Digest: is.digest(), Restrictions: program.InForce()}
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
	case a.Digest != is.module.Digest: // not a secret: of files
		m.State, m.Changed = sluice.ModuleChanged, module.Changed(a.Files, is.module.Files)
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
	return "its files have changed since its approval (" + shown + "): check them, then sluice module approve " + name
}

// Handlers returns the handlers of a module, with the subscriptions that it gets when it is approved.
func Handlers(m *module.Module) []sluice.ModuleHandler {
	all := make([]sluice.ModuleHandler, len(m.Manifest.Handlers))
	for i, h := range m.Manifest.Handlers {
		all[i] = sluice.ModuleHandler{ID: h.ID, EventType: h.Type, Program: h.Program, Mode: string(h.Mode), Pattern: h.Pattern, Namespaces: m.Manifest.Namespaces}
		for _, ns := range m.Manifest.Namespaces {
			all[i].Subscriptions = append(all[i].Subscriptions, SubscriptionID(m.Name, h.ID, ns))
		}
	}
	return all
}
