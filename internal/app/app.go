// Package app is where the parts meet: it knows what needs what, the order in which they
// start and stop, and nothing about events.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	readyLimit    = 60 * time.Second // for the embedded NATS to be there, and for what is read once the streams are
	scrapeLimit   = 2 * time.Second  // for what a scrape asks NATS
	readyEvery    = 2 * time.Millisecond
	readyPatience = 10 * time.Second // until it is said that the server can be used, though not everything may be known
)

// Options is what a server is given besides its settings.
type Options struct {
	Log     *slog.Logger    // slog.DiscardHandler
	Version string          // "dev"
	Ready   func(Addresses) // called once, when the server can be used; nil: nobody asks

	Silent bool // sys.start and sys.shutdown are not published: tests count on the sequences of their own events

	LeaseTTL time.Duration // after which others take over the work of a server that was killed; 0: as natsstore says
}

// Run runs a server until ctx is done, which is no error. Attempts and requests under way are
// finished before it returns.
func Run(ctx context.Context, cfg config.Config, opts Options) (err error) {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if err := cfg.Check(); err != nil {
		return err
	}
	if err := prepareData(cfg.Data); err != nil {
		return err
	}
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", cfg.HTTP.Listen)
	if err != nil {
		return listenError("http.listen", cfg.HTTP.Listen, "--http", err)
	}
	defer func() { err = errors.Join(err, ignoreClosed(listener.Close())) }()
	s := &server{cfg: cfg, opts: opts, listener: listener, deadline: shutdown.New(ctx, cfg.ShutdownGrace.Std())}
	ctx = s.deadline.Context(ctx)
	s.stopping, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	defer s.stop()
	defer func() { err = errors.Join(err, s.close(context.WithoutCancel(ctx))) }()
	if err := s.open(ctx); err != nil {
		return err
	}
	s.tell(ctx, sluice.TypeServerStarted)
	defer func() { err = errors.Join(err, removeIfThere(filepath.Join(cfg.Data, AddressesFile))) }()
	s.warnPlain(ctx)
	return s.serve(ctx)
}

// sayReady says where the server is as soon as it knows who may do what, or has tried for long enough: its health
// says the rest.
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
	if err := writeAddresses(filepath.Join(s.cfg.Data, AddressesFile), addresses); err != nil {
		return err
	}
	s.opts.Log.InfoContext(ctx, "ready", slog.String("http", addresses.HTTP), slog.String("nats", addresses.NATS), slog.String("data", s.cfg.Data))
	if s.opts.Ready != nil {
		s.opts.Ready(addresses)
	}
	return nil
}

// serve runs the parts. The first to end ends the others; the attempt log and the announcements
// end last, because attempts under way are still recorded, and so does what writes the records of streams. From the
// first end on the deadline of the shutdown runs, which ends all that does not end by itself.
func (s *server) serve(ctx context.Context) error {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(inner, s.deadline.Begin)()
	logging, endLog := context.WithCancel(shutdown.Lasting(ctx))
	defer endLog()
	var parts, log sync.WaitGroup
	for _, run := range []func(context.Context) error{s.attempts.Run, s.room.Run, s.announce.Run, s.trust.follow, s.owns.run, s.memory.Run} {
		log.Go(func() { cancel(run(logging)) })
	}
	log.Go(func() { cancel(s.durable.Run(logging, s.opts.Log)) })
	parts.Go(func() { cancel(s.engine.Run(inner)) })
	parts.Go(func() { cancel(s.wakes.Run(inner)) })
	parts.Go(func() { cancel(s.dsubs.Run(inner)) })
	parts.Go(func() { cancel(s.dsubsOwn.Run(inner, s.dsubs.Changed)) })
	parts.Go(func() { cancel(s.feeds.Run(inner)) })
	for _, run := range []func(context.Context) error{s.store.SweepOverdue, s.later.Run, s.appoint.Run, s.watches.Run, s.verification.Run} {
		parts.Go(func() { cancel(run(inner)) })
	}
	parts.Go(func() { cancel(s.followKeys(inner)) })
	parts.Go(func() { cancel(s.followWakeKeys(inner)) })
	parts.Go(func() { cancel(s.followTicketKeys(inner)) })
	parts.Go(func() { cancel(s.sweepKeys(inner)) })
	parts.Go(func() { cancel(followMarks(inner, s.marks, s.causes)) })
	parts.Go(func() { cancel(s.followNamespaces(inner)) })
	parts.Go(func() { cancel(followTypes(inner, s.store, s.catalogue)) })
	parts.Go(func() { cancel(s.serveHTTP(inner)) })
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
	return errors.New("a part ended by itself")
}

// optional returns the parts that run in some configurations only.
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

// tell publishes that the server has started, or ends.
func (s *server) tell(ctx context.Context, kind string) {
	if !s.opts.Silent {
		s.announce.Server(ctx, kind, s.replica, s.version())
	}
}

func (s *server) serveHTTP(ctx context.Context) error {
	web := s.web(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.accept(web) }() // Shutdown ends it
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	s.stop()
	err := web.Shutdown(shutdown.Lasting(ctx))
	if errors.Is(err, context.Canceled) { // requests are under way that the store does not answer
		shutdown.Left(ctx, "requests", 1)
		err = web.Close()
	}
	if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// listenError says what to do about an address that is taken.
func listenError(setting, address, flag string, err error) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%s %s is used by another process; choose another address with %s, where port 0 picks a free one", setting, address, flag)
	}
	return fmt.Errorf("%s: %w", setting, err)
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
