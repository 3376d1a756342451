package natsd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
)

// writeFailed marks a log line about a disk error of a stream or a consumer. The server then
// refuses every further write to it until it is restarted; its clients are not informed.
const writeFailed = "critical write error"

// follows reports whether a log line is about a failed write.
func follows(text string) bool {
	return strings.Contains(strings.ToLower(text), writeFailed) || strings.Contains(text, "failed to store a msg")
}

// Intact returns a context that ends when the server can no longer write to its disk. Its cause is
// an error with the server's log line. After Reopen, Intact returns a new context.
func (s *Server) Intact() context.Context { return s.log.Intact() }

// Reopen restarts the server with the same address, logins and data. Clients reconnect by
// themselves. It returns an error if the server does not start, after which it may be called again,
// and an error after Shutdown.
func (s *Server) Reopen(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.New("nats server: shut down")
	}
	s.nats.Shutdown()
	s.nats.WaitForShutdown()
	config, err := s.config()
	if err != nil {
		return err
	}
	if err := s.restore(ctx, config); err != nil {
		return fmt.Errorf("nats server: %w", err)
	}
	return nil
}

// config returns the settings of the server, for one start.
func (s *Server) config() (*server.Options, error) {
	config, err := configure(s.opts)
	if err != nil {
		return nil, err
	}
	if err := s.guard(config, s.opts); err != nil {
		return nil, fmt.Errorf("nats server: %w", err)
	}
	if s.port != 0 { // chosen at the first start
		config.Port = s.port
	}
	return config, nil
}

// share returns three quarters of the disk space that the streams use or may still use; 0 if it is
// unknown. The server's own default counts only free space, so its limit would shrink at each start
// as the streams grow.
func share(dir string) int64 {
	free, err := Free(dir)
	if err != nil {
		return 0
	}
	var used uint64
	err = filepath.WalkDir(filepath.Join(dir, server.JetStreamStoreDir), func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return ignoreMissing(err)
		}
		info, err := d.Info()
		if err == nil {
			used += uint64(max(info.Size(), 0))
		}
		return ignoreMissing(err)
	})
	if err != nil {
		return 0
	}
	return int64((free + used) / 4 * 3) //nolint:gosec // no disk is that large
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// probeSize is the space required before a restart.
const probeSize = 4 << 20

// Probe returns an error unless the disk accepts a new file of a few megabytes, which it writes and
// removes.
func (s *Server) Probe() (err error) {
	file, err := os.CreateTemp(s.opts.StoreDir, ".probe-*")
	if err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	block := make([]byte, 64<<10)
	for written := 0; written < probeSize; written += len(block) {
		if _, err := file.Write(block); err != nil {
			return fmt.Errorf("probe: %w", err)
		}
	}
	if err := file.Sync(); err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	return nil
}
