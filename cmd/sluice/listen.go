package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/command/cmdkit"
	"github.com/sluice-io/sluice/internal/endpoint"
	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	listenAtOnce = 16                     // paths that are served concurrently
	listenAhead  = 256                    // events that wait to be forwarded
	listenAgain  = time.Second            // time between the attempts at one event
	awayShortest = 250 * time.Millisecond // time between searches for an unavailable server
	awayLongest  = 5 * time.Second
)

// listenCmd forwards events to this machine, as the server would send them (decision 0010).
type listenCmd struct {
	Target   string            `arg:"" optional:"" help:"Port of this machine, or the URL of --forward."`
	Forward  string            `help:"Target URL, such as http://localhost:3000/hook." placeholder:"URL"`
	Bodies   bool              `help:"Print the data of each event, and the body of a response that failed."`
	Path     string            `aliases:"pattern" help:"Filter by path." default:"/**" placeholder:"PATTERN"`
	Type     []string          `aliases:"types" help:"Filter by type; a final .* matches any suffix." placeholder:"TYPE"`
	NS       string            `name:"ns" help:"Namespace." default:"default" env:"SLUICE_NS" placeholder:"NAME"`
	Since    string            `help:"Start position: new, all, a sequence, a time, or an age such as 10m." default:"new" placeholder:"WHEN"`
	Last     int               `help:"Start with the last N events that match." placeholder:"N"`
	Secret   string            `help:"Signing secret; default: one that is generated once and kept for the user of this machine." placeholder:"SECRET"`
	Envelope string            `help:"Envelope: cloudevents, cloudevents-binary, fact, attempt or raw." placeholder:"NAME"`
	Scheme   string            `help:"Signature scheme: standard, t-sha256 or header." placeholder:"NAME" enum:",standard,t-sha256,header" default:""`
	Header   map[string]string `help:"Additional header; repeatable." placeholder:"K=V" mapsep:"none"`
	Timeout  time.Duration     `help:"Timeout for one attempt; at most 1m." default:"15s" placeholder:"15s"`
	Retries  int               `help:"Number of retries, one second apart." default:"0"`
}

// Run forwards events until the context ends. Nothing is stored at the server: events are read from
// a feed, and failed attempts are not retried beyond --retries and leave no dead letters. Events
// that come while it does not run are missed, unless --since or --last begins before them. An
// interrupt ends it with exit status 0, after the attempts in flight.
func (c *listenCmd) Run(ctx context.Context, s *terminal.Session) error {
	if err := c.target(); err != nil {
		return err
	}
	if c.Secret == "" {
		var err error
		if c.Secret, err = s.ListenSecret(); err != nil {
			return err
		}
	}
	sender := endpoint.New(endpoint.Options{AllowLoopback: true, Version: terminal.Version()})
	defer sender.Close()
	if err := c.check(ctx, sender); err != nil {
		return err
	}
	sub, err := c.subscription()
	if err != nil {
		return err
	}
	l := &listener{cmd: c, session: s, sender: sender, sub: sub, resume: c.start(time.Now())}
	if c.Last > 0 {
		api, err := s.Client()
		if err != nil {
			return err
		}
		if l.resume, err = sinceLast(ctx, api, c.NS, client.EventsQuery{Pattern: sub.Pattern, Types: c.Type}, c.Last); err != nil {
			return err
		}
	}
	return l.run(ctx)
}

// target parses the argument, which is a port or a URL.
func (c *listenCmd) target() error {
	switch {
	case (c.Target == "") == (c.Forward == ""):
		return terminal.Usagef("name the target: sluice listen 3000, or --forward with a URL")
	case c.Target == "":
	case strings.Trim(c.Target, "0123456789") == "":
		c.Forward = "http://127.0.0.1:" + c.Target + "/"
	default:
		c.Forward = c.Target
	}
	return nil
}

// check returns a usage error for invalid flags, and for a target to which the sender may not send:
// http to another machine, or a private network (C20).
func (c *listenCmd) check(ctx context.Context, sender *endpoint.Sender) error {
	if err := sender.Check(ctx, sluice.Endpoint{URL: c.Forward, Headers: c.Header}); err != nil {
		return terminal.Usagef("--forward %q: %w; write a URL of this machine, such as http://localhost:3000/hook, or a public https URL", c.Forward, err)
	}
	if c.Last > 0 && c.Since != sluice.StartNew {
		return terminal.Usagef("--last excludes --since")
	}
	if err := cmdkit.CheckSince(c.Since); err != nil {
		return err
	}
	if c.Retries < 0 {
		return terminal.Usagef("--retries %d: write 0 or more", c.Retries)
	}
	if _, err := sluice.ParsePattern(c.Path); err != nil {
		return terminal.Usage(err)
	}
	return nil
}

// start returns the position after which a feed begins; "" for events from now on.
func (c *listenCmd) start(now time.Time) string {
	if seq, err := strconv.ParseUint(c.Since, 10, 64); err == nil && seq > 0 {
		return strconv.FormatUint(seq-1, 10)
	}
	switch c.Since {
	case sluice.StartNew:
		return ""
	case sluice.StartAll:
		return "-1"
	}
	return sluice.Ago(c.Since, now)
}

// subscription returns the subscription that determines how events are signed and rendered. It does
// not exist on the server, so nothing remains there when the command ends. It returns a usage error
// if a server would refuse the subscription.
func (c *listenCmd) subscription() (sub sluice.Subscription, err error) {
	sub = sluice.Subscription{
		ID: "listen", Namespace: c.NS, Pattern: sluice.Pattern(c.Path), Filter: sluice.Filter{Types: c.Type},
		Endpoint: sluice.Endpoint{URL: "https://listen.invalid/", Headers: c.Header, Secret: c.Secret}, Lifecycle: sluice.Lifecycle{CreatedAt: time.Now()},
		Policy: sluice.Policy{
			Timeout: sluice.Duration(c.Timeout), Envelope: sluice.Envelope(c.Envelope),
			Signature: sluice.Signature{Scheme: sluice.Scheme(c.Scheme)},
		},
	}
	// Validate refuses http://, which is the rule for endpoints of the server. So the subscription
	// has another URL until it has passed.
	sub.SetDefaults()
	if err := sub.Validate(); err != nil {
		return sub, terminal.Usage(err)
	}
	if sub.Endpoint.Secret == "" {
		if sub.Endpoint.Secret, err = sluice.NewSecret(); err != nil {
			return sub, fmt.Errorf("generate a secret: %w", err)
		}
	}
	sub.Secrets = []sluice.Secret{{Value: sub.Endpoint.Secret, CreatedAt: sub.CreatedAt}}
	sub.Endpoint.URL = c.Forward
	return sub, nil
}

// listener forwards the events of a namespace. resume, lanes and said are used by the goroutine of
// run only.
type listener struct {
	cmd     *listenCmd
	session *terminal.Session
	sender  *endpoint.Sender
	sub     sluice.Subscription
	resume  string // position for resuming the feed: every event up to it is in the lanes or was forwarded
	lanes   *lanes
	stop    context.CancelFunc // called when nothing more can be printed
	said    bool               // the destination was printed

	mu     sync.Mutex // of output, and of
	failed error      // why nothing more can be printed
}

// sayWhere prints the destination once, when the feed is open. Events published from then on are
// forwarded.
func (l *listener) sayWhere() error {
	if l.said {
		return nil
	}
	l.said = true
	if l.session.IsJSON() {
		return l.print(func() error {
			return l.session.PrintLine(map[string]string{"forward": l.cmd.Forward, "secret": l.sub.Endpoint.Secret})
		})
	}
	return l.print(func() error {
		return l.session.Say("Forwarding %s in %s to %s. The requests are signed with\n\n  %s\n", l.sub.Pattern, l.sub.Namespace, l.cmd.Forward, l.sub.Endpoint.Secret)
	})
}

// run forwards events until the context ends. If the server is unavailable, it waits, searches for
// the server at other addresses, and resumes after the last event.
func (l *listener) run(ctx context.Context) error {
	ctx, l.stop = context.WithCancel(ctx)
	defer l.stop()
	l.lanes = newLanes(func(ev *sluice.Event) { l.deliver(ctx, ev) })
	err := l.fetch(ctx)
	if err != nil {
		l.stop()
	}
	// The attempts in flight have terminal.Grace; they are printed before the command ends.
	l.lanes.working.Wait()
	return cmp.Or(l.failed, err)
}

// fetch reads the feed, and returns nil when ctx ends. Before the first connection an unavailable
// server is an error. Afterwards fetch tries again with doubling pauses; it reads the address each
// time, because a restarted server may have another port.
func (l *listener) fetch(ctx context.Context) error {
	pause := awayShortest
	for ctx.Err() == nil {
		api, err := l.session.Client()
		if err == nil {
			before := l.resume
			err = l.follow(ctx, api)
			if l.resume != before {
				pause = awayShortest
			}
		}
		code := sluice.CodeOf(err)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // listening ends like this
		case code == sluice.WindowExceeded && l.skip(err):
		case l.said && (code == sluice.Unavailable || code == sluice.QuotaExceeded || code == sluice.Internal):
			if pause == awayShortest {
				l.session.Complain("sluice: connection lost; reconnecting: %v", err)
			}
			wait(ctx, pause)
			pause = min(2*pause, awayLongest)
		default:
			return fmt.Errorf("listen: %w", err)
		}
	}
	return nil
}

// wait pauses, or returns early when ctx ends.
func wait(ctx context.Context, pause time.Duration) {
	select {
	case <-time.After(pause):
	case <-ctx.Done():
	}
}

// skip reports whether the next position is known after events were lost before they could be
// fetched. WindowExceeded names the oldest stored sequence in its details, from which the feed can
// continue.
func (l *listener) skip(err error) bool {
	e, ok := errors.AsType[*sluice.Error](err)
	if !ok {
		return false
	}
	oldest, ok := e.Details["oldest_available_seq"].(float64)
	if !ok || oldest < 1 {
		return false
	}
	next := strconv.FormatUint(uint64(oldest)-1, 10)
	l.session.Complain("sluice: events between %s and %s left the log before they were forwarded", l.resume, next)
	l.resume = next
	return true
}

// deliver makes the attempts at one event and prints them. When the context ends, it starts no more
// attempts; the attempt in flight may take the grace time, and is printed.
func (l *listener) deliver(ctx context.Context, ev *sluice.Event) {
	ev.Namespace = l.cmd.NS
	for number := 1; ctx.Err() == nil; number++ {
		outcome, err := l.attempt(ctx, ev, number)
		if err != nil || outcome == sluice.Delivered || number > l.cmd.Retries {
			return
		}
		wait(ctx, listenAgain)
	}
}

// attempt makes one attempt and prints it.
func (l *listener) attempt(ctx context.Context, ev *sluice.Event, number int) (sluice.Outcome, error) {
	ctx, done := terminal.Outliving(ctx, terminal.Grace)
	defer done()
	a := l.sender.Send(ctx, &l.sub, ev, number)
	return a.Outcome, l.report(ev, a)
}

// report prints an attempt as a line: time, type, path, ID, status or error, and duration.
func (l *listener) report(ev *sluice.Event, a sluice.Attempt) error {
	if l.session.IsJSON() {
		return l.print(func() error { return l.session.PrintLine(a) })
	}
	outcome := strconv.Itoa(a.Status)
	if a.Status == 0 || a.Status >= 300 && a.Status < 400 {
		outcome = a.Error
	}
	colour := terminal.Red
	if a.Outcome == sluice.Delivered {
		colour = terminal.Green
	}
	paint := l.session.Painter("auto", l.session.Watched)
	return l.print(func() error {
		err := l.session.Say("%s  %s  %s  %s  → %s  %s", a.StartedAt.Local().Format(time.TimeOnly), a.Type, a.Path, a.EventID,
			paint.Paint(colour, outcome), a.Duration.Std().Round(100*time.Microsecond))
		if l.cmd.Bodies && err == nil {
			err = l.bodies(ev, a)
		}
		return err
	})
}

// bodies prints the data of an event, and the body of the response to a failed attempt.
func (l *listener) bodies(ev *sluice.Event, a sluice.Attempt) error {
	if len(ev.Data) > 0 {
		if err := l.session.Say("  %s", bodyText(ev.Data)); err != nil {
			return err
		}
	}
	if a.Response == "" {
		return nil
	}
	return l.session.Say("  → %s", bodyText([]byte(a.Response)))
}

// print prints a line of JSON or text, unless printing an earlier line failed. It may be called by
// several goroutines. The first failure ends the command.
func (l *listener) print(line func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == nil {
		if l.failed = line(); l.failed != nil {
			l.stop()
		}
	}
	return l.failed
}
