package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/backup"
	"github.com/sluice-io/sluice/internal/shutdown"
)

// KeptFiles returns the files of a data directory that belong to a backup: with them the server is the same one again.
func KeptFiles() []string { return []string{SecretsKeyFile, RootTokenFile} }

// Backup writes all that is stored into a directory, which is new or empty. The server has to be stopped: of the embedded
// NATS the data directory is locked, and with another NATS no server may hold a lease.
func Backup(ctx context.Context, cfg config.Config, dir string, opts backup.Options, with Options) (m backup.Manifest, err error) {
	if _, err := os.Stat(filepath.Join(cfg.Data, "nats")); cfg.NATS.Embedded() && errors.Is(err, fs.ErrNotExist) {
		return m, fmt.Errorf("data directory %s has nothing to back up; name another one with --data", cfg.Data)
	}
	s, err := openStored(ctx, cfg, with)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, s.close(context.WithoutCancel(ctx))) }()
	opts.Data, opts.Now, opts.Version = cfg.Data, time.Now(), with.Version
	return backup.Write(ctx, s.store, dir, opts)
}

// Restore makes all that a backup has in a store that has nothing of Sluice, after it has checked every file of it.
func Restore(ctx context.Context, cfg config.Config, dir string, opts backup.Options, with Options) (m backup.Manifest, err error) {
	if m, err = backup.Open(ctx, dir, nil); err != nil {
		return m, err
	}
	if err := prepareData(cfg.Data); err != nil {
		return m, err
	}
	s, err := openStored(ctx, cfg, with)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, s.close(context.WithoutCancel(ctx))) }()
	if err := backup.Vacant(ctx, s.store); err != nil {
		return m, err
	}
	if err := m.RestoreKeys(dir, cfg.Data); err != nil {
		return m, err
	}
	return m, m.Restore(ctx, s.store, dir, opts)
}

// openStored opens the store as a server does, without anything that works on it. The embedded NATS listens nowhere.
func openStored(ctx context.Context, cfg config.Config, opts Options) (s *server, err error) {
	if cfg.NATS.Embedded() {
		cfg.NATS.Listen = "none"
	}
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	s = &server{cfg: cfg, opts: opts, deadline: shutdown.New(ctx, cfg.ShutdownGrace.Std())}
	limit, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	if err = s.openNATS(limit); err == nil {
		err = s.connectStore(limit)
	}
	if err != nil {
		return nil, errors.Join(err, s.close(context.WithoutCancel(ctx)))
	}
	return s, nil
}
