package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluice-io/sluice/internal/datadir"
	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// madeByUs is the prefix of the description of contexts that this command wrote and may overwrite.
const madeByUs = "Sluice, data in "

// natsContextCmd writes a context of the nats command.
type natsContextCmd struct {
	Name string `arg:"" optional:"" help:"Name of the context." default:"sluice"`
}

// natsContext is the nats command's form of a context.
type natsContext struct {
	Description string `json:"description"`
	URL         string `json:"url"`
	NKey        string `json:"nkey"` // a file; "" if no login is needed
	Domain      string `json:"jetstream_domain,omitempty"`
}

// Run writes the context. It writes the file nats/context/NAME.json of the user's configuration,
// which refers to the login file of the data directory and contains no secret. It overwrites
// contexts of its own only.
func (c *natsContextCmd) Run(s *terminal.Session) error {
	if err := terminal.CheckContextName(c.Name); err != nil {
		return err
	}
	made, prefix, err := natsContextOf(s)
	if err != nil {
		return err
	}
	file, err := natsContextFile(s, c.Name)
	if err != nil {
		return err
	}
	if err := writeContext(file, made); err != nil {
		return err
	}
	return s.Show(map[string]any{"file": file, "context": made, "prefix": prefix}, func() error {
		names := streams.Prefixed(prefix)
		return s.Say("Wrote %s. Use it with: nats --context %s stream info %s\nEvents are published to %s<namespace>.<path>.",
			file, c.Name, names.EventsStream(sluice.DefaultNamespace), names.EventsPrefix())
	})
}

// natsContextOf returns a context for the NATS of the server on this machine, with the login if
// NATS is embedded, and the prefix of the server's names. It returns an error if no server runs on
// the data directory, or if its NATS has no listener.
func natsContextOf(s *terminal.Session) (made natsContext, prefix string, err error) {
	dir, err := s.DataDir()
	if err != nil {
		return made, "", err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return made, "", err
	}
	addresses, err := terminal.ReadAddresses(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return made, "", fmt.Errorf("no server is running on %s; start one with sluice serve", dir)
	case err != nil:
		return made, "", err
	case addresses.NATS == "":
		return made, "", errors.New("the server's NATS has no listener; set nats.listen")
	}
	made = natsContext{Description: madeByUs + dir, URL: addresses.NATS, Domain: addresses.Domain}
	if addresses.Prefix != "" {
		made.Description += ", prefix " + addresses.Prefix
	}
	if key := filepath.Join(dir, datadir.NATSLoginFile); exists(key) {
		made.NKey = key
	}
	return made, addresses.Prefix, nil
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// natsContextFile returns the nats command's file for a context. It is in $XDG_CONFIG_HOME, else in
// $HOME/.config, on every system, as the nats command looks for it.
func natsContextFile(s *terminal.Session, name string) (string, error) {
	parent := s.Getenv("XDG_CONFIG_HOME")
	if parent == "" {
		home := s.Getenv("HOME")
		if home == "" {
			return "", errors.New("set HOME or XDG_CONFIG_HOME: it holds the contexts of the nats command")
		}
		parent = filepath.Join(home, ".config")
	}
	return filepath.Join(parent, "nats", "context", name+".json"), nil
}

// writeContext writes a context, unless another program wrote the existing file.
func writeContext(file string, made natsContext) error {
	old, err := os.ReadFile(file) //nolint:gosec // a file of the caller's own
	if err == nil {
		var there natsContext
		if json.Unmarshal(old, &there) != nil || !strings.HasPrefix(there.Description, madeByUs) {
			return fmt.Errorf("%s is not a Sluice context; choose another name", file)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the context: %w", err)
	}
	text, err := json.MarshalIndent(made, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("create the directory of contexts: %w", err)
	}
	if err := os.WriteFile(file, append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("write the context: %w", err)
	}
	return nil
}
