package eventlog

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Limits of a page of a feed, and of the messages in flight for all pages: NATS closes a connection
// with more than 64 MiB pending by default. Reading many pages concurrently is not faster than
// reading a few.
const (
	feedPage   = 1024
	feedBytes  = 2 << 20
	feedAhead  = 32 // messages
	feedAtOnce = 4  // pages
	feedTries  = 3  // of a page: a server that stops loses its requests
)

// FeedPage returns events after a sequence, in order, of paths that the pattern may match, and the
// sequence up to which there are no others: at least upTo, unless there are more events than fit
// into a page, or the replica that was read is behind. The log must have reached upTo before the
// call. FeedPage skips messages that are not events. Codes: NotFound for the namespace;
// WindowExceeded, with oldest_available_seq and current_seq, if the next events are no longer
// stored. While feedAtOnce other pages are read, it waits, until ctx ends. The pattern only selects
// subjects, so the caller must match each event.
func (l *Log) FeedPage(ctx context.Context, ns string, pattern sluice.Pattern, after, upTo uint64) (events []sluice.Event, reached uint64, err error) {
	select {
	case l.pages <- struct{}{}:
		defer func() { <-l.pages }()
	case <-ctx.Done():
		return nil, 0, context.Cause(ctx)
	}
	for try := 1; ; try++ {
		events, reached, err = l.feedPage(ctx, ns, pattern, after, upTo)
		if sluice.CodeOf(err) != sluice.Unavailable || errors.Is(err, natsstore.ErrBehind) || try == feedTries || ctx.Err() != nil {
			return events, reached, err
		}
	}
}

// feedPage reads a page once.
func (l *Log) feedPage(ctx context.Context, ns string, pattern sluice.Pattern, after, upTo uint64) (events []sluice.Event, reached uint64, err error) {
	info, err := l.core.EventsInfo(ctx, ns)
	if err == nil {
		err = checkWindow(after, info.State)
	}
	if err != nil {
		return nil, 0, err
	}
	config := jetstream.ConsumerConfig{
		FilterSubject: l.core.Names().Superset(ns, pattern).Subject,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: after + 1,
	}
	p := page{log: l, after: after, upTo: upTo, reached: after}
	err = l.core.ScanAhead(ctx, l.core.Names().EventsStream(ns), config, feedAhead, p.add)
	if errors.Is(err, natsstore.ErrBehind) && p.reached > after {
		p.cut, err = true, nil // the page ends here
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read %s: %w", ns, natsstore.StoreError(ctx, err))
	}
	if !p.cut && p.reached < upTo {
		p.gap(p.reached)
		p.reached = upTo
	}
	if p.holed {
		if err := l.overtook(ctx, ns, p.hole); err != nil {
			return nil, 0, err
		}
	}
	return p.events, p.reached, nil
}

// page is a page of a feed while it is read.
type page struct {
	log         *Log
	after, upTo uint64
	events      []sluice.Event
	bytes       int
	reached     uint64
	cut         bool   // there may be more
	holed       bool   // some sequences were missing
	hole        uint64 // sequence before the first missing one
}

// add adds the next message, and returns whether it wants another one.
func (p *page) add(msg *nats.Msg, meta *nats.MsgMetadata) (more bool, err error) {
	seq := meta.Sequence.Stream
	if seq > p.reached+1 {
		p.gap(p.reached)
	}
	p.reached = seq
	if e, err := p.log.stamps.eventOf(msg.Subject, msg.Header, msg.Data, seq, meta.Timestamp); err == nil {
		p.events = append(p.events, e)
		p.bytes += len(e.Data)
	}
	p.cut = p.reached >= p.upTo || len(p.events) >= feedPage || p.bytes >= feedBytes
	return !p.cut, nil
}

// gap records that sequences after a place are missing: events may have been deleted from the log
// while it was read.
func (p *page) gap(place uint64) {
	if !p.holed {
		p.holed, p.hole = true, place
	}
}

// overtook returns an error with code WindowExceeded if events after a place were deleted because
// of the retention.
func (l *Log) overtook(ctx context.Context, ns string, place uint64) error {
	info, err := l.core.EventsInfo(ctx, ns)
	if err != nil {
		return err
	}
	return checkWindow(place, info.State)
}
