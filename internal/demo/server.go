package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sluice-io/sluice/internal/datadir"
	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/client"
)

const (
	logFile = "server.log"
	moment  = 20 * time.Millisecond // interval of polling
)

// server is a server in a process of its own, which can be killed and started again. start, kill
// and stop are called by one goroutine; client, next, pid and addresses by any. Its files are the
// data directory and the log, which all processes append to.
type server struct {
	session *terminal.Session
	program string
	dir     string
	data    string
	log     *os.File

	mu      sync.Mutex
	process *exec.Cmd // nil: not running
	ended   chan struct{}
	at      datadir.Addresses
	api     *client.Client
	changed chan struct{} // closed when api changes
}

// newServer returns a server that does not run. The caller must call stop, also if start was never
// called.
func newServer(s *terminal.Session, dir string) (*server, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	log, err := os.OpenFile(filepath.Clean(filepath.Join(dir, logFile)), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	return &server{session: s, program: program, dir: dir, data: filepath.Join(dir, "data"), log: log, changed: make(chan struct{})}, nil
}

// command returns a command of this program, without the user's settings.
func (p *server) command(args ...string) *exec.Cmd {
	cmd := &exec.Cmd{Path: p.program, Args: append([]string{os.Args[0]}, args...)}
	for _, entry := range p.session.Environ {
		if !strings.HasPrefix(entry, "SLUICE_") {
			cmd.Env = append(cmd.Env, entry)
		}
	}
	cmd.Env = append(cmd.Env, "SLUICE_DATA="+p.data)
	return cmd
}

// start starts the server on free ports and returns when it is ready. If it fails, the process may
// still run; stop ends it.
func (p *server) start(ctx context.Context) error {
	if err := datadir.RemoveAddresses(p.data); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("demo: %w", err) // they are those of a server that was killed
	}
	cmd := p.command("serve", "--dev", "--http", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0")
	cmd.Stdout, cmd.Stderr = p.log, p.log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("demo: start the server: %w", err)
	}
	ended := make(chan struct{})
	go func() { // stop and kill wait for it
		defer close(ended)
		_ = cmd.Wait() // the log has the reason
	}()
	p.mu.Lock()
	p.process, p.ended = cmd, ended
	p.mu.Unlock()
	return p.ready(ctx, ended)
}

// ready waits until the server answers.
func (p *server) ready(ctx context.Context, ended <-chan struct{}) error {
	tick := time.NewTicker(moment)
	defer tick.Stop()
	for {
		if err := p.connect(ctx); err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ended:
			return fmt.Errorf("demo: the server did not start:\n%s", p.lastLines())
		case <-ctx.Done():
			return fmt.Errorf("demo: start the server: %w", context.Cause(ctx))
		}
	}
}

// connect makes the client of the server that has written its addresses.
func (p *server) connect(ctx context.Context) error {
	at, err := terminal.ReadAddresses(p.data)
	if err != nil {
		return err
	}
	token, err := terminal.ReadToken(p.data)
	if err != nil {
		return err
	}
	api, err := p.session.ClientOf(at.HTTP, token)
	if err != nil {
		return err
	}
	if _, err := api.Ready(ctx); err != nil {
		return err
	}
	api.Retries = 0 // a caller without a response asks for the next client
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at, p.api = at, api
	close(p.changed)
	p.changed = make(chan struct{})
	return nil
}

// lastLines returns the end of the server's log.
func (p *server) lastLines() string {
	const most = 2000
	text, err := os.ReadFile(p.log.Name())
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(text[max(0, len(text)-most):]))
}

// next waits until another server has started than that of the failed client, and returns the
// client of it. If failed is nil, it returns the present client, or waits for the first.
func (p *server) next(ctx context.Context, failed *client.Client) (*client.Client, error) {
	for {
		p.mu.Lock()
		api, changed := p.api, p.changed
		p.mu.Unlock()
		if api != failed {
			return api, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("demo: wait for the server: %w", context.Cause(ctx))
		}
	}
}

func (p *server) client() *client.Client {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.api
}

func (p *server) addresses() datadir.Addresses {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at
}

func (p *server) pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.process.Process.Pid
}

// over is closed when the process has ended.
func (p *server) over() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

// kill kills the process as kill -9 does, and waits for its end.
func (p *server) kill() error {
	if err := p.process.Process.Kill(); err != nil {
		return fmt.Errorf("demo: kill the server: %w", err)
	}
	<-p.over()
	return nil
}

// stop ends the process, if there is one, and closes the log. A process that ignores SIGTERM is
// killed after twice terminal.Grace.
func (p *server) stop() error {
	p.mu.Lock()
	process, ended := p.process, p.ended
	p.mu.Unlock()
	if process != nil {
		if process.Process.Signal(syscall.SIGTERM) != nil { // it has ended, or the system has no such signal
			_ = process.Process.Kill()
		}
		select {
		case <-ended:
		case <-time.After(2 * terminal.Grace):
			_ = process.Process.Kill()
			<-ended
		}
	}
	if err := p.log.Close(); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	return nil
}

// run runs a command of this program and returns its output. stdout and stderr are one text. The
// end of ctx kills the command.
func (p *server) run(ctx context.Context, args ...string) (string, error) {
	cmd := p.command(args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("demo: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() }) // it may have ended
	defer stop()
	if err := cmd.Wait(); err != nil {
		return "", fmt.Errorf("demo: sluice %s: %w: %s", strings.Join(args, " "), err, out.String())
	}
	return out.String(), nil
}
