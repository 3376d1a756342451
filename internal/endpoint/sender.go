package endpoint

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/pkg/webhook"
)

const (
	defaultTimeout     = 15 * time.Second
	defaultMaxBody     = 10 << 20
	defaultMaxResponse = 64 << 10
	// setUp is the timeout of connecting. Connecting may outlive an attempt, because the transport
	// finishes a connection that it has begun, for the next attempt to use.
	setUp = 30 * time.Second
	// idle is how long a free connection is kept. It is shorter than the limits of common load
	// balancers, so that this side closes connections.
	idle        = 30 * time.Second
	idlePerHost = 256
	idleAll     = 4096
)

// KeyRing has the keys of the schemes ed25519 and rfc9421.
type KeyRing interface {
	// SigningKeys returns the keys to sign with, the newest first. Each of them makes a signature,
	// so that during a rotation a receiver may know either key.
	SigningKeys() []webhook.SigningKey
}

// Options configure attempts. The zero value permits only https to public addresses.
type Options struct {
	AllowCIDRs    []netip.Prefix                     // addresses that are permitted although they are not public
	AllowLoopback bool                               // permit http:// and https:// to this host (register C20)
	Version       string                             // in User-Agent; default: "dev"
	MaxBody       int64                              // limit of a request's body; default: 10 MiB
	MaxResponse   int64                              // limit for reading a response's body; default: 64 KiB
	Keys          KeyRing                            // nil: ed25519 and rfc9421 are refused
	Resolver      *net.Resolver                      // default: net.DefaultResolver
	Now           func() time.Time                   // default: time.Now
	Trace         func(context.Context, http.Header) // adds traceparent; nil: none
	Summary       func(*sluice.Event) []byte         // returns the summary of an event's data, a JSON object, nil for none; nil: no event has one
	// Render returns the body of an event, of at most limit bytes, by a subscription's template,
	// and its content type. nil: the envelope template is refused.
	Render    func(b *sluice.Body, ev *sluice.Event, limit int64) (body []byte, contentType string, err error)
	PublicURL string // public URL of the API, for dataref; "": dataref is left out
}

// Sender makes attempts over one pool of connections. It is safe for concurrent use.
type Sender struct {
	opts      Options
	agent     string
	guard     *guard
	transport *http.Transport
	wires     *wires
	tokens    *tokens
	ids       *identities
	rendered  renderings
}

// New returns a Sender. Close it when no Send is in flight any more.
func New(opts Options) *Sender {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Resolver == nil {
		opts.Resolver = net.DefaultResolver
	}
	opts.MaxBody = cmp.Or(opts.MaxBody, defaultMaxBody)
	opts.MaxResponse = cmp.Or(opts.MaxResponse, defaultMaxResponse)
	s := &Sender{opts: opts, agent: "Sluice/" + cmp.Or(opts.Version, "dev"), guard: newGuard(opts)}
	s.transport = newTransport(s.guard)
	s.wires = newWires(s.guard.dial, func() *tls.Config { return s.transport.TLSClientConfig })
	s.tokens = newTokens(s.transport, s.checkURL, opts.Now)
	s.ids = newIdentities(s.guard)
	return s
}

func newTransport(g *guard) *http.Transport {
	return &http.Transport{
		Proxy:                  nil, // ignores the environment, because a proxy would connect without the guard's checks
		DialContext:            g.dial,
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    setUp,
		MaxIdleConns:           idleAll,
		MaxIdleConnsPerHost:    idlePerHost,
		IdleConnTimeout:        idle,
		DisableCompression:     true, // otherwise a response could decompress to more bytes than were counted
		MaxResponseHeaderBytes: 64 << 10,
	}
}

// Close closes the idle connections. It does not interrupt a Send in flight. Connections in flight
// are closed when they are released.
func (s *Sender) Close() {
	s.wires.close()
	s.transport.CloseIdleConnections()
	s.ids.kept.Purge()
}

// Check returns an error if requests to e are never allowed. Codes: InsecureURL unless the URL is
// https, or loopback where that is permitted; BlockedAddress if the host is, or now resolves to, an
// address that is not permitted, or is an unusual spelling of an address; InvalidRequest for a URL
// or headers that cannot be sent. It asks only DNS. A name that does not resolve now is not an
// error, because the guard checks again at each attempt (S0-22, S1-143, S4-59).
func (s *Sender) Check(ctx context.Context, e sluice.Endpoint) error {
	u, err := s.checkURL(e.URL)
	if err != nil {
		return err
	}
	if err := checkHeaders(e.Headers); err != nil {
		return err
	}
	if err := s.guard.checkHost(ctx, u.Hostname()); err != nil || e.Auth == nil {
		return err
	}
	return s.checkTokenURL(ctx, e.Auth.TokenURL)
}

// Send makes the attempt with this number to deliver ev to sub, and returns it with all fields
// except the verdict. It takes at most the policy's timeout, which includes connecting, headers and
// body. Outcome Refused means that nothing was sent, and that nothing will be until the
// subscription or the event changes. An address that is blocked when it is dialled is Failed,
// because DNS may change back. Send sets Dead if there is a better reason than NotSendable: that
// the body would be larger than MaxBody. The excerpt of a response contains no secret. If ctx ends,
// Send resets the connection and returns soon, with outcome Failed; nothing of the request leaves
// this host after that. The attempt names those of the events in more that it has sent.
func (s *Sender) Send(ctx context.Context, sub *sluice.Subscription, ev *sluice.Event, number int, more ...*sluice.Event) sluice.Attempt {
	a := sluice.Attempt{
		Subscription: sub.ID,
		EventID:      ev.ID,
		Seq:          ev.Seq,
		Path:         ev.Path,
		Type:         ev.Type,
		Number:       number,
		StartedAt:    s.opts.Now(),
	}
	timeout := cmp.Or(sub.Policy.Timeout.Std(), defaultTimeout)
	defer shutdown.Sending(ctx)()
	until := time.Now().Add(timeout)
	req, body, err := s.request(ctx, sub, ev, &a, more...)
	var transport *http.Transport
	if err == nil {
		transport, err = s.ids.of(sub)
	}
	if err != nil {
		a.Outcome, a.Error = sluice.Refused, newMask(sub, nil).apply(err.Error())
		if sluice.CodeOf(err) == sluice.TooLarge {
			a.Dead = sluice.EventTooLarge
		}
		return s.ended(a)
	}
	token, err := s.authorize(ctx, sub, req.Header, until)
	if err != nil {
		a.Outcome, a.Error, a.Class = sluice.Failed, newMask(sub, nil).apply(noToken(ctx, sub, err, timeout)), sluice.FailCredential
		return s.ended(a)
	}
	secrets := func() mask { return newMask(sub, token) }
	err = s.exchange(ctx, call{req, body, until, transport}, func(res *http.Response) error { return s.read(res, secrets, &a) })
	if err != nil {
		a.Outcome, a.Error, a.Class = sluice.Failed, expired(sub, secrets().apply(failure(ctx, err, timeout)), a.StartedAt), classOf(ctx, err)
	}
	if token != nil && a.Status == http.StatusUnauthorized {
		s.tokens.refused(sub, token)
	}
	return s.ended(a)
}

// call is a request with its body and its deadline.
type call struct {
	req       *http.Request
	body      []byte
	until     time.Time
	transport *http.Transport // nil: the common connections
}

// exchange makes a request, and calls read with the response. It follows no redirect and keeps no
// cookie (C06). The body of the response is closed when exchange returns. At the deadline the error
// is context.DeadlineExceeded. Otherwise it is that of ctx, of the network or of read; after the
// end of ctx it may be that of the closed connection. When exchange returns, nothing of the request
// can leave this host any more.
func (s *Sender) exchange(ctx context.Context, c call, read func(*http.Response) error) error {
	req, body, until := c.req, c.body, c.until
	if c.transport == nil && size(req)+len(body) <= maxRequest && s.wires.serves(req.URL) {
		return s.wires.exchange(ctx, req, body, until, read)
	}
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	if len(body) == 0 {
		req.Body = http.NoBody
	}
	limited, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	l := line{parent: ctx}
	held, over := l.follow(limited)
	defer over()
	res, err := cmp.Or(c.transport, s.transport).RoundTrip(req.WithContext(held))
	if err == nil {
		defer func() { _ = res.Body.Close() }() // read has read what is needed
		if res.ProtoMajor == 1 && c.transport == nil {
			s.wires.speaks(req.URL)
		}
		err = read(res)
	}
	if err != nil && limited.Err() != nil { // the connection failed because the time was over
		return limited.Err()
	}
	return err
}

// size returns approximately how many bytes a request has before its body.
func size(req *http.Request) int {
	n := len(req.URL.Path) + len(req.URL.RawQuery)
	for name, values := range req.Header {
		for _, value := range values {
			n += len(name) + len(value) + len(": \r\n")
		}
	}
	return n
}

// ended sets the duration, by Options.Now. It includes fetching a token.
func (s *Sender) ended(a sluice.Attempt) sluice.Attempt {
	a.Duration = sluice.Duration(s.opts.Now().Sub(a.StartedAt))
	a.StartedAt = a.StartedAt.UTC()
	return a
}
