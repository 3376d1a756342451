// Package keyfile finds, creates and rotates the sealing keys of a server, in a file or a setting.
package keyfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/datadir"
	"github.com/sluice-io/sluice/internal/seal"
)

// maxKeyFile is the number of bytes of a key file that are read.
const maxKeyFile = 64 << 10

// Keys are sealing keys and their source.
type Keys struct {
	Ring *seal.Ring

	from string // description for error messages
	made string // the file, if this start created it
}

// Open returns the configured sealing keys. Without a setting and without a file in the data
// directory, it creates one there.
func Open(cfg config.Config) (Keys, error) {
	k, err := find(cfg)
	if !errors.Is(err, fs.ErrNotExist) || cfg.Secrets.KeyFile != "" {
		return k, err
	}
	file := filepath.Join(cfg.Data, datadir.SecretsKeyFile)
	raw, err := seal.NewKey()
	if err != nil {
		return Keys{}, err
	}
	if err := writeDurably(file, seal.Line(raw, time.Now())); err != nil {
		return Keys{}, fmt.Errorf("create the sealing key: %w", err)
	}
	k, err = find(cfg)
	k.made = file
	return k, err
}

// find returns the existing keys. Errors never contain key material.
func find(cfg config.Config) (Keys, error) {
	if cfg.Secrets.Key != "" {
		const from = "secrets.key (SLUICE_SECRETS_KEY)"
		keys, err := seal.ParseList(cfg.Secrets.Key)
		if err != nil {
			return Keys{}, fmt.Errorf("%s: %w", from, err)
		}
		return ringOf(keys, from)
	}
	file := keyFileOf(cfg)
	content, err := readPrivate(file)
	if errors.Is(err, fs.ErrNotExist) {
		return Keys{}, fmt.Errorf("no sealing key: %w; copy it from another server on the same NATS, or create one: (umask 077; openssl rand -base64 32 > %s)", err, file)
	}
	if err != nil {
		return Keys{}, fmt.Errorf("sealing keys: %w", err)
	}
	keys, err := seal.ParseFile(content)
	if err != nil {
		return Keys{}, fmt.Errorf("%s: %w", file, err)
	}
	return ringOf(keys, file)
}

func ringOf(keys [][]byte, from string) (Keys, error) {
	ring, err := seal.New(keys...)
	if err != nil {
		return Keys{}, fmt.Errorf("%s: %w", from, err)
	}
	return Keys{Ring: ring, from: from}, nil
}

func keyFileOf(cfg config.Config) string {
	if cfg.Secrets.KeyFile != "" {
		return cfg.Secrets.KeyFile
	}
	return filepath.Join(cfg.Data, datadir.SecretsKeyFile)
}

// readPrivate returns the content of a file that must be readable only by its owner.
func readPrivate(file string) (content string, err error) {
	f, err := os.Open(filepath.Clean(file))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("%s is readable by other users (mode %04o): run chmod 600 on it and, if it may have been read, sluice secrets rotate", file, info.Mode().Perm())
	}
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile))
	return string(text), err
}

// Explain adds the remedy to an error about secrets that this server's keys cannot open, and
// removes a key file that this start created, because it is of no use.
func (k Keys) Explain(err error) error {
	locked, ok := errors.AsType[*seal.LockedError](err)
	if !ok {
		return err
	}
	has := fmt.Sprintf("this server has %s, from %s", strings.Join(k.Ring.IDs(), ", "), k.from)
	if k.made != "" {
		has = "this server has none yet"
		err = errors.Join(err, datadir.Remove(k.made))
	}
	return fmt.Errorf("%w (%s). All servers on one NATS need the same keys: copy %s from a working server to this data directory, mode 0600, "+
		"or set the same secrets.key_file or SLUICE_SECRETS_KEY everywhere. Keep a replaced key after the new one until sluice secrets status "+
		"shows no record with it (%d now); a NATS restored from a backup needs the keys of that time", err, has, datadir.SecretsKeyFile, locked.Records)
}

// Rotate atomically adds a new first key to the configured file, and returns the file and
// the key's ID. The server seals with it after its next start.
func Rotate(cfg config.Config) (file, id string, err error) {
	if cfg.Secrets.Key != "" {
		return "", "", errors.New("the keys are set in secrets.key or SLUICE_SECRETS_KEY: add a new one (openssl rand -base64 32) in front, followed by a comma")
	}
	file = keyFileOf(cfg)
	lock := flock.New(file + ".lock")
	if ok, err := lock.TryLock(); err != nil || !ok {
		return "", "", errors.Join(fmt.Errorf("%s is being rotated by another process", file), err)
	}
	defer func() { err = errors.Join(err, datadir.Remove(lock.Path()), lock.Unlock()) }()
	content, err := readPrivate(file)
	if err != nil {
		return "", "", err
	}
	if _, err := seal.ParseFile(content); err != nil {
		return "", "", fmt.Errorf("%s: %w", file, err)
	}
	raw, err := seal.NewKey()
	if err != nil {
		return "", "", err
	}
	return file, seal.ID(raw), writeDurably(file, seal.Line(raw, time.Now())+content)
}

// Check describes the configured keys and their source. An error that is fs.ErrNotExist
// means that the first start will create a key.
func Check(cfg config.Config) (string, error) {
	k, err := find(cfg)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s from %s", k.Ring, k.from), nil
}

// writeDurably atomically replaces a file, and returns when it is on disk. Losing a key means
// losing everything sealed with it.
func writeDurably(file, content string) error {
	temp := file + ".new"
	f, err := os.OpenFile(filepath.Clean(temp), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(content)
	if err = errors.Join(err, f.Chmod(0o600), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(temp, file); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(file))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
