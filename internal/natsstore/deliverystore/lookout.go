package deliverystore

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// How much of a backlog one look goes through to find the next event that is wanted; the next
// look goes on from there.
const lookBatch, lookBatches = 64, 4

// lookout is the record of how far a subscription's events are accounted for, so that an event
// that leaves the log without having been handed out is noticed (decision 0003).
type lookout struct {
	Since time.Time `json:"since"` // when the subscription began: another one of its id starts anew
	Marks []mark    `json:"marks"` // of its consumers

	Gaps []Gap `json:"gaps,omitempty"` // of the log, of which dead letters were made because they cannot be read; the last ones

	Shared  bool   `json:"shared,omitempty"`  // the shared reader serves it, in place of consumers of its own (decision 0043)
	Cursor  string `json:"cursor,omitempty"`  // key of the cursor that accounts for the events behind the floors; empty: none
	New     bool   `json:"new,omitempty"`     // no replica has served it
	Leaving bool   `json:"leaving,omitempty"` // the consumers that it had are being deleted
}

// mark is how far the events of one consumer are accounted for.
type mark struct {
	Floor uint64 `json:"floor"`          // everything up to here is settled or parked
	Open  uint64 `json:"open,omitempty"` // the first event that was handed out and not settled; 0: none
	Next  uint64 `json:"next,omitempty"` // the first event that waited to be handed out; 0: none was found
	Seen  uint64 `json:"seen,omitempty"` // up to here nothing else is wanted, or it is accounted for
}

func (l lookout) mark(i int) (m mark, known bool) {
	if i < len(l.Marks) {
		return l.Marks[i], true
	}
	return m, false
}

func (s *Store) lookouts() natsstore.Bucket[lookout] {
	return natsstore.OpenBucket[lookout](s.core, streams.Lanes)
}

// lookout returns the subscription's record, an empty one if there is none.
func (s *Store) lookout(ctx context.Context, sub *sluice.Subscription) (lookout, uint64, error) {
	l, revision, err := s.lookouts().Get(ctx, streams.LookoutKey(sub.ID))
	if sluice.CodeOf(err) == sluice.NotFound {
		err = nil
	}
	if !l.Since.Equal(sub.Began()) {
		l = lookout{}
	}
	return l, revision, err
}

// Look looks for events that left the log before a subscription without a replica got them:
// lost is called for each range. wanted says whether the subscription wants an event that its
// consumers would hand out. How far it looked is stored afterwards.
func (s *Store) Look(ctx context.Context, sub *sluice.Subscription, wanted func(*sluice.Event) bool, lost func(from, to uint64) error) error {
	if err := s.settleSystem(ctx, sub); err != nil {
		return err
	}
	return look{store: s, sub: sub, wanted: wanted, lost: lost}.do(ctx)
}

// Look is Store.Look for a subscription that this source serves, or served until it was closed.
// It returns at once if nothing happened since the last look and nothing waits.
func (s *Source) Look(ctx context.Context, wanted func(*sluice.Event) bool, lost func(from, to uint64) error) error {
	select {
	case <-s.done:
		if err := s.store.settleSystem(ctx, s.sub); err != nil {
			return err
		}
	default:
	}
	if !slices.ContainsFunc(s.acks, (*ackTracker).moved) {
		return nil
	}
	err := look{store: s.store, sub: s.sub, acks: s.acks, wanted: wanted, lost: lost}.do(ctx)
	if err != nil {
		s.acks[0].again(nil)
	}
	return err
}

type look struct {
	store  *Store
	sub    *sluice.Subscription
	acks   []*ackTracker // of each consumer; nil: no replica serves the subscription
	wanted func(*sluice.Event) bool
	lost   func(from, to uint64) error
}

func (l look) do(ctx context.Context) (err error) {
	before, revision, err := l.store.lookout(ctx, l.sub)
	if err != nil {
		return err
	}
	first, last, err := l.store.log.Bounds(ctx, l.sub.Namespace)
	if err != nil {
		return err
	}
	if before.Cursor != "" {
		return nil // the shared reader knows
	}
	after := before
	after.Since, after.Marks = l.sub.Began(), nil
	lost := l.lost
	l.lost = func(from, to uint64) error {
		if before.tells(Gap{from, from}) {
			return nil // there was a dead letter of it
		}
		return lost(from, to)
	}
	for i, want := range l.store.core.Names().PushConsumers(l.sub) {
		m, _ := before.mark(i)
		if max(m.Floor, m.Open, m.Next, m.Seen) > last {
			m = mark{} // it is another log under the same name
		}
		if err = l.consumer(ctx, i, want, first, &m); err != nil {
			return fmt.Errorf("inspect %s: %w", want.Name, err)
		}
		after.Marks = append(after.Marks, m)
	}
	if revision > 0 && slices.Equal(before.Marks, after.Marks) {
		return nil
	}
	if l.acks != nil && revision == 0 {
		return nil // the record was removed with the subscription
	}
	_, err = l.store.lookouts().Put(ctx, streams.LookoutKey(l.sub.ID), after, revision)
	if sluice.CodeOf(err) == sluice.Conflict {
		return nil // the other one looked as well
	}
	return err
}

// consumer looks at the deliveries of one consumer.
func (l look) consumer(ctx context.Context, i int, want streams.Consumer, first uint64, m *mark) error {
	info, err := l.info(ctx, i, want)
	if err != nil {
		return err
	}
	if l.acks != nil {
		return l.served(ctx, i, want, info, m)
	}
	return l.unserved(ctx, want, info, first, m)
}

// info returns the state of the consumer; nil if it is missing, or an earlier subscription's.
func (l look) info(ctx context.Context, i int, want streams.Consumer) (*jetstream.ConsumerInfo, error) {
	return l.store.consumerInfo(ctx, l.sub, i, want)
}

// served enters the knowledge of the source, and reports the events that it was not handed.
func (l look) served(ctx context.Context, i int, want streams.Consumer, info *jetstream.ConsumerInfo, m *mark) error {
	h := l.acks[i]
	now, expect, gone := h.look()
	for n, g := range gone {
		if err := l.notHandedOut(ctx, want, g); err != nil {
			h.again(gone[n:])
			return err
		}
	}
	m.Floor, m.Open, m.Next = now.floor(), now.open, expect
	if info == nil {
		return nil // it is made again from the floor
	}
	var next []sluice.Event
	var err error
	if expect != 0 {
		if next, err = l.passedOver(ctx, i, want, m); err != nil || m.Next != 0 {
			return err
		}
	}
	if info.NumPending == 0 {
		return nil
	}
	err = l.find(ctx, want, next, max(now.last, m.Seen, l.from()-1)+1, m)
	h.expectNext(m.Next)
	return err
}

// notHandedOut tells that events left the log before they were handed out. One that is in the log was handed to a second
// owner, which settled it (C01).
func (l look) notHandedOut(ctx context.Context, want streams.Consumer, g span) error {
	next, err := l.next(ctx, want, g.from)
	if err != nil || isAt(next, g.from) {
		return err
	}
	return l.lost(g.from, g.to)
}

// passedOver finds out whether the event that waited left the log without having been handed
// out. If so it returns the next events. If a later one was handed out, or it itself, the
// source is about to know.
func (l look) passedOver(ctx context.Context, i int, want streams.Consumer, m *mark) ([]sluice.Event, error) {
	h := l.acks[i]
	next, err := l.next(ctx, want, m.Next)
	if err != nil || isAt(next, m.Next) {
		return nil, err
	}
	info, err := l.info(ctx, i, want)
	if err != nil || info == nil || info.Delivered.Stream >= m.Next {
		return nil, err
	}
	if !h.expectNoLonger(m.Next) {
		return nil, nil
	}
	expected := m.Next
	if err := l.tell(ctx, expected, next, m); err != nil {
		h.again([]span{{expected, expected}})
		return nil, err
	}
	return next, nil
}

// unserved finds events that were not settled and left the log before it could be handed out, again or
// at all. JetStream drops them in silence, and counts those that had been handed out as settled.
func (l look) unserved(ctx context.Context, want streams.Consumer, info *jetstream.ConsumerInfo, first uint64, m *mark) error {
	behindOpen, err := l.waits(ctx, want, info, &m.Open, m)
	if err != nil {
		return err
	}
	next, err := l.waits(ctx, want, info, &m.Next, m)
	if err != nil || info == nil || m.Open != 0 || m.Next != 0 {
		return err
	}
	if next == nil {
		next = behindOpen
	}
	m.Floor = max(m.Floor, info.AckFloor.Stream)
	if from := max(info.Delivered.Stream, m.Floor, m.Seen) + 1; info.Delivered.Consumer > 0 && from < first && wantsAll(l.sub) {
		if err := l.lost(from, first-1); err != nil {
			return err
		}
		m.Seen, next = first-1, nil
	}
	if info.NumPending == 0 && info.NumAckPending == 0 {
		return nil
	}
	return l.find(ctx, want, next, max(m.Floor, m.Seen, l.from()-1)+1, m)
}

// waits sets the place to 0 if the event there does not wait any more. If that is because it
// left the log, it is lost unless it was settled before, and the next events are returned.
func (l look) waits(ctx context.Context, want streams.Consumer, info *jetstream.ConsumerInfo, place *uint64, m *mark) ([]sluice.Event, error) {
	at := *place
	if at == 0 {
		return nil, nil
	}
	next, err := l.next(ctx, want, at)
	if err != nil {
		return nil, err
	}
	if isAt(next, at) {
		if info != nil && at <= info.AckFloor.Stream {
			*place = 0
		}
		return nil, nil
	}
	settled, err := l.store.settled(ctx, l.sub, at)
	if err != nil {
		return nil, err
	}
	if settled {
		*place = 0
		return nil, nil
	}
	return next, l.tell(ctx, at, next, m)
}

// tell tells that an event left the log, and with it all before the next one that is there.
func (l look) tell(ctx context.Context, at uint64, next []sluice.Event, m *mark) error {
	first, _, err := l.store.log.Bounds(ctx, l.sub.Namespace)
	if err != nil {
		return err
	}
	to := max(at, first-1)
	if len(next) > 0 {
		to = next[0].Seq - 1
	}
	if err := l.lost(at, to); err != nil {
		return err
	}
	m.Open, m.Next, m.Seen = beyond(m.Open, to), beyond(m.Next, to), max(m.Seen, to)
	return nil
}

// beyond returns the place, or 0 if it lies before the end.
func beyond(place, end uint64) uint64 {
	if place <= end {
		return 0
	}
	return place
}

// find looks for the next event that is wanted, among those that are next, if they are known,
// or else from a sequence on.
func (l look) find(ctx context.Context, want streams.Consumer, next []sluice.Event, from uint64, m *mark) (err error) {
	for range lookBatches {
		if next == nil {
			if next, err = l.next(ctx, want, from); err != nil || len(next) == 0 {
				return err
			}
		}
		for i := range next {
			if l.wanted(&next[i]) {
				m.Next = next[i].Seq
				return nil
			}
			m.Seen, from = next[i].Seq, next[i].Seq+1
		}
		next = nil
	}
	return nil
}

// next returns the events of a consumer that are in the log, from a sequence on.
func (l look) next(ctx context.Context, want streams.Consumer, from uint64) ([]sluice.Event, error) {
	events, err := l.store.log.NextEvent(ctx, l.sub.Namespace, want.Filter.Subject, from, lookBatch)
	if err == nil && len(events) == 0 {
		return l.store.log.LeadersNext(ctx, l.sub.Namespace, want.Filter.Subject, from)
	}
	return events, err
}

// from returns where every event is the subscription's to get: of those before, a start
// with the last of each path takes some.
func (l look) from() uint64 { return max(l.sub.From.Seq, 1) }

func isAt(next []sluice.Event, seq uint64) bool { return len(next) > 0 && next[0].Seq == seq }

// wantsAll reports whether the subscription wants every event of its namespace from its first on.
func wantsAll(sub *sluice.Subscription) bool {
	return sub.Pattern == "/**" && sub.From.Kind != sluice.StartLastPerPath && reflect.ValueOf(sub.Filter).IsZero()
}
