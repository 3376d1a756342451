package modulecmd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-io/sluice/internal/command/cmdkit"
	"github.com/sluice-io/sluice/internal/endpoint"
	"github.com/sluice-io/sluice/internal/module"
	"github.com/sluice-io/sluice/internal/module/host"
	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Cmd manages modules.
type Cmd struct {
	New     moduleNewCmd     `cmd:"" help:"Write a module that works, to begin with."`
	Check   moduleCheckCmd   `cmd:"" help:"Read a module as the server would, and print its digest."`
	Run     moduleRunCmd     `cmd:"" help:"Run a handler on an event, exactly as the server would."`
	Test    moduleTestCmd    `cmd:"" help:"Run the tests of a module: events/tests.json."`
	LS      moduleLsCmd      `cmd:"" name:"ls" help:"List the modules of the server."`
	Show    moduleShowCmd    `cmd:"" help:"Show a module of the server."`
	Approve moduleApproveCmd `cmd:"" help:"Have the programs of a module run, as its files are now."`
	Disable moduleDisableCmd `cmd:"" help:"Stop the programs of a module; its events wait."`
	Logs    moduleLogsCmd    `cmd:"" help:"Show the attempts of a module's programs, with their output."`
	Schema  moduleSchemaCmd  `cmd:"" help:"Print the JSON Schema of events/subscribe.json."`
	RM      moduleRmCmd      `cmd:"" name:"rm" help:"End the approval of a module, and its subscriptions with it."`
}

type moduleNewCmd struct {
	Dir  string `arg:"" help:"Directory to write; its name is that of the module." type:"path"`
	Lang string `help:"Language of the handler." enum:"sh,python,node,go" default:"sh"`
	Mode string `help:"exec: a process for each event; worker: a process that stays." enum:"exec,worker" default:"exec"`
	Type string `help:"Type of the events that it handles." default:"order.placed"`
}

// Run writes the module. It works without a server. Code InvalidRequest for a name or type that no
// module can have.
func (c *moduleNewCmd) Run(s *terminal.Session) error {
	if err := module.New(c.Dir, c.Lang, c.Type, module.Mode(c.Mode)); err != nil {
		return err
	}
	if c.Lang == "go" {
		return cmdkit.Done(s, "Wrote %s. Build it there: "+module.Build, c.Dir)
	}
	return cmdkit.Done(s, "Wrote %s. Try it: sluice module test "+c.Dir, c.Dir)
}

// moduleDir is the argument of commands about a directory on this machine. Commands with moduleName
// are about the modules of the server.
type moduleDir struct {
	Dir string `arg:"" help:"Directory of the module." type:"existingdir"`
}

type moduleCheckCmd struct{ moduleDir }

// Run prints the module as a server would load it. It works without a server. The digest covers all
// files of the directory; approve --digest approves exactly these.
func (c *moduleCheckCmd) Run(s *terminal.Session) error {
	m, err := module.Open(c.Dir)
	if err != nil {
		return err
	}
	return showModule(s, sluice.Module{Name: m.Name, State: sluice.ModuleFound, Digest: m.Digest, Handlers: host.Handlers(m)})
}

type moduleRunCmd struct {
	moduleDir

	Event   string `help:"File with the event, a CloudEvent in JSON; - is stdin." required:"" placeholder:"FILE"`
	Handler string `help:"ID of the handler; default: the only one." placeholder:"ID"`
}

// Run runs the handler, prints its output, and returns an error if the event was not handled. It
// works without a server: events that the program publishes are printed and not stored. The exit
// status is 1 for any outcome except delivered.
func (c *moduleRunCmd) Run(ctx context.Context, s *terminal.Session) error {
	m, err := module.Open(c.Dir)
	if err != nil {
		return err
	}
	if c.Handler == "" && len(m.Manifest.Handlers) == 1 {
		c.Handler = m.Manifest.Handlers[0].ID
	}
	if c.Handler == "" {
		return terminal.Usagef("--handler: the module has %d handlers; name one", len(m.Manifest.Handlers))
	}
	ev, err := readEvent(s, c.Event)
	if err != nil {
		return err
	}
	t, err := try(ctx, m, c.Handler, ev)
	if err != nil {
		return err
	}
	a := t.Attempt
	err = s.Show(t, func() error { return showTrial(s, t) })
	if err == nil && a.Outcome != sluice.Delivered {
		err = fmt.Errorf("the event was not handled: %s", a.Error)
	}
	return err
}

// showTrial prints the output of a run; or, if events would be published, the events, and the
// output on stderr.
func showTrial(s *terminal.Session, t host.Trial) error {
	to := s.Stdout
	if len(t.Events) > 0 {
		to = s.Stderr
	}
	if _, err := io.WriteString(to, t.Output); err != nil {
		return err //nolint:wrapcheck // of stdout
	}
	for i := range t.Events {
		if err := s.PrintText(append(t.Events[i].AppendJSON(nil), '\n'), nil); err != nil {
			return err
		}
	}
	s.Complain("%s after %s", outcomeOf(t.Attempt), terminal.FormatDuration(t.Duration))
	if n := len(t.Events); n > 0 {
		s.Complain("the server would publish %d", n)
	}
	return nil
}

// outcomeOf describes an outcome, with the server's next step.
func outcomeOf(a sluice.Attempt) string {
	switch a.Outcome {
	case sluice.Delivered:
		return "handled"
	case sluice.Refused:
		return "given up for good"
	case sluice.Failed, sluice.Gone:
	}
	return "failed: it would be tried again"
}

// readEvent returns the event in a file. "-" is stdin. An event without ID or path is a usage
// error.
func readEvent(s *terminal.Session, file string) (*sluice.Event, error) {
	read := func() ([]byte, error) { return os.ReadFile(file) } //nolint:gosec // the user's own
	if file == "-" {
		read = func() ([]byte, error) { return io.ReadAll(s.Stdin) }
	}
	text, err := read()
	if err != nil {
		return nil, fmt.Errorf("read the event: %w", err)
	}
	var ev sluice.Event
	if err := json.Unmarshal(text, &ev); err != nil {
		return nil, fmt.Errorf("read the event: %w", err)
	}
	if ev.ID == "" || ev.Path == "" {
		return nil, terminal.Usagef("the event in %s has no id or no path", file)
	}
	return &ev, nil
}

// try runs a handler once, without retries. An event without a namespace gets the first one that
// the manifest lists.
func try(ctx context.Context, m *module.Module, handler string, ev *sluice.Event) (host.Trial, error) {
	if ev.Namespace == "" {
		ev.Namespace = m.Manifest.Namespaces[0]
	}
	sender := endpoint.New(endpoint.Options{Version: terminal.Version()})
	defer sender.Close()
	return host.Try(ctx, m, handler, ev, sender)
}

type moduleTestCmd struct{ moduleDir }

// testReport is the result of one row. Reason is "" for a row that passed.
type testReport struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Reason string `json:"reason,omitempty"`
	Output string `json:"output,omitempty"` // if it is not
}

// Run runs each row, and returns an error if one fails. The rows run one after another, in the
// order of the file. A module without tests is an error.
func (c *moduleTestCmd) Run(ctx context.Context, s *terminal.Session) error {
	m, err := module.Open(c.Dir)
	if err != nil {
		return err
	}
	tests, err := m.Tests()
	if err != nil {
		return err
	}
	if len(tests) == 0 {
		return fmt.Errorf("module %s has no tests: write %s", m.Name, module.TestsFile)
	}
	reports, failed := make([]testReport, len(tests)), 0
	for i := range tests {
		t, err := try(ctx, m, tests[i].Handler, &tests[i].Event)
		if err != nil {
			return err
		}
		reports[i] = judge(&tests[i], t)
		if !reports[i].OK {
			failed++
		}
	}
	err = s.Show(reports, func() error { return showReports(s, reports) })
	if err == nil && failed > 0 {
		err = fmt.Errorf("%d of %d tests failed", failed, len(tests))
	}
	return err
}

// showReports prints a line for each row, with the output of those that fail.
func showReports(s *terminal.Session, reports []testReport) (err error) {
	for _, r := range reports {
		if r.OK {
			err = errors.Join(err, s.Say("ok    %s", r.Name))
		} else {
			err = errors.Join(err, s.Say("FAIL  %s: %s", r.Name, r.Reason), sayIndented(s, r.Output))
		}
	}
	return err
}

// sayIndented prints the output of a program with indented lines.
func sayIndented(s *terminal.Session, output string) (err error) {
	for line := range strings.Lines(output) {
		err = errors.Join(err, s.Say("    %s", strings.TrimRight(line, "\r\n")))
	}
	return err
}

// judge compares the outcome, then the output, then the published events, and reports the first
// difference.
func judge(test *module.Test, t host.Trial) testReport {
	a, r := t.Attempt, testReport{Name: test.Name}
	switch {
	case a.Outcome != test.Outcome:
		r.Reason = strings.TrimSuffix(fmt.Sprintf("it is %s, not %s: %s", a.Outcome, test.Outcome, a.Error), ": ")
	case !strings.Contains(a.Output, test.Output):
		r.Reason = fmt.Sprintf("%q is not in its output", test.Output)
	default:
		r.Reason = test.Differs(t.Events)
	}
	if r.OK = r.Reason == ""; !r.OK {
		r.Output = a.Output
	}
	return r
}

type moduleLsCmd struct{}

// Run lists the modules. Host is nil if the server has no directories of modules.
func (moduleLsCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	all, err := api.Modules(ctx)
	if err != nil {
		return err
	}
	return s.Show(all, func() error {
		rows := make([][]string, len(all.Modules))
		for i, m := range all.Modules {
			rows[i] = []string{m.Name, string(m.State), m.Digest, m.Reason}
		}
		if err := s.Table("NAME | STATE | DIGEST | REASON", rows); err != nil {
			return err
		}
		if all.Host == nil {
			return s.Say("This server has no directories of modules: set modules.dirs.")
		}
		return s.Say("On this server %s.", all.Host)
	})
}

type moduleName struct {
	Name string `arg:"" help:"Name of the module."`
}

type moduleShowCmd struct{ moduleName }

// Run shows the module.
func (c *moduleShowCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	m, err := api.Module(ctx, c.Name)
	if err != nil {
		return err
	}
	return showModule(s, m)
}

// showModule prints a module. It prints the approved digest if that differs from the digest of the
// files: the module then runs nothing until it is approved again.
func showModule(s *terminal.Session, m sluice.Module) error {
	return s.Show(m, func() error {
		facts := []string{"name", m.Name, "state", string(m.State), "reason", m.Reason, "digest", m.Digest}
		if m.Approved != m.Digest { // not a secret: a digest of files
			facts = append(facts, "approved", m.Approved)
		}
		if m.ApprovedAt != nil {
			facts = append(facts, "approved at", terminal.FormatTime(*m.ApprovedAt)+terminal.By(m.ApprovedBy))
		}
		facts = append(facts, "changed files", strings.Join(m.Changed, ", "), "restrictions", strings.Join(m.Restrictions, ", "), "served by", servedBy(&m))
		if err := s.Facts(facts...); err != nil || len(m.Handlers) == 0 {
			return err
		}
		rows := make([][]string, len(m.Handlers))
		for i, h := range m.Handlers {
			rows[i] = []string{h.ID, h.EventType, string(h.Pattern), strings.Join(h.Namespaces, ", "), cmp.Or(h.Program, h.URL), mayOf(&h), strings.Join(h.Subscriptions, ", ")}
		}
		if err := s.Table("HANDLER | TYPE | PATTERN | NAMESPACES | PROGRAM | MAY | SUBSCRIPTIONS", rows); err != nil || len(m.Running) == 0 {
			return err
		}
		return showRunning(s, &m)
	})
}

// servedBy says which server serves the subscriptions of a module; "" if that is unknown.
func servedBy(m *sluice.Module) string {
	switch m.ServedBy {
	case "":
		return ""
	case m.Server:
		return "this server"
	}
	return "server " + m.ServedBy
}

// showRunning prints the processes of a module on the server that answered. Some columns apply only
// to workers: ready workers, waiting events, and crashes.
func showRunning(s *terminal.Session, m *sluice.Module) error {
	rows := make([][]string, len(m.Running))
	for i, r := range m.Running {
		if !slices.ContainsFunc(m.Handlers, func(h sluice.ModuleHandler) bool { return h.ID == r.Handler && h.Mode == string(module.Worker) }) {
			rows[i] = []string{r.Subscription, strconv.Itoa(r.Processes), "-", strconv.Itoa(r.Events), "-", "-", "-", "-"}
			continue
		}
		crash := r.LastCrash
		if r.LastCrashAt != nil {
			crash = terminal.FormatTime(*r.LastCrashAt) + " " + crash
		}
		rows[i] = []string{
			r.Subscription, strconv.Itoa(r.Processes), strconv.Itoa(r.Ready), strconv.Itoa(r.Events), strconv.Itoa(r.Waiting), strconv.Itoa(r.Crashes),
			terminal.FormatTimePtr(r.NextStart), terminal.OrDash(crash),
		}
	}
	return s.Table("SUBSCRIPTION | PROCESSES | READY | EVENTS | WAITING | CRASHES | NEXT START | LAST CRASH", rows)
}

// mayOf describes the permissions of a program beyond handling its events.
func mayOf(h *sluice.ModuleHandler) string {
	var may []string
	for _, p := range h.Publish {
		may = append(may, "publish "+p.String())
	}
	for _, p := range h.Read {
		may = append(may, "read "+string(p))
	}
	if h.Network {
		may = append(may, "connect")
	}
	return terminal.OrDash(strings.Join(may, ", "))
}

type moduleApproveCmd struct {
	moduleName

	Digest string `help:"Digest of the files that were checked (sluice module check); default: that of the server's files." placeholder:"sha256:…"`
}

// Run approves the module. --digest fences the approval: code RevisionMismatch if the files on the
// server are others than those that were checked. Without it, the digest is read first, and the
// same fence holds against a change in between. Codes NotFound; Forbidden; Unprocessable if the
// module cannot be loaded.
func (c *moduleApproveCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	if c.Digest == "" {
		m, err := api.Module(ctx, c.Name)
		if err != nil {
			return err
		}
		if m.Digest == "" {
			return fmt.Errorf("module %s cannot be approved: %s", c.Name, m.Reason)
		}
		c.Digest = m.Digest
	}
	m, err := api.ApproveModule(ctx, c.Name, c.Digest)
	if err != nil {
		return err
	}
	return showModule(s, m)
}

type moduleDisableCmd struct{ moduleName }

// Run disables the module. Its subscriptions pause and keep their positions; approve continues
// them. It does not ask.
func (c *moduleDisableCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	if _, err := api.DisableModule(ctx, c.Name); err != nil {
		return err
	}
	return cmdkit.Done(s, "Disabled %s. Its events wait.", c.Name)
}

type moduleRmCmd struct {
	moduleName
	terminal.Confirmation
}

// Run removes the approval. The subscriptions are deleted, so a later approval begins anew. It
// asks, or requires --yes.
func (c *moduleRmCmd) Run(ctx context.Context, s *terminal.Session) error {
	api, err := s.Client()
	if err != nil {
		return err
	}
	if err := c.Confirm(s, terminal.Question("End the approval of %s? Its subscriptions lose their places.", c.Name)); err != nil {
		return err
	}
	if err := api.RemoveModule(ctx, c.Name); err != nil {
		return err
	}
	return cmdkit.Done(s, "Ended the approval of %s.", c.Name)
}
