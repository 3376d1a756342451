package terminal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	contextSuffix = ".json"
	currentFile   = "current" // has the name of the context in use
)

// Context is a server with the settings that a command needs to use it. Empty fields are not set.
type Context struct {
	Server    string `json:"server"`
	Token     string `json:"token,omitempty"`
	TokenFile string `json:"token_file,omitempty"` // instead of Token; each command reads it
	Namespace string `json:"namespace,omitempty"`  // the default of --ns
	CA        string `json:"ca,omitempty"`
	Cert      string `json:"cert,omitempty"`
	Key       string `json:"key,omitempty"`
}

// BearerToken returns the token of the context; empty if it has none.
func (c Context) BearerToken() (string, error) {
	if c.TokenFile == "" {
		return c.Token, nil
	}
	data, err := os.ReadFile(c.TokenFile)
	if err != nil {
		return "", fmt.Errorf("read the token of the context: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}

// Contexts is the directory of the user's contexts, readable by the user only. Each is the file
// <name>.json; the file current names the one in use. If two commands write at the same time, both
// succeed, and the last one wins.
type Contexts struct{ dir string }

// Contexts returns the contexts of the user. It returns an error if the environment names no
// directory for them.
func (s *Session) Contexts() (Contexts, error) {
	dir, err := s.configDir()
	return Contexts{filepath.Join(dir, "contexts")}, err
}

// ListenSecret returns the secret with which the command listen signs. It generates one secret for
// the user of this machine, or a new one at each call if there is no directory to keep it in. Two
// commands that generate it at the same time can return different secrets, one of which is kept.
func (s *Session) ListenSecret() (string, error) {
	dir, noDir := s.configDir()
	file := filepath.Join(dir, "listen.secret")
	if noDir == nil {
		data, err := os.ReadFile(filepath.Clean(file))
		if secret := strings.TrimSpace(string(data)); err == nil && secret != "" {
			return secret, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("read the secret of listen: %w", err)
		}
	}
	secret, err := sluice.NewSecret()
	if err != nil {
		return "", fmt.Errorf("generate a secret: %w", err)
	}
	if noDir == nil {
		err = Contexts{dir}.write(filepath.Base(file), []byte(secret+"\n"))
	}
	return secret, err
}

// configDir returns the directory for the configuration of this command.
func (s *Session) configDir() (string, error) {
	parent := s.Getenv("XDG_CONFIG_HOME")
	if runtime.GOOS == "windows" && parent == "" {
		parent = s.Getenv("AppData")
	}
	if parent == "" {
		home := s.Getenv("HOME")
		if home == "" {
			return "", errors.New("set HOME or XDG_CONFIG_HOME: it holds the contexts")
		}
		parent = filepath.Join(home, ".config")
	}
	return filepath.Join(parent, "sluice"), nil
}

// Getenv returns a variable of the environment; "" if it is not set. Of several entries, the last
// one counts.
func (s *Session) Getenv(name string) string {
	value := ""
	for _, one := range s.Environ {
		if rest, ok := strings.CutPrefix(one, name+"="); ok {
			value = rest
		}
	}
	return value
}

// CheckContextName returns a usage error unless the text can be a context's name.
func CheckContextName(name string) error {
	if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" {
		return Usagef("context %q: use A-Z, a-z, 0-9, _ and -", name)
	}
	return nil
}

func (c Contexts) file(name string) string { return filepath.Join(c.dir, name+contextSuffix) }

// Names returns the names, sorted.
func (c Contexts) Names() ([]string, error) {
	entries, err := os.ReadDir(c.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the contexts: %w", err)
	}
	var names []string
	for _, entry := range entries {
		if name, ok := strings.CutSuffix(entry.Name(), contextSuffix); ok && !entry.IsDir() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// Get returns a context; code NotFound if there is none of this name. It returns a usage error for
// an invalid name.
func (c Contexts) Get(name string) (Context, error) {
	var found Context
	if err := CheckContextName(name); err != nil {
		return found, err
	}
	data, err := os.ReadFile(c.file(name))
	if errors.Is(err, fs.ErrNotExist) {
		return found, sluice.Errorf(sluice.NotFound, "context %q not found; sluice context ls lists the contexts", name)
	}
	if err != nil {
		return found, fmt.Errorf("read the context: %w", err)
	}
	if err := json.Unmarshal(data, &found); err != nil {
		return found, fmt.Errorf("%s: %w", c.file(name), err)
	}
	return found, nil
}

// Put writes a context. It replaces an existing one. The caller must have checked the name
// (CheckContextName).
func (c Contexts) Put(name string, value Context) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the context: %w", err)
	}
	return c.write(name+contextSuffix, append(text, '\n'))
}

// Remove deletes a context. If it was in use, none is afterwards.
func (c Contexts) Remove(name string) error {
	current, err := c.Current()
	if err == nil && current == name {
		err = c.Use("")
	}
	if err == nil {
		err = os.Remove(c.file(name))
	}
	if err != nil {
		return fmt.Errorf("remove the context: %w", err)
	}
	return nil
}

// Current returns the name of the context in use; empty if there is none.
func (c Contexts) Current() (string, error) {
	data, err := os.ReadFile(filepath.Join(c.dir, currentFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the context in use: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}

// Use makes a context the one in use. An empty name means none. It does not check that the context
// exists.
func (c Contexts) Use(name string) error {
	if name == "" {
		err := os.Remove(filepath.Join(c.dir, currentFile))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("use no context: %w", err)
		}
		return nil
	}
	return c.write(currentFile, []byte(name+"\n"))
}

// write replaces a file atomically. Only the user can read it. Its temporary file is in the same
// directory, and is removed after an error.
func (c Contexts) write(name string, text []byte) error {
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return fmt.Errorf("create the directory of the configuration: %w", err)
	}
	temporary, err := os.CreateTemp(c.dir, name+".*.tmp") // of mode 0600
	if err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	_, err = temporary.Write(text)
	if err = errors.Join(err, temporary.Close()); err == nil {
		err = os.Rename(temporary.Name(), filepath.Join(c.dir, name))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write the configuration: %w", err), os.Remove(temporary.Name()))
	}
	return nil
}
