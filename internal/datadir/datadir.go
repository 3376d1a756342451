// Package datadir reads and writes the files in a data directory that a server keeps for itself and
// for other programs on its machine.
package datadir

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
	"github.com/google/uuid"
)

// Files of the data directory that other programs may rely on.
const (
	RootTokenFile  = "root.token"
	AddressesFile  = "addresses.json"
	NATSLoginFile  = "nats.nk"     // the seed of an nkey; only if the embedded NATS has no named users
	SecretsKeyFile = "secrets.key" // the default file of sealing keys
	replicaFile    = "replica.id"
	lockFile       = "sluice.lock"
	natsDir        = "nats"
)

// Kept returns the files that belong to a backup and preserve the server's identity.
func Kept() []string { return []string{SecretsKeyFile, RootTokenFile} }

// NATS returns the directory in which an embedded server stores its data.
func NATS(dir string) string { return filepath.Join(dir, natsDir) }

// Addresses are the addresses of a running server.
type Addresses struct {
	HTTP string `json:"http"`
	NATS string `json:"nats"` // "" if its NATS has no listener

	Prefix string `json:"prefix,omitempty"` // of its streams, buckets and subjects (nats.prefix)
	Domain string `json:"domain,omitempty"` // JetStream domain of these (nats.domain)
}

// Prepare creates the data directory and checks that it is writable.
func Prepare(dir string) error {
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = tryOut(filepath.Join(dir, ".writable"))
	}
	if err == nil {
		return nil
	}
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	return fmt.Errorf("data directory %s is not writable: %w; choose another one with --data or SLUICE_DATA", dir, err)
}

// tryOut creates and removes a file, to check that the directory is writable.
func tryOut(file string) error {
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return err
	}
	return Remove(file)
}

// Lock locks a data directory. A directory with an embedded NATS server does not need it, because
// that server has a lock of its own.
func Lock(dir string) (*flock.Flock, error) {
	lock := flock.New(filepath.Join(dir, lockFile))
	ok, err := lock.TryLock()
	if err == nil && !ok {
		err = errors.New("in use by another process; choose another one with --data")
	}
	if err != nil {
		return nil, fmt.Errorf("data directory %s: %w", dir, err)
	}
	return lock, nil
}

// RootToken returns the data directory's root token; the first call generates it.
func RootToken(dir string) (string, error) {
	return keep(filepath.Join(dir, RootTokenFile), func() (string, error) {
		raw := make([]byte, 32)
		if _, err := rand.Read(raw); err != nil {
			return "", fmt.Errorf("generate a root token: %w", err)
		}
		return "root_" + base64.RawURLEncoding.EncodeToString(raw), nil
	})
}

// ReplicaID returns the name under which this data directory's server holds leases.
func ReplicaID(dir string) (string, error) {
	return keep(filepath.Join(dir, replicaFile), func() (string, error) { return uuid.NewString(), nil })
}

// keep returns a file's content, and writes the file if it is missing or empty. Only its owner can
// read the file.
func keep(file string, produce func() (string, error)) (string, error) {
	content, err := os.ReadFile(file) //nolint:gosec // in the data directory that the operator chose
	if err == nil && len(strings.TrimSpace(string(content))) > 0 {
		return strings.TrimSpace(string(content)), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	text, err := produce()
	if err != nil {
		return "", err
	}
	return text, write(file, text+"\n")
}

// write replaces a file atomically.
func write(file, content string) error {
	temp := file + ".new"
	if err := os.WriteFile(temp, []byte(content), 0o600); err != nil {
		return err
	}
	return os.Rename(temp, file)
}

// Remove removes a file. It returns nil if the file does not exist.
func Remove(file string) error {
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// NATSLogin returns the seed in NATSLoginFile, which the first call generates, and the file.
func NATSLogin(dir string, generate func() (string, error)) (seed, file string, err error) {
	file = filepath.Join(dir, NATSLoginFile)
	seed, err = keep(file, generate)
	return seed, file, err
}

// WriteAddresses writes AddressesFile, for other programs on this machine.
func WriteAddresses(dir string, a Addresses) error {
	content, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("addresses: %w", err)
	}
	return write(filepath.Join(dir, AddressesFile), string(content)+"\n")
}

// RemoveAddresses removes AddressesFile.
func RemoveAddresses(dir string) error { return Remove(filepath.Join(dir, AddressesFile)) }
