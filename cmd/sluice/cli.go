package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"reflect"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// The exit statuses.
const (
	exitFailure = 1                          // what was asked for did not come about
	exitUsage   = 2                          // the command line makes no sense
	exitPipe    = 128 + int(syscall.SIGPIPE) // stdout was closed by its reader, as shells write it
)

// requestID is the detail by which the server's log knows a request.
const requestID = "request_id"

// cli is the command line.
type cli struct {
	Server string `help:"URL of the server; default: the server of the data directory." env:"SLUICE_URL" placeholder:"URL" group:"common"`
	Token  string `help:"Bearer token; default (without --server): the root token in the data directory." env:"SLUICE_TOKEN" placeholder:"TOKEN" group:"common"`
	CA     string `name:"ca" help:"PEM file of trusted authorities for https, instead of the system's." env:"SLUICE_CA" placeholder:"FILE" group:"common"`
	Cert   string `help:"PEM file of a client certificate, if the server requires one." env:"SLUICE_CERT" placeholder:"FILE" group:"common"`
	Key    string `help:"PEM file of the client certificate's key." env:"SLUICE_KEY" placeholder:"FILE" group:"common"`
	Data   string `help:"Data directory of the server on this machine." env:"SLUICE_DATA" placeholder:"DIR" group:"common"`
	Output string `short:"o" help:"Output format: table or json." enum:"table,json" default:"table" group:"common"`

	Serve      serveCmd      `cmd:"" help:"Run a server."`
	Demo       demoCmd       `cmd:"" help:"Run a server, two receivers and a stream of events, and show the deliveries."`
	Pub        pubCmd        `cmd:"" help:"Publish one event, or many from a file."`
	Sub        subCmd        `cmd:"" help:"Manage subscriptions."`
	Deliveries deliveriesCmd `cmd:"" help:"List the deliveries of a subscription, or explain one."`
	Dead       deadCmd       `cmd:"" help:"List, redrive and discard dead letters."`
	Consumers  consumersCmd  `cmd:"" help:"List the consumers of a subscription of mode wake, or show one."`
	Listen     listenCmd     `cmd:"" help:"Forward signed events to a port of this machine, and show the responses."`
	NS         nsCmd         `cmd:"" name:"ns" help:"Manage namespaces."`
	Types      typesCmd      `cmd:"" help:"Manage the event types in the catalogue of a namespace."`
	Events     eventsCmd     `cmd:"" help:"List and show events."`
	Feed       feedCmd       `cmd:"" help:"Follow events live."`
	Ticket     ticketCmd     `cmd:"" help:"Create a URL that opens feeds without a token, for a web page or curl."`
	State      stateCmd      `cmd:"" help:"Show the latest event on each path."`
	Schedule   scheduleCmd   `cmd:"" help:"Schedule events, list scheduled events, and cancel them."`
	Appoint    appointCmd    `cmd:"" name:"appointment" help:"Manage appointments: publish an event at a set time, with advance notice and a policy for missed times."`
	Watch      watchCmd      `cmd:"" help:"Publish an event when other events match a condition."`
	Stream     streamCmd     `cmd:"" help:"Create, append to, read, close and delete Durable Streams."`
	Grant      grantCmd      `cmd:"" help:"Issue, list, renew and revoke grants."`
	ACL        aclCmd        `cmd:"" name:"acl" help:"Manage the access lists of namespaces."`
	Principal  principalCmd  `cmd:"" help:"Manage the clearances of principals."`
	Whoami     whoamiCmd     `cmd:"" help:"Show the principal of your token, and its permissions."`
	Erase      eraseCmd      `cmd:"" help:"Erase everything on a path, permanently."`
	Audit      auditCmd      `cmd:"" help:"List changes and their actors."`
	Keys       keysCmd       `cmd:"" help:"List and rotate the server's signing keys."`
	Secrets    secretsCmd    `cmd:"" help:"List and rotate the keys that seal secrets in the store."`
	Producers  producersCmd  `cmd:"" help:"List producers that are marked unsafe, and clear the mark."`
	Backup     backupCmd     `cmd:"" help:"Back up the store of a stopped server to a directory."`
	Restore    restoreCmd    `cmd:"" help:"Restore a backup into an empty store."`
	Doctor     doctorCmd     `cmd:"" help:"Check configuration, data directory, server, NATS, clock and disk."`
	NATSCtx    contextCmd    `cmd:"" name:"nats-context" help:"Write a context for the nats command that connects to this machine's server."`
	Version    versionCmd    `cmd:"" help:"Print the version."`
}

// session is what a command works with besides its own flags.
type session struct {
	cli

	stdin    io.Reader
	stdout   io.Writer
	stderr   io.Writer
	environ  []string
	terminal bool      // somebody may be watching stderr
	watched  bool      // somebody may be watching stdout
	exit     func(int) // ends the process: after --help only
}

// run carries out a command line and returns the exit status.
func run(ctx context.Context, args []string, s *session) int {
	parser, err := kong.New(
		&s.cli, kong.Name("sluice"), kong.Description("Sluice delivers NATS JetStream events as signed webhooks, agent wake-ups, live feeds and Durable Streams."),
		kong.Writers(s.stdout, s.stderr), kong.Exit(s.exit), kong.WithHyphenPrefixedParameters(true), kong.Bind(s), kong.BindTo(ctx, (*context.Context)(nil)),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true, WrapUpperBound: 100}),
		kong.TypeMapper(reflect.TypeFor[time.Time](), kong.MapperFunc(decodeTime)),
		kong.TypeMapper(reflect.TypeFor[time.Duration](), kong.MapperFunc(decodeSpan)),
		kong.TypeMapper(reflect.TypeFor[sluice.Duration](), kong.MapperFunc(decodeSpan)),
		kong.TypeMapper(reflect.TypeFor[*sluice.Duration](), kong.MapperFunc(decodeSpan)), // or it would be read as its text
		kong.ExplicitGroups([]kong.Group{{Key: "common", Title: "Global flags:"}}),
	)
	if err != nil {
		return s.fail(err)
	}
	command, err := parser.Parse(args)
	if err != nil {
		return s.fail(usageError{err})
	}
	if err := command.Run(); err != nil {
		return s.fail(err)
	}
	return 0
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

// decodeSpan reads a flag that is a time.Duration or a sluice.Duration: what Go reads, or days.
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

// usageError is a command line that makes no sense.
type usageError struct{ error }

// Unwrap returns what is wrong with it.
func (u usageError) Unwrap() error { return u.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// fail says what went wrong and returns the status for it.
func (s *session) fail(err error) int {
	if errors.Is(err, errOutputClosed) {
		return exitPipe
	}
	err = s.withAdvice(err)
	if s.json() {
		if text, unwritten := jsonText(failureOf(err), ""); unwritten == nil {
			_, _ = s.stderr.Write(text) // see complain
			return status(err)
		}
	}
	message := strings.Join(reasons(err), "\n")
	if e, ok := errors.AsType[*sluice.Error](err); ok && e.Details[requestID] != nil {
		message += harmless(fmt.Sprintf(" (%s, request %v)", e.Code, e.Details[requestID]))
	}
	s.complain("sluice: %s", clean(message))
	if errors.As(err, new(usageError)) {
		s.complain("Run sluice --help, or sluice COMMAND --help.")
	}
	return status(err)
}

// withAdvice says in the words of the command line what a server said in those of HTTP or TLS.
func (s *session) withAdvice(err error) error {
	if advice := s.tlsAdvice(err); advice != "" {
		return fmt.Errorf("%w; %s", err, advice)
	}
	e, ok := errors.AsType[*sluice.Error](err)
	if !ok || e.Code != sluice.Unauthenticated || s.Token != "" || s.Server == "" {
		return err
	}
	return &sluice.Error{Code: e.Code, Message: s.Server + " requires a token: set SLUICE_TOKEN, or --token", Details: e.Details}
}

// tlsAdvice says what helps if a server and this command did not believe one another; empty if that is not it.
func (s *session) tlsAdvice(err error) string {
	if errors.As(err, new(x509.UnknownAuthorityError)) {
		return "set the file of its certificate authority with --ca or SLUICE_CA"
	}
	if errors.As(err, new(x509.HostnameError)) {
		return "set SLUICE_URL to an address in its certificate, and SLUICE_TOKEN"
	}
	if s.Cert == "" && s.brokenOff(err) {
		return "if it requires a client certificate, set --cert and --key, or SLUICE_CERT and SLUICE_KEY"
	}
	return ""
}

// brokenOff reports whether a server that speaks TLS ended the connection, which is how one
// that misses a certificate says so.
func (s *session) brokenOff(err error) bool {
	remote, ok := errors.AsType[*net.OpError](err)
	cut := errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || ok && remote.Op == "remote error" ||
		err != nil && strings.Contains(err.Error(), "http2: client conn could not be established") // which net/http says of it now and then
	if !cut {
		return false
	}
	base, unknown := s.baseURL()
	return unknown == nil && strings.HasPrefix(base, "https:")
}

func status(err error) int {
	if errors.As(err, new(usageError)) {
		return exitUsage
	}
	return exitFailure
}

// failure is an error in JSON, in the shape of the API.
type failure struct {
	OK        bool         `json:"ok"`
	Error     failureError `json:"error"`
	RequestID any          `json:"request_id,omitempty"`
}

type failureError struct {
	Code    sluice.Code    `json:"code"`
	Message string         `json:"message"`
	Details map[string]any `json:"details,omitempty"`
}

func failureOf(err error) failure {
	f := failure{Error: failureError{Code: sluice.CodeOf(err), Message: err.Error()}}
	if errors.As(err, new(usageError)) {
		f.Error.Code = sluice.InvalidRequest
	}
	if e, ok := errors.AsType[*sluice.Error](err); ok {
		f.Error.Details = maps.Clone(e.Details)
		f.RequestID = e.Details[requestID]
		delete(f.Error.Details, requestID)
	}
	return f
}

// reasons returns the messages of an error that joins others, cleaned.
func reasons(err error) []string {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || !isJoin(err, joined.Unwrap()) {
		return []string{harmless(strings.ReplaceAll(err.Error(), "\n", "; "))}
	}
	var all []string
	for _, one := range joined.Unwrap() {
		all = append(all, reasons(one)...)
	}
	return all
}

// isJoin reports whether an error says what errors.Join makes of others.
func isJoin(err error, parts []error) bool {
	return len(parts) > 0 && err.Error() == errors.Join(parts...).Error()
}

// complain writes to stderr, its arguments cleaned; where that fails, there is nobody to tell.
func (s *session) complain(format string, args ...any) {
	_, _ = fmt.Fprintf(s.stderr, format+"\n", cleaned(args)...)
}

func (s *session) json() bool { return s.Output == "json" }
