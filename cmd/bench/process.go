package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	namespace    = "default"
	consumerName = "bench" // of both systems: Sluice's is named after its subscription

	stopLimit = time.Minute // for a process to end by itself
)

// process is a running system. It ends with its ctx, by SIGTERM, and after stopLimit by SIGKILL.
// Call stop in any case.
type process struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer
	ended  chan struct{}
	err    error // set when ended is closed

	nats string // address for publishing
	http string // host and port of the API; empty: it has none
}

// startLoop starts the bare loop.
func startLoop(ctx context.Context, dir, sync, hook string, window int) (*process, error) {
	return loop{Data: dir, Sync: sync, URL: hook, Window: window}.launch(ctx)
}

// launch starts the loop in a process of its own.
func (l loop) launch(ctx context.Context) (*process, error) {
	return launchSelf(ctx, loopEnv, l, l.Data)
}

// launchSelf starts this program as the child that the variable describes.
func launchSelf(ctx context.Context, variable string, description any, dir string) (*process, error) {
	cmd, err := selfCommand(ctx, variable, description)
	if err != nil {
		return nil, err
	}
	p, _, err := launch(ctx, cmd, dir)
	return p, err
}

// selfCommand returns the command of a child process: this program, with the description as JSON in
// the variable.
func selfCommand(ctx context.Context, variable string, description any) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	spec, err := json.Marshal(description)
	if err != nil {
		return nil, err
	}
	cmd := command(ctx, self)
	cmd.Env = append(cmd.Env, variable+"="+string(spec))
	return cmd, nil
}

// starter returns a function that starts Sluice with one subscription, which has these settings besides.
func starter(binary string, with policy) func(ctx context.Context, dir, sync, hook string, window int) (*process, error) {
	return func(ctx context.Context, dir, sync, hook string, window int) (*process, error) {
		p, api, err := serve(ctx, binary, dir, settings, "--sync", sync)
		if err != nil {
			return nil, err
		}
		defer api.HTTP.CloseIdleConnections()
		policy := policy{"window": window}
		maps.Copy(policy, with)
		if err := subscribe(ctx, api, consumerName, hook, policy); err != nil {
			return nil, errors.Join(err, p.stop())
		}
		return p, nil
	}
}

// command returns a command without settings for Sluice in its environment.
func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...) //nolint:gosec // that is the purpose
	cmd.Env = environ()
	return cmd
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

// addresses is the file of addresses that both systems write when they are ready.
type addresses struct {
	HTTP string `json:"http"`
	NATS string `json:"nats"`
}

const addressesFile = "addresses.json"

// writeAddresses writes the file atomically, so that a reader never finds a part of it.
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

// launch starts a process and returns when it is ready. A process is ready when it has written its
// addresses into dir. After an error, none runs.
func launch(ctx context.Context, cmd *exec.Cmd, dir string) (*process, addresses, error) {
	p := &process{cmd: cmd, ended: make(chan struct{})}
	cmd.Stderr = &p.stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopLimit
	err := os.Remove(filepath.Join(dir, addressesFile)) // of an earlier process
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, addresses{}, err
	}
	if err := cmd.Start(); err != nil {
		return nil, addresses{}, err
	}
	go func() { // ends with the process
		p.err = cmd.Wait()
		close(p.ended)
	}()
	var at addresses
	err = poll(ctx, func() (bool, error) {
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
	p.nats, p.http = at.NATS, strings.TrimPrefix(at.HTTP, "http://")
	return p, at, nil
}

// stop ends the process and waits for it. Returns an error with its output if it did not end well.
// It can be called again, and after the process has ended.
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

// poll calls done until it returns true or an error, or ctx ends. It calls done at least once, and
// every 5 ms.
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
