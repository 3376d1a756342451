package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A container is a process of an image on this machine: its files are below a directory of its own, and its network is a loopback address.
type container struct {
	name    string
	root    string // the directory of its files
	address string
	hosts   map[string]string // addresses by host name, some with another port
	path    string            // where programs are looked for
	argv    []string
	environ []string
	targets []string // paths within the container that are below root outside of it

	process *exec.Cmd
	ended   chan error
	output  bytes.Buffer // to be read once it has ended
}

// mount makes a file or directory of this machine visible at a path of the container.
func (c *container) mount(source, target string) error {
	at := filepath.Join(c.root, target)
	if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
		return err
	}
	c.targets = append(c.targets, target)
	if _, err := os.Lstat(at); err == nil {
		return nil
	}
	return os.Symlink(source, at)
}

// hostPort finds a host and a port in arguments, addresses and files.
var hostPort = regexp.MustCompile(`([A-Za-z0-9][A-Za-z0-9.-]*):(\d{2,5})\b`)

// outside returns a text with the paths and addresses that the container's have outside of it.
func (c *container) outside(text string) string {
	slices.SortFunc(c.targets, func(a, b string) int { return len(b) - len(a) })
	for _, target := range c.targets {
		text = regexp.MustCompile(`(^|[\s="'(])`+regexp.QuoteMeta(target)+`\b`).ReplaceAllString(text, "${1}"+c.root+target)
	}
	return hostPort.ReplaceAllStringFunc(text, func(at string) string {
		host, port, _ := strings.Cut(at, ":")
		switch address, known := c.hosts[host]; {
		case strings.Contains(address, ":"):
			return address
		case known:
			return net.JoinHostPort(address, port)
		case host == "0.0.0.0":
			return net.JoinHostPort(c.address, port)
		}
		return at
	})
}

// copyFile writes a file for the container.
func (c *container) copyFile(source, target string) error {
	text, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	at := filepath.Join(c.root, target)
	if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
		return err
	}
	return os.WriteFile(at, []byte(c.outside(string(text))), 0o600)
}

// command returns a command in the container.
func (c *container) command(ctx context.Context, argv ...string) (*exec.Cmd, error) {
	program, err := c.program(filepath.Base(argv[0]))
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program)
	for _, arg := range argv[1:] {
		cmd.Args = append(cmd.Args, c.outside(arg))
	}
	cmd.Env = []string{"PATH=" + c.path, "GORACE=atexit_sleep_ms=0"}
	for _, variable := range c.environ {
		cmd.Env = append(cmd.Env, c.outside(variable))
	}
	return cmd, nil
}

// program returns the file of a program. That of sluice is plain, where the tests were built with the race detector: three NATS and two
// Sluice servers would compute for half a minute.
func (c *container) program(name string) (string, error) {
	names := []string{name}
	if name == "sluice" {
		names = []string{"plain", name}
	}
	for _, name := range names {
		for _, dir := range filepath.SplitList(c.path) {
			if file := filepath.Join(dir, name); fileExists(file) {
				return file, nil
			}
		}
	}
	return "", fmt.Errorf("%s is not in %s", name, c.path)
}

func fileExists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// start runs the container's process.
func (c *container) start(ctx context.Context) error {
	if c.process != nil {
		return nil
	}
	cmd, err := c.command(ctx, c.argv...)
	if err != nil {
		return err
	}
	c.output.Reset()
	cmd.Stdout, cmd.Stderr = &c.output, &c.output
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	c.process, c.ended = cmd, make(chan error, 1)
	go func(ended chan<- error) { ended <- cmd.Wait() }(c.ended)
	return nil
}

// stop sends a signal and waits until the process ends. That it fails is an error, unless it was killed.
func (c *container) stop(signal syscall.Signal) error {
	if c.process == nil {
		return nil
	}
	if err := c.process.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	err := <-c.ended
	c.process = nil
	if err != nil && signal != syscall.SIGKILL {
		return fmt.Errorf("%s: %w: %s", c.name, err, c.output.String())
	}
	return nil
}

// healthy runs a check until it succeeds.
func (c *container) healthy(ctx context.Context, check func(context.Context) error) error {
	tick := time.NewTicker(time.Second / 2)
	defer tick.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case ended := <-c.ended:
			c.process = nil
			return fmt.Errorf("%s ended: %w: %s", c.name, errors.Join(ended, err), c.output.String())
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
}
