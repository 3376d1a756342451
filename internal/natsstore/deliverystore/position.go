package deliverystore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/internal/fanout"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// positionTries is how many times storing a position is tried if it conflicts with other writers.
const positionTries = 10

// cursorRecord is the stored cursor of a shard.
type cursorRecord struct {
	Log string `json:"log,omitempty"` // incarnation of the log; "": stored by an earlier build
	Seq uint64 `json:"seq"`           // up to here all events are accounted for, for all subscriptions that are attached to the cursor
}

// Positions stores the positions of the subscriptions that the shared reader serves.
type Positions struct{ store *Store }

var _ fanout.Records = Positions{}

// Positions returns the records of the shared reader.
func (s *Store) Positions() Positions { return Positions{s} }

func (s *Store) cursors() natsstore.Bucket[cursorRecord] {
	return natsstore.OpenBucket[cursorRecord](s.core, streams.Lanes)
}

// Shard returns the shard of the lease of a subscription.
func (p Positions) Shard(id string) int { return natsstore.ShardOf(id) }

// Stored returns the stored state of a subscription. It returns the zero value if nothing is stored
// for this start of the subscription. Busy means that there are parked lanes or a stored health, so
// its attempts have to be read, too.
func (p Positions) Stored(ctx context.Context, sub *sluice.Subscription) (fanout.Stored, error) {
	l, revision, err := p.store.lookout(ctx, sub)
	if err != nil {
		return fanout.Stored{}, err
	}
	s := l.stored(sub, revision > 0)
	if !s.Known || l.New {
		return s, nil
	}
	parked, err := p.store.lanes().List(ctx, streams.LaneKeys(sub.ID))
	if err != nil {
		return s, err
	}
	h, err := p.store.Health(ctx, sub)
	s.Busy = len(parked) > 0 || h != (model.Health{})
	return s, err
}

// stored returns the record in the form of the shared reader.
func (l lookout) stored(sub *sluice.Subscription, known bool) fanout.Stored { //nolint:revive // known is a fact
	if !known || !l.Since.Equal(sub.Began()) {
		return fanout.Stored{}
	}
	s := fanout.Stored{Known: true}
	s.Shared, s.Attached = l.Shared && !l.Leaving, l.Cursor != ""
	for i, m := range l.Marks {
		floor := m.Floor
		if m.Seen > floor && m.Open == 0 && (m.Next == 0 || m.Next > m.Seen) {
			floor = m.Seen // a look has accounted for more while the subscription was not served
		}
		s.Floors = append(s.Floors, floor)
		s.Open, s.Next = first(s.Open, m.Open, i), first(s.Next, m.Next, i)
	}
	return s
}

// first returns w, or the event seq of a filter if it is earlier; seq may be 0 and w empty.
func first(w fanout.Waits, seq uint64, filter int) fanout.Waits {
	if seq > 0 && (w.Seq == 0 || seq < w.Seq) {
		return fanout.Waits{Seq: seq, Filter: filter}
	}
	return w
}

// All returns a function that returns Stored for any subscription, from a single read of all
// records.
func (p Positions) All(ctx context.Context) (func(sub *sluice.Subscription) fanout.Stored, error) {
	records, err := natsstore.OpenBucket[json.RawMessage](p.store.core, streams.Lanes).List(ctx, ">")
	if err != nil {
		return nil, err
	}
	lookouts, busy := map[string]lookout{}, map[string]bool{}
	for _, e := range records {
		if id, ok := strings.CutPrefix(e.Key, streams.LookoutKey("")); ok {
			var l lookout
			if json.Unmarshal(e.Value, &l) == nil {
				lookouts[id] = l
			}
		} else if id, ok := strings.CutPrefix(e.Key, streams.HealthKey("")); ok {
			busy[id] = true
		} else if id, _, ok := strings.Cut(e.Key, "."); ok {
			busy[id] = true
		}
	}
	past := p.store.pasts(floorsIn(lookouts, cursorsIn(records)))
	return func(sub *sluice.Subscription) fanout.Stored {
		l, known := lookouts[sub.ID]
		s := l.stored(sub, known)
		s.Busy = busy[sub.ID]
		if s.Shared && !s.Busy {
			s.Past = past.of(ctx, sub)
		}
		return s
	}, nil
}

// floorsIn returns the sequences up to which everything is settled or parked, by subscription.
func floorsIn(lookouts map[string]lookout, cursors map[string]uint64) map[string]uint64 {
	floors := make(map[string]uint64, len(lookouts))
	for id, l := range lookouts {
		if len(l.Marks) > 0 {
			floors[id] = max(slices.MinFunc(l.Marks, func(a, b mark) int { return cmp.Compare(a.Floor, b.Floor) }).Floor, cursors[l.Cursor])
		}
	}
	return floors
}

// PutPosition stores a position and replaces any other. It does nothing for a subscription that has
// ended.
func (p Positions) PutPosition(ctx context.Context, sub *sluice.Subscription, at fanout.Position) error {
	p.store.expected.begin(sub, time.Now())
	return p.store.changeLookout(ctx, sub, func(l *lookout) {
		l.enter(at.Floors)
		if at.Open.Seq > 0 {
			l.Marks[at.Open.Filter].Open = at.Open.Seq
		}
		if at.Next.Seq > 0 {
			l.Marks[at.Next.Filter].Next = at.Next.Seq
		}
		l.Shared, l.Cursor, l.New, l.Leaving = at.Shared, "", false, false
		if at.Attached {
			l.Cursor = streams.CursorKey(sub.Namespace, p.Shard(sub.ID))
		}
	})
}

// enter replaces the floors.
func (l *lookout) enter(floors []uint64) {
	l.Marks = make([]mark, len(floors))
	for i, floor := range floors {
		l.Marks[i].Floor = floor
	}
}

// changeLookout changes the record of a subscription, unless it has ended. change may be called
// several times, each time with the stored record. No error if the subscription has ended: its
// record must not come back.
func (s *Store) changeLookout(ctx context.Context, sub *sluice.Subscription, change func(*lookout)) error {
	for try := 1; ; try++ {
		l, revision, err := s.lookout(ctx, sub)
		if err != nil {
			return err
		}
		if revision == 0 || !l.Since.Equal(sub.Began()) {
			err = s.checkAlive(ctx, sub)
		}
		if sluice.CodeOf(err) == sluice.NotFound {
			return nil
		}
		if err != nil {
			return err
		}
		l.Since = sub.Began()
		change(&l)
		_, err = s.lookouts().Put(ctx, streams.LookoutKey(sub.ID), l, revision)
		if sluice.CodeOf(err) != sluice.Conflict || try == positionTries {
			return err
		}
	}
}

// ensurePosition stores the initial position of a new subscription of the shared reader, and
// reports whether the shared reader serves the subscription. A subscription with its own consumers
// keeps them until it is served.
func (s *Store) ensurePosition(ctx context.Context, sub *sluice.Subscription) (placed bool, err error) {
	if s.shared.Shares == nil || !s.expected.has(sub) && !s.shared.Shares(sub) {
		l, _, err := s.lookout(ctx, sub)
		return l.Shared && !l.Leaving, err
	}
	floors, err := s.startFloors(ctx, sub)
	if err != nil {
		return false, err
	}
	begins := lookout{Since: sub.Began(), Shared: true, New: true}
	begins.enter(floors)
	_, err = s.lookouts().Put(ctx, streams.LookoutKey(sub.ID), begins, 0)
	if err == nil {
		return true, s.unlessEnded(ctx, sub)
	}
	if sluice.CodeOf(err) != sluice.Conflict {
		return false, err
	}
	l, revision, err := s.lookout(ctx, sub) // the subscription is not new, or its start was changed
	if err != nil || l.Since.Equal(sub.Began()) {
		return l.Shared && !l.Leaving, err
	}
	_, err = s.lookouts().Put(ctx, streams.LookoutKey(sub.ID), begins, revision)
	if sluice.CodeOf(err) == sluice.Conflict {
		err = nil // its replica has stored it
	}
	return err == nil, err
}

// unshare stores a position for the own consumers of a subscription that the shared reader has
// served.
func (s *Store) unshare(ctx context.Context, sub *sluice.Subscription) error {
	l, _, err := s.lookout(ctx, sub)
	if err != nil || !l.Shared || sub.Mode != sluice.Push {
		return err
	}
	var c cursorRecord
	if l.Cursor != "" {
		if c, _, err = s.cursors().Get(ctx, l.Cursor); err != nil && sluice.CodeOf(err) != sluice.NotFound {
			return err
		}
	}
	floors := l.stored(sub, true).Floors
	for i := range floors {
		floors[i] = max(floors[i], c.Seq)
	}
	return s.Positions().PutPosition(ctx, sub, fanout.Position{Floors: floors})
}

// unlessEnded returns an error with code NotFound if a subscription has ended, and then deletes its
// position, because nothing else would.
func (s *Store) unlessEnded(ctx context.Context, sub *sluice.Subscription) error {
	err := s.checkAlive(ctx, sub)
	if sluice.CodeOf(err) == sluice.NotFound {
		err = errors.Join(err, s.lookouts().Delete(ctx, streams.LookoutKey(sub.ID), 0))
	}
	return err
}

// startFloors returns the floors of a subscription that has received nothing yet. They are 0 for a
// start at the last event of each path, because those events are before From.Seq.
func (s *Store) startFloors(ctx context.Context, sub *sluice.Subscription) ([]uint64, error) {
	first, err := sub.From.Seq, error(nil)
	switch sub.From.Kind {
	case sluice.StartTime:
		first, err = s.seqAt(ctx, sub.Namespace, sub.From.Time)
	case sluice.StartLastPerPath:
		first = 1
	case sluice.StartSeq:
	}
	return floorsBefore(sub, first), err
}

// seqAt returns the sequence of the first message that was stored at a time or later; that of the
// next message to be stored if there is none. The end is read before the message, so that a message
// which is stored in between is not skipped.
func (s *Store) seqAt(ctx context.Context, ns string, at time.Time) (uint64, error) {
	last, err := s.log.LastSeq(ctx, ns)
	if err != nil {
		return 0, err
	}
	seq, err := s.log.SeqAt(ctx, ns, at)
	if seq == 0 {
		seq = last + 1
	}
	return seq, err
}

// Adopt stores and returns the position of a subscription that had its own consumers, according to
// these, and deletes them. Without own consumers it stores nothing, and returns the stored floors
// or the start of the subscription. The phases, each of which can be repeated after a crash:
//
//	own consumers ─► record Leaving, with their floors ─► consumers deleted ─► record Shared
//
// Leaving keeps the floors of consumers that may be gone already.
func (p Positions) Adopt(ctx context.Context, sub *sluice.Subscription) (fanout.Position, error) {
	s := p.store
	release, err := s.alone(ctx, sub.ID)
	if err != nil {
		return fanout.Position{}, err
	}
	defer release()
	l, _, err := s.lookout(ctx, sub)
	if err != nil {
		return fanout.Position{}, err
	}
	at := fanout.Position{Shared: true}
	if l.Leaving {
		at.Floors = l.stored(sub, true).Floors
	} else {
		var own bool
		if at.Floors, own, err = s.consumedFloors(ctx, sub, l); err != nil || !own {
			return at, err // the position of a new subscription is stored later with others
		}
	}
	err = s.changeLookout(ctx, sub, func(l *lookout) {
		l.enter(at.Floors)
		l.Shared, l.Cursor, l.Leaving = true, "", true
	})
	if err != nil {
		return at, err
	}
	if err := s.deleteConsumers(ctx, sub); err != nil {
		return at, err
	}
	return at, p.PutPosition(ctx, sub, at)
}

// consumedFloors returns the sequences up to which everything is acknowledged to the own consumers
// of a subscription, and whether there are any.
func (s *Store) consumedFloors(ctx context.Context, sub *sluice.Subscription, l lookout) (floors []uint64, own bool, err error) {
	if floors, err = s.startFloors(ctx, sub); err != nil {
		return nil, false, err
	}
	last, err := s.log.LastSeq(ctx, sub.Namespace)
	if err != nil {
		return nil, false, err
	}
	for i, want := range s.core.Names().PushConsumers(sub) {
		if m, known := l.mark(i); known && m.Floor <= last {
			floors[i] = max(floors[i], m.Floor)
		}
		info, err := s.ownConsumer(ctx, sub, want)
		if err != nil {
			return nil, false, err
		}
		if info == nil {
			continue
		}
		own = true
		if floors[i], err = s.consumedTo(ctx, sub.Namespace, info, max(floors[i], info.AckFloor.Stream), last); err != nil {
			return nil, false, err
		}
	}
	return floors, own, nil
}

// consumedTo returns the last sequence of a log for a consumer with nothing pending, if the log has
// no message for it behind its floor; otherwise the floor: the replica of the consumer may be behind.
// Messages behind last do not count: they may be more recent than the state of the consumer.
func (s *Store) consumedTo(ctx context.Context, ns string, info *jetstream.ConsumerInfo, floor, last uint64) (uint64, error) {
	if info.NumAckPending > 0 || info.NumPending > 0 {
		return floor, nil
	}
	next, err := s.log.NextSeq(ctx, ns, info.Config.FilterSubject, floor+1)
	if next > 0 && next <= last {
		return floor, err
	}
	return max(floor, last), err
}

// Cursor returns the cursor of a shard; the zero value if there is none.
func (p Positions) Cursor(ctx context.Context, ns string, shard int) (fanout.Cursor, error) {
	c, revision, err := p.store.cursors().Get(ctx, streams.CursorKey(ns, shard))
	if sluice.CodeOf(err) == sluice.NotFound {
		err = nil
	}
	return fanout.Cursor{Seq: c.Seq, Log: c.Log, Revision: revision}, err
}

// PutCursor stores the cursor of a shard. Code Conflict unless the stored revision is c.Revision. A
// cursor moves for all attached subscriptions of its shard at once: one write instead of one for
// each.
func (p Positions) PutCursor(ctx context.Context, ns string, shard int, c fanout.Cursor) (fanout.Cursor, error) {
	revision, err := p.store.cursors().Put(ctx, streams.CursorKey(ns, shard), cursorRecord{c.Log, c.Seq}, c.Revision)
	return fanout.Cursor{Seq: c.Seq, Log: c.Log, Revision: revision}, err
}

// cursorsIn returns the cursors in records, by key.
func cursorsIn(records []natsstore.Entry[json.RawMessage]) map[string]uint64 {
	all := map[string]uint64{}
	for _, e := range records {
		var c cursorRecord
		if strings.HasPrefix(e.Key, "=cursor.") && json.Unmarshal(e.Value, &c) == nil {
			all[e.Key] = c.Seq
		}
	}
	return all
}

// consumerInfo returns the state of a consumer of a subscription, or the equivalent state of the
// shared reader; nil if there is none, or if it belongs to an earlier subscription.
func (s *Store) consumerInfo(ctx context.Context, sub *sluice.Subscription, i int, want streams.Consumer) (*jetstream.ConsumerInfo, error) {
	if sub.Mode != sluice.Push {
		return s.ownConsumer(ctx, sub, want)
	}
	l, _, err := s.lookout(ctx, sub)
	if err != nil {
		return nil, err
	}
	if !l.Shared || l.Leaving {
		return s.ownConsumer(ctx, sub, want)
	}
	if s.shared.Standing != nil {
		if now, ok := s.shared.Standing(sub); ok {
			return s.sharedInfo(ctx, sub, i, want, now)
		}
	}
	m, _ := l.mark(i)
	floor := m.Floor
	if l.Cursor != "" {
		c, _, err := s.cursors().Get(ctx, l.Cursor)
		if err != nil && sluice.CodeOf(err) != sluice.NotFound {
			return nil, err
		}
		floor = max(floor, c.Seq)
	}
	return s.sharedInfo(ctx, sub, i, want, fanout.Standing{Floor: floor, Handed: floor})
}

// sharedInfo returns the state of a subscription of the shared reader as the state of a consumer.
// If there are several consumers, the first has all deliveries in progress.
func (s *Store) sharedInfo(ctx context.Context, sub *sluice.Subscription, i int, want streams.Consumer, now fanout.Standing) (_ *jetstream.ConsumerInfo, err error) {
	info := &jetstream.ConsumerInfo{Stream: want.Stream, Name: want.Name}
	info.AckFloor.Stream, info.Delivered.Stream, info.Delivered.Consumer = now.Floor, now.Handed, 1
	if i == 0 {
		info.NumAckPending = now.Open
	}
	info.NumPending, err = s.countFrom(ctx, sub.Namespace, want.Filter.Subject, now.Handed+1)
	return info, err
}

// ownConsumer returns the state of a consumer of a subscription; nil if it is missing, or belongs
// to an earlier subscription.
func (s *Store) ownConsumer(ctx context.Context, sub *sluice.Subscription, want streams.Consumer) (*jetstream.ConsumerInfo, error) {
	var info *jetstream.ConsumerInfo
	c, err := s.core.JetStream().Consumer(ctx, want.Stream, want.Name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return info, nil
	}
	if err != nil {
		return info, fmt.Errorf("consumer %s: %w", want.Name, natsstore.StoreError(ctx, err))
	}
	if c.CachedInfo().Config.Metadata[metaSince] == since(sub) {
		info = c.CachedInfo()
	}
	return info, nil
}
