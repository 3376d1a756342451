package main

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/backup"
	"github.com/sluice-io/sluice/internal/bootstrap"
	"github.com/sluice-io/sluice/internal/datadir"
	"github.com/sluice-io/sluice/internal/terminal"
)

// storeFlags select the store of a command that runs while no server serves the store. They are
// those of serve; the data directory is the global flag --data.
type storeFlags struct {
	Config     string `help:"Configuration file of the server, JSON or YAML." env:"SLUICE_CONFIG" type:"path" placeholder:"FILE"`
	NATS       string `name:"nats" help:"URL of an external NATS server, instead of the embedded one." placeholder:"URL"`
	NATSCreds  string `name:"nats-creds" help:"Credentials file for --nats." type:"path" placeholder:"FILE"`
	NATSPrefix string `name:"nats-prefix" help:"Prefix of all streams, buckets and subjects." placeholder:"PREFIX"`
}

// config returns the settings of the server, with the flags and --data above the environment and
// the file, as serve has them. It returns a usage error if they are invalid.
func (f storeFlags) config(s *terminal.Session) (config.Config, error) {
	cfg, err := config.Load(f.Config, s.Environ)
	if err != nil {
		return cfg, terminal.Usage(err)
	}
	(&serveCmd{NATS: f.NATS, NATSCreds: f.NATSCreds, NATSPrefix: f.NATSPrefix}).apply(&cfg, s.Data)
	if err := cfg.Check(); err != nil {
		return cfg, terminal.Usage(err)
	}
	return cfg, nil
}

// options returns options that show the progress of a backup or restore, and the progress bar. The
// caller closes the bar.
func (f storeFlags) options(s *terminal.Session, what string) (backup.Options, *terminal.Progress) {
	bar := terminal.NewProgress(s, -1)
	bar.What = what
	return backup.Options{Progress: func(done, total int64) {
		bar.Total = total
		bar.Advance(done)
	}}, bar
}

// with returns options without a log: the result is printed instead.
func (f storeFlags) with() bootstrap.Options {
	return bootstrap.Options{Log: slog.New(slog.DiscardHandler), Version: terminal.Version()}
}

// backupCmd writes a backup.
type backupCmd struct {
	Dir         string `arg:"" help:"Target directory; new or empty." type:"path"`
	WithoutKeys bool   `help:"Omit secrets.key and root.token of the data directory; keep them elsewhere."`
	storeFlags
}

// Help describes the command.
func (backupCmd) Help() string {
	return `Writes all streams and buckets of Sluice, the positions of its consumers, and the keys of the
data directory. Stop the server first: records, logs and positions must be consistent.
A backup holds events in plain text and, with the keys, all secrets; only its owner can read it.`
}

// Run writes the backup. It returns an error while a server serves the store, and if the directory
// is not empty. An interrupted backup leaves an incomplete directory that restore refuses.
func (c *backupCmd) Run(ctx context.Context, s *terminal.Session) error {
	cfg, err := c.config(s)
	if err != nil {
		return err
	}
	opts, bar := c.options(s, "backing up")
	if !c.WithoutKeys {
		opts.Keys = datadir.Kept()
	}
	m, err := bootstrap.Backup(ctx, cfg, c.Dir, opts, c.with())
	bar.Close()
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	return s.Show(m, func() error { return describeBackup(s, "Backed up to", c.Dir, m) })
}

// restoreCmd restores a backup.
type restoreCmd struct {
	Dir string `arg:"" help:"Backup directory." type:"existingdir"`
	storeFlags
}

// Help describes the command.
func (restoreCmd) Help() string {
	return `Checks every file of a backup and creates its streams and buckets in a store that has none of
them: a new data directory (--data), or an external NATS (--nats). Then start the server there.
The streams get the prefix of that server (--nats-prefix), also if the backup has another one.`
}

// Run restores the backup. It asks for no confirmation, because it overwrites nothing: a store with
// data of Sluice under the same prefix is refused. All files are checked before the first is
// restored.
func (c *restoreCmd) Run(ctx context.Context, s *terminal.Session) error {
	cfg, err := c.config(s)
	if err != nil {
		return err
	}
	opts, bar := c.options(s, "restoring")
	m, err := bootstrap.Restore(ctx, cfg, c.Dir, opts, c.with())
	bar.Close()
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	return s.Show(m, func() error { return describeBackup(s, "Restored from", c.Dir, m) })
}

func describeBackup(s *terminal.Session, done, dir string, m backup.Manifest) error {
	var messages uint64
	var bytes int64
	for _, stream := range m.Streams {
		messages += stream.State.Messages
		bytes += stream.Bytes
	}
	keys := "without keys"
	if len(m.Keys) > 0 {
		keys = "with keys"
	}
	return s.Say("%s %s: %s streams with %s messages, %s, %s.", done, dir,
		strconv.Itoa(len(m.Streams)), strconv.FormatUint(messages, 10), strconv.FormatInt((bytes+1023)>>10, 10)+" KiB", keys)
}
