package module

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/internal/retry"
	"github.com/sluice-io/sluice/internal/strictjson"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// ManifestFile is the path of the manifest in a module (S4-29).
const ManifestFile = "events/subscribe.json"

const (
	maxManifest = 256 << 10 // bytes
	maxHandlers = 100       // of one module
	maxArgs     = 64
	maxEnv      = 64
	maxPublish  = 64 // parts of a declaration

	defaultConcurrency = 4 // events of a handler at once
	maxProcesses       = 64
	defaultReady       = 10 * time.Second
	defaultFiles       = 256
	defaultFileMiB     = 64
	defaultTempMiB     = 512
	defaultTempFiles   = 10_000
)

// Manifest says which events a module handles. The specification's form (S4-30) has the members eventType, handler
// and filter.projectScoped of each event; everything else is optional.
type Manifest struct {
	Handlers []Handler
	// Namespaces have the events; default: the default namespace.
	Namespaces []string
}

// Handler is one program or endpoint of a module, and the events that it handles. ParseManifest
// sets the defaults of Policy.Window and of Limits.OpenFiles, FileMiB, TempMiB and TempFiles.
// Policy gets its other defaults in the subscription.
type Handler struct {
	ID      string         // unique in the module; default: the name of its file
	Type    string         // exact, or a prefix followed by ".*"
	Program string         // path of the file in the module; "" in the mode Endpoint
	Args    []string       // of the program
	Mode    Mode           // default: exec
	Dialect Dialect        // meaning of exit codes; default: sysexits
	Env     []string       // names of variables of the server's environment that the program gets
	System  bool           // it handles system events, which only root approves (S4-33)
	Pattern sluice.Pattern // of the paths
	Filter  sluice.Filter  // besides the type
	Policy  sluice.Policy  // timeout, window, retries and envelope
	Limits  Limits         // of each of its processes
	Network bool           // it may make connections
	Output  Output         // of its standard output; default: log
	Publish []sluice.Publishable
	Read    []sluice.Pattern // paths that it may read besides its events
	Line    int              // in the manifest

	Endpoint string // name of the module's endpoint that gets the events in place of a program
	URL      string // of the endpoint

	Processes int           // copies of a worker; default: 1
	Ready     time.Duration // time within which a worker must become ready; default: 10s
}

// Command returns the program and its arguments.
func (h *Handler) Command() []string { return append([]string{h.Program}, h.Args...) }

// Limits are the resource limits of a program's processes.
type Limits struct {
	MemoryMiB uint64          `json:"memoryMiB"` // address space; 0: unlimited
	Processor sluice.Duration `json:"processor"` // CPU time, rounded up to whole seconds; 0s: unlimited
	OpenFiles uint64          `json:"openFiles"` // default: 256
	Processes uint64          `json:"processes"` // in its control group or else of modules.user; 0: unlimited
	FileMiB   uint64          `json:"fileMiB"`   // size of a file that it writes; default: 64
	TempMiB   uint64          `json:"tempMiB"`   // size of its temporary directory; default: 512
	TempFiles uint64          `json:"tempFiles"` // files and directories in it; default: 10,000
}

// Mode is how a program gets its events.
type Mode string

// The modes.
const (
	Exec   Mode = "exec"   // one process for each event
	Worker Mode = "worker" // long-running processes that get one event a line
)

// Output is the meaning of a program's standard output.
type Output string

// The meanings.
const (
	OutputLog    Output = "log"    // text that is kept with the attempt
	OutputEvents Output = "events" // an event in JSON on each line, which is published
)

// Dialect is the meaning of the exit codes of a program.
type Dialect string

// The dialects.
const (
	Sysexits Dialect = "sysexits" // those of sysexits.h
	Hooks    Dialect = "hooks"    // those of agents' hooks, where 2 refuses the event
)

// encoded is a manifest in JSON.
type encoded struct {
	Schema     string            `json:"$schema"` // for editors
	Events     []json.RawMessage `json:"events"`
	Namespaces []string          `json:"namespaces"`
	Endpoints  map[string]string `json:"endpoints"` // URLs by name
}

type encodedEvent struct {
	EventType string         `json:"eventType"`
	Handler   string         `json:"handler"`
	Endpoint  string         `json:"endpoint"`
	Filter    *encodedFilter `json:"filter"`

	ID          string          `json:"id"`
	Args        []string        `json:"args"`
	Mode        Mode            `json:"mode"`
	Dialect     Dialect         `json:"dialect"`
	Env         []string        `json:"env"`
	Pattern     sluice.Pattern  `json:"pattern"`
	Timeout     sluice.Duration `json:"timeout"`
	Concurrency int             `json:"concurrency"`
	Retry       sluice.Retry    `json:"retry"`
	Envelope    sluice.Envelope `json:"envelope"`
	Limits      Limits          `json:"limits"`
	Network     bool            `json:"network"`

	Output    Output               `json:"output"`
	Publish   []sluice.Publishable `json:"publish"`
	Read      []sluice.Pattern     `json:"read"`
	Processes int                  `json:"processes"`
	Ready     sluice.Duration      `json:"ready"`
}

type encodedFilter struct {
	ProjectScoped *bool `json:"projectScoped"`

	Sources  []string            `json:"sources"`
	Subjects []string            `json:"subjects"`
	Labels   map[string][]string `json:"labels"`
	CEL      string              `json:"cel"`
}

// Fault is the reason why a module is not loaded (S4-32).
type Fault struct {
	File   string // path in the module; "": the module itself
	Line   int    // 0: none
	Reason string
}

// Error returns the place and the reason.
func (f *Fault) Error() string {
	switch {
	case f.File == "":
		return f.Reason
	case f.Line == 0:
		return f.File + ": " + f.Reason
	}
	return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Reason)
}

// ParseManifest parses a manifest. It does not check whether the module's files exist. The error is
// a *Fault. It reads nothing but the text. Handlers are in the order of the manifest. Unknown
// members are errors, so that a misspelled restriction is noticed (S4-32).
func ParseManifest(text []byte) (Manifest, error) {
	in, err := decode(text)
	if err != nil {
		return Manifest{}, err
	}
	m := Manifest{Namespaces: in.Namespaces}
	if len(m.Namespaces) == 0 {
		m.Namespaces = []string{sluice.DefaultNamespace}
	}
	for _, ns := range m.Namespaces {
		if err := sluice.CheckNamespaceName(ns); err != nil {
			return Manifest{}, fault(0, "namespaces: %v", err)
		}
	}
	if len(in.Events) == 0 || len(in.Events) > maxHandlers {
		return Manifest{}, fault(0, "it has %d events; list 1 to %d", len(in.Events), maxHandlers)
	}
	lines := linesOfEvents(text)
	for i, event := range in.Events {
		h, err := parseHandler(event, in.Endpoints)
		if err == nil && slices.ContainsFunc(m.Handlers, func(other Handler) bool { return other.ID == h.ID }) {
			err = fmt.Errorf("the id %q is of another event as well; give each an id", h.ID)
		}
		if err != nil {
			return Manifest{}, fault(lines[i], "events[%d]: %v", i, err)
		}
		h.Line = lines[i]
		m.Handlers = append(m.Handlers, h)
	}
	return m, nil
}

// decode returns the JSON of a manifest. The error is a *Fault.
func decode(text []byte) (in encoded, err error) {
	if len(text) > maxManifest {
		return in, fault(0, "more than %d bytes", maxManifest)
	}
	if !json.Valid(text) {
		err := json.Unmarshal(text, new(any))
		return in, fault(lineOfError(text, err), "it is not valid JSON: %v", err)
	}
	if err := strictjson.Check(text); err != nil {
		return in, fault(0, "%v", err)
	}
	if err := strictjson.Decode(text, &in); err != nil {
		return in, fault(0, "%v", err)
	}
	return in, nil
}

func fault(line int, format string, args ...any) error {
	return &Fault{File: ManifestFile, Line: line, Reason: fmt.Sprintf(format, args...)}
}

var (
	validID  = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,31}$`)
	validEnv = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
	unfitID  = regexp.MustCompile(`[^a-z0-9]+`)
)

func parseHandler(text []byte, endpoints map[string]string) (Handler, error) {
	var in encodedEvent
	if err := strictjson.Decode(text, &in); err != nil {
		return Handler{}, err
	}
	h := Handler{
		ID: in.ID, Type: in.EventType, Program: in.Handler, Args: in.Args, Env: in.Env,
		Mode: cmp.Or(in.Mode, Exec), Dialect: cmp.Or(in.Dialect, Sysexits), Pattern: in.Pattern,
		Policy: sluice.Policy{Timeout: in.Timeout, Window: cmp.Or(in.Concurrency, defaultConcurrency), Retry: in.Retry, Envelope: in.Envelope},
		Limits: in.Limits, Network: in.Network, Output: cmp.Or(in.Output, OutputLog), Publish: in.Publish, Read: in.Read,
		Processes: in.Processes, Ready: in.Ready.Std(),
	}
	h.Limits.OpenFiles, h.Limits.FileMiB = cmp.Or(h.Limits.OpenFiles, defaultFiles), cmp.Or(h.Limits.FileMiB, defaultFileMiB)
	h.Limits.TempMiB, h.Limits.TempFiles = cmp.Or(h.Limits.TempMiB, defaultTempMiB), cmp.Or(h.Limits.TempFiles, defaultTempFiles)
	if err := h.setEvents(in.Filter); err != nil {
		return Handler{}, err
	}
	if in.Endpoint != "" {
		return h, cmp.Or(h.setEndpoint(&in, endpoints), h.checkPolicy())
	}
	return h, cmp.Or(h.setProgram(), h.setMode(&in), h.checkRest(), h.Limits.check(), h.checkDeclaration(), h.checkPolicy())
}

// setEvents sets which events the handler gets, from its type and filter. It fails if they are
// unclear (S4-32).
func (h *Handler) setEvents(in *encodedFilter) error {
	if in == nil || in.ProjectScoped == nil {
		return errors.New("filter.projectScoped is missing: write true for events of the namespaces, false for events of the server")
	}
	if of, ok := systemTypes()[h.Type]; ok || sluice.IsSystemType(h.Type) {
		if *in.ProjectScoped {
			return fmt.Errorf("%s is an event of the server, but filter.projectScoped is true: write false", h.Type)
		}
		h.Type = cmp.Or(of, h.Type)
	} else if err := checkType(h.Type); err != nil {
		return err
	}
	h.System = !*in.ProjectScoped
	h.Pattern = cmp.Or(h.Pattern, map[bool]sluice.Pattern{false: "/**", true: systemPaths + "/**"}[h.System])
	pattern, err := sluice.ParsePattern(string(h.Pattern))
	if err != nil {
		return fmt.Errorf("pattern: %w", err)
	}
	if h.System != strings.HasPrefix(string(pattern), systemPaths+"/") {
		return fmt.Errorf("pattern %s: with filter.projectScoped %t, write one %s", pattern, !h.System, map[bool]string{false: "that is not below " + systemPaths, true: "below " + systemPaths}[h.System])
	}
	h.Pattern = pattern
	h.Filter = sluice.Filter{Types: []string{h.Type}, Sources: in.Sources, Subjects: in.Subjects, Labels: in.Labels, CEL: in.CEL}
	if _, err := filter.Compile(h.Filter); err != nil {
		return fmt.Errorf("filter: %w", err)
	}
	return nil
}

const systemPaths = "/_sys"

// systemTypes maps the types that the specification reserves for the server (S4-34) to their names
// in Sluice; "" if Sluice has no such type.
func systemTypes() map[string]string {
	return map[string]string{
		"system.start": sluice.TypeServerStarted, "system.shutdown": sluice.TypeServerStopping, "module.enabled": "", "module.disabled": "",
	}
}

func checkType(name string) error {
	if name == "" {
		return errors.New("eventType is missing")
	}
	if err := sluice.CheckTypeName(strings.TrimSuffix(name, ".*")); err != nil {
		return fmt.Errorf("eventType: %w", err)
	}
	return nil
}

// setProgram validates the path of the program, which is a file of the module.
func (h *Handler) setProgram() error {
	if h.Program == "" {
		return errors.New("handler is missing, or an endpoint in its place")
	}
	if !fs.ValidPath(h.Program) || h.Program == "." || strings.ContainsAny(h.Program, "\\\x00") {
		return fmt.Errorf("handler %q: write the path of a file in the module, such as handlers/on-paid", h.Program)
	}
	if h.ID == "" {
		base := path.Base(h.Program)
		h.ID = strings.Trim(unfitID.ReplaceAllString(strings.ToLower(strings.TrimSuffix(base, path.Ext(base))), "-"), "-")
	}
	return h.checkID()
}

func (h *Handler) checkID() error {
	if !validID.MatchString(h.ID) {
		return fmt.Errorf("id %q: use 1 to 32 of a-z, 0-9, - and _", h.ID)
	}
	return nil
}

// checkPolicy returns the error with which the server would refuse the handler's subscription.
func (h *Handler) checkPolicy() error {
	sub := sluice.Subscription{
		Namespace: sluice.DefaultNamespace, Pattern: h.Pattern, Filter: h.Filter, Policy: h.Policy, Endpoint: h.Sink(),
	}
	sub.SetDefaults()
	if err := cmp.Or(sub.Validate(), retry.Check(sub.Policy.Retry)); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "policy.")) // a manifest has no member policy
	}
	return nil
}

// setMode checks and sets the members that only one mode has.
func (h *Handler) setMode(in *encodedEvent) error {
	switch h.Mode {
	case Exec:
		if in.Processes != 0 || in.Ready != 0 {
			return fmt.Errorf("processes and ready are of the mode %q", Worker)
		}
		return nil
	case Worker:
	case Endpoint: // set by setEndpoint
		fallthrough
	default:
		return fmt.Errorf("mode %q: use %q or %q", h.Mode, Exec, Worker)
	}
	h.Processes, h.Ready = cmp.Or(h.Processes, 1), cmp.Or(h.Ready, defaultReady)
	switch {
	case h.Processes < 1 || h.Processes > maxProcesses:
		return fmt.Errorf("processes %d: use 1 to %d", h.Processes, maxProcesses)
	case h.Ready < 0:
		return fmt.Errorf("ready %s: write a duration such as 10s", in.Ready)
	case in.Dialect != "":
		return fmt.Errorf("dialect is of the mode %q: a worker answers with lines", Exec)
	case h.Policy.Envelope == sluice.EnvelopeRaw || h.Policy.Envelope == sluice.EnvelopeBinary || h.Policy.Envelope == sluice.EnvelopeTemplate:
		return fmt.Errorf("envelope %q: a worker gets JSON; use %q, %q or %q", h.Policy.Envelope, sluice.EnvelopeCloudEvents, sluice.EnvelopeFact, sluice.EnvelopeAttempt)
	}
	return nil
}

func (h *Handler) checkRest() error {
	if h.Dialect != Sysexits && h.Dialect != Hooks {
		return fmt.Errorf("dialect %q: use %q or %q", h.Dialect, Sysexits, Hooks)
	}
	if len(h.Args) > maxArgs || len(h.Env) > maxEnv {
		return fmt.Errorf("it has %d args and %d env; at most %d and %d are allowed", len(h.Args), len(h.Env), maxArgs, maxEnv)
	}
	for _, arg := range h.Args {
		if strings.ContainsRune(arg, 0) {
			return errors.New("args: NUL is not allowed")
		}
	}
	for _, name := range h.Env {
		if !validEnv.MatchString(name) || strings.HasPrefix(name, "SLUICE_") {
			return fmt.Errorf("env %q: write the name of a variable, which does not begin with SLUICE_", name)
		}
	}
	return nil
}

// linesOfEvents returns the line at which each event of a valid manifest begins. It returns nil if
// it finds no list.
func linesOfEvents(text []byte) (lines []int) {
	dec := json.NewDecoder(bytes.NewReader(text))
	if !toEvents(dec) {
		return nil
	}
	for dec.More() {
		lines = append(lines, lineAt(text, dec.InputOffset()))
		var skipped json.RawMessage
		if dec.Decode(&skipped) != nil {
			return lines
		}
	}
	return lines
}

// toEvents reads a manifest up to its first event, and reports whether it has a list of them.
func toEvents(dec *json.Decoder) bool {
	if _, err := dec.Token(); err != nil {
		return false
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return false
		}
		if name == "events" {
			list, err := dec.Token()
			return err == nil && list == json.Delim('[')
		}
		var skipped json.RawMessage
		if dec.Decode(&skipped) != nil {
			return false
		}
	}
	return false
}

// lineAt returns the line of the first character after an offset that is neither white space nor a
// comma.
func lineAt(text []byte, offset int64) int {
	rest := text[offset:]
	begin := int(offset) + len(rest) - len(bytes.TrimLeft(rest, ", \t\r\n"))
	return 1 + bytes.Count(text[:begin], []byte("\n"))
}

// lineOfError returns the line of the error that decoding a manifest returned; 0 if it is unknown.
func lineOfError(text []byte, err error) int {
	if json.Valid(text) {
		return 0
	}
	if syntax, ok := errors.AsType[*json.SyntaxError](json.Unmarshal(text, new(any))); ok {
		return 1 + bytes.Count(text[:min(int(syntax.Offset), len(text))], []byte("\n"))
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return 1 + bytes.Count(text, []byte("\n"))
	}
	return 0
}
