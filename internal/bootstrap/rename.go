package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/sluice-io/sluice/internal/backup"
	"github.com/sluice-io/sluice/internal/natsd"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/streamstore"
	"github.com/sluice-io/sluice/streams"
)

// scratchSync is how often the NATS server of a renaming syncs its data, which is discarded.
const scratchSync = "1h"

// scratchPayload is the max_payload of the NATS server of a renaming, in bytes: the maximum that NATS
// documents. The server refuses to restore larger messages, and the backup may be of one that
// accepts more than the default.
const scratchPayload = 64 << 20

// renamedDir is the directory of the renamed backup, in the scratch directory of a renaming.
const renamedDir = "backup"

// withPrefix calls restore with a backup whose streams have the prefix of the store, and with its
// directory. That is the backup itself, or a renamed copy, which withPrefix removes afterwards.
// NATS restores streams only under their old names, which another program may use, so the streams
// are restored and renamed in a separate NATS server.
func (b *Base) withPrefix(ctx context.Context, m backup.Manifest, dir string, restore func(m backup.Manifest, dir string) error) (err error) {
	if m.Prefix == b.cfg.NATS.Prefix {
		return restore(m, dir)
	}
	scratch, err := os.MkdirTemp(b.cfg.Data, "restore-")
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	renamed, err := b.rename(ctx, m, dir, scratch)
	if err != nil {
		return err
	}
	return restore(renamed, filepath.Join(scratch, renamedDir))
}

// rename restores a backup into a NATS server in a scratch directory, renames its streams, and
// makes a new backup of them.
func (b *Base) rename(ctx context.Context, m backup.Manifest, dir, scratch string) (_ backup.Manifest, err error) {
	server, err := natsd.Start(ctx, natsd.Options{StoreDir: filepath.Join(scratch, "nats"), DontListen: true, Sync: scratchSync, MaxPayload: scratchPayload, Log: b.opts.Log})
	if err != nil {
		return backup.Manifest{}, err
	}
	defer func() { err = errors.Join(err, server.Shutdown()) }()
	store, err := natsstore.Connect(ctx, natsstore.Options{Conn: server, Names: streams.Prefixed(b.cfg.NATS.Prefix), Log: b.opts.Log})
	if err != nil {
		return backup.Manifest{}, err
	}
	defer store.Close()
	all := streamstore.New(store)
	if err := m.Restore(ctx, all, dir, backup.Options{}); err != nil {
		return backup.Manifest{}, err
	}
	for _, s := range m.Streams {
		state, err := all.RenameStream(ctx, streams.Prefixed(m.Prefix), s.Name)
		if err != nil {
			return backup.Manifest{}, err
		}
		if !s.Holds(state) {
			return backup.Manifest{}, fmt.Errorf("rename %s: the stream holds %+v, the backup %+v", s.Name, state, s.State)
		}
	}
	return backup.Write(ctx, all, filepath.Join(scratch, renamedDir), backup.Options{Version: b.opts.Version, Prefix: b.cfg.NATS.Prefix, Now: time.Now()})
}
