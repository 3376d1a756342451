package terminal

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"strings"
	"syscall"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// The exit statuses.
const (
	ExitFailure = 1                          // the request failed
	ExitUsage   = 2                          // the command line is invalid
	ExitPipe    = 128 + int(syscall.SIGPIPE) // the reader of stdout has closed it; the status that shells use
)

// The formats of output, besides the table.
const (
	FormatWide  = "wide"
	FormatJSON  = "json"
	FormatLines = "jsonl"
	FormatYAML  = "yaml"
	FormatName  = "name"
)

// requestID is the detail that identifies a request in the server's log.
const requestID = "request_id"

// Flags are the global flags.
type Flags struct {
	Server string `help:"URL of the server; default: that of the context in use, else that of the data directory." env:"SLUICE_URL" placeholder:"URL" group:"common"`
	Token  string `help:"Bearer token; default (without --server): that of the context, else the root token in the data directory." env:"SLUICE_TOKEN" placeholder:"TOKEN" group:"common"`
	CA     string `name:"ca" help:"PEM file of trusted authorities for https, instead of the system's." env:"SLUICE_CA" placeholder:"FILE" group:"common"`
	Cert   string `help:"PEM file of a client certificate, if the server requires one." env:"SLUICE_CERT" placeholder:"FILE" group:"common"`
	Key    string `help:"PEM file of the client certificate's key." env:"SLUICE_KEY" placeholder:"FILE" group:"common"`
	Data   string `help:"Data directory of the server on this machine." env:"SLUICE_DATA" placeholder:"DIR" group:"common"`
	// The parser reads Context before the other flags.
	Context string `help:"Context with the server, the token and the namespace; default: the one in use (sluice context)." env:"SLUICE_CONTEXT" placeholder:"NAME" group:"common"`
	Output  string `short:"o" help:"Output format: table, wide (with full times), json, jsonl (a line for each element), yaml or name." enum:"table,wide,json,jsonl,yaml,name" default:"table" placeholder:"table" group:"common"`

	NoHeaders bool `name:"no-headers" help:"Print tables without the line of headings." group:"common"`
}

// Session is a command's environment besides its own flags.
type Session struct {
	Flags

	Stdin       io.Reader
	Stdout      io.Writer
	Stderr      io.Writer
	Environ     []string
	Terminal    bool      // stderr is a terminal
	Watched     bool      // stdout is a terminal
	Interactive bool      // stdin is a terminal
	Exit        func(int) // ends the process: after --help only
}

// UsageError is an invalid command line.
type UsageError struct{ error }

// Unwrap returns the cause.
func (u UsageError) Unwrap() error { return u.error }

// Usage marks an error as one of the command line. err must not be nil.
func Usage(err error) error { return UsageError{err} }

// Usagef is Usage for a formatted message.
func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// Fail prints an error and returns the status for it. It prints nothing for a closed stdout. With
// the formats json and jsonl, stderr has the error as JSON.
func (s *Session) Fail(err error) int {
	if errors.Is(err, errOutputClosed) {
		return ExitPipe
	}
	err = s.WithAdvice(err)
	if s.Output == FormatJSON || s.Output == FormatLines {
		if text, unwritten := EncodeJSON(FailureOf(err), ""); unwritten == nil {
			_, _ = s.Stderr.Write(text) // see complain
			return status(err)
		}
	}
	message := strings.Join(Reasons(err), "\n")
	if e, ok := errors.AsType[*sluice.Error](err); ok && e.Details[requestID] != nil {
		message += Harmless(fmt.Sprintf(" (%s, request %v)", e.Code, e.Details[requestID]))
	}
	s.Complain("sluice: %s", Clean(message))
	if errors.As(err, new(UsageError)) {
		s.Complain("Run sluice --help, or sluice COMMAND --help.")
	}
	return status(err)
}

// WithAdvice explains an HTTP or TLS error in terms of the command line. The result wraps err, or
// has its code and details.
func (s *Session) WithAdvice(err error) error {
	if advice := s.tlsAdvice(err); advice != "" {
		return fmt.Errorf("%w; %s", err, advice)
	}
	e, ok := errors.AsType[*sluice.Error](err)
	if !ok || e.Code != sluice.Unauthenticated || s.Token != "" || s.Server == "" {
		return err
	}
	return &sluice.Error{Code: e.Code, Message: s.Server + " requires a token: set SLUICE_TOKEN, or --token", Details: e.Details}
}

// tlsAdvice suggests a remedy if the server or this command did not trust the other; empty for
// other errors.
func (s *Session) tlsAdvice(err error) string {
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

// brokenOff reports whether a server that speaks TLS ended the connection, which is how it rejects
// a client without a certificate.
func (s *Session) brokenOff(err error) bool {
	remote, ok := errors.AsType[*net.OpError](err)
	cut := errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || ok && remote.Op == "remote error" ||
		err != nil && strings.Contains(err.Error(), "http2: client conn could not be established") // net/http's error in some cases
	if !cut {
		return false
	}
	base, unknown := s.Address()
	return unknown == nil && strings.HasPrefix(base, "https:")
}

func status(err error) int {
	if errors.As(err, new(UsageError)) {
		return ExitUsage
	}
	return ExitFailure
}

// Failure is an error in JSON, in the shape of the API.
type Failure struct {
	OK        bool         `json:"ok"`
	Error     failureError `json:"error"`
	RequestID any          `json:"request_id,omitempty"`
}

type failureError struct {
	Code    sluice.Code    `json:"code"`
	Message string         `json:"message"`
	Details map[string]any `json:"details,omitempty"`
}

// FailureOf returns the JSON form of an error.
func FailureOf(err error) Failure {
	f := Failure{Error: failureError{Code: sluice.CodeOf(err), Message: err.Error()}}
	if errors.As(err, new(UsageError)) {
		f.Error.Code = sluice.InvalidRequest
	}
	if e, ok := errors.AsType[*sluice.Error](err); ok {
		f.Error.Details = maps.Clone(e.Details)
		f.RequestID = e.Details[requestID]
		delete(f.Error.Details, requestID)
	}
	return f
}

// Reasons returns the messages of an error that joins others, cleaned. Any other error is one
// message, in one line.
func Reasons(err error) []string {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || !isJoin(err, joined.Unwrap()) {
		return []string{Harmless(strings.ReplaceAll(err.Error(), "\n", "; "))}
	}
	var all []string
	for _, one := range joined.Unwrap() {
		all = append(all, Reasons(one)...)
	}
	return all
}

// isJoin reports whether an error has the text of errors.Join.
func isJoin(err error, parts []error) bool {
	return len(parts) > 0 && err.Error() == errors.Join(parts...).Error()
}

// Complain writes to stderr, its arguments cleaned; a failure to write is ignored.
func (s *Session) Complain(format string, args ...any) {
	_, _ = fmt.Fprintf(s.Stderr, format+"\n", cleaned(args)...)
}

// IsJSON reports whether the output is for programs: JSON, or another form of it.
func (s *Session) IsJSON() bool {
	switch s.Output {
	case FormatJSON, FormatLines, FormatYAML, FormatName:
		return true
	}
	return false
}
