package app

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"
)

// Files of the data directory that other programs may rely on (03-api, "Access" and "Command
// line").
const (
	RootTokenFile = "root.token"
	AddressesFile = "addresses.json"
	NATSLoginFile = "nats.nk" // the seed of an nkey; only if the embedded NATS has no named users
	replicaFile   = "replica.id"
)

// Addresses are the addresses of a running server.
type Addresses struct {
	HTTP string `json:"http"`
	NATS string `json:"nats"` // "" if its NATS has no listener
}

// prepareData creates the data directory and checks that it is writable.
func prepareData(dir string) error {
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

// tryOut creates a file and removes it.
func tryOut(file string) error {
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return err
	}
	return removeIfThere(file)
}

// rootToken returns the data directory's root token; the first call generates it.
func rootToken(dir string) (string, error) {
	return keep(filepath.Join(dir, RootTokenFile), func() (string, error) {
		raw := make([]byte, 32)
		if _, err := rand.Read(raw); err != nil {
			return "", fmt.Errorf("generate a root token: %w", err)
		}
		return "root_" + base64.RawURLEncoding.EncodeToString(raw), nil
	})
}

// replicaID returns the name under which this data directory's server holds leases.
func replicaID(dir string) (string, error) {
	return keep(filepath.Join(dir, replicaFile), func() (string, error) { return uuid.NewString(), nil })
}

// keep returns a file's content, which the first call produces; only its owner can read the file.
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

func removeIfThere(file string) error {
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func writeAddresses(file string, a Addresses) error {
	content, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("addresses: %w", err)
	}
	return write(file, string(content)+"\n")
}

// withoutLogin returns the URLs of NATS servers without users, passwords and tokens.
func withoutLogin(urls string) string {
	var bare []string
	for one := range strings.SplitSeq(urls, ",") {
		u, err := url.Parse(strings.TrimSpace(one))
		if err != nil {
			continue // the settings were validated; an invalid URL is not shown
		}
		u.User = nil
		bare = append(bare, u.String())
	}
	return strings.Join(bare, ",")
}
