package app

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
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/seal"
)

// SecretsKeyFile is the default file of sealing keys in the data directory.
const SecretsKeyFile = "secrets.key"

// maxKeyFile limits how much of a key file is read.
const maxKeyFile = 64 << 10

// sealing holds the sealing keys and their source.
type sealing struct {
	ring *seal.Ring
	from string // description for error messages
	made string // the file, if this start created it
}

// openSealing returns the configured sealing keys. Without a setting and without a file in the data
// directory, it creates one there.
func openSealing(cfg config.Config) (sealing, error) {
	s, err := findSealing(cfg)
	if !errors.Is(err, fs.ErrNotExist) || cfg.Secrets.KeyFile != "" {
		return s, err
	}
	file := filepath.Join(cfg.Data, SecretsKeyFile)
	raw, err := seal.NewKey()
	if err != nil {
		return sealing{}, err
	}
	if err := writeDurably(file, seal.Line(raw, time.Now())); err != nil {
		return sealing{}, fmt.Errorf("create the sealing key: %w", err)
	}
	s, err = findSealing(cfg)
	s.made = file
	return s, err
}

// findSealing returns the existing keys. Errors never contain key material.
func findSealing(cfg config.Config) (sealing, error) {
	if cfg.Secrets.Key != "" {
		const from = "secrets.key (SLUICE_SECRETS_KEY)"
		keys, err := seal.ParseList(cfg.Secrets.Key)
		if err != nil {
			return sealing{}, fmt.Errorf("%s: %w", from, err)
		}
		return ringOf(keys, from)
	}
	file := keyFileOf(cfg)
	content, err := readPrivate(file)
	if errors.Is(err, fs.ErrNotExist) {
		return sealing{}, fmt.Errorf("no sealing key: %w; copy it from another server on the same NATS, or create one: (umask 077; openssl rand -base64 32 > %s)", err, file)
	}
	if err != nil {
		return sealing{}, fmt.Errorf("sealing keys: %w", err)
	}
	keys, err := seal.ParseFile(content)
	if err != nil {
		return sealing{}, fmt.Errorf("%s: %w", file, err)
	}
	return ringOf(keys, file)
}

func ringOf(keys [][]byte, from string) (sealing, error) {
	ring, err := seal.New(keys...)
	if err != nil {
		return sealing{}, fmt.Errorf("%s: %w", from, err)
	}
	return sealing{ring: ring, from: from}, nil
}

func keyFileOf(cfg config.Config) string {
	if cfg.Secrets.KeyFile != "" {
		return cfg.Secrets.KeyFile
	}
	return filepath.Join(cfg.Data, SecretsKeyFile)
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

// explain adds the remedy for secrets that this server's keys cannot open, and removes a key that
// was created in vain.
func (s sealing) explain(err error) error {
	locked, ok := errors.AsType[*natsstore.LockedError](err)
	if !ok {
		return err
	}
	has := fmt.Sprintf("this server has %s, from %s", strings.Join(s.ring.IDs(), ", "), s.from)
	if s.made != "" {
		has = "this server has none yet"
		err = errors.Join(err, removeIfThere(s.made))
	}
	return fmt.Errorf("%w (%s). All servers on one NATS need the same keys: copy %s from a working server to this data directory, mode 0600, "+
		"or set the same secrets.key_file or SLUICE_SECRETS_KEY everywhere. Keep a replaced key after the new one until sluice secrets status "+
		"shows no record with it (%d now); a NATS restored from a backup needs the keys of that time", err, has, SecretsKeyFile, locked.Records)
}

// RotateSecretsKey atomically adds a new first key to the configured file, and returns the file and
// the key's ID. The server seals with it after its next start.
func RotateSecretsKey(cfg config.Config) (file, id string, err error) {
	if cfg.Secrets.Key != "" {
		return "", "", errors.New("the keys are set in secrets.key or SLUICE_SECRETS_KEY: add a new one (openssl rand -base64 32) in front, followed by a comma")
	}
	file = keyFileOf(cfg)
	lock := flock.New(file + ".lock")
	if ok, err := lock.TryLock(); err != nil || !ok {
		return "", "", errors.Join(fmt.Errorf("%s is being rotated by another process", file), err)
	}
	defer func() { err = errors.Join(err, removeIfThere(lock.Path()), lock.Unlock()) }()
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

// CheckSecrets describes the configured keys and their source. An error that is fs.ErrNotExist
// means that the first start will create a key.
func CheckSecrets(cfg config.Config) (string, error) {
	s, err := findSealing(cfg)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s from %s", s.ring, s.from), nil
}

// writeDurably atomically replaces a file, and returns when it is on disk: losing a key means
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
