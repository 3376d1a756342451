package app

import (
	"context"
	"path/filepath"
	"time"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/bundle/staging"
	"github.com/sluice-io/sluice/internal/feed"
	"github.com/sluice-io/sluice/internal/grants"
	"github.com/sluice-io/sluice/internal/httpapi/dstreams"
	"github.com/sluice-io/sluice/internal/ingest"
	"github.com/sluice-io/sluice/internal/keyring"
	"github.com/sluice-io/sluice/internal/knowledge"
	"github.com/sluice-io/sluice/internal/loopguard"
	"github.com/sluice-io/sluice/internal/mirror"
	"github.com/sluice-io/sluice/internal/mirror/remote"
	"github.com/sluice-io/sluice/internal/namespace"
	"github.com/sluice-io/sluice/internal/natsd"
	"github.com/sluice-io/sluice/internal/natsstore/knowledgestore"
	"github.com/sluice-io/sluice/internal/natsstore/mirrorstore"
	"github.com/sluice-io/sluice/internal/natsstore/records"
	"github.com/sluice-io/sluice/internal/notify"
	"github.com/sluice-io/sluice/internal/schedule"
	"github.com/sluice-io/sluice/internal/schedule/action"
	"github.com/sluice-io/sluice/internal/schedule/appointment"
	"github.com/sluice-io/sluice/internal/schedule/delayed"
	"github.com/sluice-io/sluice/internal/watch"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// openFeeds constructs the feed engine.
func (s *server) openFeeds(context.Context) error {
	s.feeds = feed.New(records.FeedLog{Log: s.log}, s.index, feed.Options{
		Ring: s.cfg.Feed.Ring, MaxBuffer: s.cfg.Feed.MaxBuffer, Heartbeat: s.cfg.Feed.Heartbeat.Std(),
		Most: s.cfg.Feed.MaxFeeds, PerCaller: s.cfg.Feed.MaxPerPrincipal, AllBytes: s.cfg.Feed.RingBytes,
		Summary: s.catalogue.Summary, Labels: s.catalogue.Labels, PublicURL: s.publicURL(), Lost: s.memory.Gaps, Log: s.opts.Log,
		Filters: s.filters, Payer: s.index.PayerOf,
	})
	s.metrics.WatchFeeds(s.feeds.Gauges)
	return nil
}

// openLater constructs the engine of scheduled events.
func (s *server) openLater(context.Context) error {
	s.perform = &action.Revocable{Performer: action.New(action.Deps{
		Log: records.ActionLog{Log: s.log, Store: s.Store}, Ingest: s.ingest(s.causes, action.Cancellable{Publisher: s.log}), Access: s.index, Now: time.Now,
	})}
	s.later = delayed.New(delayed.Deps{Records: s.log.Scheduled(), Lists: s.log.Scheduled(), Log: s.log, Deps: s.scheduling()}, s.schedules(s.cfg.Limits.ScheduledPerNamespace))
	return nil
}

// openAppointments constructs the appointment engine.
func (s *server) openAppointments(context.Context) error {
	stored := records.NewAppointments(s.Store)
	s.appointments = appointment.New(appointment.Deps{Records: stored, Lists: stored, Deps: s.scheduling()}, s.schedules(s.cfg.Limits.AppointmentsPerNamespace))
	s.metrics.WatchDue(map[string]func() map[string]int{"event": s.later.Waiting, "appointment": s.appointments.Waiting})
	return nil
}

// scheduling returns the dependencies of an engine of due records.
func (s *server) scheduling() schedule.Deps {
	return schedule.Deps{Perform: s.perform, Tell: records.Teller{Log: s.log}, Owner: s.owns.Part(), Ledger: s.ledger, Replica: s.replica, Now: time.Now}
}

// schedules returns the options of such an engine, with a limit for each namespace.
func (s *server) schedules(most int) schedule.Options {
	return schedule.Options{Most: most, Ahead: s.cfg.Limits.ScheduleAhead.Std(), Log: s.opts.Log, Observe: s.metrics}
}

// openWatches constructs the watch engine and the watch keeper.
func (s *server) openWatches(context.Context) error {
	log, stored := records.NewWatchLog(s.log), records.NewWatches(s.Store)
	perform := action.New(action.Deps{Ingest: s.ingest(loopguard.Reactions{Guard: s.causes}, action.Cancellable{Publisher: s.log}), Access: s.index, Now: time.Now})
	s.watches = watch.New(watch.Deps{
		Definitions: stored, Records: stored.Progress, Log: log, Gate: authz.WatchGate{Index: s.index, Now: time.Now},
		Perform: action.Watched{Performer: perform}, Owns: s.owns.Part(),
	}, watch.Options{
		Most: s.cfg.Watches.EvaluationsPerSecond, Paths: s.cfg.Watches.Paths, Labels: s.catalogue.Labels, Log: s.opts.Log,
		Filters: s.filters, Payer: func(by sluice.Creator, namespace string) string { return s.index.PayerOf(by.Caller(), namespace) },
		Observe: s.metrics.Watches(), Lost: s.memory.Gaps,
	})
	s.metrics.WatchLag(s.watches.Gauges)
	s.watchKeeper = watch.NewKeeper(watch.KeeperDeps{
		Store: stored, Log: log, Ledger: s.ledger, Most: s.cfg.Watches.PerNamespace, Slog: s.opts.Log,
		Trials: watch.Options{Most: s.cfg.Watches.EvaluationsPerSecond, Paths: s.cfg.Watches.Paths, Labels: s.catalogue.Labels, Lost: s.memory.Gaps},
	})
	// The components that act on behalf of a caller.
	s.grants.Follower.Withdraw = grants.Withdrawers{s.engine, s.wakes, s.streamSubs, s.perform, s.watches}
	return nil
}

// identity provides the names and keys of this server in bundles.
type identity struct {
	keyring.Service

	url func() string
}

// Notebook returns the name of a namespace in bundles.
func (i identity) Notebook(name string) string { return i.url() + "/v1/namespaces/" + name }

// keepStaged is how long a partly imported bundle is kept.
const keepStaged = 24 * time.Hour

// openMirrors constructs the mirror engine.
func (s *server) openMirrors(context.Context) error {
	s.mirrorSources = &records.MirrorSources{
		RemoteSource: remote.Source{Fetcher: s.sender}, Index: s.index, Summary: s.catalogue.Summary,
		Log: records.EventLog{Log: s.log, Lost: s.memory.Gaps},
	}
	s.mirrors = mirror.New(mirror.Deps{
		Definitions: records.NewMirrors(s.Store), Credentials: records.NewCredentials(s.Store), Trusts: records.NewTrusts(s.Store),
		Identity: identity{s.keyService(), s.publicURL}, Copies: mirrorstore.New(s.Store, s.cfg.Mirrors.Tombstones.Std()),
		Sources: s.mirrorSources, Namespaces: records.MirrorNamespaces{Index: s.index, Log: s.log}, Gate: records.MirrorGate{Index: s.index},
		Teller: records.Teller{Log: s.log}, Ledger: s.ledger, Owns: s.owns.Part(),
	}, mirror.Options{Workers: s.cfg.Mirrors.Workers, Most: s.cfg.Mirrors.PerNamespace, Log: s.opts.Log, Observe: s.metrics})
	s.metrics.WatchMirrors(s.mirrors.Gauges)
	s.mirrorSources.Passed = s.mirrors.Keeper().Passed
	s.staging = staging.New(staging.Options{
		Dir: filepath.Join(s.cfg.Data, "imports"), Limit: s.cfg.Mirrors.StagingBytes, Keep: keepStaged, Free: natsd.Free, Log: s.opts.Log,
	})
	return nil
}

// openKnowledge constructs the engine of enrichment.
func (s *server) openKnowledge(context.Context) error {
	s.knowledge = knowledge.New(knowledge.Deps{
		Definitions: records.NewEnrichments(s.Store), Records: knowledgestore.New(s.Store),
		Log:     records.KnowledgeLog{EventLog: records.EventLog{Log: s.log, Lost: s.memory.Gaps}},
		Mirrors: records.KnowledgeMirrors{Mirrors: records.NewMirrors(s.Store), Copies: mirrorstore.New(s.Store, s.cfg.Mirrors.Tombstones.Std())},
		Access:  s.index, Keys: &s.wakeKeys, Ledger: s.ledger, Owns: s.owns.Part(),
	}, knowledge.Options{Memory: s.cfg.Limits.KnowledgeMemory, Log: s.opts.Log})
	s.metrics.WatchKnowledge(s.knowledge.Gauges)
	return nil
}

// streams returns the dependencies of the handler of Durable Streams.
func (s *server) streams() dstreams.Options {
	return dstreams.Options{
		Engine: s.durable, Anonymous: s.cfg.Durable.Anonymous, AtRoot: s.cfg.Durable.AtRoot, LongPoll: s.cfg.Durable.LongPoll.Std(),
		MaxBody: s.cfg.Durable.MaxBody, PublicURL: s.publicURL(), Incarnation: s.log.Incarnation,
		Subscriptions: s.streamSubs, JWKS: s.keyService().KeySet(notify.KeyPrefix), KeyID: s.notices.KeyID,
	}
}

// ingest returns the component that checks events and stores them in the log, with a loop guard and
// a publisher.
func (s *server) ingest(causes ingest.Causes, to ingest.Publisher) *ingest.Ingest {
	return ingest.New(ingest.Deps{Access: s.index, Quota: s.quotas, Catalogue: s.catalogue, Causes: causes, Originals: s.log, Publisher: s.published(to), Now: time.Now})
}

// published returns a publisher with tracing, metrics and loop detection. The order is from the
// outside: tracing, metrics, loop detection, the publisher itself.
func (s *server) published(to ingest.Publisher) ingest.Publisher {
	return s.tracing.Publisher(ingest.Counted{Publisher: ingest.Remembered{Publisher: to, Guard: s.causes}, Metrics: s.metrics})
}

// namespaces returns the service of namespaces.
func (s *server) namespaces() namespace.Service {
	return namespace.Service{
		Store: s.Store.Namespaces(), Scheduled: s.log.Scheduled(), Subscriptions: s.registry, StreamSubs: s.streamSubs, Mirrors: s.mirrors.Keeper(), Enrichment: s.knowledge,
		Authority: s.authority, Ledger: s.ledger, Announce: s.announce, Quotas: s.quotas, Catalogue: s.catalogue,
	}
}
