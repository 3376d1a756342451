package app

import (
	"context"
	"time"

	"github.com/sluice-io/sluice/internal/feed"
	"github.com/sluice-io/sluice/internal/metrics"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// openFeeds constructs the feed engine.
func (s *server) openFeeds(context.Context) error {
	s.feeds = feed.New(feedLog{s.store}, s.trust.index, feed.Options{
		Ring: s.cfg.Feed.Ring, MaxBuffer: s.cfg.Feed.MaxBuffer, Heartbeat: s.cfg.Feed.Heartbeat.Std(),
		Most: s.cfg.Feed.MaxFeeds, PerCaller: s.cfg.Feed.MaxPerPrincipal, AllBytes: s.cfg.Feed.RingBytes,
		Summary: s.catalogue.Summary, Labels: s.catalogue.Labels, PublicURL: s.publicURL(), Log: s.opts.Log,
	})
	s.metrics.WatchFeeds(func() metrics.FeedUse { return metrics.FeedUse(s.feeds.Use()) })
	return nil
}

// feedLog gives feeds access to the log.
type feedLog struct{ store *natsstore.Store }

// Ends returns the first and the last stored sequence.
func (l feedLog) Ends(ctx context.Context, namespace string) (first, last uint64, err error) {
	return l.store.Bounds(ctx, namespace)
}

// Made returns when the log was created.
func (l feedLog) Made(ctx context.Context, namespace string) (time.Time, error) {
	return l.store.LogMade(ctx, namespace)
}

// Page returns events after a position, and the position up to which the page is complete.
func (l feedLog) Page(ctx context.Context, namespace string, pattern sluice.Pattern, after, upTo uint64) ([]sluice.Event, uint64, error) {
	return l.store.FeedPage(ctx, namespace, pattern, after, upTo)
}

// Tail calls each for the events after a position, and then for new ones.
func (l feedLog) Tail(ctx context.Context, namespace string, after uint64, each func(sluice.Event) error) error {
	return l.store.FeedTail(ctx, namespace, after, each)
}

// Place returns the sequence before the first event after a cursor.
func (l feedLog) Place(ctx context.Context, namespace, cursor string) (uint64, error) {
	return l.store.Resolve(ctx, namespace, cursor)
}
