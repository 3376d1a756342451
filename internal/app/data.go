package app

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
	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// data holds the settings and the store: all that a command on a stopped server needs.
type data struct {
	cfg      config.Config
	opts     Options
	deadline *shutdown.Deadline // for all work after the server was told to stop

	lock  *flock.Flock // lock of the data directory, if no embedded server holds it
	nats  *natsd.Server
	store *natsstore.Store
}

func newData(ctx context.Context, cfg config.Config, opts Options) data {
	return data{cfg: cfg, opts: opts, deadline: shutdown.New(ctx, cfg.ShutdownGrace.Std())}
}

func (d *data) openNATS(ctx context.Context) (err error) {
	if !d.cfg.NATS.Embedded() {
		d.lock, err = datadir.Lock(d.cfg.Data)
		return err
	}
	return d.startNATS(ctx)
}

// storeOptions returns the connection options of the store.
func (d *data) storeOptions() natsstore.Options {
	n := d.cfg.NATS
	opts := natsstore.Options{
		URL: n.URL, Creds: n.Credentials, User: n.User, Password: n.Password, Token: n.Token, NKeySeedFile: n.NKeySeedFile,
		TLSCA: n.TLS.CA, TLSCert: n.TLS.Cert, TLSKey: n.TLS.Key, Names: streams.Prefixed(n.Prefix), Domain: n.Domain, Replicas: n.Replicas, Log: d.opts.Log, Readers: n.Readers(),
		AttemptsMaxAge: d.cfg.Attempts.MaxAge.Std(), LeaseTTL: d.opts.LeaseTTL,
		Defaults: sluice.Namespace{
			Retention:   sluice.Retention{MaxAge: d.cfg.Events.Retention.MaxAge, MaxBytes: d.cfg.Events.Retention.MaxBytes},
			DedupWindow: d.cfg.Events.DedupWindow,
			Quota:       sluice.Quota(d.cfg.Events.Quota),
		},
	}
	if d.nats != nil {
		opts.Conn, opts.Intact = d.nats, d.nats.Intact
		opts.NKey, opts.Sign = d.nats.Login()
	}
	return opts
}

// connect opens the store without creating anything in it.
func (d *data) connect(ctx context.Context) (err error) {
	d.store, err = natsstore.Connect(ctx, d.storeOptions())
	return err
}

// patiently runs a step that can be repeated. With an external store, transient errors are retried
// until ctx ends: a cluster that has just started elects its leaders one after the other, and
// requests in the meantime get no response.
func (d *data) patiently(ctx context.Context, step func(context.Context) error) error {
	if d.nats != nil {
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
		d.opts.Log.WarnContext(ctx, "not started yet", slog.Any("error", err), slog.Duration("again", again))
	})
}

// close closes the store, at the latest at the shutdown deadline, and logs unfinished work.
func (d *data) close(ctx context.Context) error {
	d.deadline.Begin()
	defer d.deadline.Close()
	var errs []error
	if d.store != nil {
		errs = append(errs, d.deadline.Do("connections to NATS", func() error {
			d.store.Close()
			return nil
		}))
	}
	if d.nats != nil {
		errs = append(errs, d.deadline.Do("embedded NATS servers", d.nats.Shutdown))
	}
	if d.lock != nil {
		errs = append(errs, d.lock.Unlock())
	}
	if left := d.deadline.Left(); left != "" {
		d.opts.Log.WarnContext(ctx, "stopped before all writes finished: NATS did not respond in time. Nothing is lost: unrecorded deliveries are sent again after the next start",
			slog.Duration("shutdown_grace", d.cfg.ShutdownGrace.Std()), slog.String("left", left))
	}
	return errors.Join(errs...)
}
