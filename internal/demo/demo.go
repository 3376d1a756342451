package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Cmd runs the demonstration. It needs no server, no settings and no network: it starts its own
// server on free ports, with a data directory of its own, and ignores the variables SLUICE_….
type Cmd struct {
	From    string        `help:"Publish a file's lines, each {\"id\",\"type\",\"path\",\"data\"}, in act 2, instead of generated orders." type:"existingfile" placeholder:"FILE"`
	Events  int           `help:"Number of events in act 2; default: 200, or all of the file." placeholder:"N"`
	Over    time.Duration `help:"Duration of publishing in act 2." default:"3s" placeholder:"3s"`
	Timeout time.Duration `help:"Maximum wait for each statement to hold." default:"60s" placeholder:"60s"`
	Exit    bool          `help:"End after the acts. Otherwise, on a terminal, the server and the receiver continue until interrupted." xor:"after"`
	Keep    bool          `help:"Continue until interrupted, and keep the data directory." xor:"after"`
}

// Run plays the acts. It returns an error unless all statements hold and all events have arrived,
// verified and in order. The server is stopped and, without --keep, its directory removed in every
// case. An interrupt during the acts is an error; in the playground it ends the command with exit
// status 0.
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
	server, err := newServer(s, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.stop()) }()
	d := newDemo(s, c, server, events)
	if err := d.open(ctx); err != nil {
		return err
	}
	defer d.receiver.close(ctx)
	failed := d.play(ctx)
	goOn := failed == nil && c.continues(s)
	if !goOn {
		d.receiver.close(ctx) // answers in progress are printed before the summary
	}
	if err := errors.Join(failed, d.record.conclude(s, d.stage.statements)); err != nil || !goOn {
		return err
	}
	return d.playground(ctx)
}

// continues reports whether a playground follows: with --keep, and by default at a terminal.
func (c *Cmd) continues(s *terminal.Session) bool {
	return c.Keep || s.Interactive && !c.Exit && !s.IsJSON()
}

// events returns the events of act 2, every one with an ID. A file's events beyond --events, or
// else maxEvents, are ignored. Events with the same ID are expected once.
func (c *Cmd) events() ([]sluice.Event, error) {
	if c.Events < 0 {
		return nil, terminal.Usagef("--events %d: write a number above 0", c.Events)
	}
	if c.From == "" {
		return scans(cmp.Or(c.Events, 200)), nil
	}
	lines, err := terminal.OpenEvents(c.From, nil)
	if err != nil {
		return nil, err
	}
	defer lines.Close()
	events, err := lines.Next(cmp.Or(c.Events, maxEvents), sluice.Event{})
	for i := range events {
		if events[i].ID == "" {
			events[i].ID = fmt.Sprintf("demo-%06d", i+1)
		}
	}
	return events, err
}

const maxEvents = 100_000

// subscription is the ID of the demonstration's subscription.
const subscription = "orders"

// demo is one run: a server, a receiver with its subscription, and the published events.
//
//	publish ──► server (a process, killed in act 2) ──► receiver (in this process)
//	   │                                                   │
//	   └────────────────► record ◄─────────────────────────┘
//	                        └──► statements on the stage
type demo struct {
	cmd      *Cmd
	stage    *stage
	server   *server
	receiver *receiver
	record   *record
	events   []sluice.Event // of act 2
}

func newDemo(s *terminal.Session, c *Cmd, server *server, events []sluice.Event) *demo {
	d := &demo{cmd: c, server: server, events: events, stage: newStage(s), record: newRecord(slices.Concat(lives(), events))}
	d.receiver = newReceiver(d.record, d.stage)
	return d
}

// open starts the server and the receiver, and creates the receiver's subscription.
func (d *demo) open(ctx context.Context) error {
	if err := d.server.start(ctx); err != nil {
		return err
	}
	if err := d.receiver.listen(ctx); err != nil {
		return err
	}
	d.stage.say("A server runs as process %d at %s, its data in %s.\nA receiver in this process verifies each signature; the subscription %s sends it every event.",
		d.server.pid(), d.server.addresses().HTTP, d.server.data, subscription)
	return d.subscribe(ctx)
}

// subscribe creates the receiver's subscription. Its retries are short, so that a demonstration
// shows them. Start "all" delivers events that were published before it, too.
func (d *demo) subscribe(ctx context.Context) error {
	_, _, err := d.server.client().CreateSubscription(ctx, client.SubscriptionSpec{
		ID: subscription, Pattern: "/**", Start: "all", Description: "created by sluice demo",
		Endpoint: sluice.Endpoint{URL: d.receiver.url, Secret: d.receiver.secret},
		Policy: &sluice.Policy{Retry: sluice.Retry{
			Preset: sluice.PresetCustom, MaxAttempts: 50,
			Steps: []sluice.Duration{sluice.Duration(time.Second), sluice.Duration(2 * time.Second)},
		}},
	})
	if err != nil {
		return fmt.Errorf("demo: subscribe: %w", err)
	}
	return nil
}

// playground keeps the server and the receiver running until the context ends.
func (d *demo) playground(ctx context.Context) error {
	then := "then " + d.server.dir + " is removed"
	if d.cmd.Keep {
		then = d.server.dir + " stays"
	}
	d.stage.playground(d.server, then)
	d.receiver.play()
	select {
	case <-ctx.Done():
		return nil
	case <-d.server.over():
		return fmt.Errorf("demo: the server ended; its log is %s", filepath.Join(d.server.dir, logFile))
	}
}
