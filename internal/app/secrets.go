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
	"github.com/sluice-io/sluice/internal/vault"
)

// SecretsKeyFile is the file of the data directory with the keys that secrets are sealed with,
// unless the settings name others.
const SecretsKeyFile = "secrets.key"

// maxKeyFile bounds what is read of a file with keys.
const maxKeyFile = 64 << 10

// sealing is the keys that secrets are sealed with, and where they come from.
type sealing struct {
	ring *vault.Ring
	from string // for people
	made string // the file, if this start has made it
}

// openSealing returns the keys that the settings name. If they name none and the data directory
// has none, one is made there.
func openSealing(cfg config.Config) (sealing, error) {
	s, err := findSealing(cfg)
	if !errors.Is(err, fs.ErrNotExist) || cfg.Secrets.KeyFile != "" {
		return s, err
	}
	file := filepath.Join(cfg.Data, SecretsKeyFile)
	raw, err := vault.NewKey()
	if err != nil {
		return sealing{}, err
	}
	if err := writeDurably(file, vault.Line(raw, time.Now())); err != nil {
		return sealing{}, fmt.Errorf("make the key that secrets are sealed with: %w", err)
	}
	s, err = findSealing(cfg)
	s.made = file
	return s, err
}

// findSealing returns the keys that are there. No error has anything of a key in it.
func findSealing(cfg config.Config) (sealing, error) {
	if cfg.Secrets.Key != "" {
		const from = "secrets.key (SLUICE_SECRETS_KEY)"
		keys, err := vault.ParseList(cfg.Secrets.Key)
		if err != nil {
			return sealing{}, fmt.Errorf("%s: %w", from, err)
		}
		return ringOf(keys, from)
	}
	file := keyFileOf(cfg)
	content, err := readPrivate(file)
	if errors.Is(err, fs.ErrNotExist) {
		return sealing{}, fmt.Errorf("there is no key that secrets are sealed with: %w; copy the one of another server on the same NATS there, or make one: (umask 077; openssl rand -base64 32 > %s)", err, file)
	}
	if err != nil {
		return sealing{}, fmt.Errorf("the keys that secrets are sealed with: %w", err)
	}
	keys, err := vault.ParseFile(content)
	if err != nil {
		return sealing{}, fmt.Errorf("%s: %w", file, err)
	}
	return ringOf(keys, file)
}

func ringOf(keys [][]byte, from string) (sealing, error) {
	ring, err := vault.New(keys...)
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

// readPrivate returns the content of a file that nobody but its owner may read.
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
		return "", fmt.Errorf("%s can be read by others (mode %04o): chmod 600 it, and if they may have read it, sluice secrets rotate", file, info.Mode().Perm())
	}
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile))
	return string(text), err
}

// explain says what to do about secrets that this server's keys do not open, and removes a key
// that was made in vain.
func (s sealing) explain(err error) error {
	locked, ok := errors.AsType[*natsstore.LockedError](err)
	if !ok {
		return err
	}
	has := fmt.Sprintf("it has %s, from %s", strings.Join(s.ring.IDs(), ", "), s.from)
	if s.made != "" {
		has = "it has none yet"
		err = errors.Join(err, removeIfThere(s.made))
	}
	return fmt.Errorf("%w (%s). All servers on one NATS need the same keys: copy %s from one that works to this one's data directory, mode 0600, "+
		"or set secrets.key_file or SLUICE_SECRETS_KEY alike everywhere. A key that was replaced stays behind the new one until sluice secrets status "+
		"shows no record with it (%d now); a NATS that was restored from a backup needs the key of its time", err, has, SecretsKeyFile, locked.Records)
}

// RotateSecretsKey puts a new key in front of the file that the settings name, in one step, and
// returns the file and the key's id. The server seals with it after its next start.
func RotateSecretsKey(cfg config.Config) (file, id string, err error) {
	if cfg.Secrets.Key != "" {
		return "", "", errors.New("the keys are in secrets.key or SLUICE_SECRETS_KEY: put a new one (openssl rand -base64 32) in front there, with a comma")
	}
	file = keyFileOf(cfg)
	lock := flock.New(file + ".lock")
	if ok, err := lock.TryLock(); err != nil || !ok {
		return "", "", errors.Join(fmt.Errorf("%s is being rotated by somebody else", file), err)
	}
	defer func() { err = errors.Join(err, removeIfThere(lock.Path()), lock.Unlock()) }()
	content, err := readPrivate(file)
	if err != nil {
		return "", "", err
	}
	if _, err := vault.ParseFile(content); err != nil {
		return "", "", fmt.Errorf("%s: %w", file, err)
	}
	raw, err := vault.NewKey()
	if err != nil {
		return "", "", err
	}
	return file, vault.ID(raw), writeDurably(file, vault.Line(raw, time.Now())+content)
}

// CheckSecrets returns which keys the settings name and where they are, for people. An error
// that is fs.ErrNotExist says that the first start will make one.
func CheckSecrets(cfg config.Config) (string, error) {
	s, err := findSealing(cfg)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s from %s", s.ring, s.from), nil
}

// writeDurably replaces a file in one step, and returns when it is on the disk: whatever is
// sealed with a key that is lost is lost too.
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
