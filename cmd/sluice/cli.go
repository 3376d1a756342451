package main

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/sluice-io/sluice/internal/command/accesscmd"
	"github.com/sluice-io/sluice/internal/command/knowledgecmd"
	"github.com/sluice-io/sluice/internal/command/mirrorcmd"
	"github.com/sluice-io/sluice/internal/command/modulecmd"
	"github.com/sluice-io/sluice/internal/command/namespacecmd"
	"github.com/sluice-io/sluice/internal/command/schedulecmd"
	"github.com/sluice-io/sluice/internal/command/subscriptioncmd"
	"github.com/sluice-io/sluice/internal/demo"
	"github.com/sluice-io/sluice/internal/doctor"
	"github.com/sluice-io/sluice/internal/terminal"

	"github.com/alecthomas/kong"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// cli is the command line.
type cli struct {
	terminal.Flags

	ShowVersion versionFlag `name:"version" short:"V" help:"Print the version."`

	Serve      serveCmd                      `cmd:"" group:"start" help:"Run a server."`
	Sub        subscriptioncmd.Cmd           `cmd:"" group:"start" aliases:"subs,subscription,subscriptions" help:"Manage subscriptions."`
	Status     subscriptioncmd.StatusCmd     `cmd:"" group:"start" help:"Show subscriptions with a problem, worst first."`
	Overview   subscriptioncmd.OverviewCmd   `cmd:"" group:"start" help:"Sum up the deliveries of all subscriptions."`
	Problems   subscriptioncmd.ProblemsCmd   `cmd:"" group:"start" aliases:"problem" help:"Show why deliveries fail, and the remedy."`
	Pub        pubCmd                        `cmd:"" group:"start" aliases:"publish" help:"Publish one event, or many from a file."`
	Deliveries subscriptioncmd.DeliveriesCmd `cmd:"" group:"start" aliases:"delivery" help:"List the deliveries of a subscription, or explain one."`
	Listen     listenCmd                     `cmd:"" group:"start" help:"Forward signed events to a port of this machine, and show the responses."`
	Demo       demo.Cmd                      `cmd:"" group:"start" help:"Show that deliveries survive failing receivers and kill -9, in three acts; then a playground."`

	Event       subscriptioncmd.EventCmd   `cmd:"" group:"events" help:"Show who got an event, and why others did not."`
	Tail        tailCmd                    `cmd:"" group:"events" help:"Follow attempts as they happen."`
	Events      eventsCmd                  `cmd:"" group:"events" help:"List and show events."`
	Feed        feedCmd                    `cmd:"" group:"events" help:"Follow events live."`
	State       stateCmd                   `cmd:"" group:"events" help:"Show the latest event on each path."`
	Topics      topicsCmd                  `cmd:"" group:"events" help:"List the paths of a namespace and of its mirrors."`
	Dead        subscriptioncmd.DeadCmd    `cmd:"" group:"events" aliases:"dead-letters,dead-letter" help:"List, redrive and discard dead letters."`
	Schedule    schedulecmd.Cmd            `cmd:"" group:"events" aliases:"schedules" help:"Schedule events, list scheduled events, and cancel them."`
	Appointment schedulecmd.AppointmentCmd `cmd:"" group:"events" aliases:"appointments" name:"appointment" help:"Manage appointments: publish an event at a set time, with advance notice and a policy for missed times."`
	Receive     receiveCmd                 `cmd:"" group:"events" help:"Run a receiver that prints requests, verifies them, and fails by plan."`
	Verify      verifyCmd                  `cmd:"" group:"events" help:"Verify the signature of a request in a file."`
	Sign        signCmd                    `cmd:"" group:"events" help:"Sign a body as the server does."`
	Ticket      accesscmd.TicketCmd        `cmd:"" group:"events" help:"Create a URL that opens feeds without a token, for a web page or curl."`

	NS        namespacecmd.Cmd             `cmd:"" group:"setup" name:"ns" aliases:"namespace,namespaces" help:"Manage namespaces."`
	Types     namespacecmd.TypesCmd        `cmd:"" group:"setup" aliases:"type" help:"Manage the event types in the catalogue of a namespace."`
	Consumers subscriptioncmd.ConsumersCmd `cmd:"" group:"setup" aliases:"consumer" help:"List the consumers of a subscription of mode wake, or show one."`
	Watch     schedulecmd.WatchCmd         `cmd:"" group:"setup" aliases:"watches" help:"Manage watches: publish an event when other events meet a condition."`
	Mirror    mirrorcmd.Cmd                `cmd:"" group:"setup" aliases:"mirrors" help:"Manage mirrors: copies of namespaces in other namespaces."`
	Stream    streamCmd                    `cmd:"" group:"setup" aliases:"streams" help:"Create, append to, read, close and delete Durable Streams."`
	Module    modulecmd.Cmd                `cmd:"" group:"setup" aliases:"modules" help:"Manage modules: programs that run on events."`
	Knowledge knowledgecmd.Cmd             `cmd:"" group:"setup" help:"Manage enrichment: embeddings, neighbours and comparisons of entries, and the jobs of workers."`

	Grant     accesscmd.GrantCmd     `cmd:"" group:"access" aliases:"grants" help:"Issue, list, renew and revoke grants."`
	Portal    accesscmd.PortalCmd    `cmd:"" group:"access" help:"Create links to the portal, for tenants."`
	ACL       accesscmd.ACLCmd       `cmd:"" group:"access" name:"acl" aliases:"acls" help:"Manage the access lists of namespaces."`
	Principal accesscmd.PrincipalCmd `cmd:"" group:"access" aliases:"principals" help:"Manage the clearances of principals."`
	Whoami    accesscmd.WhoamiCmd    `cmd:"" group:"access" help:"Show the principal of your token, and its permissions."`
	Audit     auditCmd               `cmd:"" group:"access" help:"List changes and their actors."`
	Erase     accesscmd.EraseCmd     `cmd:"" group:"access" help:"Erase everything on a path, permanently."`

	Ready     readyCmd     `cmd:"" group:"server" help:"Check whether the server is ready."`
	Doctor    doctor.Cmd   `cmd:"" group:"server" help:"Check configuration, data directory, server, NATS, clock and disk."`
	Settings  settingsCmd  `cmd:"" group:"server" help:"List the settings of the server."`
	Keys      keysCmd      `cmd:"" group:"server" aliases:"key" help:"List and rotate the server's signing keys."`
	Secrets   secretsCmd   `cmd:"" group:"server" aliases:"secret" help:"List and rotate the keys that seal secrets in the store."`
	Producers producersCmd `cmd:"" group:"server" aliases:"producer" help:"List producers that are marked unsafe, and clear the mark."`
	Backup    backupCmd    `cmd:"" group:"server" help:"Back up the store of a stopped server to a directory."`
	Restore   restoreCmd   `cmd:"" group:"server" help:"Restore a backup into an empty store."`

	Context    contextsCmd    `cmd:"" group:"tools" aliases:"contexts" help:"Manage contexts: servers with their tokens and namespaces."`
	NATSCtx    natsContextCmd `cmd:"" group:"tools" name:"nats-context" help:"Write a context with which the nats command connects to this machine's server."`
	Completion completionCmd  `cmd:"" group:"tools" help:"Print the script with which a shell completes command lines."`
	Man        manCmd         `cmd:"" group:"tools" help:"Print the manual page."`
	Help       helpCmd        `cmd:"" group:"tools" help:"Show the help of a command."`
	Version    versionCmd     `cmd:"" group:"tools" help:"Print the version."`
}

// groups are the groups of commands and flags in the help. They have the order of the help. The
// manual page has only commands of these groups.
func groups() []kong.Group {
	return []kong.Group{
		{Key: "start", Title: "Start:"},
		{Key: "events", Title: "Events:"},
		{Key: "setup", Title: "Set up:"},
		{Key: "access", Title: "Access:"},
		{Key: "server", Title: "Server:"},
		{Key: "tools", Title: "This command:"},
		{Key: common, Title: "Global flags:"},
	}
}

// newParser returns the parser of a command line. It calls exit after --help and --version.
// Commands get the session and ctx as arguments of Run. Values come from the command line, else the
// environment, else the context, else the default. A context that --context names precedes the
// environment.
func newParser(ctx context.Context, c *cli, s *terminal.Session, exit func(int)) (*kong.Kong, error) {
	parser, err := kong.New(
		c, kong.Name("sluice"), kong.Description("Sluice delivers NATS JetStream events as signed webhooks, agent wake-ups, live feeds and Durable Streams."),
		kong.Writers(s.Stdout, s.Stderr), kong.Exit(exit), kong.WithHyphenPrefixedParameters(true), kong.Bind(s), kong.BindTo(ctx, (*context.Context)(nil)),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true, FlagsLast: true, WrapUpperBound: 100}), kong.Help(printHelp),
		kong.TypeMapper(reflect.TypeFor[time.Time](), kong.MapperFunc(decodeTime)),
		kong.TypeMapper(reflect.TypeFor[time.Duration](), kong.MapperFunc(decodeSpan)),
		kong.TypeMapper(reflect.TypeFor[sluice.Duration](), kong.MapperFunc(decodeSpan)),
		kong.TypeMapper(reflect.TypeFor[*sluice.Duration](), kong.MapperFunc(decodeSpan)), // otherwise kong would use UnmarshalText
		kong.ExplicitGroups(groups()), kong.PostBuild(addAliases), kong.Resolvers(contextResolver{s}),
	)
	if err != nil {
		return nil, fmt.Errorf("build the command line: %w", err)
	}
	return parser, nil
}

// run executes a command line and returns the exit status. The statuses are those of package
// terminal: 0, ExitFailure for a failed command, ExitUsage for an invalid command line, ExitPipe if
// the reader of stdout has left.
func run(ctx context.Context, args []string, s *terminal.Session) int {
	var c cli
	ended := -1 // the status of a command line that the parser answers: --help, --version
	parser, err := newParser(ctx, &c, s, func(status int) {
		ended = status
		s.Exit(status)
	})
	if err != nil {
		return s.Fail(err)
	}
	if len(args) > 0 && args[0] == completeWord {
		if err := complete(s, parser.Model, args[1:]); err != nil {
			return s.Fail(err)
		}
		return 0
	}
	command, err := parser.Parse(helpArgs(args))
	// The flags are set also after an error, which is printed in the requested format.
	s.Flags = c.Flags
	if ended >= 0 {
		return ended
	}
	if lacking := incomplete(err); lacking != nil {
		if err := lacking.PrintUsage(false); err != nil {
			return s.Fail(err)
		}
		return terminal.ExitUsage
	}
	if unusable, ok := errors.AsType[contextError](err); ok {
		return s.Fail(unusable.error)
	}
	if err != nil {
		return s.Fail(terminal.Usage(refusal(err)))
	}
	if err := command.Run(); err != nil {
		return s.Fail(err)
	}
	return 0
}

// refusal returns the error of a command line. For a flag with an invalid value, it names the valid
// values. The parser's own error would also name the values that stand for an absent flag.
// Enumerations with an empty value, which stands for an absent flag, have at least two others.
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

// decodeTime parses a flag that is a time. Ages are decoded by the commands that accept them, from
// text flags.
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

// decodeSpan parses a flag that is a time.Duration or a sluice.Duration, in Go's form or in days.
// "7d" and "1h30m" are valid. Bounds and signs are checked by the commands.
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
