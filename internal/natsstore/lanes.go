package natsstore

import (
	"context"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

func (s *Store) lanes() Bucket[sluice.Parked] { return OpenBucket[sluice.Parked](s, streams.Lanes) }

// Parked returns the subscription's parked lanes, in no order.
func (s *Store) Parked(ctx context.Context, subscription string) ([]sluice.ParkedEntry, error) {
	entries, err := s.lanes().List(ctx, streams.LaneKeys(subscription))
	if err != nil {
		return nil, err
	}
	all := make([]sluice.ParkedEntry, len(entries))
	for i, e := range entries {
		all[i] = sluice.ParkedEntry{Parked: e.Value, Revision: e.Revision}
	}
	return all, nil
}

// Park stores a lane's record and returns its revision. Code Conflict unless the stored
// revision is the given one, 0 for none.
func (s *Store) Park(ctx context.Context, p sluice.Parked, revision uint64) (uint64, error) {
	return s.lanes().Put(ctx, p.Lane, p, revision)
}

// Unpark deletes a lane's record. Code Conflict unless the stored revision is the given one.
func (s *Store) Unpark(ctx context.Context, lane string, revision uint64) error {
	return s.lanes().Delete(ctx, lane, revision)
}

// ForgetLanes deletes the records of all of a subscription's lanes.
func (s *Store) ForgetLanes(ctx context.Context, subscription string) error {
	parked, err := s.Parked(ctx, subscription)
	if err != nil {
		return err
	}
	for _, p := range parked {
		if err := s.Unpark(ctx, p.Lane, p.Revision); err != nil && sluice.CodeOf(err) != sluice.Conflict {
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
	if err != nil || len(events) > 0 && events[0].Seq == from {
		return events, from, err
	}
	first, _, err = s.Bounds(ctx, sub.Namespace)
	return events, first, err
}
