package module

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Limits of a module.
const (
	maxFiles = 20_000
	maxBytes = 512 << 20
)

// Module is a module as Open read it. It is not changed after Open, so goroutines may share it.
type Module struct {
	Name     string // the name of its directory
	Dir      string
	Manifest Manifest
	Files    map[string]File // by path in the module
	Digest   string          // of all files, "sha256:…"
}

// File is one file of a module. Two are equal if all fields are: the owner and the times of a file
// do not count.
type File struct {
	Size       int64  `json:"size"`
	Executable bool   `json:"executable,omitempty"`
	SHA256     string `json:"sha256"` // hex-encoded
}

var validName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

// CheckName returns an error (InvalidRequest) unless the name can be that of a module.
func CheckName(name string) error {
	if !validName.MatchString(name) {
		return sluice.Errorf(sluice.InvalidRequest, "module %q: use 1 to 64 of a-z, 0-9, - and _, and begin with a letter or a digit", name)
	}
	return nil
}

// Open reads the module in a directory. The error is a *Fault if the module is invalid (S4-32). The
// module holds no open files, so it need not be closed. It reads all files, to compute the digest.
// Modules above maxFiles or maxBytes are a *Fault.
func Open(dir string) (*Module, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("module %s: %w", dir, err)
	}
	m := &Module{Name: filepath.Base(dir), Dir: dir}
	if err := CheckName(m.Name); err != nil {
		return nil, &Fault{Reason: err.Error()}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("module %s: %w", m.Name, err)
	}
	defer func() { _ = root.Close() }() // it was only read
	text, err := readManifest(root)
	if err != nil {
		return nil, &Fault{File: ManifestFile, Reason: plain(err)}
	}
	if m.Manifest, err = ParseManifest(text); err != nil {
		return nil, err
	}
	if m.Files, err = scan(root); err != nil {
		return nil, err
	}
	if m.Digest, err = DigestOf(m.Files), m.checkPrograms(); err != nil {
		return nil, err
	}
	if m.Files[ManifestFile].SHA256 != sum(text) {
		return nil, &Fault{File: ManifestFile, Reason: "it changed while it was read"}
	}
	return m, nil
}

// readManifest reads the manifest. Of one that is too large it reads one byte more than the limit.
func readManifest(root *os.Root) (text []byte, err error) {
	f, _, err := openRegular(root, ManifestFile)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return io.ReadAll(io.LimitReader(f, maxManifest+1))
}

func plain(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err.Error()
	}
	return err.Error()
}

// checkPrograms returns a *Fault if a handler's program cannot be run.
func (m *Module) checkPrograms() error {
	for _, h := range m.Manifest.Handlers {
		switch file, ok := m.Files[h.Program]; {
		case h.Mode == Endpoint:
		case !ok:
			return fault(h.Line, "the handler %s is missing", h.Program)
		case !file.Executable:
			return fault(h.Line, "the handler %s is not executable (chmod +x)", h.Program)
		}
	}
	return nil
}

// scan returns the files of a module. A module may contain only directories and regular files,
// because the target of a link can change while the module does not.
func scan(root *os.Root) (map[string]File, error) {
	files, total := map[string]File{}, int64(0)
	err := fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return &Fault{File: path, Reason: plain(err)}
		case d.IsDir():
			return nil
		case !d.Type().IsRegular():
			return &Fault{File: path, Reason: "only directories and regular files are allowed in a module, no links"}
		case len(files) == maxFiles:
			return &Fault{Reason: fmt.Sprintf("more than %d files", maxFiles)}
		}
		file, err := hashed(root, path, maxBytes-total)
		if err != nil {
			return &Fault{File: path, Reason: plain(err)}
		}
		files[path] = file
		total += file.Size
		return nil
	})
	return files, err
}

var errLarge = fmt.Errorf("more than %d MiB in all files", maxBytes>>20)

func hashed(root *os.Root, path string, most int64) (file File, err error) {
	f, info, err := openRegular(root, path)
	if err != nil {
		return file, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	hash := sha256.New()
	if file.Size, err = io.Copy(hash, io.LimitReader(f, most+1)); err != nil {
		return file, err //nolint:wrapcheck // the caller names the file
	}
	if file.Size > most {
		return file, errLarge
	}
	file.Executable, file.SHA256 = info.Mode()&0o100 != 0, hex.EncodeToString(hash.Sum(nil))
	return file, nil
}

// openRegular opens a regular file and refuses others. It opens without blocking: a pipe in the
// file's place would otherwise wait for a writer.
func openRegular(root *os.Root, path string) (*os.File, fs.FileInfo, error) {
	f, err := root.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err //nolint:wrapcheck // the caller names the file
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is no regular file any more")
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

func sum(text []byte) string {
	hash := sha256.Sum256(text)
	return hex.EncodeToString(hash[:])
}

// DigestOf returns the digest of files. It covers their paths, sizes, contents and executable bits.
// A line of the hashed text; the length keeps paths with spaces apart:
//
//	21:events/subscribe.json 213 false 9f86d081…
func DigestOf(files map[string]File) string {
	hash := sha256.New()
	for _, path := range slices.Sorted(maps.Keys(files)) {
		file := files[path]
		_, _ = fmt.Fprintf(hash, "%d:%s %d %t %s\n", len(path), path, file.Size, file.Executable, file.SHA256) // a hash does not fail
	}
	return "sha256:" + hex.EncodeToString(hash.Sum(nil))
}

// Changed returns the sorted paths of files that were changed, removed or added.
func Changed(from, to map[string]File) []string {
	var paths []string
	for path, file := range from {
		if to[path] != file {
			paths = append(paths, path)
		}
	}
	for path := range to {
		if _, ok := from[path]; !ok {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// CopyTo copies the module into a new directory of read-only files. It fails if a file is not the
// one that Open read, so a program that was replaced meanwhile never runs. After an error it leaves
// nothing behind. dir must not exist. The copy appears there complete, by one rename. The mode of
// files is 0444 or 0555, less the umask.
func (m *Module) CopyTo(dir string) (err error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil { //nolint:gosec // programs may run as another user
		return fmt.Errorf("copy of module %s: %w", m.Name, err)
	}
	part, err := os.MkdirTemp(filepath.Dir(dir), ".part-")
	if err != nil {
		return fmt.Errorf("copy of module %s: %w", m.Name, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(part))
		}
	}()
	from, err := os.OpenRoot(m.Dir)
	if err != nil {
		return fmt.Errorf("copy of module %s: %w", m.Name, err)
	}
	defer func() { _ = from.Close() }() // it was only read
	for path, file := range m.Files {
		if err := copyFile(from, path, filepath.Join(part, filepath.FromSlash(path)), file); err != nil {
			return fmt.Errorf("copy of module %s: %s: %w", m.Name, path, err)
		}
	}
	if err := os.Chmod(part, 0o755); err != nil { //nolint:gosec // programs may run as another user
		return fmt.Errorf("copy of module %s: %w", m.Name, err)
	}
	return os.Rename(part, dir)
}

func copyFile(from *os.Root, path, to string, want File) (err error) {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil { //nolint:gosec // programs may run as another user
		return err //nolint:wrapcheck // the caller names the file
	}
	in, _, err := openRegular(from, path)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was only read
	mode := os.FileMode(0o444)
	if want.Executable {
		mode = 0o555
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode) //nolint:gosec // below a new directory
	if err != nil {
		return err //nolint:wrapcheck // the caller names the file
	}
	hash := sha256.New()
	n, err := io.Copy(io.MultiWriter(out, hash), io.LimitReader(in, want.Size+1))
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	if n != want.Size || hex.EncodeToString(hash.Sum(nil)) != want.SHA256 {
		return errors.New("it changed while it was copied")
	}
	return nil
}
