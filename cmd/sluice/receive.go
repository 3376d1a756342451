package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/sluice-io/sluice/internal/command/cmdkit"
	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/webhook"
)

// receiveMost limits the number of events whose attempts receive counts for --fail.
const receiveMost = 100_000

// receiveCmd is a receiver for tests: it prints requests, verifies them, and fails as configured.
// It binds the loopback address unless the argument names another one, because it prints everything
// that it gets.
type receiveCmd struct {
	keyFlags

	Address string        `arg:"" optional:"" help:"Port of this machine, or host:port; port 0 picks a free one." default:"9000"`
	Fail    int           `help:"Fail the first N requests of each event." placeholder:"N"`
	Status  int           `help:"Status of the responses that fail; without --fail, of all." placeholder:"503"`
	Delay   time.Duration `help:"Time until each response." placeholder:"2s"`
	Headers bool          `help:"Print the headers, too."`
	Limit   int           `help:"End after this number of requests; 0: never." default:"0" placeholder:"N"`
}

// Help explains the output.
func (*receiveCmd) Help() string {
	return `Each request is printed with its event, the result of its verification, the response, and the body. Without a key, nothing is verified; with one, a wrong signature gets 401.

With -o json, a line is a request; "verified" is absent without a key. It has all headers and the body.`
}

// Run serves requests until the context ends.
func (c *receiveCmd) Run(ctx context.Context, s *terminal.Session) error {
	if err := c.check(); err != nil {
		return err
	}
	r := &receiving{cmd: c, session: s, seen: map[string]int{}, paint: s.Painter("auto", s.Watched)}
	if c.given() {
		var err error
		if r.verifier, err = c.receiver(); err != nil {
			return err
		}
	}
	address := c.Address
	if !strings.Contains(address, ":") {
		address = net.JoinHostPort("127.0.0.1", address)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("receive: %w; choose another port: sluice receive 9001", err)
	}
	return r.serve(ctx, listener)
}

// check returns a usage error for values out of bounds.
func (c *receiveCmd) check() error {
	switch {
	case c.Fail < 0:
		return terminal.Usagef("--fail %d: write 0 or more", c.Fail)
	case c.Status != 0 && (c.Status < 200 || c.Status > 599):
		return terminal.Usagef("--status %d: write 200 to 599", c.Status)
	case c.Delay < 0:
		return terminal.Usagef("--delay %s: write a duration, such as 2s", c.Delay)
	}
	return nil
}

// receiving is a running receiver. seen counts the requests of each event by its ID, and is cleared
// beyond receiveMost: --fail begins anew for known events then.
type receiving struct {
	cmd      *receiveCmd
	session  *terminal.Session
	verifier *webhook.Receiver // nil: nothing is verified
	paint    terminal.Painter
	stop     context.CancelFunc

	mu     sync.Mutex // of the output, and of
	seen   map[string]int
	count  int
	failed error // why nothing can be printed
}

// serve prints the address and answers requests until the context ends. Requests in flight get
// terminal.Grace to end. The listener is closed in any case.
func (r *receiving) serve(ctx context.Context, listener net.Listener) error {
	ctx, r.stop = context.WithCancel(ctx)
	defer r.stop()
	url := "http://" + listener.Addr().String()
	say := func() error { return r.session.Say("Receiving at %s; ^C ends it.", url) }
	if r.session.IsJSON() {
		say = func() error { return r.session.PrintLine(map[string]string{"url": url}) }
	}
	err := say()
	server := &http.Server{Handler: http.HandlerFunc(r.take), ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	if err == nil {
		select {
		case <-ctx.Done():
		case err = <-ended:
			return fmt.Errorf("receive: %w", err)
		}
	}
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), terminal.Grace)
	defer cancel()
	stopped := server.Shutdown(limit)
	if end := <-ended; !errors.Is(end, http.ErrServerClosed) {
		stopped = errors.Join(stopped, end)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return cmp.Or(err, r.failed, stopped)
}

// receivedRequest is a request in JSON output. Status 0 means that the sender left before the
// response. Body and base64 exclude each other.
type receivedRequest struct {
	Time     time.Time         `json:"time"`
	Method   string            `json:"method"`
	URL      string            `json:"url"`
	Headers  map[string]string `json:"headers"`
	Body     string            `json:"body,omitempty"`
	Base64   []byte            `json:"body_base64,omitempty"` // if it is no text
	Event    string            `json:"event,omitempty"`
	Type     string            `json:"type,omitempty"`
	Path     string            `json:"path,omitempty"`
	Attempt  int               `json:"attempt,omitempty"`
	Verified *bool             `json:"verified,omitempty"`
	Error    string            `json:"error,omitempty"`
	Status   int               `json:"status"`
}

// take answers a request and prints it. A handshake is accepted and printed. A body above
// maxRequest bytes is refused with 413 and not printed. Requests are served concurrently, and
// printed when they end.
func (r *receiving) take(w http.ResponseWriter, req *http.Request) {
	if webhook.AnswerHandshake(w, req, nil, 0) {
		r.print(receivedRequest{Time: time.Now(), Method: req.Method, URL: req.URL.String(), Status: http.StatusOK}, nil)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxRequest))
	if err != nil {
		http.Error(w, "the body cannot be read", webhook.Status(webhook.ErrTooLarge))
		return
	}
	one := receivedRequest{Time: time.Now(), Method: req.Method, URL: req.URL.String(), Headers: map[string]string{}}
	for name := range req.Header {
		one.Headers[name] = strings.Join(req.Header[name], ", ")
	}
	if utf8.Valid(body) {
		one.Body = string(body)
	} else {
		one.Base64 = body
	}
	if d, err := webhook.Parse("", req.Header, body); err == nil {
		one.Event, one.Type, one.Path, one.Attempt = d.ID, d.Type, d.Path, d.Attempt
	}
	// The response is decided before the delay: two attempts at one event are counted in their
	// order.
	r.answer(&one, req, body)
	select {
	case <-time.After(r.cmd.Delay):
	case <-req.Context().Done():
		one.Status, one.Error = 0, "the sender left before the response"
	}
	if one.Status != 0 {
		w.WriteHeader(one.Status)
		if one.Status >= http.StatusMultipleChoices {
			_, _ = io.WriteString(w, cmp.Or(one.Error, http.StatusText(one.Status))+"\n") // the sender may be gone
		}
	}
	r.print(one, body)
}

// answer determines the response: 401 for a wrong signature, a configured failure, or 204.
func (r *receiving) answer(one *receivedRequest, req *http.Request, body []byte) {
	one.Status = http.StatusNoContent
	if r.verifier != nil {
		_, err := verifyRequest(r.verifier, req, body)
		valid := err == nil
		one.Verified = &valid
		if err != nil {
			one.Status, one.Error = http.StatusUnauthorized, err.Error()
			return
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	id := cmp.Or(one.Event, req.Header.Get(webhook.HeaderID))
	if len(r.seen) > receiveMost {
		clear(r.seen)
	}
	r.seen[id]++
	switch {
	case r.cmd.Fail == 0 && r.cmd.Status != 0:
		one.Status = r.cmd.Status
	case r.seen[id] <= r.cmd.Fail:
		one.Status = cmp.Or(r.cmd.Status, http.StatusServiceUnavailable)
	}
}

// print prints a request. It stops the receiver after the last request, or if printing fails.
func (r *receiving) print(one receivedRequest, body []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed != nil {
		return
	}
	if r.session.IsJSON() {
		r.failed = r.session.PrintLine(one)
	} else {
		r.failed = r.text(one, body)
	}
	r.count++
	if r.failed != nil || r.count == r.cmd.Limit {
		r.stop()
	}
}

// text prints a request as a line, and its headers and body on the lines below.
func (r *receiving) text(one receivedRequest, body []byte) error {
	line := []string{one.Time.Local().Format(time.TimeOnly), one.Method, one.URL}
	for _, word := range []string{one.Type, one.Path, one.Event} {
		if word != "" {
			line = append(line, word)
		}
	}
	if one.Attempt > 0 {
		line = append(line, "attempt "+strconv.Itoa(one.Attempt))
	}
	verified, colour := "not verified", terminal.Faint
	if one.Verified != nil {
		verified, colour = "verified", terminal.Green
		if !*one.Verified {
			verified, colour = one.Error, terminal.Red
		}
	}
	if one.Method == http.MethodOptions {
		verified = "handshake"
	}
	status := terminal.Green
	if one.Status >= http.StatusMultipleChoices || one.Status == 0 {
		status = terminal.Red
	}
	err := r.session.Say("%s  %s  → %s", strings.Join(line, "  "), r.paint.Paint(colour, verified), r.paint.Paint(status, cmdkit.HTTPStatus(one.Status)))
	if r.cmd.Headers {
		for _, name := range slices.Sorted(maps.Keys(one.Headers)) {
			err = errors.Join(err, r.session.Say("  %s: %s", strings.ToLower(name), one.Headers[name]))
		}
	}
	if len(body) > 0 && err == nil {
		err = r.session.Say("  %s", bodyText(body))
	}
	return err
}

// bodyText formats a body for people.
func bodyText(body []byte) string {
	const most = 64 << 10
	if !utf8.Valid(body) {
		return fmt.Sprintf("(%d bytes that are no text)", len(body))
	}
	if len(body) > most {
		return strings.ToValidUTF8(string(body[:most]), "") + fmt.Sprintf("… (%d bytes)", len(body))
	}
	return strings.TrimRight(string(body), "\n")
}
