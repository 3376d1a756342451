package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
	"sigs.k8s.io/yaml"
)

// composeFile is what deploy/compose uses of the Compose specification. Anything else is an error.
type composeFile struct {
	Name     string                    `json:"name"`
	Hardened json.RawMessage           `json:"x-hardened"`
	NATS     json.RawMessage           `json:"x-nats"`
	Sluice   json.RawMessage           `json:"x-sluice"`
	Services map[string]composeService `json:"services"`
	Networks map[string]struct{}       `json:"networks"`
	Volumes  map[string]struct{}       `json:"volumes"`
}

type composeService struct {
	Image       string            `json:"image"`
	Build       json.RawMessage   `json:"build"`
	User        string            `json:"user"`
	Entrypoint  []string          `json:"entrypoint"`
	Command     []string          `json:"command"`
	Environment map[string]string `json:"environment"`
	Networks    json.RawMessage   `json:"networks"` // names, or names with aliases
	NetworkMode string            `json:"network_mode"`
	Ports       []string          `json:"ports"`
	Volumes     []composeVolume   `json:"volumes"`
	Tmpfs       []string          `json:"tmpfs"`
	DependsOn   map[string]struct {
		Condition string `json:"condition"`
	} `json:"depends_on"`
	Healthcheck *struct {
		Test        []string `json:"test"`
		Interval    string   `json:"interval"`
		Timeout     string   `json:"timeout"`
		Retries     int      `json:"retries"`
		StartPeriod string   `json:"start_period"`
	} `json:"healthcheck"`
	Restart         string          `json:"restart"`
	ReadOnly        bool            `json:"read_only"`
	CapDrop         []string        `json:"cap_drop"`
	CapAdd          []string        `json:"cap_add"`
	SecurityOpt     []string        `json:"security_opt"`
	Logging         json.RawMessage `json:"logging"`
	StopSignal      string          `json:"stop_signal"`
	StopGracePeriod string          `json:"stop_grace_period"`
}

type composeVolume struct {
	Type     string `json:"type"`
	Source   string `json:"source"`
	Target   string `json:"target"`
	ReadOnly bool   `json:"read_only"`
}

func readCompose(file string) (c composeFile, err error) {
	text, err := os.ReadFile(file)
	if err == nil {
		err = yaml.UnmarshalStrict(text, &c)
	}
	return c, err
}

// stack runs the NATS and Sluice servers of a compose file as processes on loopback addresses.
type stack struct {
	file       composeFile
	dir        string // of the compose file
	work       string
	ctx        context.Context //nolint:containedctx // of the script, which all commands belong to
	mu         sync.Mutex      // one command at a time
	containers map[string]*container
}

// imageEnv returns the variables of the image that a Dockerfile builds.
func imageEnv(dockerfile string) ([]string, error) {
	text, err := os.ReadFile(dockerfile)
	for line := range strings.Lines(string(text)) {
		if variables, ok := strings.CutPrefix(line, "ENV "); ok {
			return strings.Fields(variables), err
		}
	}
	return nil, errors.Join(err, errors.New("no ENV"))
}

// interpolated replaces ${NAME:-} by a variable.
func interpolated(value string, getenv func(string) string) string {
	return regexp.MustCompile(`\$\{\w+:-\}`).ReplaceAllStringFunc(value, func(name string) string { return getenv(name[2 : len(name)-3]) })
}

// newStack creates the containers, each with an address of its own in 127.0.0.0/8.
func newStack(ctx context.Context, file, work string, getenv func(string) string) (*stack, error) {
	compose, err := readCompose(file)
	if err != nil {
		return nil, err
	}
	variables, err := imageEnv(filepath.Join(repository, "deploy", "Dockerfile"))
	if err != nil {
		return nil, err
	}
	s := &stack{file: compose, dir: filepath.Dir(file), work: work, ctx: ctx, containers: map[string]*container{}}
	network, hosts := fmt.Sprintf("127.%d.%d.", 1+rand.IntN(254), rand.IntN(256)), map[string]string{}
	for i, name := range slices.Sorted(maps.Keys(compose.Services)) {
		service := compose.Services[name]
		hosts[name] = fmt.Sprintf("%s%d", network, i+1)
		c := &container{name: name, root: filepath.Join(work, "containers", name), address: hosts[name], hosts: hosts, path: getenv("PATH"), argv: slices.Concat(service.Entrypoint, service.Command)}
		if strings.HasPrefix(service.Image, "sluice:") {
			c.argv = append([]string{"/sluice"}, c.argv...)
			c.environ = append(variables, "SLUICE_WEBHOOKS_ALLOW_INSECURE_LOOPBACK=true") // for receivers of tests
		}
		for variable, value := range service.Environment {
			c.environ = append(c.environ, variable+"="+interpolated(value, getenv))
		}
		s.containers[name] = c
	}
	hosts["sluice"] = hosts["sluice-1"] // an alias of both
	return s, s.mount()
}

// mount gives the containers that run their volumes and files.
func (s *stack) mount() error {
	var errs []error
	for name, c := range s.containers {
		if s.runs(name) {
			errs = append(errs, s.mountFor(c))
		}
	}
	return errors.Join(errs...)
}

func (s *stack) mountFor(c *container) error {
	var errs []error
	files := map[string]string{}
	for _, v := range s.file.Services[c.name].Volumes {
		if v.Type == "bind" {
			c.targets = append(c.targets, v.Target)
			files[v.Target] = filepath.Join(s.dir, v.Source)
			continue
		}
		volume := filepath.Join(s.work, "volumes", v.Source)
		errs = append(errs, os.MkdirAll(volume, 0o700), c.mount(volume, v.Target))
	}
	if c.name == "init" {
		c.targets = append(c.targets, "/volumes")
	}
	for target, file := range files { // when all targets are known
		errs = append(errs, c.copyFile(file, target))
	}
	return errors.Join(errs...)
}

// runs reports whether the programs of a service's image are there.
func (s *stack) runs(name string) bool {
	return s.file.Services[name].Healthcheck != nil || name == "init"
}

// up runs init to its end, and starts the others.
func (s *stack) up(names ...string) error {
	first, err := s.containers["init"].command(s.ctx, s.containers["init"].argv...)
	if err != nil {
		return err
	}
	if out, err := first.CombinedOutput(); err != nil {
		return fmt.Errorf("init: %w: %s", err, out)
	}
	for _, name := range names {
		if err := s.read(s.containers[name]); err != nil {
			return err
		}
		if err := s.containers[name].start(s.ctx); err != nil {
			return err
		}
	}
	for _, name := range names {
		c := s.containers[name]
		if err := c.healthy(s.ctx, func(ctx context.Context) error { return s.check(ctx, c) }); err != nil {
			return err
		}
	}
	return nil
}

// read replaces paths and addresses in the files that init wrote for a container: they are read from its volumes.
func (s *stack) read(c *container) error {
	for _, v := range s.file.Services[c.name].Volumes {
		if v.Type == "bind" || !v.ReadOnly {
			continue
		}
		files, err := filepath.Glob(filepath.Join(s.work, "volumes", v.Source, "*"))
		if err != nil {
			return err
		}
		own := filepath.Join(c.root, v.Target)
		if err := errors.Join(os.RemoveAll(own), os.MkdirAll(own, 0o700)); err != nil {
			return err
		}
		for _, file := range files {
			if err := c.copyFile(file, filepath.Join(v.Target, filepath.Base(file))); err != nil {
				return err
			}
		}
	}
	return nil
}

// check runs a health check once.
func (s *stack) check(ctx context.Context, c *container) error {
	test := s.file.Services[c.name].Healthcheck.Test
	if test[1] != "wget" {
		cmd, err := c.command(ctx, test[1:]...)
		if err != nil {
			return err
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.Replace(test[len(test)-1], "127.0.0.1", c.address, 1), nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, text)
	}
	return err
}

// run is "docker compose" with the arguments.
func (s *stack) run(args []string) (output []byte, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for name := range s.containers {
		if s.runs(name) && name != "init" {
			names = append(names, name)
		}
	}
	switch slices.Sort(names); args[0] {
	case "up":
		return nil, s.up(names...)
	case "down":
		return nil, s.down()
	case "start":
		return nil, s.up(args[1])
	case "stop":
		return nil, s.containers[args[1]].stop(syscall.SIGTERM)
	case "kill":
		return nil, s.containers[args[1]].stop(syscall.SIGKILL)
	case "exec":
		cmd, err := s.containers[args[1]].command(s.ctx, args[2:]...)
		if err != nil {
			return nil, err
		}
		return cmd.CombinedOutput()
	}
	return nil, fmt.Errorf("docker compose %s is not known here", args[0])
}

// down ends all processes: those of Sluice as an operator would.
func (s *stack) down() error {
	var errs []error
	for name, c := range s.containers {
		if strings.HasPrefix(name, "sluice") {
			errs = append(errs, c.stop(syscall.SIGTERM))
		}
	}
	for _, c := range s.containers {
		errs = append(errs, c.stop(syscall.SIGKILL))
	}
	return errors.Join(errs...)
}

// compose is the command of scripts that lets docker run the services of deploy/compose.
func compose(ts *testscript.TestScript, _ bool, _ []string) {
	file, err := filepath.Abs(filepath.Join(repository, "deploy", "compose", "compose.yaml"))
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), 10*patience)
	programs := ts.MkAbs("programs")
	build := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(programs, "nats-server"), "github.com/nats-io/nats-server/v2")
	out, err := build.CombinedOutput()
	if err != nil {
		ts.Fatalf("build the NATS server: %v: %s", err, out)
	}
	work, err := os.MkdirTemp(ts.MkAbs("."), "compose-")
	ts.Check(err)
	s, err := newStack(ctx, file, work, func(name string) string {
		if name == "PATH" {
			return programs + string(filepath.ListSeparator) + ts.Getenv(name)
		}
		return ts.Getenv(name)
	})
	ts.Check(err)
	daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var args []string
		err := json.NewDecoder(r.Body).Decode(&args)
		var out []byte
		if err == nil {
			out, err = s.run(args)
		}
		if err != nil {
			w.WriteHeader(http.StatusConflict)
			out = append(out, err.Error()...)
		}
		_, _ = w.Write(out)
	}))
	ts.Defer(func() {
		if err := s.down(); err != nil {
			ts.Logf("compose: %v", err) // the script has failed, or it would have run down
		}
		daemon.Close()
		cancel()
	})
	ts.Setenv("DOCKER_HOST", daemon.URL)
}

// docker is the program docker of scripts: it sends its arguments after compose to the stack.
func docker() {
	args, err := json.Marshal(os.Args[2:])
	if err == nil {
		var resp *http.Response
		resp, err = http.Post(os.Getenv("DOCKER_HOST"), "application/json", bytes.NewReader(args)) //nolint:noctx // it ends with the script
		if err == nil {
			_, err = io.Copy(os.Stdout, resp.Body)
			err = errors.Join(err, resp.Body.Close())
			if resp.StatusCode != http.StatusOK {
				os.Exit(1)
			}
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "docker:", err)
		os.Exit(1)
	}
}
