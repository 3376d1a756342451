package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/backup"
	"github.com/sluice-io/sluice/internal/datadir"
	"github.com/sluice-io/sluice/internal/natsstore/streamstore"
)

// Backup writes the whole store to a directory, which must be new or empty. The server must be
// stopped: the data directory of an embedded NATS is locked, and with an external NATS no server
// may hold a lease.
func Backup(ctx context.Context, cfg config.Config, dir string, opts backup.Options, with Options) (m backup.Manifest, err error) {
	if _, err := os.Stat(datadir.NATS(cfg.Data)); cfg.NATS.Embedded() && errors.Is(err, fs.ErrNotExist) {
		return m, fmt.Errorf("data directory %s is empty: nothing to back up; name another one with --data", cfg.Data)
	}
	b, err := openStored(ctx, cfg, with)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, b.Close(context.WithoutCancel(ctx))) }()
	opts.Data, opts.Now, opts.Version, opts.Prefix = cfg.Data, time.Now(), with.Version, cfg.NATS.Prefix
	return backup.Write(ctx, streamstore.New(b.Store), dir, opts)
}

// Restore creates the content of a backup in a store without data of Sluice under its prefix, after
// checking every file of the backup. The backup may have another prefix.
func Restore(ctx context.Context, cfg config.Config, dir string, opts backup.Options, with Options) (m backup.Manifest, err error) {
	if m, err = backup.Open(ctx, dir, nil); err != nil {
		return m, err
	}
	if err := datadir.Prepare(cfg.Data); err != nil {
		return m, err
	}
	b, err := openStored(ctx, cfg, with)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, b.Close(context.WithoutCancel(ctx))) }()
	if err := backup.Vacant(ctx, streamstore.New(b.Store)); err != nil {
		return m, err
	}
	if err := m.RestoreKeys(dir, cfg.Data); err != nil {
		return m, err
	}
	return m, b.withPrefix(ctx, m, dir, func(m backup.Manifest, dir string) error {
		return m.Restore(ctx, streamstore.New(b.Store), dir, opts)
	})
}

// openStored opens the store as a server does, without starting any engine. The embedded NATS has
// no listener.
func openStored(ctx context.Context, cfg config.Config, opts Options) (b *Base, err error) {
	if cfg.NATS.Embedded() {
		cfg.NATS.Listen = "none"
	}
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	b = New(ctx, cfg, opts)
	limit, cancel := context.WithTimeout(ctx, StartLimit)
	defer cancel()
	if err = b.OpenNATS(limit); err == nil {
		err = b.Connect(limit, nil, nil)
	}
	if err != nil {
		return nil, errors.Join(err, b.Close(context.WithoutCancel(ctx)))
	}
	return b, nil
}
