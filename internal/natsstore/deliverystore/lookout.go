package deliverystore

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// Number of events in a batch, and of batches, that one look reads to find the next wanted event;
// the next look continues there.
const lookBatch, lookBatches = 64, 4

// lookout records up to where the events of a subscription are accounted for. With it an event is
// detected that was deleted from the log before it was delivered (decision 0003).
type lookout struct {
	Since time.Time `json:"since"` // when the subscription started; the record of another one with the same ID is ignored
	Marks []mark    `json:"marks"` // one for each of its consumers

	Gaps []Gap `json:"gaps,omitempty"` // the last gaps of the log for which dead letters were stored, because their events cannot be read

	Shared  bool   `json:"shared,omitempty"`  // the shared reader serves it instead of its own consumers (decision 0043)
	Cursor  string `json:"cursor,omitempty"`  // key of the cursor that accounts for the events after the floors; empty: none
	New     bool   `json:"new,omitempty"`     // no replica has served it yet
	Leaving bool   `json:"leaving,omitempty"` // its own consumers are being deleted
}

// mark records up to where the events of one consumer are accounted for.
type mark struct {
	Floor uint64 `json:"floor"`          // up to here everything is settled or parked
	Open  uint64 `json:"open,omitempty"` // the first event that was delivered and not settled; 0: none
	Next  uint64 `json:"next,omitempty"` // the first event that was not delivered yet; 0: none was found
	Seen  uint64 `json:"seen,omitempty"` // up to here all other events are unwanted or accounted for
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

// lookout returns the record of the subscription, an empty one if there is none.
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

// Look searches for events that were deleted from the log before they were delivered to a
// subscription that no replica serves. It calls lost for each range. wanted reports whether the
// subscription wants an event that its consumers would deliver. Look stores its progress. lost must
// be idempotent, because after an error Look may call it again for a range, also on another
// replica. Look does nothing for a subscription with a cursor of the shared reader. The search for
// the next wanted event reads at most lookBatches batches for each consumer; the next call
// continues there. Code NotFound if the subscription has ended and nothing of it is stored.
func (s *Store) Look(ctx context.Context, sub *sluice.Subscription, wanted func(*sluice.Event) bool, lost func(from, to uint64) error) error {
	if err := s.settleSystem(ctx, sub); err != nil {
		return err
	}
	return look{store: s, sub: sub, wanted: wanted, lost: lost}.do(ctx)
}

// Look is Store.Look for a subscription that this source serves, or served until it was closed. It
// returns immediately if nothing has changed since the last look and no event is pending.
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
	acks   []*ackTracker // one for each consumer; nil: no replica serves the subscription
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
		return nil // the shared reader accounts for the events
	}
	after := before
	after.Since, after.Marks = l.sub.Began(), nil
	lost := l.lost
	l.lost = func(from, to uint64) error {
		if before.tells(Gap{from, from}) {
			return nil // there was a dead letter for it
		}
		return lost(from, to)
	}
	for i, want := range l.store.core.Names().PushConsumers(l.sub) {
		m, _ := before.mark(i)
		if max(m.Floor, m.Open, m.Next, m.Seen) > last {
			m = mark{} // it is another log with the same name
		}
		if err = l.consumer(ctx, i, want, first, &m); err != nil {
			return fmt.Errorf("inspect %s: %w", want.Name, err)
		}
		after.Marks = append(after.Marks, m)
	}
	if revision > 0 && slices.Equal(before.Marks, after.Marks) {
		return nil
	}
	return l.put(ctx, after, revision)
}

// put stores the record. Code NotFound if the subscription has ended.
func (l look) put(ctx context.Context, after lookout, revision uint64) error {
	if l.acks != nil && revision == 0 {
		return nil // the record was deleted with the subscription
	}
	_, err := l.store.lookouts().Put(ctx, streams.LookoutKey(l.sub.ID), after, revision)
	switch {
	case sluice.CodeOf(err) == sluice.Conflict:
		return nil // another process has looked as well
	case err == nil && revision == 0:
		return l.store.unlessEnded(ctx, l.sub)
	}
	return err
}

// consumer is Look for one consumer.
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

// info returns the state of the consumer; nil if it is missing, or belongs to an earlier
// subscription.
func (l look) info(ctx context.Context, i int, want streams.Consumer) (*jetstream.ConsumerInfo, error) {
	return l.store.consumerInfo(ctx, l.sub, i, want)
}

// served updates the mark from the trackers of the source, and reports the events that were not
// delivered to it.
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
		return nil // it is created again and starts after the floor
	}
	var next []model.ReadEvent
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

// notHandedOut reports events as lost that were deleted from the log before they were delivered. An
// event that is still in the log was delivered to a second owner, which settled it (C01). A
// delivery to another owner also leaves a gap in the numbers of this source.
func (l look) notHandedOut(ctx context.Context, want streams.Consumer, g span) error {
	next, err := l.next(ctx, want, g.from)
	if err != nil || isAt(next, g.from) {
		return err
	}
	return l.lost(g.from, g.to)
}

// passedOver checks whether the expected event was deleted from the log without being delivered. If
// so, it reports that and returns the next events. If the consumer has delivered the event or a
// later one, the source is about to receive it.
func (l look) passedOver(ctx context.Context, i int, want streams.Consumer, m *mark) ([]model.ReadEvent, error) {
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

// unserved finds events that were deleted from the log before they were settled. JetStream skips
// them silently, and counts those that it had delivered as acknowledged.
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

// waits sets the place to 0 if the event there is no longer pending. If the event was deleted from
// the log and not settled before, waits reports it as lost and returns the next events.
func (l look) waits(ctx context.Context, want streams.Consumer, info *jetstream.ConsumerInfo, place *uint64, m *mark) ([]model.ReadEvent, error) {
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

// tell reports as lost the event at a sequence, and all after it up to the next event in the log.
func (l look) tell(ctx context.Context, at uint64, next []model.ReadEvent, m *mark) error {
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

// beyond returns the place, or 0 if it is not after end.
func beyond(place, end uint64) uint64 {
	if place <= end {
		return 0
	}
	return place
}

// find searches for the next wanted event: in next if that is not nil, otherwise in the log from a
// sequence on.
func (l look) find(ctx context.Context, want streams.Consumer, next []model.ReadEvent, from uint64, m *mark) (err error) {
	for range lookBatches {
		if next == nil {
			if next, err = l.next(ctx, want, from); err != nil || len(next) == 0 {
				return err
			}
		}
		for i := range next {
			if l.wanted(&next[i].Event) {
				m.Next = next[i].Seq
				return nil
			}
			m.Seen, from = next[i].Seq, next[i].Seq+1
		}
		next = nil
	}
	return nil
}

// next returns events of the log that match the filter of a consumer, from a sequence on.
func (l look) next(ctx context.Context, want streams.Consumer, from uint64) ([]model.ReadEvent, error) {
	events, err := l.store.log.NextEvent(ctx, l.sub.Namespace, want.Filter.Subject, from, lookBatch)
	if err == nil && len(events) == 0 {
		return l.store.log.LeadersNext(ctx, l.sub.Namespace, want.Filter.Subject, from)
	}
	return events, err
}

// from returns the sequence from which on the subscription gets every event. With a start at the
// last event of each path it also gets some earlier ones.
func (l look) from() uint64 { return max(l.sub.From.Seq, 1) }

func isAt(next []model.ReadEvent, seq uint64) bool { return len(next) > 0 && next[0].Seq == seq }

// wantsAll reports whether the subscription wants every event of its namespace from its start on.
func wantsAll(sub *sluice.Subscription) bool {
	return sub.Pattern == "/**" && sub.From.Kind != sluice.StartLastPerPath && reflect.ValueOf(sub.Filter).IsZero()
}
