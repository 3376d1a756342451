package main

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/sluice-io/sluice/internal/demo"

	"github.com/sluice-io/sluice/internal/doctor"

	"github.com/sluice-io/sluice/internal/terminal"

	"github.com/alecthomas/kong"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// cli is the command line.
type cli struct {
	terminal.Flags

	Serve       serveCmd       `cmd:"" help:"Run a server."`
	Demo        demo.Cmd       `cmd:"" help:"Run a server, two receivers and a stream of events, and show the deliveries."`
	Pub         pubCmd         `cmd:"" help:"Publish one event, or many from a file."`
	Sub         subCmd         `cmd:"" help:"Manage subscriptions."`
	Deliveries  deliveriesCmd  `cmd:"" help:"List the deliveries of a subscription, or explain one."`
	Dead        deadCmd        `cmd:"" help:"List, redrive and discard dead letters."`
	Consumers   consumersCmd   `cmd:"" help:"List the consumers of a subscription of mode wake, or show one."`
	Listen      listenCmd      `cmd:"" help:"Forward signed events to a port of this machine, and show the responses."`
	NS          nsCmd          `cmd:"" name:"ns" help:"Manage namespaces."`
	Types       typesCmd       `cmd:"" help:"Manage the event types in the catalogue of a namespace."`
	Events      eventsCmd      `cmd:"" help:"List and show events."`
	Feed        feedCmd        `cmd:"" help:"Follow events live."`
	Ticket      ticketCmd      `cmd:"" help:"Create a URL that opens feeds without a token, for a web page or curl."`
	State       stateCmd       `cmd:"" help:"Show the latest event on each path."`
	Topics      topicsCmd      `cmd:"" help:"List the paths of a namespace and of its mirrors."`
	Schedule    scheduleCmd    `cmd:"" help:"Schedule events, list scheduled events, and cancel them."`
	Appointment appointmentCmd `cmd:"" name:"appointment" help:"Manage appointments: publish an event at a set time, with advance notice and a policy for missed times."`
	Watch       watchCmd       `cmd:"" help:"Manage watches: publish an event when other events meet a condition."`
	Mirror      mirrorCmd      `cmd:"" help:"Manage mirrors: copies of namespaces in other namespaces."`
	Knowledge   knowledgeCmd   `cmd:"" help:"Manage enrichment: embeddings, neighbours and comparisons of entries, and the jobs of workers."`
	Module      moduleCmd      `cmd:"" help:"Manage modules: programs that run on events."`
	Stream      streamCmd      `cmd:"" help:"Create, append to, read, close and delete Durable Streams."`
	Grant       grantCmd       `cmd:"" help:"Issue, list, renew and revoke grants."`
	ACL         aclCmd         `cmd:"" name:"acl" help:"Manage the access lists of namespaces."`
	Principal   principalCmd   `cmd:"" help:"Manage the clearances of principals."`
	Whoami      whoamiCmd      `cmd:"" help:"Show the principal of your token, and its permissions."`
	Erase       eraseCmd       `cmd:"" help:"Erase everything on a path, permanently."`
	Audit       auditCmd       `cmd:"" help:"List changes and their actors."`
	Keys        keysCmd        `cmd:"" help:"List and rotate the server's signing keys."`
	Secrets     secretsCmd     `cmd:"" help:"List and rotate the keys that seal secrets in the store."`
	Producers   producersCmd   `cmd:"" help:"List producers that are marked unsafe, and clear the mark."`
	Backup      backupCmd      `cmd:"" help:"Back up the store of a stopped server to a directory."`
	Restore     restoreCmd     `cmd:"" help:"Restore a backup into an empty store."`
	Doctor      doctor.Cmd     `cmd:"" help:"Check configuration, data directory, server, NATS, clock and disk."`
	NATSCtx     contextCmd     `cmd:"" name:"nats-context" help:"Write a context with which the nats command connects to this machine's server."`
	Version     versionCmd     `cmd:"" help:"Print the version."`
}

// run executes a command line and returns the exit status.
func run(ctx context.Context, args []string, s *terminal.Session) int {
	var c cli
	parser, err := kong.New(
		&c, kong.Name("sluice"), kong.Description("Sluice delivers NATS JetStream events as signed webhooks, agent wake-ups, live feeds and Durable Streams."),
		kong.Writers(s.Stdout, s.Stderr), kong.Exit(s.Exit), kong.WithHyphenPrefixedParameters(true), kong.Bind(s), kong.BindTo(ctx, (*context.Context)(nil)),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true, WrapUpperBound: 100}),
		kong.TypeMapper(reflect.TypeFor[time.Time](), kong.MapperFunc(decodeTime)),
		kong.TypeMapper(reflect.TypeFor[time.Duration](), kong.MapperFunc(decodeSpan)),
		kong.TypeMapper(reflect.TypeFor[sluice.Duration](), kong.MapperFunc(decodeSpan)),
		kong.TypeMapper(reflect.TypeFor[*sluice.Duration](), kong.MapperFunc(decodeSpan)), // or it would be read as its text
		kong.ExplicitGroups([]kong.Group{{Key: "common", Title: "Global flags:"}}),
	)
	if err != nil {
		return s.Fail(err)
	}
	command, err := parser.Parse(args)
	s.Flags = c.Flags
	if err != nil {
		return s.Fail(terminal.Usage(refusal(err)))
	}
	if err := command.Run(); err != nil {
		return s.Fail(err)
	}
	return 0
}

// refusal returns the error of a command line. For a flag with a value that is not one of its own it names these, where the
// parser names those that stand for no flag, too.
func refusal(err error) error {
	parse, ok := errors.AsType[*kong.ParseError](err)
	if !ok || !strings.Contains(err.Error(), "must be one of") {
		return err
	}
	for _, flag := range parse.Context.Flags() {
		values, is := flag.EnumSlice(), fmt.Sprint(flag.Target)
		if flag.Enum == "" || slices.Contains(values, is) {
			continue
		}
		values = slices.DeleteFunc(values, func(v string) bool { return v == "" })
		last := len(values) - 1
		return fmt.Errorf("--%s %q: use %s or %s", flag.Name, is, strings.Join(values[:last], ", "), values[last])
	}
	return err
}

// decodeTime reads a flag that is a time.
func decodeTime(c *kong.DecodeContext, target reflect.Value) error {
	text, err := c.Scan.PopValue("time")
	if err != nil {
		return fmt.Errorf("read the time: %w", err)
	}
	at, err := time.Parse(time.RFC3339, text.String())
	if err != nil {
		return fmt.Errorf("%q is not an RFC 3339 time such as 2026-01-31T00:00:00Z", text)
	}
	target.Set(reflect.ValueOf(at))
	return nil
}

// decodeSpan reads a flag that is a time.Duration or a sluice.Duration, in Go's form or in days.
func decodeSpan(c *kong.DecodeContext, target reflect.Value) error {
	text, err := c.Scan.PopValue("duration")
	if err != nil {
		return fmt.Errorf("read the duration: %w", err)
	}
	if target.Kind() == reflect.Pointer {
		target.Set(reflect.New(target.Type().Elem()))
		target = target.Elem()
	}
	d, err := sluice.ParseSpan(text.String())
	if err != nil {
		return err
	}
	target.SetInt(int64(d))
	return nil
}
