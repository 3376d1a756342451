package app

import (
	"context"
	"errors"
	"sync"

	"github.com/sluice-io/sluice/internal/namespace"
	"github.com/sluice-io/sluice/internal/natsstore/records"
	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/internal/sysevent"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// component runs until its context is done.
type component func(context.Context) error

// serve runs the components. The first one to end stops the others. The shutdown deadline starts
// when the first component ends, and cancels the remaining ones. It returns nil if ctx is done,
// else the error of the component that ended first, or an error if that component had none.
func (s *server) serve(ctx context.Context) error {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(inner, s.Deadline.Begin)()
	logging, endLog := context.WithCancel(shutdown.Lasting(ctx))
	defer endLog()
	var parts, log sync.WaitGroup
	for _, run := range s.lasting() {
		log.Go(func() { cancel(run(logging)) })
	}
	for _, run := range append(s.components(), s.optional()...) {
		parts.Go(func() { cancel(run(inner)) })
	}
	parts.Go(func() {
		if err := s.sayReady(inner); err != nil {
			cancel(err)
		}
	})
	s.await(&parts)
	s.tell(ctx, sluice.TypeServerStopping)
	endLog()
	s.await(&log)
	s.grants.Leave(shutdown.Lasting(ctx))
	s.memory.Leave(shutdown.Lasting(ctx))
	if ctx.Err() != nil {
		return nil
	}
	if err := context.Cause(inner); !errors.Is(err, context.Canceled) {
		return err
	}
	return errors.New("a component stopped unexpectedly")
}

// lasting returns the components that stop last, so that attempts in flight are still recorded, and
// system events and stream records are still written.
func (s *server) lasting() []component {
	return []component{
		s.attempts.Run, s.room.Run, s.announce.Run, s.grants.Run, s.owns.Run, s.memory.Run, s.rollups.Run, s.problems.Run,
		func(ctx context.Context) error { return s.durable.Run(ctx, s.opts.Log) },
	}
}

// components returns the components that end with the server.
func (s *server) components() []component {
	keys := s.keyService()
	namespaces := namespace.Follower{Quotas: s.quotas, Catalogue: s.catalogue, Streams: s.durable}
	return []component{
		s.engine.Run, s.wakes.Run, s.streamSubs.Run, s.feeds.Run, s.later.Run, s.appointments.Run, s.watches.Run, s.mirrors.Run, s.knowledge.Run, s.staging.Run, s.modules.Run, s.moduleService.Run, s.followModules,
		s.log.SweepOverdue, s.verification.Run,
		keys.Follow(sluice.UseWebhook, s.keys.Set), keys.Follow(sluice.UseWake, s.wakeKeys.Set), keys.Follow(sluice.UseFeed, s.ticketKeys.Set), keys.Sweep,
		func(ctx context.Context) error { return s.streamSubsOwn.Run(ctx, s.streamSubs.Changed) },
		func(ctx context.Context) error { return s.marks.Follow(ctx, markFollower{s.causes, s.moduleService}) },
		func(ctx context.Context) error {
			return records.FollowNamespaces(ctx, s.Store, namespaces.Set, namespaces.Remove)
		},
		func(ctx context.Context) error { return records.FollowTypes(ctx, s.Store, s.catalogue) },
		s.web.Serve,
	}
}

// optional returns the components that run only in some configurations.
func (s *server) optional() (all []component) {
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
		orphans := sysevent.Orphans{
			Announcer: s.announce, Subscriptions: s.Store.Subscriptions(), Find: s.catalogue.Orphans, State: s.log.State, Log: s.opts.Log,
		}
		all = append(all, orphans.Run)
	}
	return all
}

// await waits for components until the shutdown deadline.
func (s *server) await(parts *sync.WaitGroup) {
	_ = s.Deadline.Do("components of the server", func() error {
		parts.Wait()
		return nil
	})
}

// close stops the components, at the latest at the shutdown deadline, and returns an error that
// lists unfinished work.
func (s *server) close(ctx context.Context) error {
	s.Deadline.Begin()
	if s.modules != nil {
		s.modules.Close(s.Deadline.Closing()) //nolint:contextcheck // ctx has no end; this is the end of the shutdown
	}
	if s.sender != nil {
		s.sender.Close()
	}
	s.otlp.Close(s.Deadline.Closing()) //nolint:contextcheck // ctx has no end; this is the end of the shutdown
	return s.Close(ctx)
}

// tell publishes that the server has started or is stopping.
func (s *server) tell(ctx context.Context, kind string) {
	if !s.opts.Silent {
		s.announce.Server(ctx, kind, s.replica, s.version())
	}
}
