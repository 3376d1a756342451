package subscriptioncmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/sluice-io/sluice/internal/terminal"
)

// secretFile is a file for a secret that only its owner can read. It is created before the request,
// because only one response contains the secret.
type secretFile struct {
	file  *os.File // nil: none was requested
	saved bool
}

// newSecretFile creates the file. It returns an error if the file exists, because it may have a
// secret that is in use. Without a name nothing is created, and save and close do nothing. The
// caller must close it.
func newSecretFile(name string) (*secretFile, error) {
	if name == "" {
		return &secretFile{}, nil
	}
	file, err := os.OpenFile(filepath.Clean(name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, terminal.Usagef("--save-secret: %s exists; name another file, or remove it", name)
	}
	if err != nil {
		return nil, fmt.Errorf("--save-secret: %w", err)
	}
	return &secretFile{file: file}, nil
}

// save writes the secret, and reports whether the file has it. The secret is on the disk when save
// returns true. For the empty secret of a subscription that already exists, it returns false.
func (f *secretFile) save(secret string) (bool, error) {
	if f.file == nil || secret == "" {
		return false, nil
	}
	if _, err := f.file.WriteString(secret + "\n"); err != nil {
		return false, fmt.Errorf("--save-secret: %w", err)
	}
	if err := f.file.Sync(); err != nil {
		return false, fmt.Errorf("--save-secret: %w", err)
	}
	f.saved = true
	return true, nil
}

// close closes the file, and removes it if it has no secret.
func (f *secretFile) close() error {
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	if !f.saved {
		err = errors.Join(err, os.Remove(f.file.Name()))
	}
	if err != nil {
		return fmt.Errorf("--save-secret: %w", err)
	}
	return nil
}
