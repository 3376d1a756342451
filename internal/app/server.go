package app

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/capacity"
	"github.com/sluice-io/sluice/internal/catalogue"
	"github.com/sluice-io/sluice/internal/delivery"
	"github.com/sluice-io/sluice/internal/durable"
	"github.com/sluice-io/sluice/internal/endpoint"
	"github.com/sluice-io/sluice/internal/explain"
	"github.com/sluice-io/sluice/internal/export"
	"github.com/sluice-io/sluice/internal/feed"
	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/internal/httpapi"
	"github.com/sluice-io/sluice/internal/integrity"
	"github.com/sluice-io/sluice/internal/keylock"
	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/loopguard"
	"github.com/sluice-io/sluice/internal/metrics"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsd"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/quota"
	"github.com/sluice-io/sluice/internal/schedule/appointment"
	"github.com/sluice-io/sluice/internal/schedule/delayed"
	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/internal/streamsub"
	"github.com/sluice-io/sluice/internal/subscription"
	"github.com/sluice-io/sluice/internal/sysevent"
	"github.com/sluice-io/sluice/internal/wake"
	"github.com/sluice-io/sluice/internal/watch"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// server holds the components of a server. open constructs them in this order, close stops them in
// reverse.
type server struct {
	cfg      config.Config
	opts     Options
	listener net.Listener
	deadline *shutdown.Deadline // of all work after the server was told to stop

	lock     *flock.Flock // of the data directory, if no embedded server holds it
	nats     *natsd.Server
	store    *natsstore.Store
	room     *capacity.Watch
	trusted  *natsstore.Trusted     // nil: no trusted publishers
	inspect  *natsstore.Inspections // nil: the embedded server has users, or there is none
	attempts *natsstore.AttemptLog
	tracing  *tracing
	sender   *endpoint.Sender
	keys     *keyRing
	counts   *quota.Counts
	counted  []func() // each is called once all subscriptions of one kind have been reported
	sends    *quota.Sends
	paces    *quota.Paces
	filters  *filter.Pool
	quotas   *quota.Quotas
	exporter *export.Exporter // nil: export is disabled
	metrics  *metrics.Metrics
	announce *sysevent.Announcer
	ledger   *ledger.Ledger
	marks    markStore
	causes   *loopguard.Guard
	memory   *integrity.Memory // last known ends of the streams

	verification *integrity.Verification

	catalogue *catalogue.Index
	durable   *durable.Engine
	feeds     *feed.Engine
	perform   *performing
	later     *delayed.Engine
	appoint   *appointment.Engine

	watches     *watch.Engine
	watchKeeper *watch.Keeper

	registry *subscription.Registry
	replica  string
	owns     *ownership
	engine   *delivery.Engine
	wakes    *wake.Engine
	wakeKeys wakeKeys
	dsubs    *streamsub.Engine
	dsubsOwn *part
	trust    trust

	ticketKeys macKeys

	api      http.Handler
	stopping context.Context //nolint:containedctx // it ends when requests that wait are to end
	stop     context.CancelFunc
	tls      *tls.Config  // TLS of the API; nil: plain HTTP
	conns    atomic.Int64 // open connections to the API
}

func (s *server) openNATS(ctx context.Context) error {
	if !s.cfg.NATS.Embedded() {
		s.lock = flock.New(filepath.Join(s.cfg.Data, "sluice.lock"))
		ok, err := s.lock.TryLock()
		if err == nil && !ok {
			err = errors.New("in use by another process; choose another one with --data")
		}
		if err != nil {
			return fmt.Errorf("data directory %s: %w", s.cfg.Data, err)
		}
		return nil
	}
	return s.startNATS(ctx)
}

// forget removes the addresses that a killed server left behind; the directory is locked by this
// server.
func (s *server) forget(context.Context) error {
	return removeIfThere(filepath.Join(s.cfg.Data, AddressesFile))
}

// storeOptions returns the connection options of the store.
func (s *server) storeOptions() natsstore.Options {
	n := s.cfg.NATS
	opts := natsstore.Options{
		URL: n.URL, Creds: n.Credentials, User: n.User, Password: n.Password, Token: n.Token, NKeySeedFile: n.NKeySeedFile,
		TLSCA: n.TLS.CA, TLSCert: n.TLS.Cert, TLSKey: n.TLS.Key, Replicas: n.Replicas, Log: s.opts.Log, Readers: n.Readers(),
		AttemptsMaxAge: s.cfg.Attempts.MaxAge.Std(), LeaseTTL: s.opts.LeaseTTL,
		Defaults: sluice.Namespace{
			Retention:   sluice.Retention{MaxAge: s.cfg.Events.Retention.MaxAge, MaxBytes: s.cfg.Events.Retention.MaxBytes},
			DedupWindow: s.cfg.Events.DedupWindow,
			Quota:       sluice.Quota(s.cfg.Events.Quota),
		},
	}
	if s.nats != nil {
		s.loginTo(&opts)
	}
	return opts
}

// connectStore opens the store without creating anything in it.
func (s *server) connectStore(ctx context.Context) (err error) {
	s.store, err = natsstore.Connect(ctx, s.storeOptions())
	return err
}

func (s *server) openStore(ctx context.Context) (err error) {
	n, opts := s.cfg.NATS, s.storeOptions()
	sealed, err := openSealing(s.cfg)
	if err != nil {
		return err
	}
	opts.Vault, opts.Sealed = sealed.ring, []natsstore.SealedBucket{natsstore.SealedIn[dsubRecord](streams.StreamWakes)}
	if s.store, err = natsstore.Connect(ctx, opts); err != nil {
		return err
	}
	if err := s.openMemory(ctx); err != nil {
		return err
	}
	if err := s.patiently(ctx, s.store.Provision); err != nil {
		return sealed.explain(err)
	}
	if n.Trusts() {
		if err := s.patiently(ctx, s.openTrusted); err != nil {
			return err
		}
	}
	if s.nats != nil && !n.Guarded() && n.Listen != "none" {
		if s.inspect, err = s.store.OpenInspections(ctx); err != nil {
			return err
		}
	}
	s.catalogue = catalogue.New()
	if err := s.patiently(ctx, func(ctx context.Context) error { return loadCatalogue(ctx, s.store, s.catalogue) }); err != nil {
		return err
	}
	s.attempts, err = s.store.AttemptLog()
	return err
}

func (s *server) openTrusted(ctx context.Context) (err error) {
	s.trusted, err = s.store.OpenTrusted(ctx)
	return err
}

func (s *server) openSender(ctx context.Context) error {
	keys, err := s.store.Keys(ctx)
	if err != nil {
		return err
	}
	s.keys = &keyRing{}
	s.keys.set(keys)
	opts := endpoint.Options{
		AllowLoopback: s.cfg.InsecureLoopback(), Version: s.opts.Version, Keys: s.keys,
		MaxBody: s.cfg.Webhooks.MaxBody, MaxResponse: s.cfg.Webhooks.MaxResponse,
		Summary: s.catalogue.Summary, PublicURL: s.publicURL(),
	}
	if opts.AllowCIDRs, err = prefixes(s.cfg.Webhooks.AllowCIDRs); err != nil {
		return fmt.Errorf("webhooks.allow_cidrs: %w", err)
	}
	if s.tracing, err = newTracing(ctx, s.cfg.Tracing.Endpoint, s.opts.Version); err != nil {
		return err
	}
	if s.tracing != nil {
		opts.Trace = s.tracing.inject
	}
	s.sender = endpoint.New(opts)
	return nil
}

func (s *server) openRegistry(ctx context.Context) error {
	if err := s.store.EnsureLetters(ctx); err != nil {
		return err
	}
	scraping := shutdown.Lasting(ctx)
	s.metrics = metrics.New(s.moments, kept(func() []metrics.Log { return s.logs(scraping) }))
	s.metrics.WatchConnections(s.conns.Load)
	s.metrics.WatchWakes(s.wakeMoments)
	s.metrics.WatchStorage(kept(func() []sluice.Storage { return s.storages(scraping) }))
	s.quotas = quota.NewQuotas()
	s.ledger = ledger.New(s.store.Ledger(), s.opts.Log)
	s.marks = markStore{natsstore.OpenBucket[markRecord](s.store, streams.Unsafe), s.ledger}
	s.announce = sysevent.New(s.store, sysevent.Options{
		Log: s.opts.Log, Dropped: s.metrics.Unannounced, Outbox: s.store.Subscriptions(), Namespaces: s.store, Letters: deadLetterSource{s.store}, Known: known(s.store), Marks: s.marks.all,
	})
	s.trust.index = authz.NewIndex()
	s.counts = quota.NewCounts(quota.Most{
		Namespace: s.cfg.Limits.SubscriptionsPerNamespace, Principal: s.cfg.Limits.SubscriptionsPerPrincipal, Host: s.cfg.Limits.SubscriptionsPerHost, Answers: s.answers,
	})
	s.counted = whenAll(2, s.counts.CaughtUp)
	s.sends, s.paces = quota.NewSends(s.cfg.Limits.SendsPerSubscription, s.cfg.Limits.SendsPerPrincipal), quota.NewPaces()
	s.trust.index.Open(s.cfg.Durable.Anonymous)
	s.filters = filter.NewPool(filter.Rates{Principal: s.cfg.Limits.FilterCostPerPrincipal, Namespace: s.cfg.Limits.FilterCostPerNamespace})
	s.registry = subscription.New(subscription.Needs{
		Subscriptions: s.store.Subscriptions(),
		Reservations:  natsstore.OpenBucket[subscription.Reservation](s.store, streams.Reservations),
		Logs:          s.store,
		Endpoints:     receivers{s},
		Consumers:     consumers{s.store, s.forgetWakes},
		Replays:       s.store.Replays(),
		ReplayLogs:    s.store,
		Ledger:        s.ledger,
		Announce:      s.announce,
		Now:           time.Now,
		ReplayWindow:  s.cfg.Webhooks.ReplayWindow,
		Quota:         s.counts,
		Access:        subscribing{s.trust.index},
		Catalogue:     s.catalogue,
		Labels:        s.catalogue.Labels,
		Filters:       s.filters,
		Payer:         s.payer,
	})
	var err error
	s.causes, err = loopguard.New(s.store, s.marks, loopguard.Options{Announce: s.announce, Looped: s.metrics.Looped, Log: s.opts.Log})
	return err
}

func (s *server) openEngine(ctx context.Context) error {
	var err error
	if s.replica, err = replicaID(s.cfg.Data); err != nil {
		return err
	}
	leases, err := s.store.Leases(ctx, s.replica)
	if err != nil {
		return err
	}
	s.owns = &ownership{leases: leases}
	s.durable = durable.New(paths{s}, time.Now)
	s.openDsubs()
	s.engine = delivery.New(watcher{s.store.Subscriptions(), s.counts, s.counted[0], s.know}, s.owns.part(), delivery.Ports{
		Sources:   sources{s.store},
		Log:       s.attempts,
		Lanes:     s.store,
		Healths:   s.store,
		Events:    s.store,
		Sender:    s.traced(),
		Gate:      gate{s.trust.index, s.owns.part()},
		Pace:      receivers{s},
		Registry:  s.registry,
		Replays:   s.store.Replays(),
		Letters:   s.store,
		Announce:  s.announce,
		Causes:    s.causes,
		Catalogue: s.catalogue,
		Labels:    s.catalogue.Labels,
		Filters:   s.filters,
		Payer:     s.payer,
	}, delivery.Options{
		Observe: s.metrics, Log: s.opts.Log, Replays: replayWatcher{s.store.Replays()}, MaxInFlight: s.cfg.Webhooks.MaxInFlight,
	})
	if dir := s.cfg.Export.Dir; dir != "" {
		s.exporter = export.New(dir, s.store, export.Options{Observe: s.metrics, Log: s.opts.Log})
	}
	return nil
}

// mayKnow reports whether a publishing caller may learn that an event is stored.
func (s *server) mayKnow(ctx context.Context, ev *sluice.Event) bool {
	who := model.CallerFrom(ctx)
	return who.Unbounded() || s.trust.index.Shows(who, sluice.VerbPublish, ev, time.Now()) == model.Pass
}

func (s *server) openAPI(context.Context) error {
	token, err := rootToken(s.cfg.Data)
	if err != nil {
		return err
	}
	proxies, err := prefixes(s.cfg.HTTP.TrustedProxies)
	if err != nil {
		return fmt.Errorf("http.trusted_proxies: %w", err)
	}
	s.api = httpapi.New(httpapi.Options{ //nolint:contextcheck // a request brings its own
		Token:      token,
		Authority:  s.trust.authority,
		Access:     s.trust.index,
		Tombstones: tombstones{s.store, &s.trust},
		Registry:   s.registry,
		Namespaces: namespaces{s.store, s.registry, s.quotas, s.ledger, s.trust.authority, s.catalogue, s.announce, s.dsubs},
		Audit:      audit{s.store.Ledger()},
		Publisher:  s.published(natsstore.Exact{Store: s.store, Shows: s.mayKnow}),
		Quota:      s.quotas,
		EventTypes: catalogue.NewKeeper(s.catalogue, s.store.EventTypes(), s.store, s.ledger),
		Catalogue:  s.catalogue,
		Causes:     s.causes,
		Producers:  producers{s.marks, s.causes},
		Log:        eventLog{s.store},
		Feeds:      s.feeds,
		Scheduled:  s.later,

		Appointments: appointing{s.appoint, &keylock.Turns[string]{}},
		Watches:      s.watchKeeper,
		Streams:      s.streams(),
		Deliveries:   deliveries{s.store, s.traced(), receivers{s}},
		DeadLetters:  deadLetters{s.store, s.ledger},
		Answers:      s.store.Answers(),
		Replays:      s.registry,
		Wakes:        s.wakes,
		Explain:      explain.New(s.store, s.store, explain.Options{Labels: s.catalogue.Labels, Filters: s.filters, Payer: s.payer}),
		Fact:         endpoint.Fact,
		Retrier:      retrier{s.store, s.registry},
		Storage:      s.storage,
		Verify:       s.verification.Begin,
		ForgetDamage: s.memory.Forget,
		Ready:        s.ready,
		Problem:      s.problem,
		Room:         s.room,
		Stopping:     s.stopping,
		JWKS:         s.jwks,
		Keys:         keys{s.store, s.ledger},
		Metrics:      s.metrics.Handler(),
		Version:      s.opts.Version,
		MaxBody:      s.cfg.HTTP.MaxBody,
		Logger:       s.opts.Log,

		FailureBurst: s.cfg.HTTP.AuthFailures.Burst,

		Sends:          receivers{s},
		FailureEvery:   s.cfg.HTTP.AuthFailures.Every.Std(),
		TrustedProxies: proxies,
		MetricsFor:     s.cfg.HTTP.Metrics,
		TLS:            s.tls != nil,
	}).Handler()
	return nil
}

// jwks returns the public halves of the signing keys.
func (s *server) jwks(ctx context.Context) ([]byte, error) { return s.keySet(ctx, "") }

// publicURL returns the public URL of the API.
func (s *server) publicURL() string {
	return strings.TrimSuffix(cmp.Or(s.cfg.HTTP.PublicURL, s.addresses().HTTP), "/")
}

func (s *server) version() string { return cmp.Or(s.opts.Version, "dev") }

func (s *server) traced() sender {
	if s.tracing == nil {
		return s.sender
	}
	return tracedSender{s.sender, s.tracing}
}

func (s *server) addresses() Addresses {
	a := Addresses{HTTP: s.scheme() + s.listener.Addr().String(), NATS: withoutLogin(s.cfg.NATS.URL)}
	if s.nats != nil {
		a.NATS = s.nats.ClientURL()
	}
	return a
}

func (s *server) moments() []metrics.Moment {
	var all []metrics.Moment
	for _, g := range s.engine.Gauges() {
		all = append(all, metrics.Moment{
			Namespace: g.Namespace, Subscription: g.Subscription,
			InFlight: g.InFlight, Held: g.Held, Parked: g.Parked, HeldLanes: g.HeldLanes, LagSeconds: g.Lag.Seconds(),
			Breaker: g.Breaker, Unopened: g.Unopened,
		})
	}
	return all
}
