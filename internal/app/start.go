package app

import (
	"context"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/sluice-io/sluice/internal/bootstrap"
)

// open constructs the components. It waits for an external store until ctx ends, so that a server
// can be started together with its NATS cluster. An embedded store has a time limit.
func (s *server) open(ctx context.Context) error {
	listen := func(ctx context.Context) error { return s.web.Start(ctx, s.starting) }
	begin := []func(context.Context) error{listen, s.OpenNATS, s.forget}
	// The order matters: each step uses fields that the steps before it have set.
	rest := []func(context.Context) error{
		s.openRoom, s.openSender, s.openRegistry, s.openReports, s.openAccess, s.openModules, s.openEngine, s.openWakes, s.openFeeds, s.openLater, s.openAppointments, s.openWatches, s.openMirrors, s.openKnowledge, s.openAPI,
	}
	if err := within(ctx, bootstrap.StartLimit, begin); err != nil {
		return err
	}
	if err := s.openStore(ctx); err != nil {
		return err
	}
	if s.NATS != nil {
		return within(ctx, bootstrap.StartLimit, rest)
	}
	for _, step := range rest {
		if err := s.Patiently(ctx, step); err != nil {
			return err
		}
	}
	return nil
}

// within runs the steps in order. The first error ends them. The limit is for all steps together.
func within(ctx context.Context, limit time.Duration, steps []func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// withoutLogin returns the URLs of NATS servers without users, passwords and tokens.
func withoutLogin(urls string) string {
	var bare []string
	for one := range strings.SplitSeq(urls, ",") {
		u, err := url.Parse(strings.TrimSpace(one))
		if err != nil {
			continue // the settings were validated; an invalid URL is not shown
		}
		u.User = nil
		bare = append(bare, u.String())
	}
	return strings.Join(bare, ",")
}

// warnOfNeighbours logs a warning if the store is empty although the account has data of another
// Sluice, because the prefix may be a mistake.
func (s *server) warnOfNeighbours(ctx context.Context) {
	others, err := s.Store.Neighbours(ctx)
	if err != nil {
		s.opts.Log.DebugContext(ctx, "other data in NATS is unknown", slog.Any("error", err))
	}
	if len(others) > 0 {
		s.opts.Log.WarnContext(ctx, "NATS has data of Sluice under another prefix, and none under this one: this server begins with an empty store. "+
			"Set nats.prefix to the other prefix, or move the data with sluice backup and sluice restore, if that is not intended",
			slog.String("prefix", s.cfg.NATS.Prefix), slog.Any("others", others))
	}
}
