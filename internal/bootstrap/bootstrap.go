// Package bootstrap opens the store that the settings of a server name: that of the embedded NATS, or that of an external one.
// It also backs up and restores the store of a server that is stopped.
package bootstrap

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/gofrs/flock"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/datadir"
	"github.com/sluice-io/sluice/internal/natsd"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/seal"
	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// StartLimit is the time for the embedded NATS to start, and for reading the initial state.
const StartLimit = 60 * time.Second

// Backoff between attempts of a start-up step while an external NATS does not respond; doubled each time.
const startAgain, startAgainMost = 100 * time.Millisecond, 5 * time.Second

// Options are the parameters of a server besides its settings.
type Options struct {
	Log     *slog.Logger
	Version string

	// Time after which other replicas take over the work of a killed server; 0: the default of natsstore.
	LeaseTTL time.Duration
}

// Base is the lock of a data directory, with the NATS and the store of its server. Create it with New, close it with Close.
type Base struct {
	NATS     *natsd.Server      // nil: an external one
	Store    *natsstore.Store   // nil until Connect
	Deadline *shutdown.Deadline // of all work after the server was told to stop

	cfg  config.Config
	opts Options
	lock *flock.Flock // of the data directory, if no embedded server holds it
}

// New returns the base of a server whose shutdown deadline begins at the latest when ctx ends.
func New(ctx context.Context, cfg config.Config, opts Options) *Base {
	return &Base{cfg: cfg, opts: opts, Deadline: shutdown.New(ctx, cfg.ShutdownGrace.Std())}
}

// OpenNATS starts the embedded NATS, or locks the data directory of a server with an external one.
func (b *Base) OpenNATS(ctx context.Context) (err error) {
	if !b.cfg.NATS.Embedded() {
		b.lock, err = datadir.Lock(b.cfg.Data)
		return err
	}
	return b.startNATS(ctx)
}

// storeOptions returns the connection options of the store.
func (b *Base) storeOptions() natsstore.Options {
	n := b.cfg.NATS
	opts := natsstore.Options{
		URL: n.URL, Creds: n.Credentials, User: n.User, Password: n.Password, Token: n.Token, NKeySeedFile: n.NKeySeedFile,
		TLSCA: n.TLS.CA, TLSCert: n.TLS.Cert, TLSKey: n.TLS.Key, Names: streams.Prefixed(n.Prefix), Domain: n.Domain, Replicas: n.Replicas, Log: b.opts.Log, Readers: n.Readers(),
		AttemptsMaxAge: b.cfg.Attempts.MaxAge.Std(), LeaseTTL: b.opts.LeaseTTL,
		Defaults: sluice.Namespace{
			Retention:   sluice.Retention{MaxAge: b.cfg.Events.Retention.MaxAge, MaxBytes: b.cfg.Events.Retention.MaxBytes},
			DedupWindow: b.cfg.Events.DedupWindow,
			Quota:       sluice.Quota(b.cfg.Events.Quota),
		},
	}
	if b.NATS != nil {
		opts.Conn, opts.Intact = b.NATS, b.NATS.Intact
		opts.NKey, opts.Sign = b.NATS.Login()
	}
	return opts
}

// Connect opens the store without creating anything in it. The keys seal the secrets in it, also in further
// buckets; without keys, only streams as a whole may be read and written.
func (b *Base) Connect(ctx context.Context, keys *seal.Ring, sealed []natsstore.SealedBucket) (err error) {
	opts := b.storeOptions()
	opts.Sealer, opts.Sealed = keys, sealed
	b.Store, err = natsstore.Connect(ctx, opts)
	return err
}

// Patiently runs a step that can be repeated. With an external store, transient errors are retried
// until ctx ends: a cluster that has just started elects its leaders one after the other, and
// requests in the meantime get no response.
func (b *Base) Patiently(ctx context.Context, step func(context.Context) error) error {
	if b.NATS != nil {
		return step(ctx)
	}
	wait := backoff.NewExponentialBackOff(backoff.WithInitialInterval(startAgain), backoff.WithMaxInterval(startAgainMost), backoff.WithMaxElapsedTime(0))
	return backoff.RetryNotify(func() error {
		err := step(ctx)
		if err == nil || natsstore.IsTransient(err) {
			return err
		}
		return backoff.Permanent(err)
	}, backoff.WithContext(wait, ctx), func(err error, again time.Duration) {
		b.opts.Log.WarnContext(ctx, "not started yet", slog.Any("error", err), slog.Duration("again", again))
	})
}

// Close closes the store, at the latest at the shutdown deadline, and logs unfinished work.
func (b *Base) Close(ctx context.Context) error {
	b.Deadline.Begin()
	defer b.Deadline.Close()
	var errs []error
	if b.Store != nil {
		errs = append(errs, b.Deadline.Do("connections to NATS", func() error {
			b.Store.Close()
			return nil
		}))
	}
	if b.NATS != nil {
		errs = append(errs, b.Deadline.Do("embedded NATS servers", b.NATS.Shutdown))
	}
	if b.lock != nil {
		errs = append(errs, b.lock.Unlock())
	}
	if left := b.Deadline.Left(); left != "" {
		b.opts.Log.WarnContext(ctx, "stopped before all writes finished: NATS did not respond in time. Nothing is lost: unrecorded deliveries are sent again after the next start",
			slog.Duration("shutdown_grace", b.cfg.ShutdownGrace.Std()), slog.String("left", left))
	}
	return errors.Join(errs...)
}
