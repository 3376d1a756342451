package natsstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// Bounds of a page of a feed, and of what is on its way for all pages: what NATS has for a connection is bounded, 64 MiB by
// default, beyond which it is cut. Many pages at once are no faster than a few.
const (
	feedPage   = 1024
	feedBytes  = 2 << 20
	feedAhead  = 32 // messages
	feedAtOnce = 4  // pages
	feedTries  = 3  // of a page: on a busy server, what was asked for is now and then not answered

	feedBehind  = 40 // tries of a page with nothing in it because the replica is behind
	feedCatchUp = 50 * time.Millisecond
)

// FeedPage returns events behind a place, in order, of paths that the pattern may match, and up to where there are
// no others: upTo at least, unless there are more than a page has, or the replica that was read has not got them yet. The log
// reached upTo before the call. Messages that are no events are left out. Codes NotFound for the namespace;
// WindowExceeded, with oldest_available_seq and current_seq, if what comes behind the place is no longer kept.
func (s *Store) FeedPage(ctx context.Context, ns string, pattern sluice.Pattern, after, upTo uint64) (events []sluice.Event, reached uint64, err error) {
	select {
	case s.pages <- struct{}{}:
		defer func() { <-s.pages }()
	case <-ctx.Done():
		return nil, 0, context.Cause(ctx)
	}
	for try, behind := 1, 0; ; try++ {
		events, reached, err = s.feedPage(ctx, ns, pattern, after, upTo)
		if behind++; errors.Is(err, errBehind) && behind < feedBehind {
			try-- // another consumer is maybe on another server
			pause(ctx, feedCatchUp)
			continue
		}
		if sluice.CodeOf(err) != sluice.Unavailable || try == feedTries || ctx.Err() != nil {
			return events, reached, err
		}
	}
}

// FeedTail is TailEvents for who must know whether it was given everything: code WindowExceeded, with oldest_available_seq and
// current_seq, if messages left the log before they came.
func (s *Store) FeedTail(ctx context.Context, ns string, after uint64, each func(sluice.Event) error) error {
	return s.tail(ctx, streams.EventsStream(ns), streams.EventsSubjects(ns), after, func(msg jetstream.Msg, meta *jetstream.MsgMetadata) error {
		seq := meta.Sequence.Stream
		if seq > after+1 { // removed from the middle, or by retention
			if err := s.overtook(ctx, ns, after); err != nil {
				return err
			}
		}
		after = seq
		e, err := s.stamps.eventOf(msg.Subject(), msg.Headers(), msg.Data(), seq, meta.Timestamp)
		if err != nil {
			return nil //nolint:nilerr // it is no event
		}
		return each(e)
	})
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
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
	p := page{store: s, after: after, upTo: upTo, reached: after, whole: true}
	err = s.follow(ctx, streams.EventsStream(ns), config, p.add, jetstream.PullMaxMessages(feedAhead))
	if err != nil {
		return nil, 0, fmt.Errorf("read %s: %w", ns, storeError(ctx, err))
	}
	if p.holed && config.FilterSubject == streams.EventsSubjects(ns) {
		err = s.overtook(ctx, ns, p.hole)
	}
	if err == nil && p.whole && info.Cluster != nil && len(info.Cluster.Replicas) > 0 {
		p.whole, err = s.hasNone(ctx, ns, config.FilterSubject, p.reached, upTo)
	}
	switch {
	case err != nil:
		return nil, 0, err
	case p.whole:
		p.reached = max(p.reached, upTo)
	case len(p.events) == 0 && p.reached == after:
		return nil, 0, fmt.Errorf("%w: %w", sluice.Errorf(sluice.Unavailable, "read %s: what answers is behind", ns), errBehind)
	}
	return p.events, p.reached, nil
}

// page is a page of a feed while it is read.
type page struct {
	store       *Store
	after, upTo uint64
	events      []sluice.Event
	bytes       int
	reached     uint64
	whole       bool   // there was nothing more
	holed       bool   // sequences were missing
	hole        uint64 // behind it, at first
}

// add takes the next message, and returns whether another one is wanted.
func (p *page) add(msg jetstream.Msg, meta *jetstream.MsgMetadata) (more bool, err error) {
	if msg == nil {
		return false, nil
	}
	seq := meta.Sequence.Stream
	if seq <= p.after {
		return meta.NumPending > 0, nil // the replica is behind, and began at its own end
	}
	if seq > p.reached+1 && !p.holed {
		p.holed, p.hole = true, p.reached
	}
	p.reached = seq
	if e, err := p.store.stamps.eventOf(msg.Subject(), msg.Headers(), msg.Data(), seq, meta.Timestamp); err == nil {
		p.events = append(p.events, e)
		p.bytes += len(e.Data)
	}
	if meta.NumPending == 0 {
		return false, nil
	}
	p.whole = p.reached < p.upTo && len(p.events) < feedPage && p.bytes < feedBytes
	return p.whole, nil
}

// overtook returns an error (WindowExceeded) if retention has overtaken somebody who has come to a place.
func (s *Store) overtook(ctx context.Context, ns string, place uint64) error {
	info, err := s.eventsInfo(ctx, ns)
	if err != nil {
		return err
	}
	return checkWindow(place, info.State)
}

// hasNone reports whether the leader has no message behind a place, up to a sequence. JetStream puts a consumer that is on one
// server on any that has the stream, and what it has not got yet looks there as if it were not.
func (s *Store) hasNone(ctx context.Context, ns, subject string, after, upTo uint64) (bool, error) {
	if after >= upTo {
		return true, nil
	}
	body, err := json.Marshal(directRequest{Seq: after + 1, Subject: subject})
	if err != nil {
		return false, fmt.Errorf("read request: %w", err)
	}
	resp, err := asked(ctx, askTimeout, func(ctx context.Context) (*nats.Msg, error) {
		return s.nc.RequestWithContext(ctx, msgGetSubject+streams.EventsStream(ns), body)
	})
	if err != nil {
		return false, fmt.Errorf("read %s: %w", ns, storeError(ctx, err))
	}
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Message struct {
			Seq uint64 `json:"seq"`
		} `json:"message"`
	}
	switch err := json.Unmarshal(resp.Data, &answer); {
	case err != nil:
		return false, fmt.Errorf("read %s: %w", ns, err)
	case answer.Error != nil && answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return true, nil
	case answer.Error != nil:
		return false, fmt.Errorf("read %s: %w", ns, storeError(ctx, answer.Error))
	}
	return answer.Message.Seq > upTo, nil
}
