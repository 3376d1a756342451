package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/sluice-io/sluice/internal/datadir"
	"github.com/sluice-io/sluice/internal/terminal"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/app"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Cmd runs the demonstration in one process.
type Cmd struct {
	From    string        `help:"Publish a file's lines, each {\"id\",\"type\",\"path\",\"data\"}, instead of generated orders." type:"existingfile" placeholder:"FILE"`
	Events  int           `help:"Number of events; default: 40, or all of the file." placeholder:"N"`
	Over    time.Duration `help:"Duration of publishing." default:"10s" placeholder:"10s"`
	Timeout time.Duration `help:"Maximum wait for the last deliveries." default:"60s" placeholder:"60s"`
	Keep    bool          `help:"Continue until interrupted, and keep the data directory."`
}

// Run runs the server, publishes, and waits for everything to arrive. It fails unless all events
// have arrived at both receivers, verified and in order.
func (c *Cmd) Run(ctx context.Context, s *terminal.Session) (err error) {
	events, err := c.events()
	if err != nil {
		return err
	}
	if len(events) == 0 {
		return terminal.Usagef("no events to publish")
	}
	dir, err := os.MkdirTemp("", "sluice-demo-")
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	if !c.Keep {
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	server, err := startServer(ctx, s, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	d := newDemo(s, server.api, events)
	if err := d.sayWhere(server, dir); err != nil {
		return err
	}
	return d.run(ctx, c)
}

// events returns the events to publish, every one with an id.
func (c *Cmd) events() ([]sluice.Event, error) {
	if c.Events < 0 {
		return nil, terminal.Usagef("--events %d: write a number above 0", c.Events)
	}
	if c.From == "" {
		return madeUp(cmp.Or(c.Events, 40)), nil
	}
	lines, err := terminal.OpenEvents(c.From, nil)
	if err != nil {
		return nil, err
	}
	defer lines.Close()
	events, err := lines.Next(cmp.Or(c.Events, maxDemoEvents), sluice.Event{})
	for i := range events {
		if events[i].ID == "" {
			events[i].ID = fmt.Sprintf("demo-%06d", i+1)
		}
	}
	return events, err
}

const maxDemoEvents = 100_000

// demoServer is the server in this process.
type demoServer struct {
	addresses datadir.Addresses
	api       *client.Client
	cancel    context.CancelFunc
	ended     chan error
}

// startServer starts a server on free ports with its data in dir, and waits until it is ready.
func startServer(ctx context.Context, s *terminal.Session, dir string) (*demoServer, error) {
	cfg := config.Default()
	cfg.Data, cfg.Dev = dir, true
	cfg.HTTP.Listen, cfg.NATS.Listen = "127.0.0.1:0", "127.0.0.1:0"
	log := slog.New(slog.NewTextHandler(s.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	running, cancel := context.WithCancel(context.WithoutCancel(ctx)) // ended by stop, after the receivers
	ready := make(chan datadir.Addresses, 1)
	server := &demoServer{cancel: cancel, ended: make(chan error, 1)}
	go func() { // stop waits for it
		server.ended <- app.Run(running, cfg, app.Options{
			Log: log, Version: terminal.Version(), Ready: func(a datadir.Addresses) { ready <- a },
		})
	}()
	select {
	case server.addresses = <-ready:
	case err := <-server.ended:
		cancel()
		return nil, fmt.Errorf("demo: the server did not start: %w", err)
	case <-ctx.Done():
		return nil, errors.Join(context.Cause(ctx), server.stop())
	}
	token, err := terminal.ReadToken(dir)
	if err != nil {
		return nil, errors.Join(err, server.stop())
	}
	if server.api, err = s.ClientOf(server.addresses.HTTP, token); err != nil {
		return nil, errors.Join(err, server.stop())
	}
	return server, nil
}

func (d *demoServer) stop() error {
	d.cancel()
	return <-d.ended
}

// demo is one run: two receivers, their subscriptions, and the published events.
type demo struct {
	session   *terminal.Session
	api       *client.Client
	events    []sluice.Event
	report    *report
	receivers []*receiver
	every     int // one event in this many is refused at first
}

func newDemo(s *terminal.Session, api *client.Client, events []sluice.Event) *demo {
	d := &demo{session: s, api: api, events: events, report: newReport(s, events)}
	// Refusals wait for each other where the events share a path: about thirteen at the most.
	d.every = max(3, len(events)/13)
	d.receivers = []*receiver{newReceiver("steady", d.report, never), newReceiver("stubborn", d.report, stubborn(d.every))}
	for _, r := range d.receivers {
		d.report.tally(r.name) // in this order, whichever is first
	}
	return d
}

func (d *demo) sayWhere(server *demoServer, dir string) error {
	if d.session.IsJSON() {
		return nil
	}
	return d.session.Say("Server at %s, NATS at %s, data in %s.\n"+
		"Two receivers: steady accepts everything; stubborn returns 503 to the first two attempts of one event in %d.\n",
		server.addresses.HTTP, server.addresses.NATS, dir, d.every)
}

func (d *demo) run(ctx context.Context, c *Cmd) error {
	for _, r := range d.receivers {
		if err := r.listen(ctx); err != nil {
			return err
		}
		defer r.close(ctx)
		if err := d.subscribe(ctx, r); err != nil {
			return err
		}
	}
	if err := d.report.heading(); err != nil {
		return err
	}
	failed := d.publish(ctx, c.Over)
	if failed == nil {
		d.await(ctx, c.Timeout)
	}
	if !c.Keep || ctx.Err() != nil {
		d.close(ctx) // answers in progress are printed before the summary
	}
	err := errors.Join(failed, d.report.conclude())
	if c.Keep && ctx.Err() == nil {
		d.session.Complain("Server and receivers run until interrupted.")
		<-ctx.Done()
	}
	return err
}

// await waits until everything has arrived, for as long as the limit and the context last.
func (d *demo) await(ctx context.Context, limit time.Duration) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	select {
	case <-d.report.complete:
	case <-limited.Done():
	}
}

func (d *demo) close(ctx context.Context) {
	for _, r := range d.receivers {
		r.close(ctx)
	}
}

// subscribe creates the receiver's subscription. Its retries are short, so that a demonstration
// shows them.
func (d *demo) subscribe(ctx context.Context, r *receiver) error {
	_, _, err := d.api.CreateSubscription(ctx, client.SubscriptionSpec{
		ID: r.name, Pattern: "/**", Start: "all", Description: "created by sluice demo",
		Endpoint: sluice.Endpoint{URL: r.url, Secret: r.secret},
		Policy: &sluice.Policy{Retry: sluice.Retry{
			Preset: sluice.PresetCustom, MaxAttempts: 8,
			Steps: []sluice.Duration{sluice.Duration(time.Second), sluice.Duration(2 * time.Second)},
		}},
	})
	if err != nil {
		return fmt.Errorf("demo: subscribe %s: %w", r.name, err)
	}
	return nil
}

// publish spreads the events evenly over the time.
func (d *demo) publish(ctx context.Context, over time.Duration) error {
	tick := time.NewTicker(max(over/time.Duration(len(d.events)), time.Microsecond))
	defer tick.Stop()
	for _, ev := range d.events {
		d.report.publishing(ev.ID)
		stored, err := d.api.Publish(ctx, sluice.DefaultNamespace, ev)
		if err != nil {
			return fmt.Errorf("demo: publish: %w", err)
		}
		d.report.published(stored[0])
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("demo: publish: %w", context.Cause(ctx))
		}
	}
	return nil
}
