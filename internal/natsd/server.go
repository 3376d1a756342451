package natsd

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gofrs/flock"
	"github.com/nats-io/nats-server/v2/server"

	"github.com/sluice-io/sluice/streams"
)

// SyncAlways is the value of Options.Sync with which every acknowledged write is on the disk.
const SyncAlways = "always"

// lockFile is the file in the data directory that a server locks while it uses the directory.
const lockFile = "sluice.lock"

// Limits of atomic batches that publishers have begun in a stream and not committed, and the idle
// time after which one is dropped. With JetStream's defaults, 50 batches and 10 seconds, one
// publisher could block all other batches with 5 messages a second.
const (
	openBatches  = 2000
	batchTimeout = 2 * time.Second
)

// Options configure the server. StoreDir is required.
type Options struct {
	StoreDir   string        // the data directory; created with mode 0700
	Name       string        // of the server; default: "sluice"
	Names      streams.Names // of the streams and subjects that logins may use; default: without a prefix
	DontListen bool          // accept connections from this process only
	Host       string        // to listen on; default: "127.0.0.1"
	Port       int           // to listen on; 0 picks a free one
	User       string        // required of every client, those in this process too; default: none
	Password   string        // of User
	Users      []User        // logins; with any, all others are refused; see Login
	Inspector  *Inspector    // login that may only read and publish events, if there are no Users; nil: every client may do everything
	Operator   string        // file of the JWT of an operator; only users of its accounts may log in
	Accounts   []string      // files of the JWTs of Operator's accounts, its system account among them
	TLS        *tls.Config   // for network connections; default: none. Clients need a certificate if it says RequireAndVerifyClientCert
	Sync       string        // "always" (the default), or a duration such as "1s": a power failure may lose the writes of that time
	MaxStore   int64         // bytes on disk; 0: three quarters of the used and free space at its start
	MaxPayload int32         // bytes of a message; 0: NATS' default, 1 MiB
	Log        *slog.Logger  // gets the server's warnings and errors, at debug its notices; default: slog.DiscardHandler
}

// Server is a NATS server that runs until Shutdown.
type Server struct {
	opts     Options
	log      *logger
	lock     *flock.Flock
	identity identity // of connections of this process; only if there are Users or an Inspector

	mu     sync.RWMutex   // held for writing during a restart
	nats   *server.Server // nil: not started
	port   int            // that it listens on; 0: none
	closed bool
}

// Start starts a server, and returns when it accepts connections and JetStream responds. It returns
// an error if another process has locked the data directory, the options are invalid, the address
// is in use, or ctx ends before the server is ready.
func Start(ctx context.Context, opts Options) (*Server, error) {
	s := &Server{opts: opts, log: newLogger(cmp.Or(opts.Log, slog.New(slog.DiscardHandler)))}
	config, err := s.config()
	if err != nil {
		return nil, err
	}
	if s.lock, err = lockDir(opts.StoreDir); err != nil {
		return nil, err
	}
	if err := s.restore(ctx, config); err != nil {
		return nil, errors.Join(fmt.Errorf("nats server: %w", err), s.Shutdown())
	}
	return s, nil
}

// ClientURL returns the address that clients connect to, or "" if the server does not listen.
func (s *Server) ClientURL() string {
	nats := s.current()
	if nats.Addr() == nil {
		return ""
	}
	return nats.ClientURL()
}

// InProcessConn returns a connection to the server that does not use the network.
func (s *Server) InProcessConn() (net.Conn, error) {
	return s.current().InProcessConn() //nolint:wrapcheck // nats.go is the caller and wraps it
}

// Login returns the public key that a connection of this process presents, and the function that
// signs the server's challenge with it; "" if the options name neither Users nor an Inspector. No
// other process can use the key.
func (s *Server) Login() (public string, sign func(nonce []byte) ([]byte, error)) {
	if s.identity.public == "" {
		return "", nil
	}
	return s.identity.public, s.identity.pair.Sign
}

// Storage returns JetStream's used bytes on disk, and their limit.
func (s *Server) Storage() (used, limit uint64, err error) {
	info, err := s.current().Jsz(nil)
	if err != nil {
		return 0, 0, fmt.Errorf("nats server: storage: %w", err)
	}
	return info.Store, uint64(max(info.Config.MaxStore, 0)), nil
}

// Free returns the free bytes of the file system that JetStream stores its data in.
func (s *Server) Free() (uint64, error) { return Free(s.opts.StoreDir) }

// Shutdown stops the server, waits until it has ended and releases the data directory. Calling it
// again does nothing.
func (s *Server) Shutdown() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.nats != nil {
		s.nats.Shutdown()
		s.nats.WaitForShutdown()
	}
	if err := s.lock.Unlock(); err != nil {
		return fmt.Errorf("unlock %s: %w", s.lock.Path(), err)
	}
	return nil
}

// current returns the running server.
func (s *Server) current() *server.Server {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.nats
}

// guard configures the logins.
func (s *Server) guard(config *server.Options, opts Options) error {
	switch {
	case len(opts.Users) > 0 && (opts.User != "" || opts.Operator != ""):
		return errors.New("users, a shared user and an operator exclude each other")
	case opts.Inspector != nil && (len(opts.Users) > 0 || opts.User != "" || opts.Operator != ""):
		return errors.New("an inspector login requires a server without users; omit it")
	case opts.Operator != "":
		return trust(config, opts.Operator, opts.Accounts)
	case len(opts.Users) > 0:
		if err := s.identify(); err != nil {
			return err
		}
		return admit(config, opts.Names, opts.Users, s.identity)
	case opts.Inspector != nil:
		if err := s.identify(); err != nil {
			return err
		}
		return admitInspector(config, opts.Names, *opts.Inspector, s.identity)
	}
	return nil
}

// identify creates the login of this process's connections, once.
func (s *Server) identify() (err error) {
	if s.identity.public == "" {
		s.identity, err = newIdentity()
	}
	return err
}

// enableStreams enables JetStream for the global account, which the server does not do by itself if
// there are other accounts.
func (s *Server) enableStreams() error {
	if s.identity.public == "" {
		return nil
	}
	if err := s.nats.GlobalAccount().EnableJetStream(nil, nil); err != nil {
		return fmt.Errorf("jetstream: %w", err)
	}
	return nil
}

// restore starts the server on the stored data, and moves damaged consumers aside.
func (s *Server) restore(ctx context.Context, config *server.Options) error {
	before, err := consumerDirs(s.opts.StoreDir)
	if err != nil {
		return err
	}
	if err := s.start(ctx, config); err != nil {
		return err
	}
	return s.setAside(s.opts.StoreDir, before, s.log.log)
}

func (s *Server) start(ctx context.Context, config *server.Options) error {
	if config.JetStreamMaxStore == 0 {
		config.JetStreamMaxStore = share(s.opts.StoreDir)
	}
	nats, err := server.NewServer(config)
	if err != nil {
		return err
	}
	s.nats = nats
	s.log.Restarted()
	nats.SetLoggerV2(s.log, false, false, false)
	nats.Start()
	for {
		if err := s.log.Fatal(); err != nil {
			return taken(config, err)
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("not ready: %w", err)
		}
		if nats.ReadyForConnections(100*time.Millisecond) && nats.JetStreamEnabled() {
			s.log.Started()
			if at, ok := nats.Addr().(*net.TCPAddr); ok {
				s.port = at.Port
			}
			return s.enableStreams()
		}
	}
}

// taken converts the server's error for an address in use, which has only a text, to one that wraps
// syscall.EADDRINUSE. It returns other errors unchanged.
func taken(config *server.Options, err error) error {
	if !strings.Contains(err.Error(), syscall.EADDRINUSE.Error()) {
		return err
	}
	return fmt.Errorf("listen on %s: %w", net.JoinHostPort(config.Host, strconv.Itoa(config.Port)), syscall.EADDRINUSE)
}

func configure(opts Options) (*server.Options, error) {
	if opts.StoreDir == "" {
		return nil, errors.New("nats server: no data directory given")
	}
	port := opts.Port
	if port == 0 {
		port = server.RANDOM_PORT
	}
	config := &server.Options{
		ServerName:             cmp.Or(opts.Name, "sluice"),
		Host:                   cmp.Or(opts.Host, "127.0.0.1"),
		Port:                   port,
		DontListen:             opts.DontListen,
		Username:               opts.User,
		Password:               opts.Password,
		JetStream:              true,
		StoreDir:               opts.StoreDir,
		JetStreamMaxStore:      opts.MaxStore,
		MaxPayload:             opts.MaxPayload,
		MaxPending:             2 * int64(opts.MaxPayload), // 0: NATS' default
		NoSigs:                 true,
		DisableJetStreamBanner: true,
		// Our streams set their own limit; this is for other streams.
		JetStreamLimits: server.JSLimitOpts{
			DefaultMaxConsumers:       -1,
			MaxBatchInflightPerStream: openBatches,
			MaxBatchInflightTotal:     4 * openBatches,
			MaxBatchTimeout:           batchTimeout,
		},
	}
	if opts.TLS != nil {
		config.TLS, config.TLSConfig = true, opts.TLS
		config.TLSVerify = opts.TLS.ClientAuth == tls.RequireAndVerifyClientCert
	}
	if cmp.Or(opts.Sync, SyncAlways) == SyncAlways {
		config.SyncAlways = true
		return config, nil
	}
	interval, err := time.ParseDuration(opts.Sync)
	if err != nil || interval <= 0 {
		return nil, fmt.Errorf("nats server: sync %q is neither %q nor a duration such as 2m", opts.Sync, SyncAlways)
	}
	config.SyncInterval = interval
	return config, nil
}

// lockDir locks dir, because two servers on the same directory would destroy it.
func lockDir(dir string) (*flock.Flock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	lock := flock.New(filepath.Join(dir, lockFile), flock.SetPermissions(0o600))
	ok, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock data directory %s: %w", dir, err)
	}
	if !ok {
		return nil, fmt.Errorf("data directory %s is used by another process; stop it or choose another directory", dir)
	}
	return lock, nil
}
