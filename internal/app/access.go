package app

import (
	"context"
	"net/netip"
	"time"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/datadir"
	"github.com/sluice-io/sluice/internal/grants"
	"github.com/sluice-io/sluice/internal/httpapi"
	"github.com/sluice-io/sluice/internal/natsstore/records"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// access holds the components of authorization.
type access struct {
	index     *authz.Index
	authority *grants.Authority
	grants    grants.Replica
}

// openAccess constructs the components that decide and change rights. Nothing is permitted yet: the
// index answers Unavailable until its followers have read all records.
func (s *server) openAccess(ctx context.Context) error {
	id, err := datadir.ReplicaID(s.cfg.Data)
	if err != nil {
		return err
	}
	tickets, err := s.Store.Keys().For(ctx, sluice.UseFeed)
	if err != nil {
		return err
	}
	s.ticketKeys.Set(tickets)
	stored := records.NewAccess(s.Store, s.memory.OfBucket(streams.Access))
	s.authority = grants.New(grants.Deps{
		Records: stored, Index: s.index, Ledger: s.ledger, Keys: records.TokenKeys(s.Store), Now: time.Now, Tickets: s.ticketKeys.All,
		Links: records.NewPortalLinks(s.Store),
	})
	presence := grants.NewPresence(id, stored, s.index, s.Store.Options().LeaseTTL, s.opts.Log)
	s.grants = grants.Replica{
		Presence: presence, Records: stored, Log: s.opts.Log,
		Follower: &grants.Follower{Index: s.index, Presence: presence, Revoker: s.registry, Forget: stored, Now: time.Now, Log: s.opts.Log},
	}
	return nil
}

// network returns the settings of connections for the API.
func (s *server) network(proxies []netip.Prefix) httpapi.Network {
	return httpapi.Network{
		MaxBody:        s.cfg.HTTP.MaxBody,
		TrustedProxies: proxies,
		MetricsFor:     s.cfg.HTTP.Metrics,
		Pprof:          s.cfg.HTTP.Pprof,
		TLS:            s.web.TLS(),
		PublicURL:      s.cfg.HTTP.PublicURL,
		PortalTitle:    s.cfg.Portal.Title,
		FrameAncestors: s.cfg.Portal.FrameAncestors,
	}
}
