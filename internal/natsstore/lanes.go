package natsstore

import (
	"context"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// laneRecord is a lane's record as it is stored.
type laneRecord struct {
	sluice.Parked

	Since time.Time `json:"since"`       // when its subscription began
	At    time.Time `json:"at,omitzero"` // when the record was stored, by the clock that its times are of
}

// by returns the lane as it stands by a clock. One that is behind the record was set back since,
// or is another machine's: the lane would wait for longer than was decided. What it waits for is
// a time of the clock that does not jump, as now is.
func (r laneRecord) by(now time.Time) sluice.Parked {
	p := r.Parked
	behind := max(0, r.At.Sub(now))
	if !p.NextAt.IsZero() {
		p.NextAt = now.Add(p.NextAt.Sub(now) - behind)
	}
	if !p.FirstFailedAt.IsZero() {
		p.FirstFailedAt = p.FirstFailedAt.Add(-behind)
	}
	return p
}

func (s *Store) lanes() Bucket[laneRecord] { return OpenBucket[laneRecord](s, streams.Lanes) }

// Parked returns the subscription's parked lanes, in no order. Records that an earlier
// subscription of the same id left behind are removed.
func (s *Store) Parked(ctx context.Context, sub *sluice.Subscription) ([]model.ParkedEntry, error) {
	own, others, err := s.laneRecords(ctx, sub, sub.ID)
	if err != nil {
		return nil, err
	}
	for _, e := range others {
		if err := s.Unpark(ctx, e.Lane, e.Revision); err != nil && sluice.CodeOf(err) != sluice.Conflict {
			return nil, err
		}
	}
	return own, nil
}

// laneRecords returns the lanes whose keys begin so that are the subscription's own, and those
// of others that had its id.
func (s *Store) laneRecords(ctx context.Context, sub *sluice.Subscription, lanesOf string) (own, others []model.ParkedEntry, err error) {
	entries, err := s.lanes().List(ctx, streams.LaneKeys(lanesOf))
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	for _, e := range entries {
		entry := model.ParkedEntry{Parked: e.Value.by(now), Revision: e.Revision}
		if e.Value.Since.Equal(sub.Began()) {
			own = append(own, entry)
		} else {
			others = append(others, entry)
		}
	}
	return own, others, nil
}

// Park stores a lane's record and returns its revision. Code Conflict unless the stored
// revision is the given one, 0 for none; Unavailable if the store has no room for one more.
func (s *Store) Park(ctx context.Context, sub *sluice.Subscription, p sluice.Parked, revision uint64) (uint64, error) {
	if revision == 0 {
		if err := s.mayPark(); err != nil {
			return 0, err
		}
	}
	return s.lanes().Put(ctx, p.Lane, laneRecord{Parked: p, Since: sub.Began(), At: time.Now()}, revision)
}

// Unpark deletes a lane's record. Code Conflict unless the stored revision is the given one.
func (s *Store) Unpark(ctx context.Context, lane string, revision uint64) error {
	return s.lanes().Delete(ctx, lane, revision)
}

// ForgetLanes deletes the records of all lanes of a subscription, or of a replay.
func (s *Store) ForgetLanes(ctx context.Context, lanesOf string) error {
	parked, err := s.lanes().List(ctx, streams.LaneKeys(lanesOf))
	if err != nil {
		return err
	}
	for _, p := range parked {
		if err := s.Unpark(ctx, p.Key, p.Revision); err != nil && sluice.CodeOf(err) != sluice.Conflict {
			return err
		}
	}
	return nil
}

// ReadLane returns up to limit events of the path, or of the whole subscription if the path is empty,
// from a sequence on, ascending, none if there are none yet; and the first sequence that the
// log still holds.
func (s *Store) ReadLane(ctx context.Context, sub *sluice.Subscription, path sluice.Path, from uint64, limit int) (events []sluice.Event, first uint64, err error) {
	subject := streams.Superset(sub.Namespace, sub.Pattern).Subject
	if path != "" {
		subject = streams.Subject(sub.Namespace, path)
	}
	events, err = s.NextEvent(ctx, sub.Namespace, subject, from, limit)
	if err == nil && len(events) == 0 {
		events, err = s.leadersNext(ctx, sub.Namespace, subject, from)
	}
	if err != nil || len(events) > 0 && events[0].Seq == from {
		return events, from, err
	}
	first, _, err = s.Bounds(ctx, sub.Namespace)
	return events, first, err
}

// leadersNext returns the next event of a subject as the leader of the log has it, if there is
// one: a replica that lags behind would let a lane end too soon, with what is missing unsent.
func (s *Store) leadersNext(ctx context.Context, ns, subject string, from uint64) ([]sluice.Event, error) {
	for {
		seq, err := s.leadersNextSeq(ctx, ns, subject, from)
		if err != nil || seq == 0 {
			return nil, err
		}
		e, err := s.Event(ctx, ns, seq)
		switch code := sluice.CodeOf(err); {
		case e.Path != "":
			return []sluice.Event{e}, nil
		case e.Seq == 0 && code != sluice.NotFound && code != sluice.WindowExceeded:
			return nil, err
		}
		from = seq + 1 // gone meanwhile, or no event
	}
}

// leadersNextSeq returns the sequence of the next message of a subject, 0 if there is none.
func (s *Store) leadersNextSeq(ctx context.Context, ns, subject string, from uint64) (uint64, error) {
	next, err := s.leadersNextHead(ctx, ns, subject, from)
	return next.Seq, err
}

// leadersNextHead is leadersNextSeq, with the headers.
func (s *Store) leadersNextHead(ctx context.Context, ns, subject string, from uint64) (messageHead, error) {
	return s.leadersNextIn(ctx, streams.EventsStream(ns), subject, from)
}
