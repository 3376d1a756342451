package host

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/sluice-io/sluice/internal/module"
)

const (
	// maxModules limits the modules that a server loads.
	maxModules = 1000
	// share bounds the time that scans take: at most a twentieth of the whole.
	share = 20
	// fresh is the maximum age of a scan that a list of the modules uses without another scan. The
	// age is less if share scans take less time.
	fresh = time.Second
)

// Run scans the directories until the context is done. It returns nil. Scans take at most a
// twentieth of the time, however large the modules are.
func (h *Host) Run(ctx context.Context) error {
	if len(h.opts.Dirs) == 0 {
		<-ctx.Done()
		return nil
	}
	for {
		began := time.Now()
		h.Look(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(max(h.opts.Every, share*time.Since(began))):
		}
	}
}

// Look scans the directories, and reads the modules that have changed since the last scan. One scan
// runs at a time; further callers wait for it, and then scan again.
func (h *Host) Look(ctx context.Context) {
	h.looking.Lock()
	began := time.Now()
	seen := h.directories(ctx)
	h.mu.Lock()
	maps.DeleteFunc(h.found, func(name string, _ found) bool { return seen[name] == "" })
	h.mu.Unlock()
	for name, dir := range seen {
		h.read(ctx, name, dir)
	}
	h.looked = time.Now()
	h.lasted = h.looked.Sub(began)
	h.looking.Unlock()
	h.settle(ctx)
}

// Refresh scans the directories unless the last scan is fresh.
func (h *Host) Refresh(ctx context.Context) {
	h.looking.Lock()
	recent := time.Since(h.looked) < min(fresh, share*h.lasted)
	h.looking.Unlock()
	if !recent {
		h.Look(ctx)
	}
}

// LookAt reads one module if it has changed since the last scan.
func (h *Host) LookAt(ctx context.Context, name string) {
	if module.CheckName(name) != nil { // it is no module's name, and may be a path
		return
	}
	h.looking.Lock()
	dir := ""
	for _, in := range h.opts.Dirs {
		if path := filepath.Join(in, name); dir == "" && isModule(path) {
			dir = path
		}
	}
	h.mu.Lock()
	_, known := h.found[name]
	full := len(h.found) >= maxModules
	if dir == "" {
		delete(h.found, name)
	}
	h.mu.Unlock()
	if dir != "" && (known || !full) {
		h.read(ctx, name, dir)
	}
	h.looking.Unlock()
	h.settle(ctx)
}

// directories returns the directories of modules, by name, up to maxModules. If several have the
// same name, the first one counts.
func (h *Host) directories(ctx context.Context) map[string]string {
	seen, more := map[string]string{}, 0
	for _, dir := range h.opts.Dirs {
		entries, err := os.ReadDir(dir)
		h.sayUnreadable(ctx, dir, err)
		for _, entry := range entries {
			path := filepath.Join(dir, entry.Name())
			switch {
			case seen[entry.Name()] != "" || !isModule(path):
			case len(seen) == maxModules:
				more++
			default:
				seen[entry.Name()] = path
			}
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	reason := ""
	if more > 0 {
		reason = fmt.Sprintf("%d modules in modules.dirs are too many: the first %d, by name, are loaded", len(seen)+more, maxModules)
	}
	h.say(ctx, "", reason)
	return seen
}

func isModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, module.ManifestFile))
	return err == nil
}

// read reads a module unless its fingerprint is unchanged.
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

// say logs why a module is not loaded, once. The caller holds the lock.
func (h *Host) say(ctx context.Context, name, reason string) {
	if h.said[name] == reason {
		return
	}
	h.said[name] = reason
	if reason != "" {
		h.opts.Log.WarnContext(ctx, "module not loaded", slog.String("module", name), slog.String("reason", reason))
	}
}

// sayUnreadable logs once why a directory of modules is not readable. A nil error means that it is
// readable.
func (h *Host) sayUnreadable(ctx context.Context, dir string, err error) {
	reason := ""
	if err != nil {
		reason = err.Error()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	key := dir + string(filepath.Separator) // no module has such a name
	if reason != "" && h.said[key] != reason {
		h.opts.Log.WarnContext(ctx, "directory of modules not readable", slog.String("dir", dir), slog.Any("error", err))
	}
	h.said[key] = reason
}

// fingerprint returns a text that changes when files of a directory change. It reads no contents.
// It is "" if the directory is not readable. A file that is changed without a change of its size,
// mode, inode and modification time is not noticed; the copy that runs stays the approved one all
// the same.
func fingerprint(dir string) string {
	sum := sha256.New()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && !d.IsDir() {
			_, err = sum.Write([]byte(path + " " + info.Mode().String() + " " + info.ModTime().Format(time.RFC3339Nano) + " " + inode(info) + "\n"))
		}
		return err
	})
	if err != nil {
		return ""
	}
	return string(sum.Sum(nil))
}
