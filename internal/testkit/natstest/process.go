//go:build unix

package natstest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// processEnv is an environment variable that makes a test binary run one server of a Processes. Its
// value is a process as JSON.
const processEnv = "SLUICE_TEST_NATS_PROCESS"

// process is the configuration of a server in a process of its own.
type process struct {
	Name   string   `json:"name"`
	Dir    string   `json:"dir"`
	Port   int      `json:"port"`
	Route  int      `json:"route"`
	Routes []string `json:"routes"`
}

// Processes is a cluster of three servers, each in a process of its own, which can be paused.
type Processes struct {
	addresses []string
	commands  map[string]*exec.Cmd // by name
}

// Main runs the server if this process was started by NewProcesses, and reports whether it was. A
// package that calls NewProcesses must call Main first in its TestMain.
func Main() bool {
	text := os.Getenv(processEnv)
	if text == "" {
		return false
	}
	if err := runProcess(text); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return true
}

func runProcess(text string) error {
	var p process
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return fmt.Errorf("nats process: %w", err)
	}
	opts := &server.Options{
		ServerName: p.Name, Host: "127.0.0.1", Port: p.Port, JetStream: true, StoreDir: p.Dir, NoSigs: true, NoLog: true,
		Cluster: server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: p.Route},
	}
	for _, route := range p.Routes {
		opts.Routes = append(opts.Routes, &url.URL{Scheme: "nats", Host: route})
	}
	s, err := server.NewServer(opts)
	if err != nil {
		return fmt.Errorf("nats process: %w", err)
	}
	s.Start()
	_, _ = io.Copy(io.Discard, os.Stdin) // until the parent ends
	s.Shutdown()
	s.WaitForShutdown()
	return nil
}

// NewProcesses starts a cluster that ends with the test, and returns it once it has a leader. The
// test binary starts itself, with processEnv, for each server; a server ends when its stdin is
// closed, so none outlives the tests.
func NewProcesses(tb testing.TB) *Processes {
	tb.Helper()
	alone(tb)
	clients, routes := freeAddresses(tb), freeAddresses(tb)
	p := &Processes{commands: map[string]*exec.Cmd{}}
	var hosts []string
	for _, route := range routes {
		hosts = append(hosts, route.Host)
	}
	for i := range clusterSize {
		port, err := strconv.Atoi(clients[i].Port())
		require.NoError(tb, err)
		route, err := strconv.Atoi(routes[i].Port())
		require.NoError(tb, err)
		p.addresses = append(p.addresses, "nats://"+clients[i].Host)
		p.start(tb, process{Name: "n" + strconv.Itoa(i), Dir: tb.TempDir(), Port: port, Route: route, Routes: hosts})
	}
	require.Eventually(tb, func() bool {
		nc, err := nats.Connect(p.URL())
		if err != nil {
			return false
		}
		defer nc.Close()
		js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(time.Second))
		if err != nil {
			return false
		}
		_, err = js.CreateStream(tb.Context(), jetstream.StreamConfig{Name: "ready", Replicas: clusterSize})
		return err == nil && js.DeleteStream(tb.Context(), "ready") == nil
	}, clusterPatience, 100*time.Millisecond)
	return p
}

func (p *Processes) start(tb testing.TB, is process) {
	tb.Helper()
	text, err := json.Marshal(is)
	require.NoError(tb, err)
	command := exec.Command(os.Args[0], "-test.run=^$") //nolint:noctx,gosec // this binary; it ends when its input is closed
	command.Env = append(os.Environ(), processEnv+"="+string(text))
	command.Stderr = os.Stderr
	input, err := command.StdinPipe()
	require.NoError(tb, err)
	require.NoError(tb, command.Start())
	p.commands[is.Name] = command
	tb.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGCONT) // it may be paused, or have ended
		_ = input.Close()
		_ = command.Wait() // its result does not matter
	})
}

// URL returns the addresses of all servers.
func (p *Processes) URL() string { return strings.Join(p.addresses, ",") }

// Pause suspends a server until resume is called. Its connections stay open but carry no data. The
// names are n0 to n2.
func (p *Processes) Pause(tb testing.TB, name string) (resume func()) {
	tb.Helper()
	command := p.commands[name]
	require.NotNil(tb, command, name)
	require.NoError(tb, command.Process.Signal(syscall.SIGSTOP))
	return func() { require.NoError(tb, command.Process.Signal(syscall.SIGCONT)) }
}
