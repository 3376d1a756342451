package natsstore

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// Bounds of a page of a feed, and of what is on its way for all pages: what NATS has for a connection is bounded, 64 MiB by
// default, beyond which it is cut. Many pages at once are no faster than a few.
const (
	feedPage   = 1024
	feedBytes  = 2 << 20
	feedAhead  = 256 // messages
	feedAtOnce = 4   // pages
	feedTries  = 3   // of a page: on a busy server, what was asked for is now and then not answered
)

// FeedPage returns events behind a place, in order, of paths that the pattern may match, and up to where there are
// no others: upTo at least, unless there are more than a page has. The log reached upTo before the call. The
// leader is asked, so that nothing is missing. Messages that are no events are left out. Codes NotFound for the namespace;
// WindowExceeded, with oldest_available_seq and current_seq, if what comes behind the place is no longer kept.
func (s *Store) FeedPage(ctx context.Context, ns string, pattern sluice.Pattern, after, upTo uint64) (events []sluice.Event, reached uint64, err error) {
	select {
	case s.pages <- struct{}{}:
		defer func() { <-s.pages }()
	case <-ctx.Done():
		return nil, 0, context.Cause(ctx)
	}
	for try := 1; ; try++ {
		events, reached, err = s.feedPage(ctx, ns, pattern, after, upTo)
		if sluice.CodeOf(err) != sluice.Unavailable || try == feedTries || ctx.Err() != nil {
			return events, reached, err
		}
	}
}

// feedPage reads a page once.
func (s *Store) feedPage(ctx context.Context, ns string, pattern sluice.Pattern, after, upTo uint64) (events []sluice.Event, reached uint64, err error) {
	info, err := s.eventsInfo(ctx, ns)
	if err == nil {
		err = checkWindow(after, info.State)
	}
	if err != nil {
		return nil, 0, err
	}
	config := jetstream.ConsumerConfig{
		FilterSubject: streams.Superset(ns, pattern).Subject,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: after + 1,
	}
	bytes, whole := 0, true
	err = s.follow(ctx, streams.EventsStream(ns), config, func(msg jetstream.Msg, meta *jetstream.MsgMetadata) (bool, error) {
		if msg == nil {
			return false, nil
		}
		reached = meta.Sequence.Stream
		if e, err := s.stamps.eventOf(msg.Subject(), msg.Headers(), msg.Data(), reached, meta.Timestamp); err == nil {
			events = append(events, e)
			bytes += len(e.Data)
		}
		if meta.NumPending == 0 {
			return false, nil
		}
		whole = reached < upTo && len(events) < feedPage && bytes < feedBytes
		return whole, nil
	}, jetstream.PullMaxMessagesWithBytesLimit(feedAhead, 2*int(s.nc.MaxPayload())))
	if err != nil {
		return nil, 0, fmt.Errorf("read %s: %w", ns, storeError(ctx, err))
	}
	if whole {
		reached = max(reached, upTo)
	}
	return events, reached, nil
}
