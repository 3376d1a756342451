// Package app constructs the components of a server, and starts and stops them in order.
package app

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/bootstrap"
	"github.com/sluice-io/sluice/internal/datadir"
	"github.com/sluice-io/sluice/internal/httpapi"
	"github.com/sluice-io/sluice/internal/httpserver"
	"github.com/sluice-io/sluice/internal/otlp"
	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	readyEvery    = 2 * time.Millisecond
	readyPatience = 10 * time.Second // after which the server reports that it is ready, even if permissions have not loaded
)

// Options are the parameters of a server besides its settings.
type Options struct {
	Log     *slog.Logger            // default slog.DiscardHandler
	Version string                  // default "dev"
	Ready   func(datadir.Addresses) // called once, when the server is ready; may be nil

	// Silent disables the events sys.start and sys.shutdown, for tests that depend on sequences.
	Silent bool

	// LeaseTTL is the time after which other replicas take over the work of a killed server; 0 is
	// the default of natsstore.
	LeaseTTL time.Duration
}

// Run runs a server until ctx is done, which is not an error. Attempts and requests in flight are
// completed before it returns.
func Run(ctx context.Context, cfg config.Config, opts Options) (err error) {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if err := cfg.Check(); err != nil {
		return err
	}
	if err := datadir.Prepare(cfg.Data); err != nil {
		return err
	}
	sends, err := openOTLP(ctx, cfg, &opts)
	if err != nil {
		return err
	}
	s := &server{
		Base: bootstrap.New(ctx, cfg, bootstrap.Options{Log: opts.Log, Version: opts.Version, LeaseTTL: opts.LeaseTTL}),
		cfg:  cfg, opts: opts, otlp: sends, starting: httpapi.NewStarting(),
	}
	ctx = s.Deadline.Context(ctx)
	if s.web, err = httpserver.Listen(ctx, cfg.HTTP, opts.Log); err != nil {
		return errors.Join(err, s.close(context.WithoutCancel(ctx)))
	}
	defer func() { err = errors.Join(err, s.web.Close()) }()
	defer func() { err = errors.Join(err, s.close(context.WithoutCancel(ctx))) }()
	if err := s.open(ctx); err != nil {
		return shutdown.Failure(ctx, err)
	}
	s.tell(ctx, sluice.TypeServerStarted)
	defer func() { err = errors.Join(err, datadir.RemoveAddresses(cfg.Data)) }()
	s.web.WarnPlain(ctx)
	return s.serve(ctx)
}

// sayReady reports the server's addresses once permissions have loaded, or after readyPatience. The
// readiness endpoint shows why the server is not ready.
func (s *server) sayReady(ctx context.Context) error {
	tick := time.NewTicker(readyEvery)
	defer tick.Stop()
	for begun := time.Now(); s.index.Ready(time.Now()) != nil && time.Since(begun) < readyPatience; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
	addresses := s.addresses()
	if err := datadir.WriteAddresses(s.cfg.Data, addresses); err != nil {
		return err
	}
	s.opts.Log.InfoContext(ctx, "ready", slog.String("http", addresses.HTTP), slog.String("nats", addresses.NATS), slog.String("data", s.cfg.Data))
	if s.opts.Ready != nil {
		s.opts.Ready(addresses)
	}
	return nil
}

// alsoLogs is a log handler that limits repeated records, and can pass the records that it writes
// to another handler.
type alsoLogs interface {
	Also(other slog.Handler) slog.Handler
}

// openOTLP returns the exporter of traces, metrics and logs, and makes the log also go to its
// collector.
func openOTLP(ctx context.Context, cfg config.Config, opts *Options) (*otlp.Exporter, error) {
	log := opts.Log.Handler()
	sends, err := otlp.New(ctx, otlp.Options{
		Traces: cfg.Tracing.Endpoint, Metrics: cfg.Metrics.Endpoint, Logs: cfg.Log.Endpoint, SampleRatio: cfg.Tracing.SampleRatio,
		Version: cmp.Or(opts.Version, "dev"), Getenv: os.Getenv, Log: log,
	})
	if err != nil {
		return nil, err
	}
	copied := sends.Handler(log)
	if copied == nil {
		return sends, nil
	}
	if limiting, ok := log.(alsoLogs); ok {
		log = limiting.Also(copied)
	} else {
		log = slog.NewMultiHandler(log, copied)
	}
	opts.Log = slog.New(log)
	return sends, nil
}
