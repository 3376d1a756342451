package app

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/bootstrap"
	"github.com/sluice-io/sluice/internal/bundle/staging"
	"github.com/sluice-io/sluice/internal/capacity"
	"github.com/sluice-io/sluice/internal/catalogue"
	"github.com/sluice-io/sluice/internal/datadir"
	"github.com/sluice-io/sluice/internal/delivery"
	"github.com/sluice-io/sluice/internal/durable"
	"github.com/sluice-io/sluice/internal/endpoint"
	"github.com/sluice-io/sluice/internal/endpoint/limit"
	"github.com/sluice-io/sluice/internal/export"
	"github.com/sluice-io/sluice/internal/fanout"
	"github.com/sluice-io/sluice/internal/feed"
	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/internal/httpapi"
	"github.com/sluice-io/sluice/internal/httpapi/admin"
	"github.com/sluice-io/sluice/internal/httpapi/mirrors"
	"github.com/sluice-io/sluice/internal/httpapi/schedules"
	"github.com/sluice-io/sluice/internal/httpserver"
	"github.com/sluice-io/sluice/internal/integrity"
	"github.com/sluice-io/sluice/internal/keyring"
	"github.com/sluice-io/sluice/internal/knowledge"
	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/loopguard"
	"github.com/sluice-io/sluice/internal/metrics"
	"github.com/sluice-io/sluice/internal/mirror"
	"github.com/sluice-io/sluice/internal/module/host"
	"github.com/sluice-io/sluice/internal/namespace"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/deliverystore"
	"github.com/sluice-io/sluice/internal/natsstore/eventlog"
	"github.com/sluice-io/sluice/internal/natsstore/records"
	"github.com/sluice-io/sluice/internal/notify"
	"github.com/sluice-io/sluice/internal/otlp"
	"github.com/sluice-io/sluice/internal/ownership"
	"github.com/sluice-io/sluice/internal/quota"
	"github.com/sluice-io/sluice/internal/schedule/action"
	"github.com/sluice-io/sluice/internal/schedule/appointment"
	"github.com/sluice-io/sluice/internal/schedule/delayed"
	"github.com/sluice-io/sluice/internal/seal/keyfile"
	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/internal/status"
	"github.com/sluice-io/sluice/internal/streamsub"
	"github.com/sluice-io/sluice/internal/subscription"
	"github.com/sluice-io/sluice/internal/sysevent"
	"github.com/sluice-io/sluice/internal/tracing"
	"github.com/sluice-io/sluice/internal/wake"
	"github.com/sluice-io/sluice/internal/watch"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// server holds the components of a server. open constructs them, close stops them. open sets the
// fields in its order; after a failed open, the later ones are nil, which close accepts.
type server struct {
	*bootstrap.Base
	storage
	shared
	watching
	sending
	access
	engines

	cfg      config.Config
	opts     Options
	web      *httpserver.Server
	starting *httpapi.Starting // until the API is there
	otlp     *otlp.Exporter
}

// storage holds the components that keep the store within its limits and intact.
type storage struct {
	room         *capacity.Watch
	trusted      *eventlog.Trusted     // nil: no trusted publishers
	inspect      *eventlog.Inspections // nil: the embedded server has users, or there is none
	log          *eventlog.Log
	deliveries   *deliverystore.Store
	attempts     *deliverystore.AttemptLog
	arrivals     *fanout.Router
	memory       *integrity.Memory // last known ends of the streams
	verification *integrity.Verification
	exporter     *export.Exporter // nil: export is disabled
	status       status.Status
}

// shared holds the components that many others use.
type shared struct {
	metrics   *metrics.Metrics
	announce  *sysevent.Announcer
	ledger    *ledger.Ledger
	marks     records.Marks
	causes    *loopguard.Guard
	catalogue *catalogue.Index
	filters   *filter.Pool
	quotas    *quota.Quotas
	counts    *quota.Counts
	counted   []func()         // each is called once all records of one kind have been reported
	applied   *records.Applied // by the delivery engine
	woken     *records.Applied // by the wake engine
}

// sending holds the components that requests to endpoints need.
type sending struct {
	tracing    *tracing.Tracing
	sender     *endpoint.Sender
	limits     limit.Endpoints
	keys       keyring.Signing
	wakeKeys   keyring.MAC
	ticketKeys keyring.MAC
	notices    notify.Streams
}

// engines holds the engines, and the leases that divide their work among replicas.
type engines struct {
	replica       string
	owns          *ownership.Ownership
	leases        *natsstore.Leases
	registry      *subscription.Registry
	engine        *delivery.Engine
	wakes         *wake.Engine
	streamSubs    *streamsub.Engine
	streamSubsOwn *ownership.Part
	durable       *durable.Engine
	feeds         *feed.Engine
	perform       *action.Revocable
	later         *delayed.Engine
	appointments  *appointment.Engine
	watches       *watch.Engine
	watchKeeper   *watch.Keeper
	mirrors       *mirror.Engine
	mirrorSources *records.MirrorSources
	knowledge     *knowledge.Engine
	modules       *host.Host
	moduleService *host.Service
	divide        func() // divides the leases anew
	staging       *staging.Staging
}

// forget removes the addresses that a killed server left behind; the directory is locked by this
// server.
func (s *server) forget(context.Context) error {
	return datadir.RemoveAddresses(s.cfg.Data)
}

// openStore opens the store. The memory examines the streams before Provision creates missing ones,
// because their loss would be hidden otherwise.
func (s *server) openStore(ctx context.Context) (err error) {
	n := s.cfg.NATS
	sealed, err := keyfile.Open(s.cfg)
	if err != nil {
		return err
	}
	if err := s.Connect(ctx, sealed.Ring, records.SealedBuckets()); err != nil {
		return err
	}
	s.log = eventlog.New(ctx, s.Store)
	s.deliveries = deliverystore.New(s.Store, s.log)
	s.memory = integrity.New(s.cfg.Data, s.Store, s.deliveries.Had, s.opts.Log)
	s.verification = integrity.NewVerification(s.memory)
	if err := s.memory.Examine(ctx); err != nil {
		return err
	}
	s.warnOfNeighbours(ctx)
	if err := s.Patiently(ctx, s.Store.Provision); err != nil {
		return sealed.Explain(err)
	}
	if n.Trusts() {
		if err := s.Patiently(ctx, s.openTrusted); err != nil {
			return err
		}
	}
	if s.NATS != nil && !n.Guarded() && n.Listen != "none" {
		if s.inspect, err = eventlog.OpenInspections(ctx, s.Store); err != nil {
			return err
		}
	}
	s.catalogue = catalogue.New()
	if err := s.Patiently(ctx, func(ctx context.Context) error { return records.LoadCatalogue(ctx, s.Store, s.catalogue) }); err != nil {
		return err
	}
	s.attempts, err = s.deliveries.AttemptLog()
	return err
}

func (s *server) openTrusted(ctx context.Context) (err error) {
	s.trusted, err = s.log.OpenTrusted(ctx)
	return err
}

// openRoom constructs the components that keep the store within its capacity and report its state.
func (s *server) openRoom(context.Context) error {
	opts := capacity.Options{Store: s.Store, Log: s.opts.Log}
	if s.NATS != nil {
		opts.Usage, opts.Disk = capacity.UsageOf(s.NATS), s.NATS
	} else {
		opts.Usage, opts.Refuses = capacity.UsageWithin(s.cfg.NATS.MaxStore, s.Store.Storage), s.Store.RefusesAll
	}
	s.room, s.index = capacity.New(opts), authz.NewIndex()
	s.status = status.Status{Usage: opts.Usage, Room: s.room, Memory: s.memory, Verification: s.verification, Store: s.Store, Access: s.index}
	return nil
}

// openReports connects the reporter of damage, and disables the subscriptions that damage affects.
func (s *server) openReports(ctx context.Context) error {
	reporter := integrity.Reporter{
		Memory: s.memory, Store: s.Store, Letters: s.attempts, Ledger: s.ledger, Announce: s.announce, Registry: s.registry, Observe: s.metrics, Log: s.opts.Log,
	}
	s.memory.Found, s.memory.Missed = reporter.Found, reporter.Missed
	return reporter.Hold(ctx)
}

func (s *server) openSender(ctx context.Context) error {
	keys, err := s.Store.Keys().For(ctx, sluice.UseWebhook)
	if err != nil {
		return err
	}
	s.keys.Set(keys)
	opts := endpoint.Options{
		AllowLoopback: s.cfg.InsecureLoopback(), Version: s.opts.Version, Keys: &s.keys,
		MaxBody: s.cfg.Webhooks.MaxBody, MaxResponse: s.cfg.Webhooks.MaxResponse,
		Summary: s.catalogue.Summary, Render: new(filter.Templates).Render, PublicURL: s.publicURL(),
	}
	if opts.AllowCIDRs, err = config.Prefixes(s.cfg.Webhooks.AllowCIDRs); err != nil {
		return fmt.Errorf("webhooks.allow_cidrs: %w", err)
	}
	s.tracing = tracing.New(s.otlp.TracerProvider())
	opts.Trace = s.tracing.Inject
	s.sender = endpoint.New(opts)
	return nil
}

// openRegistry constructs the shared components and the registry. The metrics outlive ctx: a scrape
// during the shutdown is served.
func (s *server) openRegistry(ctx context.Context) error {
	if _, err := s.Store.LettersConsumer(ctx); err != nil {
		return err
	}
	scraping := shutdown.Lasting(ctx)
	s.metrics = metrics.New(s.opts.Log)
	s.metrics.Built(s.version())
	s.otlp.Gather(s.metrics.Producer())
	s.metrics.WatchConnections(s.web.Connections)
	s.metrics.WatchNATS(scraping, s.Store.Gauges)
	s.metrics.WatchLogs(scraping, s.Store.Namespaces().List)
	s.metrics.WatchStorage(scraping, s.status.Storage)
	s.quotas, s.ledger = quota.NewQuotas(), ledger.New(s.Store.Ledger(), s.opts.Log)
	s.marks = records.NewMarks(s.Store, s.ledger)
	s.announce = sysevent.New(s.log, sysevent.Options{
		Log: s.opts.Log, Dropped: s.metrics.Unannounced, Outbox: s.Store.Outbox(), Namespaces: s.Store.Namespaces(), Letters: records.Letters{Store: s.deliveries, Stored: s.Store.Subscriptions()}, Known: records.Known(s.Store, s.log), Marks: s.marks.All,
	})
	s.counts = quota.NewCounts(quota.Most{
		Namespace: s.cfg.Limits.SubscriptionsPerNamespace, Principal: s.cfg.Limits.SubscriptionsPerPrincipal, Host: s.cfg.Limits.SubscriptionsPerHost, Answers: s.index.AnswersNow,
	})
	s.counted = quota.WhenAll(2, s.counts.CaughtUp)
	s.metrics.Know(s.counts.Created)
	s.metrics.WatchLetters(scraping, s.deliveries.DeadLetterGauges, s.counts.Created)
	s.limits = limit.Endpoints{
		Sender: s.sender, Sends: quota.NewSends(s.cfg.Limits.SendsPerSubscription, s.cfg.Limits.SendsPerPrincipal), Paces: quota.NewPaces(), Rates: quota.NewRates(), Access: s.index,
	}
	s.index.Open(s.cfg.Durable.Anonymous)
	s.filters = filter.NewPool(filter.Rates{Principal: s.cfg.Limits.FilterCostPerPrincipal, Namespace: s.cfg.Limits.FilterCostPerNamespace})
	shares := fanout.Above(s.cfg.Webhooks.SharedAbove, s.cfg.NATS.Replicas > 1, s.counts.Of)
	s.arrivals = fanout.New(fanout.Deps{
		Log: eventlog.Shared{Log: s.log}, Records: s.deliveries.Positions(), Owns: func(shard int) bool { return s.leases.OwnsShard(shard) }, Shares: shares, Filters: s.Store.Names().PushFilters, Slog: s.opts.Log,
	})
	if s.cfg.Webhooks.SharedAbove >= 0 {
		s.deliveries.Share(deliverystore.Sharing{
			Shares: func(sub *sluice.Subscription) bool { return shares(sub, fanout.Stored{}) }, Standing: s.arrivals.Standing,
			Holding: func() (then, still func(key string) bool) { return s.leases.Holding() }, // openLeases sets them, before the first request
		})
	}
	s.applied, s.woken = records.NewApplied(), records.NewApplied()
	s.registry = subscription.New(subscription.Deps{
		Subscriptions: s.Store.Subscriptions(),
		Reservations:  natsstore.OpenBucket[subscription.Reservation](s.Store, streams.Reservations),
		Logs:          s.log,
		Endpoints:     s.limits,
		Consumers:     records.Consumers{Store: s.deliveries, Forget: func(ctx context.Context, sub *sluice.Subscription) error { return s.wakes.Forget(ctx, sub) }, Expire: func(ctx context.Context, sub *sluice.Subscription) error { return s.engine.Expire(ctx, sub) }},
		Replays:       s.deliveries.Replays(),
		ReplayLogs:    s.log,
		Ledger:        s.ledger,
		Announce:      s.announce,
		Now:           time.Now,
		ReplayWindow:  s.cfg.Webhooks.ReplayWindow,
		Quota:         s.counts,
		Access:        authz.Subscribing{Index: s.index},
		Catalogue:     s.catalogue,
		Labels:        s.catalogue.Labels,
		Filters:       s.filters,
		Payer:         s.index.Payer,
		Applied:       records.AwaitApplied(s.applied, s.woken),
	})
	var err error
	s.causes, err = loopguard.New(s.log, s.marks, loopguard.Options{Announce: s.announce, Looped: s.metrics.Looped, Log: s.opts.Log})
	return err
}

// openEngine constructs the delivery engine with its sources, after the leases that divide its
// work.
func (s *server) openEngine(ctx context.Context) error {
	var err error
	if s.replica, err = datadir.ReplicaID(s.cfg.Data); err != nil {
		return err
	}
	if err := s.openLeases(ctx); err != nil {
		return err
	}
	s.durable = durable.New(records.Paths{Log: s.log, Published: s.published, Lost: s.memory.Gaps}, time.Now)
	s.openStreamSubs()
	s.openWatching()
	var arrivals delivery.Arrivals
	var sources delivery.Sources = records.Sources{Store: s.deliveries}
	if s.cfg.Webhooks.SharedAbove >= 0 {
		arrivals, sources = records.Arrivals{Router: s.arrivals}, records.SharedSources{Router: s.arrivals, Own: sources}
	}
	s.engine = delivery.New(records.Subscriptions{Stored: s.Store.Subscriptions(), Counts: s.counts, CaughtUp: s.counted[0], Know: s.grants.Follower.Know, Forget: s.metrics.Forget, Applied: s.applied}, s.owns.Part(), delivery.Deps{
		Sources:   sources,
		Arrivals:  arrivals,
		Log:       s.attempts,
		Lanes:     s.deliveries,
		Healths:   s.deliveries,
		Events:    s.log,
		Sender:    s.tracing.Sender(s.attemptSender()),
		Gate:      ownership.Gate{Of: s.index, Owns: s.owns.Part()},
		Pace:      s.limits,
		Registry:  s.registry,
		Replays:   s.deliveries.Replays(),
		Letters:   s.deliveries,
		Announce:  s.announce,
		Causes:    s.causes,
		Catalogue: s.catalogue,
		Labels:    s.catalogue.Labels,
		Filters:   s.filters,
		Payer:     s.index.Payer,
		Lost:      s.memory.Gaps,
	}, delivery.Options{
		Observe: s.observed(), Log: s.opts.Log, Replays: records.Replays{Stored: s.deliveries.Replays()}, MaxInFlight: s.cfg.Webhooks.MaxInFlight,
		MaxPrograms: s.cfg.Modules.MaxInFlight,
	})
	s.memory.Remade = map[string]func(context.Context){s.Store.Names().BucketStream(streams.Lanes): func(ctx context.Context) {
		s.arrivals.Restore()
		s.engine.SaveLanes(ctx)
	}}
	s.metrics.WatchDeliveries(s.engine.Gauges)
	s.metrics.WatchReplays(s.engine.ReplayGauges)
	if dir := s.cfg.Export.Dir; dir != "" {
		s.exporter = export.New(dir, s.log, s.deliveries, export.Options{Observe: s.metrics, Log: s.opts.Log, Lost: s.memory.Gaps})
	}
	return nil
}

// openAPI constructs the handler of the API, last: it uses all others.
func (s *server) openAPI(context.Context) error {
	token, err := datadir.RootToken(s.cfg.Data)
	if err != nil {
		return err
	}
	proxies, err := config.Prefixes(s.cfg.HTTP.TrustedProxies)
	if err != nil {
		return fmt.Errorf("http.trusted_proxies: %w", err)
	}
	settings, err := s.cfg.Settings()
	if err != nil {
		return err
	}
	s.starting.Ready(httpapi.New(httpapi.Options{ //nolint:contextcheck // a request has its own context
		Authentication: httpapi.Authentication{
			Token:     token,
			Authority: s.authority,
			Access:    s.index, Programs: s.modules,
			FailureBurst: s.cfg.HTTP.AuthFailures.Burst,
			FailureEvery: s.cfg.HTTP.AuthFailures.Every.Std(),
		},
		Publishing: httpapi.Publishing{
			Ingest:     s.ingest(s.causes, eventlog.Exact{Log: s.log, Shows: host.MayKnow(s.index.MayKnow)}),
			Catalogue:  s.catalogue,
			EventTypes: catalogue.NewKeeper(s.catalogue, s.Store.EventTypes(), s.log, s.ledger),
			NATS:       httpapi.NATS{Prefix: s.cfg.NATS.Prefix, Subject: s.Store.Names().EventsPrefix()},
		},
		Admin:      admin.Options{Audit: s.Store.Ledger(), Keys: s.keyService(), JWKS: s.keyService().KeySet(""), Producers: s.producers(), Settings: settings},
		Delivering: s.delivering(),
		Store:      s.storeState(),
		Network:    s.network(proxies),
		Tombstones: namespace.Eraser{Log: s.log, Authority: s.authority, Index: s.index},
		Registry:   s.registry,
		Namespaces: s.namespaces(),
		Log:        records.EventLog{Log: s.log, Lost: s.memory.Gaps},
		Feeds:      s.feeds,
		Schedules:  schedules.Options{Scheduled: s.later, Appointments: appointment.NewSerial(s.appointments)},
		Watches:    s.watchKeeper,
		Streams:    s.streams(),
		Answers:    s.Store.Answers(),
		Wakes:      s.wakes,
		Mirrors: mirrors.Options{
			Mirrors: records.GatedMirrors{Keeper: s.mirrors.Keeper(), MirrorGate: records.MirrorGate{Index: s.index}}, Staging: s.staging,
			Changes: records.EventLog{Log: s.log, Lost: s.memory.Gaps}, Summary: s.catalogue.Summary, Passed: s.mirrors.Keeper().Passed, BundleKeys: s.keyService().BundleKeys,
		},
		Knowledge:   s.knowledge,
		Modules:     s.moduleService,
		Stopping:    s.web.Stopping(),
		Metrics:     s.metrics.Handler(),
		Requests:    s.metrics,
		Version:     s.opts.Version,
		Logger:      s.opts.Log,
		LogRequests: httpapi.RequestLog(s.cfg.Log.Requests),
	}).Handler())
	return nil
}

// storeState returns the reports about the store for the API.
func (s *server) storeState() httpapi.Store {
	return httpapi.Store{
		Storage:      s.status.Storage,
		Verify:       s.verification.Begin,
		ForgetDamage: s.memory.Forget,
		Ready:        s.status.Ready,
		Problem:      s.status.Problem,
		Room:         s.room,
	}
}

func (s *server) keyService() keyring.Service {
	return keyring.Service{Store: s.Store, Ledger: s.ledger, Log: s.opts.Log}
}

// publicURL returns the public URL of the API.
func (s *server) publicURL() string {
	return strings.TrimSuffix(cmp.Or(s.cfg.HTTP.PublicURL, s.addresses().HTTP), "/")
}

func (s *server) version() string { return cmp.Or(s.opts.Version, "dev") }

func (s *server) addresses() datadir.Addresses {
	a := datadir.Addresses{HTTP: s.web.URL(), NATS: withoutLogin(s.cfg.NATS.URL), Prefix: s.cfg.NATS.Prefix, Domain: s.cfg.NATS.Domain}
	if s.NATS != nil {
		a.NATS = s.NATS.ClientURL()
	}
	return a
}
