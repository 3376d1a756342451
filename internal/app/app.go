// Package app constructs the components of a server, and starts and stops them in order.
package app

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/datadir"
	"github.com/sluice-io/sluice/internal/httpserver"
	"github.com/sluice-io/sluice/internal/namespace"
	"github.com/sluice-io/sluice/internal/natsstore/records"
	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	readyLimit = 60 * time.Second // for the embedded NATS to start, and for reading the initial state

	// Backoff between attempts of a start-up step while an external NATS does not respond; doubled
	// each time.
	startAgain, startAgainMost = 100 * time.Millisecond, 5 * time.Second

	readyEvery    = 2 * time.Millisecond
	readyPatience = 10 * time.Second // maximum delay before the server reports that it is ready, even if some state is missing
)

// Options are the parameters of a server besides its settings.
type Options struct {
	Log     *slog.Logger            // default slog.DiscardHandler
	Version string                  // default "dev"
	Ready   func(datadir.Addresses) // called once, when the server is ready; may be nil

	// Sys.start and sys.shutdown are not published: tests depend on the sequences of their own
	// events.
	Silent bool

	// Time after which other replicas take over the work of a killed server; 0: the default of
	// natsstore.
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
	s := &server{cfg: cfg, opts: opts, deadline: shutdown.New(ctx, cfg.ShutdownGrace.Std())}
	ctx = s.deadline.Context(ctx)
	if s.web, err = httpserver.Listen(ctx, cfg.HTTP, opts.Log); err != nil {
		return errors.Join(err, s.close(context.WithoutCancel(ctx)))
	}
	defer func() { err = errors.Join(err, s.web.Close()) }()
	defer func() { err = errors.Join(err, s.close(context.WithoutCancel(ctx))) }()
	if err := s.open(ctx); err != nil {
		return err
	}
	s.tell(ctx, sluice.TypeServerStarted)
	defer func() { err = errors.Join(err, datadir.RemoveAddresses(cfg.Data)) }()
	s.web.WarnPlain(ctx)
	return s.serve(ctx)
}

// sayReady reports the server's addresses once permissions have loaded, or after a time limit: the
// readiness endpoint has the details.
func (s *server) sayReady(ctx context.Context) error {
	tick := time.NewTicker(readyEvery)
	defer tick.Stop()
	for begun := time.Now(); s.trust.index.Ready(time.Now()) != nil && time.Since(begun) < readyPatience; {
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

// serve runs the components. The first one to end stops the others. The attempt log and the
// publisher of system events stop last, because attempts in flight are still recorded, and so does
// the writer of stream records. The shutdown deadline starts when the first component ends, and
// cancels the remaining ones.
func (s *server) serve(ctx context.Context) error {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(inner, s.deadline.Begin)()
	logging, endLog := context.WithCancel(shutdown.Lasting(ctx))
	defer endLog()
	var parts, log sync.WaitGroup
	for _, run := range []func(context.Context) error{s.attempts.Run, s.room.Run, s.announce.Run, s.trust.run, s.owns.Run, s.memory.Run} {
		log.Go(func() { cancel(run(logging)) })
	}
	log.Go(func() { cancel(s.durable.Run(logging, s.opts.Log)) })
	parts.Go(func() { cancel(s.engine.Run(inner)) })
	parts.Go(func() { cancel(s.wakes.Run(inner)) })
	parts.Go(func() { cancel(s.streamSubs.Run(inner)) })
	parts.Go(func() { cancel(s.streamSubsOwn.Run(inner, s.streamSubs.Changed)) })
	parts.Go(func() { cancel(s.feeds.Run(inner)) })
	for _, run := range []func(context.Context) error{s.store.SweepOverdue, s.later.Run, s.appointments.Run, s.watches.Run, s.verification.Run} {
		parts.Go(func() { cancel(run(inner)) })
	}
	keys := s.keyService()
	for _, run := range []func(context.Context) error{
		keys.Follow(sluice.UseWebhook, s.keys.Set), keys.Follow(sluice.UseWake, s.wakeKeys.Set), keys.Follow(sluice.UseFeed, s.ticketKeys.Set), keys.Sweep,
	} {
		parts.Go(func() { cancel(run(inner)) })
	}
	parts.Go(func() { cancel(s.marks.Follow(inner, s.causes)) })
	parts.Go(func() {
		follower := namespace.Follower{Quotas: s.quotas, Catalogue: s.catalogue, Streams: s.durable}
		cancel(records.FollowNamespaces(inner, s.store, follower.Set, follower.Remove))
	})
	parts.Go(func() { cancel(records.FollowTypes(inner, s.store, s.catalogue)) })
	parts.Go(func() { cancel(s.web.Serve(inner, s.api)) })
	parts.Go(func() {
		if err := s.sayReady(inner); err != nil {
			cancel(err)
		}
	})
	for _, run := range s.optional() {
		parts.Go(func() { cancel(run(inner)) })
	}
	s.await(&parts)
	s.tell(ctx, sluice.TypeServerStopping)
	endLog()
	s.await(&log)
	s.trust.leave(shutdown.Lasting(ctx), s.opts.Log)
	s.memory.Leave(shutdown.Lasting(ctx))
	if ctx.Err() != nil {
		return nil
	}
	if err := context.Cause(inner); !errors.Is(err, context.Canceled) {
		return err
	}
	return errors.New("a component stopped unexpectedly")
}

// optional returns the components that run only in some configurations.
func (s *server) optional() (all []func(context.Context) error) {
	if s.trusted != nil {
		all = append(all, s.trusted.Run)
	}
	if s.inspect != nil {
		all = append(all, s.inspect.Run)
	}
	if s.exporter != nil {
		all = append(all, s.exporter.Run)
	}
	if !s.opts.Silent {
		all = append(all, s.lookForOrphans)
	}
	return all
}

// tell publishes that the server has started or is stopping.
func (s *server) tell(ctx context.Context, kind string) {
	if !s.opts.Silent {
		s.announce.Server(ctx, kind, s.replica, s.version())
	}
}
