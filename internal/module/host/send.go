package host

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-io/sluice/internal/module"
	"github.com/sluice-io/sluice/internal/module/program"
	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Renderer returns the body of an attempt.
type Renderer interface {
	// Body returns the body and the traceparent header that a request of the attempt would have.
	// Codes Unprocessable; TooLarge.
	Body(ctx context.Context, sub *sluice.Subscription, ev *sluice.Event, a *sluice.Attempt) (body []byte, traceparent string, err error)
}

const (
	grace     = 5 * time.Second // from SIGTERM to SIGKILL
	outputMax = 64 << 10        // bytes of output that are kept of an attempt
	minMasked = 6               // shorter values are too common to be masked
	masked    = "***"
)

// Variables of a program's environment, besides those that its manifest names.
const (
	envPath  = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	envEvent = "SLUICE_EVENT_"
)

// Send runs the program of a subscription on an event, as the attempt with the given number of its
// delivery. It sets all fields of the attempt but the verdict. Exit codes determine the outcome
// (module.OutcomeOf). While the module does not run here, no attempt is made, and the outcome is
// "". If ctx ends, a program of the mode exec gets SIGTERM, and SIGKILL after grace; its end
// decides about the outcome. A worker goes on, and the outcome is Failed. An error of Renderer.Body
// refuses the event. Of the server's own environment, a program gets only the variables that its
// manifest names. Besides them it has SLUICE_RUN, the mark of the run, and:
//
//	PATH LANG HOME TMPDIR TRACEPARENT  SLUICE_MODULE SLUICE_SUBSCRIPTION SLUICE_NAMESPACE
//	SLUICE_URL SLUICE_TOKEN            SLUICE_EVENT_ID, _TYPE, _PATH, _SEQ, SLUICE_ATTEMPT,
//	(with network and a declaration)   SLUICE_DEADLINE (a worker gets them in the line)
func (h *Host) Send(ctx context.Context, sub *sluice.Subscription, ev *sluice.Event, number int) sluice.Attempt {
	a := sluice.Attempt{Subscription: sub.ID, EventID: ev.ID, Seq: ev.Seq, Path: ev.Path, Type: ev.Type, Number: number, StartedAt: h.opts.Now().UTC()}
	defer shutdown.Sending(ctx)()
	h.run(ctx, sub, ev, &a)
	if a.Outcome != sluice.Delivered {
		a.Class = sluice.FailProgram
	}
	a.Duration = sluice.Duration(h.opts.Now().Sub(a.StartedAt))
	return a
}

func (h *Host) run(ctx context.Context, sub *sluice.Subscription, ev *sluice.Event, a *sluice.Attempt) {
	m, handler, err := h.handler(sub)
	if err != nil {
		a.Error = err.Error()
		return
	}
	body, trace, err := h.opts.Render.Body(ctx, sub, ev, a)
	if err != nil {
		a.Outcome, a.Error = sluice.Refused, err.Error()
		if sluice.CodeOf(err) == sluice.TooLarge {
			a.Dead = sluice.EventTooLarge
		}
		return
	}
	w, timeout := handlingOf(handler, sub, ev), sub.Policy.Timeout.Std()
	token, leave, err := h.token(m, handler, w, a.StartedAt.Add(timeout+grace))
	if err != nil {
		a.Outcome, a.Error = sluice.Failed, err.Error()
		return
	}
	defer leave()
	var lines [][]byte
	hide := func(text string) string { return mask(text, handler.Env, token) }
	if handler.Mode == module.Worker {
		lines = h.work(ctx, h.poolOf(sub, m, handler), &item{event: ev.ID, timeout: timeout, trace: trace, token: token, body: body}, a)
	} else {
		p := programOf(m, handler)
		p.of, p.Input, p.Trace, p.Timeout, p.Env = sub.ID, body, trace, timeout, append(h.environment(sub, handler), variables(ev, a, timeout)...)
		if token != "" {
			p.Env = append(p.Env, "SLUICE_TOKEN="+token)
		}
		lines = h.exec(ctx, p, handler, a, hide)
	}
	if a.Outcome == sluice.Delivered && len(lines) > 0 {
		h.publish(ctx, publication{w, ev, lines, hide}, a)
	}
	a.Error, a.Output = hide(a.Error), hide(a.Output)
}

// exec runs a program on its event, and sets the outcome of the attempt. It returns the events that
// the program printed, a line each.
func (h *Host) exec(ctx context.Context, p started, handler *module.Handler, a *sluice.Attempt, hide func(string) string) (lines [][]byte) {
	if handler.Output == module.OutputEvents {
		p.Apart = maxPrinted
	}
	res, err := h.runIn(ctx, p, p.Env)
	if err != nil {
		a.Outcome, a.Error = sluice.Failed, "the program could not be run: "+err.Error()
		return nil
	}
	a.Outcome, a.Dead, a.Error = module.OutcomeOf(res.Exit, handler.Dialect)
	a.Output = res.Output
	if line := lastLine(hide(a.Output)); a.Outcome != sluice.Delivered && line != "" {
		a.Error += ": " + line
	}
	if a.Outcome == sluice.Delivered && res.Overflow {
		a.Outcome, a.Dead, a.Error = sluice.Refused, sluice.OutputRefused, (&refusedLine{err: sluice.Errorf(sluice.TooLarge, "more than %d bytes", maxPrinted)}).Error()
	}
	return bytes.Split(res.Printed, []byte("\n"))
}

// runIn runs a program with a temporary directory of its own.
func (h *Host) runIn(ctx context.Context, p started, env []string) (res program.Result, err error) {
	remove, err := h.furnish(&p, env)
	if err != nil {
		return res, err
	}
	defer remove()
	defer h.execBegins(p.of)()
	return h.runner.Run(ctx, p.Program)
}

// furnish gives a program its environment and a temporary directory of its own. The caller must
// call remove after the program has ended.
func (h *Host) furnish(p *started, env []string) (remove func(), err error) {
	if p.Temp, err = os.MkdirTemp(h.opts.Copies, ".run-"); err != nil {
		return nil, fmt.Errorf("temporary directory: %w", err)
	}
	remove = func() {
		h.removeTemp(p.Temp)
	}
	if as := h.opts.User; as != nil {
		if err := os.Chown(p.Temp, int(as.UID), int(as.GID)); err != nil {
			remove()
			return nil, fmt.Errorf("temporary directory: %w", err)
		}
	}
	p.Mark = program.MarkName + "=" + p.Temp
	p.Env = append(env, "HOME="+p.Temp, "TMPDIR="+p.Temp, p.Mark)
	if p.Trace != "" {
		p.Env = append(p.Env, "TRACEPARENT="+p.Trace)
	}
	for _, name := range p.pass {
		if value, ok := os.LookupEnv(name); ok {
			p.Env = append(p.Env, name+"="+value)
		}
	}
	for i := range p.Env {
		p.Env[i] = strings.ReplaceAll(p.Env[i], "\x00", "\ufffd")
	}
	return remove, nil
}

// removeTemp removes the temporary directory of a program that has ended. If that fails, the next
// start of the server removes it.
func (h *Host) removeTemp(dir string) {
	if left := program.RemoveTemp(dir); left != nil {
		h.opts.Log.Warn("temporary directory of a program not removed", slog.Any("error", left))
	}
}

// handler returns the module and the handler of a subscription, if they run here.
func (h *Host) handler(sub *sluice.Subscription) (*module.Module, *module.Handler, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.ready[sub.Module]
	if m == nil {
		return nil, nil, fmt.Errorf("module %s does not run here: %s", sub.Module, h.shown(sub.Module).Reason)
	}
	for i := range m.Manifest.Handlers {
		handler := &m.Manifest.Handlers[i]
		if SubscriptionID(m.Name, handler.ID, sub.Namespace) == sub.ID && slices.Equal(sub.Endpoint.Exec, handler.Command()) {
			return m, handler, nil
		}
	}
	return nil, nil, fmt.Errorf("module %s has no handler %s", sub.Module, strings.Join(sub.Endpoint.Exec, " "))
}

// started is a program that is about to be run.
type started struct {
	program.Program

	Trace string   // traceparent; "": none
	of    string   // subscription
	pass  []string // names of the server's variables that it gets
}

func programOf(m *module.Module, h *module.Handler) started {
	return started{pass: h.Env, Program: program.Program{
		Path: filepath.Join(m.Dir, filepath.FromSlash(h.Program)), Args: h.Args, Dir: m.Dir, Grace: grace, Output: outputMax, Network: h.Network,
		Limits: program.Limits{Memory: h.Limits.MemoryMiB << 20, Processor: h.Limits.Processor.Std(), Files: h.Limits.OpenFiles, FileSize: h.Limits.FileMiB << 20, Processes: h.Limits.Processes, TempSize: h.Limits.TempMiB << 20, TempFiles: h.Limits.TempFiles},
	}}
}

// environment returns the variables that are the same for all attempts of a subscription.
func (h *Host) environment(sub *sluice.Subscription, handler *module.Handler) []string {
	env := []string{
		"PATH=" + envPath, "LANG=C.UTF-8",
		"SLUICE_MODULE=" + sub.Module, "SLUICE_SUBSCRIPTION=" + sub.ID, "SLUICE_NAMESPACE=" + sub.Namespace,
	}
	if h.hasAPI(handler) {
		env = append(env, "SLUICE_URL="+h.opts.API.URL)
	}
	return env
}

// variables returns the variables that describe an attempt.
func variables(ev *sluice.Event, a *sluice.Attempt, timeout time.Duration) []string {
	return []string{
		envEvent + "ID=" + ev.ID, envEvent + "TYPE=" + ev.Type, envEvent + "PATH=" + string(ev.Path), envEvent + "SEQ=" + strconv.FormatUint(ev.Seq, 10),
		"SLUICE_ATTEMPT=" + strconv.Itoa(a.Number), "SLUICE_DEADLINE=" + a.StartedAt.Add(timeout).Format(time.RFC3339Nano),
	}
}

// mask replaces the values of the named variables of the server's environment, and the given
// secrets, in an output. A secret that the program transforms, for example in base64, is not
// recognised.
func mask(output string, names []string, secrets ...string) string {
	output = strings.ToValidUTF8(output, "\ufffd")
	for _, secret := range secrets {
		if secret != "" {
			output = strings.ReplaceAll(output, secret, masked)
		}
	}
	for _, name := range names {
		if value := os.Getenv(name); len(value) >= minMasked {
			output = strings.ReplaceAll(output, value, masked)
		}
	}
	return output
}

// lastLine returns the last line of an output that is not empty, up to 300 bytes.
func lastLine(output string) string {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	line := strings.TrimSpace(lines[len(lines)-1])
	return line[:min(len(line), 300)]
}
