package natsstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/internal/seal"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// Requirements and limits of the store. NATS 2.12 introduced the atomic batch.
const (
	minMajor, minMinor = 2, 12
	RequestTimeout     = 5 * time.Second
)

// remoteTLS is the Op of a net.OpError from crypto/tls for an alert from the other side.
const remoteTLS = "remote error"

// ownInbox is the prefix of this process's inboxes at an embedded server. It is not _INBOX, because
// inspectors can read every message there.
const ownInbox = "_SLUICE"

// InProcessConn opens connections to a server in this process.
type InProcessConn interface {
	InProcessConn() (net.Conn, error)
}

// Options says which server to use and how. URL or Conn is required.
type Options struct {
	URL  string        // one or more server URLs, separated by commas
	Conn InProcessConn // a server in this process; takes precedence over URL

	Creds        string // file with a user's JWT and seed
	User         string
	Password     string
	Token        string
	NKeySeedFile string
	NKey         string                       // a public key; requires Sign
	Sign         func([]byte) ([]byte, error) // signs a server's challenge with NKey
	TLSCA        string                       // file with the certificates to trust
	TLSCert      string                       // file with the client certificate; requires TLSKey
	TLSKey       string

	Names  streams.Names // of everything in JetStream; default: without a prefix
	Domain string        // JetStream domain of the streams; "": that of the server

	Name     string           // of this client in the server's lists; default: "sluice"
	Replicas int              // of every stream; default: 1
	Defaults sluice.Namespace // retention and dedup window of namespaces that set none
	Log      *slog.Logger     // slog.DiscardHandler
	Readers  bool             // other accounts read events as they are stored: each is republished under streams.LiveSubjects

	Sealer *seal.Ring     // seals secrets and the seeds of keys before they are written; nil: they are written in clear, for tests only
	Sealed []SealedBucket // further buckets with sealed records; Provision seals records that an older release stored in clear

	Intact func() context.Context // returns a context that ends when the server in this process cannot write any more; nil: unknown

	AttemptsMaxAge time.Duration // how long attempts are kept; 0: the default of package streams
	LeaseTTL       time.Duration // time after which other replicas take over the work of a killed one; default: 15 s, longer than a fail-over of NATS
}

// Store is a connection to JetStream. It is safe for concurrent use.
type Store struct {
	names  streams.Names
	api    string // prefix of the subjects of requests to JetStream
	nc     *nats.Conn
	js     jetstream.JetStream
	opts   Options
	closed chan struct{} // closed when the connection has ended
	missed chan struct{} // contains an element after miss

	mu      sync.Mutex
	buckets map[string]jetstream.KeyValue
	broken  chan struct{} // closed, and replaced, at each reconnection

	provisioned []func(context.Context) error // called at the end of Provision
	closing     []func()                      // called before the connection ends

	level atomic.Int32 // storage level of the last call of Bind
}

// connectLogged is the interval of warnings while the server cannot be reached.
const connectLogged = 10 * time.Second

// redacted returns server URLs without their passwords and tokens.
func redacted(urls string) string {
	parts := strings.Split(urls, ",")
	for i, part := range parts {
		u, err := url.Parse(strings.TrimSpace(part))
		switch {
		case err != nil:
			parts[i] = "?"
		case u.User != nil:
			u.User = url.User("xxxxx")
			parts[i] = u.String()
		}
	}
	return strings.Join(parts, ",")
}

// Connect tries to reach the server until ctx ends, and returns a store when it has. Later the
// store reconnects by itself, however long that takes. Connect returns an error at once if the
// server refuses the credentials, has no JetStream for them, or is older than NATS 2.12. The caller
// must close the store. Connect creates nothing at the server: call Provision.
func Connect(ctx context.Context, opts Options) (*Store, error) {
	opts.Log = cmp.Or(opts.Log, slog.New(slog.DiscardHandler))
	opts.Name = cmp.Or(opts.Name, "sluice")
	opts.Replicas = cmp.Or(opts.Replicas, 1)
	opts.LeaseTTL = cmp.Or(opts.LeaseTTL, leaseTTL)
	s := &Store{
		opts: opts, names: opts.Names, api: apiPrefix(opts.Domain), closed: make(chan struct{}), missed: make(chan struct{}, 1),
		buckets: map[string]jetstream.KeyValue{}, broken: make(chan struct{}),
	}

	wait := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(50*time.Millisecond), backoff.WithMaxInterval(5*time.Second), backoff.WithMaxElapsedTime(0))
	var logged time.Time
	nc, err := backoff.RetryNotifyWithData(s.dial, backoff.WithContext(wait, ctx), func(err error, again time.Duration) {
		if time.Since(logged) < connectLogged {
			return
		}
		logged = time.Now()
		opts.Log.WarnContext(ctx, "connect", slog.String("nats", redacted(opts.URL)), slog.Any("error", err), slog.Duration("again", again))
	})
	if err != nil {
		return nil, fmt.Errorf("connect to NATS: %w", err)
	}
	s.nc = nc
	if err := checkVersion(nc.ConnectedServerVersion()); err != nil {
		s.Close()
		return nil, err
	}
	if err := s.openJetStream(ctx); err != nil {
		s.Close()
		return nil, err
	}
	if opts.Conn == nil {
		go s.watchLine()
	}
	return s, nil
}

// apiPrefix returns the prefix of the subjects of requests to JetStream in a domain.
func apiPrefix(domain string) string {
	if domain == "" {
		return jetstream.DefaultAPIPrefix
	}
	return "$JS." + domain + ".API."
}

// API returns the subject of a request to JetStream, such as "STREAM.INFO.x", in the store's
// domain.
func (s *Store) API(request string) string { return s.api + request }

// WriteSubject returns the subject to publish to for a message to be stored under subject. They
// differ for keys of buckets in another JetStream domain, which are reached only through the API
// prefix.
func (s *Store) WriteSubject(subject string) string {
	if s.opts.Domain != "" && strings.HasPrefix(subject, "$KV.") {
		return s.api + subject
	}
	return subject
}

// Names returns the names of everything in JetStream.
func (s *Store) Names() streams.Names { return s.names }

func (s *Store) newJetStream() (jetstream.JetStream, error) {
	if s.opts.Domain == "" {
		return jetstream.New(s.nc, jetstream.WithDefaultTimeout(RequestTimeout))
	}
	return jetstream.NewWithDomain(s.nc, s.opts.Domain, jetstream.WithDefaultTimeout(RequestTimeout))
}

// openJetStream returns an error if the account has no JetStream. If JetStream does not answer yet,
// as in a cluster that is starting, it returns nil; later requests are repeated.
func (s *Store) openJetStream(ctx context.Context) error {
	js, err := s.newJetStream()
	if err != nil {
		return fmt.Errorf("jetstream: %w", err)
	}
	s.js = bounded{js, s.Reachable}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	_, err = js.AccountInfo(ctx)
	if errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) {
		return fmt.Errorf("the NATS account has no permission for JetStream: %w", err)
	}
	if err != nil {
		s.opts.Log.WarnContext(ctx, "JetStream does not respond yet", slog.Any("error", err))
	}
	return nil
}

// Reconnected returns a channel that is closed at the next reconnection.
func (s *Store) Reconnected() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken
}

// Conn returns the connection, for the packages below this one.
func (s *Store) Conn() *nats.Conn { return s.nc }

// JetStream returns the JetStream of the connection, with the timeouts of bounded, for the packages
// below this one.
func (s *Store) JetStream() jetstream.JetStream { return s.js }

// Log returns the log of the server.
func (s *Store) Log() *slog.Logger { return s.opts.Log }

// Ready returns nil if the store is connected and JetStream answers, otherwise an error
// (Unavailable).
func (s *Store) Ready(ctx context.Context) error {
	if status := s.nc.Status(); status != nats.CONNECTED {
		return sluice.Errorf(sluice.Unavailable, "not connected to NATS: %s", strings.ToLower(status.String()))
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if _, err := s.js.AccountInfo(ctx); err != nil {
		return fmt.Errorf("%w: %w", sluice.Errorf(sluice.Unavailable, "JetStream does not respond"), err)
	}
	return nil
}

// Storage returns how much disk space the account's streams take, and the account's limit. The
// limit of a server itself is not visible to clients. Code Unavailable. LimitBytes is 0 if the
// account has no limit.
func (s *Store) Storage(ctx context.Context) (sluice.Storage, error) {
	info, err := s.js.AccountInfo(ctx)
	if err != nil {
		return sluice.Storage{}, fmt.Errorf("storage: %w", StoreError(ctx, err))
	}
	return sluice.Storage{UsedBytes: info.Store, LimitBytes: uint64(max(info.Limits.MaxStore, 0))}, nil
}

// OnProvision registers a function for the end of every Provision, which returns its error.
// Register before Provision; the functions run in the order of their registration, and the first
// error ends Provision.
func (s *Store) OnProvision(f func(context.Context) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.provisioned = append(s.provisioned, f)
}

// OnClose registers a function that Close calls before the connection ends. The functions run in
// the order of their registration, and must return: Close waits for them.
func (s *Store) OnClose(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = append(s.closing, f)
}

// Close ends the connection and waits until it has ended. Operations in progress fail. Call it
// once. It drains nothing, so end the readers before.
func (s *Store) Close() {
	s.mu.Lock()
	closing := slices.Clone(s.closing)
	s.mu.Unlock()
	for _, f := range closing {
		f()
	}
	s.nc.Close()
	<-s.closed
}

// dial makes one attempt to connect. An error that a retry cannot fix is permanent.
func (s *Store) dial() (*nats.Conn, error) {
	opts, err := s.connOptions()
	if err != nil {
		return nil, backoff.Permanent(err)
	}
	nc, err := nats.Connect(s.opts.URL, opts...)
	switch {
	case err == nil:
		return nc, nil
	case s.opts.Conn != nil && errors.Is(err, io.ErrClosedPipe): // happens after the server's write deadline of ten seconds
		return nil, backoff.Permanent(errors.New("the embedded server closed the connection: check user and password"))
	case isAway(err):
		return nil, err
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked),
		errors.Is(err, nats.ErrAccountAuthExpired):
		err = fmt.Errorf("the server rejects the credentials: %w", err)
	}
	return nil, backoff.Permanent(err)
}

// loginTimeout is how a server answers a login that took too long, two seconds by default; in lower
// case. It may be only busy.
const loginTimeout = "authentication timeout"

// isAway reports whether the server may be reachable later. It does not count a file that cannot be
// read or a certificate that is refused, although their errors look like network errors.
func isAway(err error) bool {
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return false
	}
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == remoteTLS {
		return false
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return errors.Is(err, nats.ErrNoServers) || errors.Is(err, nats.ErrTimeout) || errors.Is(err, io.EOF) ||
		strings.Contains(strings.ToLower(err.Error()), loginTimeout)
}

func (s *Store) connOptions() ([]nats.Option, error) {
	o := s.opts
	opts := []nats.Option{
		nats.Name(o.Name),
		nats.Timeout(RequestTimeout),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(), // credentials may be renewed: their file is read at each connection
		nats.ReconnectWait(250 * time.Millisecond),
		nats.ReconnectJitter(250*time.Millisecond, time.Second),
		nats.FlusherTimeout(writeTimeout),
		nats.ReconnectOnFlusherError(),
		nats.ErrorHandler(s.asyncError),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil { // nil: Close
				o.Log.Warn("disconnected from NATS", slog.Any("error", err))
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			o.Log.Info("reconnected to NATS", slog.String("server", nc.ConnectedServerName()))
			s.mu.Lock()
			defer s.mu.Unlock()
			close(s.broken)
			s.broken = make(chan struct{})
		}),
		nats.ClosedHandler(func(*nats.Conn) { close(s.closed) }),
	}
	if o.Conn != nil {
		opts = append(opts, nats.InProcessServer(o.Conn), nats.CustomInboxPrefix(ownInbox))
	}
	if o.Creds != "" {
		opts = append(opts, nats.UserCredentials(o.Creds))
	}
	if o.User != "" {
		opts = append(opts, nats.UserInfo(o.User, o.Password))
	}
	if o.Token != "" {
		opts = append(opts, nats.Token(o.Token))
	}
	if o.NKey != "" {
		opts = append(opts, nats.Nkey(o.NKey, o.Sign))
	}
	if o.NKeySeedFile != "" {
		nkey, err := nats.NkeyOptionFromSeed(o.NKeySeedFile)
		if err != nil {
			return nil, fmt.Errorf("nkey seed file: %w", err)
		}
		opts = append(opts, nkey)
	}
	return append(opts, s.tlsOptions()...), nil
}

func (s *Store) tlsOptions() []nats.Option {
	var opts []nats.Option
	if s.opts.TLSCA != "" {
		opts = append(opts, nats.RootCAs(s.opts.TLSCA))
	}
	if s.opts.TLSCert != "" {
		opts = append(opts, nats.ClientCert(s.opts.TLSCert, s.opts.TLSKey))
	}
	return opts
}

// asyncError logs errors that no caller gets, such as a missing permission, for which the call
// itself only times out.
func (s *Store) asyncError(_ *nats.Conn, sub *nats.Subscription, err error) {
	subject := ""
	if sub != nil {
		subject = sub.Subject
	}
	s.opts.Log.Error("NATS reports an error", slog.Any("error", err), slog.String("subject", subject))
}

// checkVersion returns an error if the server is older than minMajor.minMinor.
func checkVersion(version string) error {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) == 3 {
		major, err1 := strconv.Atoi(parts[0])
		minor, err2 := strconv.Atoi(parts[1])
		if err1 == nil && err2 == nil && (major > minMajor || major == minMajor && minor >= minMinor) {
			return nil
		}
	}
	return fmt.Errorf("NATS server %s is too old: %d.%d or newer is needed", cmp.Or(version, "of unknown version"), minMajor, minMinor)
}

// Options returns the options of the connection, with their defaults.
func (s *Store) Options() Options { return s.opts }
