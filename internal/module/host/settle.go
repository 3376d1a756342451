package host

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluice-io/sluice/internal/module"
)

// Set applies the approval of a module on this server; nil revokes it. When Set returns, the module
// is ready to run if it may run. It copies the files, which takes time in proportion to their size.
// The watch of the approvals calls it on every server, for each change. It ignores an approval that
// is older than the present one.
func (h *Host) Set(ctx context.Context, name string, a *Approval) {
	h.enterApproval(name, a)
	h.settle(ctx)
}

// setFound is Set for an approval of the files that were found on this server. So another digest is a
// change, even if the files change before they run here.
func (h *Host) setFound(ctx context.Context, name string, a *Approval) {
	h.enterApproval(name, a)
	h.settling.Lock()
	h.mu.Lock()
	stands := h.approvals[name].Revision == a.Revision
	h.mu.Unlock()
	if stands {
		if err := h.ranNow(name, a.Digest); err != nil {
			h.opts.Log.WarnContext(ctx, "changes of module may not be noticed", slog.String("module", name), slog.Any("error", err))
		}
	}
	h.settling.Unlock()
	h.settle(ctx)
}

func (h *Host) enterApproval(name string, a *Approval) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case a == nil:
		delete(h.approvals, name)
	case a.Revision >= h.approvals[name].Revision:
		h.approvals[name] = *a
	}
}

// reportAgain makes the next scan report a change of a module again that was reported.
func (h *Host) reportAgain(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told[name] = ""
}

// change is an approved module whose files have changed.
type change struct {
	name     string
	approval Approval
	digest   string // of the present files
	files    []string
}

// settle decides which modules run: those that are approved, neither disabled nor unsafe, and whose
// files here are the approved ones. It reports changed modules to Options.Changed before it copies
// others, which may take long.
func (h *Host) settle(ctx context.Context) {
	var changes []change
	h.moving(func() { changes = h.leaveAll() })
	for _, c := range changes {
		if h.ranLast(c.name) != c.approval.Digest { // not a secret: of files
			h.askAgain(c) // a copy that runs may be about to be entered
			continue
		}
		if err := h.opts.Changed(ctx, c.name, c.approval, c.files); err != nil {
			h.opts.Log.WarnContext(ctx, "changed module not suspended yet", slog.String("module", c.name), slog.Any("error", err))
			h.askAgain(c)
		}
	}
	h.moving(func() { h.enterAll(ctx) })
}

// askAgain makes the next scan look at a change again.
func (h *Host) askAgain(c change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.told[c.name] == c.digest { // not a secret: of files
		h.told[c.name] = ""
	}
}

// moving calls Options.Moved if the modules that run here change while f runs.
func (h *Host) moving(f func()) {
	before := h.Ready()
	f()
	if h.opts.Moved != nil && !slices.Equal(before, h.Ready()) {
		h.opts.Moved()
	}
}

// enterAll makes the modules ready that may run and do not yet. Attempts of other modules continue
// meanwhile.
func (h *Host) enterAll(ctx context.Context) {
	h.settling.Lock()
	defer h.settling.Unlock()
	for _, m := range h.waiting() {
		h.enter(ctx, m)
	}
}

// Ready returns the sorted names of the modules that may run here: those that are approved and
// whose files here are the approved ones.
func (h *Host) Ready() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Sorted(maps.Keys(h.ready))
}

// ranLast returns the digest with which a module last ran on this server, or was about to, even
// before a restart; "" if it never did. Other servers may run the module with other files, so only a difference from
// files that ran here is a change.
func (h *Host) ranLast(name string) string {
	digest, err := os.ReadFile(h.lastFile(name))
	if err != nil {
		return ""
	}
	return string(digest)
}

// ranNow stores the digest of a module for ranLast. Readers see the earlier digest or this one. The
// caller holds settling.
func (h *Host) ranNow(name, digest string) error {
	file := h.lastFile(name)
	temp := file + ".new"
	if err := os.WriteFile(temp, []byte(digest), 0o600); err != nil {
		return err
	}
	return os.Rename(temp, file)
}

// lastFile returns the path of the file with the digest of the copy of a module that ran last.
func (h *Host) lastFile(name string) string { return filepath.Join(h.opts.Copies, name+lastSuffix) }

const lastSuffix = ".last"

// leaveAll stops the modules that may no longer run. It returns the changed ones that were not
// reported.
func (h *Host) leaveAll() (changes []change) {
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.ready, func(name string, m *module.Module) bool { return !h.mayRun(name, m.Digest) })
	h.retireOthers()
	for name, a := range h.approvals {
		is := h.found[name].module                                                           // nil: missing here, or invalid
		if is != nil && !a.stopped() && is.Digest != a.Digest && h.told[name] != is.Digest { // not a secret: of files
			h.told[name] = is.Digest
			changes = append(changes, change{name, a, is.Digest, a.changed(is.Files)})
		}
	}
	return changes
}

// waiting returns the modules that may run but do not yet.
func (h *Host) waiting() (all []*module.Module) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name := range h.approvals {
		if is := h.found[name].module; is != nil && h.ready[name] == nil && h.mayRun(name, is.Digest) {
			all = append(all, is)
		}
	}
	return all
}

// mayRun reports whether a module may run with the files of a digest. The caller holds the lock.
func (h *Host) mayRun(name, digest string) bool {
	a, ok := h.approvals[name]
	return ok && !a.stopped() && a.Digest == digest && h.found[name].digest() == digest // not a secret: of files
}

// enter copies a module and makes it ready, if it still may run after the copying. The digest is
// written before: a change during the copying, or after a crash, is still recognised as one.
func (h *Host) enter(ctx context.Context, m *module.Module) {
	var ready *module.Module
	err := h.ranNow(m.Name, m.Digest)
	if err == nil {
		ready, err = h.copy(m)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err != nil:
		h.say(ctx, m.Name, err.Error())
	case h.mayRun(m.Name, m.Digest):
		h.say(ctx, m.Name, "")
		h.ready[m.Name], h.told[m.Name] = ready, ""
		h.opts.Log.InfoContext(ctx, "module runs", slog.String("module", m.Name), slog.String("digest", m.Digest))
	}
}

func (f found) digest() string {
	if f.module == nil {
		return ""
	}
	return f.module.Digest
}

// copyOf returns the name of the directory for copies with a digest.
func copyOf(digest string) string { return strings.ReplaceAll(digest, ":", "-") }

// removeOld removes all copies but the ones that ran last. It must run before any program.
func (h *Host) removeOld() error {
	last, err := filepath.Glob(filepath.Join(h.opts.Copies, "*"+lastSuffix))
	keep := map[string]bool{}
	for _, file := range last {
		keep[copyOf(h.ranLast(strings.TrimSuffix(filepath.Base(file), lastSuffix)))] = true
	}
	copies, none := filepath.Glob(filepath.Join(h.opts.Copies, copyOf("sha256:")+"*"))
	err = errors.Join(err, none)
	for _, dir := range copies {
		if !keep[filepath.Base(dir)] {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}
	return err
}

// copy returns the module with a verified copy as its directory.
func (h *Host) copy(m *module.Module) (*module.Module, error) {
	dir := filepath.Join(h.opts.Copies, copyOf(m.Digest), m.Name)
	there, err := module.Open(dir)
	if err == nil && there.Digest == m.Digest { // not a secret: of files
		return there, nil
	}
	if err := os.RemoveAll(dir); err != nil { // the copy is damaged or missing
		return nil, err
	}
	if err := m.CopyTo(dir); err != nil {
		return nil, err
	}
	return module.Open(dir)
}
