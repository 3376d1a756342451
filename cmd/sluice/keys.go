package main

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/seal/keyfile"
	"github.com/sluice-io/sluice/internal/terminal"
)

// keysCmd manages the server's signing keys.
type keysCmd struct {
	LS     keysLsCmd     `cmd:"" name:"ls" help:"List the server's own keys, without secrets."`
	Rotate keysRotateCmd `cmd:"" help:"Rotate the key of the signature scheme ed25519, or the key that signs bundles."`
}

type keysLsCmd struct{}

// Run lists the keys, the newest of each use first. RETIRES is "-" for a key without an end.
func (keysLsCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	keys, err := api.Keys(ctx)
	if err != nil {
		return err
	}
	return s.Show(keys, func() error {
		rows := make([][]string, len(keys))
		for i, k := range keys {
			rows[i] = []string{k.ID, string(k.Use), terminal.FormatTime(k.CreatedAt), terminal.FormatTimePtr(k.RetiresAt)}
		}
		return s.Table("ID | USE | CREATED | RETIRES", rows)
	})
}

// keysRotateCmd replaces a key. An overlap should exceed the five minutes for which receivers may
// keep the key set.
type keysRotateCmd struct {
	terminal.Confirmation

	Use     string        `help:"Key: webhook for the signature scheme ed25519, bundle for bundles." enum:"webhook,bundle" default:"webhook" placeholder:"USE"`
	Overlap time.Duration `help:"Time during which the old key stays listed, and that for webhooks also signs; 0s: all other keys are deleted." default:"24h"`
}

// Run creates the new key. Repeating it creates another key. An overlap of 0s asks, or requires
// --yes.
func (c *keysRotateCmd) Run(ctx context.Context, s *terminal.Session) error {
	if c.Overlap < 0 {
		return terminal.Usagef("--overlap %s: write a duration, such as 24h", c.Overlap)
	}
	api, err := s.Client()
	if err != nil {
		return err
	}
	if c.Overlap == 0 {
		if err := c.Confirm(s, terminal.Question("Delete all keys except the new one? %s, and the old keys cannot be restored.", c.loss())); err != nil {
			return err
		}
	}
	if c.Use == "bundle" {
		key, err := api.RotateBundleKey(ctx, c.Overlap)
		if err != nil {
			return err
		}
		return s.Show(key, func() error {
			return s.Say("Key %s signs bundles from now on. Bring it to the importers before the next bundle: sluice mirror keys.", key.ID)
		})
	}
	key, err := api.RotateKey(ctx, c.Overlap)
	if err != nil {
		return err
	}
	return s.Show(key, func() error {
		if c.Overlap == 0 {
			return s.Say("Key %s signs from now on; the other keys are deleted. Receivers fetch it from /.well-known/jwks.json.", key.ID)
		}
		return s.Say("Key %s signs from now on; the previous key also signs for %s. Receivers fetch both from /.well-known/jwks.json.", key.ID, c.Overlap)
	})
}

// loss returns the effect of deleting the old keys, as a part of the question.
func (c *keysRotateCmd) loss() string {
	if c.Use == "bundle" {
		return "Importers that do not have it will refuse bundles"
	}
	return "Receivers that have not fetched it will reject requests"
}

// secretsCmd manages the keys that seal secrets in the store.
type secretsCmd struct {
	Status secretsStatusCmd `cmd:"" help:"Show the sealing keys, and how many records depend on each."`
	Rotate secretsRotateCmd `cmd:"" help:"Add a new first key to the key file of this machine's server."`
}

type secretsStatusCmd struct{}

// Run shows the keys. A key can be removed from the file when no record depends on it, on no
// server. "missing" means that the server that answered cannot open the records of the key.
func (secretsStatusCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	status, err := api.Sealing(ctx)
	if err != nil {
		return err
	}
	return s.Show(status, func() error {
		rows := make([][]string, 0, len(status.Keys)+1)
		for _, k := range status.Keys {
			state := "can be removed"
			switch {
			case !k.Known:
				state = "missing on this server"
			case k.Seals:
				state = "seals"
			case k.Records > 0:
				state = "still needed: restart the servers"
			}
			rows = append(rows, []string{k.ID, strconv.Itoa(k.Records), state})
		}
		if status.Plain > 0 {
			rows = append(rows, []string{"none", strconv.Itoa(status.Plain), "not sealed: restart the servers"})
		}
		return s.Table("KEY | RECORDS | STATE", rows)
	})
}

type secretsRotateCmd struct {
	Config string `help:"Configuration file of the server." env:"SLUICE_CONFIG" type:"path" placeholder:"FILE"`
}

// Help explains the next steps.
func (*secretsRotateCmd) Help() string {
	return strings.TrimSpace(`
The new key takes effect at the server's next start, which reseals all records with it. When
sluice secrets status shows no record with the old key, its line can be removed from the file.`)
}

// Run changes the file. It works without a server, on the key file of this machine, which is
// replaced atomically. All servers of one NATS need the same file.
func (c *secretsRotateCmd) Run(s *terminal.Session) error {
	cfg, err := config.Load(c.Config, s.Environ)
	if err != nil {
		return terminal.Usage(err)
	}
	if s.Data != "" {
		cfg.Data = s.Data
	}
	file, id, err := keyfile.Rotate(cfg)
	if err != nil {
		return err
	}
	return s.Show(map[string]string{"file": file, "key": id}, func() error {
		return s.Say("%s has a new key, %s. Restart the server, and keep a copy of the file apart from its backups.", file, id)
	})
}
