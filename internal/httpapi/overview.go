package httpapi

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/health"
	"github.com/sluice-io/sluice/internal/httpapi/admin"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// overview sums up the subscriptions that the caller manages. Pages ask for it every few seconds.
// It answers GET /v1/overview. Server is set for admins of everything only.
func (s *Server) overview(c echo.Context) error {
	if s.opts.Health == nil {
		return sluice.Errorf(sluice.Unavailable, "this server does not support the health of subscriptions")
	}
	q := health.SumQuery{Namespace: c.QueryParam("namespace")}
	if q.Namespace != "" {
		if err := sluice.CheckNamespaceName(q.Namespace); err != nil {
			return err
		}
	}
	if !httpkit.Caller(c).Unbounded() {
		q.Visible = func(sub *sluice.Subscription) bool { return s.owns(c, sub) == nil }
	}
	ctx := c.Request().Context()
	sum, err := s.opts.Health.Sum(ctx, q)
	if err != nil {
		return err
	}
	if s.rights.Require(c, sluice.VerbAdmin, authz.Target{}) == nil {
		if sum.Server, err = s.serverOverview(ctx); err != nil {
			return err
		}
	}
	if s.opts.Admin.Audit != nil && s.rights.Require(c, sluice.VerbAdmin, authz.Target{Namespace: q.Namespace}) == nil {
		if sum.Ledger, err = s.glances.ledgerOf(ctx, q.Namespace, s.opts.Admin.Audit); err != nil {
			return err
		}
	}
	return c.JSON(http.StatusOK, sum)
}

// serverOverview returns the part for admins of everything: the replicas, and the store, which may
// be some seconds old. Feeds are those of all replicas.
func (s *Server) serverOverview(ctx context.Context) (*sluice.OverviewServer, error) {
	o := &sluice.OverviewServer{Version: s.opts.Version, Replicas: s.opts.Health.Replicas()}
	for _, r := range o.Replicas {
		o.Feeds += r.Feeds
	}
	if s.opts.Storage == nil {
		return o, nil
	}
	var err error
	o.Storage, err = s.glances.storage.look(func() (sluice.Storage, error) { return s.opts.Storage(ctx) })
	return o, err
}

// lastEntries is how many entries of the ledger an overview has.
const lastEntries = 10

// glances caches the values that the overviews of all callers share.
type glances struct {
	storage glance[sluice.Storage]

	mu      sync.Mutex
	ledgers map[string]*glance[[]sluice.LedgerEntry] // by namespace; "": all
}

// maxLedgers bounds the namespaces whose last entries are remembered.
const maxLedgers = 1000

// ledgerOf returns the last entries of a namespace, or of all. Beyond maxLedgers namespaces, all
// are forgotten and read again.
func (g *glances) ledgerOf(ctx context.Context, namespace string, audit admin.Audit) ([]sluice.LedgerEntry, error) {
	g.mu.Lock()
	if g.ledgers == nil || len(g.ledgers) > maxLedgers {
		g.ledgers = map[string]*glance[[]sluice.LedgerEntry]{}
	}
	one := g.ledgers[namespace]
	if one == nil {
		one = &glance[[]sluice.LedgerEntry]{}
		g.ledgers[namespace] = one
	}
	g.mu.Unlock()
	return one.look(func() ([]sluice.LedgerEntry, error) {
		entries, _, err := audit.Entries(ctx, model.LedgerQuery{Namespace: namespace, Limit: lastEntries})
		return entries, err
	})
}

// glance caches a value for a second, or for fifty times the duration of reading it if that is
// longer. Reading it therefore takes at most a fiftieth of the time.
type glance[T any] struct {
	mu    sync.Mutex
	value T
	until time.Time
}

const (
	glanceFresh = time.Second
	glanceShare = 50
)

// look returns the value, and reads it if it is too old. Concurrent callers wait for one read,
// which has the context of the caller that makes it. An error is not cached: the next caller reads
// again.
func (g *glance[T]) look(read func() (T, error)) (T, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	began := time.Now()
	if began.Before(g.until) {
		return g.value, nil
	}
	value, err := read()
	if err == nil {
		now := time.Now()
		g.value, g.until = value, now.Add(max(glanceFresh, glanceShare*now.Sub(began)))
	}
	return value, err
}

// statistics returns the attempts of a subscription over the last day, in steps. It answers GET
// …/statistics, oldest first. An earlier since is moved to the beginning of the last day or, for
// steps of a minute, of the last hour.
func (s *Server) statistics(c echo.Context) error {
	since, err := httpkit.TimeParam(c, "since")
	if err != nil {
		return err
	}
	if s.opts.Health == nil {
		return sluice.Errorf(sluice.Unavailable, "this server does not support statistics of subscriptions")
	}
	found, err := s.opts.Health.Statistics(subscriptionOf(c), since, c.QueryParam("step"))
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, found)
}
