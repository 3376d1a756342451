package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	namespace    = "default"
	consumerName = "bench" // of both systems: Sluice's is named after its subscription

	stopLimit = 15 * time.Second // for a process to end by itself
)

// process is a system that runs.
type process struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer
	ended  chan struct{}
	err    error // set when ended is closed

	nats string // where events are published to
}

// startLoop starts the bare loop.
func startLoop(ctx context.Context, dir, sync, hook string, window int) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	spec, err := json.Marshal(loop{Data: dir, Sync: sync, URL: hook, Window: window})
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self) //nolint:gosec // ourselves
	cmd.Env = append(environ(), loopEnv+"="+string(spec))
	p, _, err := launch(ctx, cmd, dir)
	return p, err
}

// starter returns what starts Sluice with one subscription.
func starter(binary string) func(ctx context.Context, dir, sync, hook string, window int) (*process, error) {
	return func(ctx context.Context, dir, sync, hook string, window int) (*process, error) {
		cmd := exec.CommandContext(ctx, binary, "serve", "--dev", "--data", dir, "--http", "127.0.0.1:0", //nolint:gosec // that is the purpose
			"--nats-listen", "127.0.0.1:0", "--sync", sync, "--log-level", "warn")
		cmd.Env = environ()
		p, at, err := launch(ctx, cmd, dir)
		if err != nil {
			return nil, err
		}
		if err := subscribe(ctx, dir, at.HTTP, hook, window); err != nil {
			return nil, errors.Join(fmt.Errorf("subscribe: %w", err), p.stop())
		}
		return p, nil
	}
}

// environ returns the environment without settings for Sluice.
func environ() []string {
	var kept []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "SLUICE_") {
			kept = append(kept, v)
		}
	}
	return kept
}

func subscribe(ctx context.Context, dir, url, hook string, window int) error {
	token, err := os.ReadFile(filepath.Join(dir, "root.token")) //nolint:gosec // of the server that was started
	if err != nil {
		return err
	}
	api := client.New(url, strings.TrimSpace(string(token)))
	defer api.HTTP.CloseIdleConnections()
	_, _, err = api.CreateSubscription(ctx, map[string]any{
		"id": consumerName, "namespace": namespace, "mode": sluice.Push, "pattern": "/bench/*",
		"endpoint": map[string]any{"url": hook}, "policy": map[string]any{"window": window},
	})
	return err
}

// addresses is the file that both systems write when they are ready.
type addresses struct {
	HTTP string `json:"http"`
	NATS string `json:"nats"`
}

const addressesFile = "addresses.json"

func writeAddresses(dir string, at addresses) error {
	data, err := json.Marshal(at)
	if err != nil {
		return err
	}
	file := filepath.Join(dir, addressesFile)
	if err := os.WriteFile(file+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// launch starts a process and returns when it is ready.
func launch(ctx context.Context, cmd *exec.Cmd, dir string) (*process, addresses, error) {
	p := &process{cmd: cmd, ended: make(chan struct{})}
	cmd.Stderr = &p.stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopLimit
	if err := cmd.Start(); err != nil {
		return nil, addresses{}, err
	}
	go func() { // ends with the process
		p.err = cmd.Wait()
		close(p.ended)
	}()
	var at addresses
	err := poll(ctx, func() (bool, error) {
		select {
		case <-p.ended:
			return false, errors.New("it ended before it was ready")
		default:
		}
		data, err := os.ReadFile(filepath.Join(dir, addressesFile)) //nolint:gosec // of the server that was started
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		if err == nil {
			err = json.Unmarshal(data, &at)
		}
		return true, err
	})
	if err != nil {
		return nil, addresses{}, errors.Join(err, p.stop())
	}
	p.nats = at.NATS
	return p, at, nil
}

// stop ends the process and waits for it. Returns an error, and what it had to complain of, if
// it did not end well.
func (p *process) stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-p.ended:
	case <-time.After(stopLimit):
		_ = p.cmd.Process.Kill() // it may have ended
		<-p.ended
	}
	if p.err != nil {
		return fmt.Errorf("%w\n%s", p.err, p.stderr.String())
	}
	return nil
}

// poll calls done until it returns true or an error, or ctx ends.
func poll(ctx context.Context, done func() (bool, error)) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}
