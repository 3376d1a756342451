package deliverystore

import (
	"context"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// laneRecord is the stored record of a lane. Every write compares the revision.
type laneRecord struct {
	sluice.Parked

	Since time.Time `json:"since"`       // when its subscription started
	At    time.Time `json:"at,omitzero"` // when the record was stored, by the same clock as its other times
}

// by returns the lane with its times corrected for a clock. If now is before the time of the
// record, the clock was set back, or belongs to another machine: without the correction the lane
// would wait too long. NextAt gets the monotonic clock reading of now.
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

func (s *Store) lanes() natsstore.Bucket[laneRecord] {
	return natsstore.OpenBucket[laneRecord](s.core, streams.Lanes)
}

// Parked returns the parked lanes of the subscription in no particular order. It deletes records
// that an earlier subscription with the same ID has left.
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

// laneRecords returns the lanes with the key prefix lanesOf: those that belong to the subscription,
// and those of earlier ones with the same ID.
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

// Park stores the record of a lane and returns its revision. Codes: Conflict unless the stored
// revision is the given one, 0 for none; Unavailable if the store has no space for another record.
// The caller acknowledges the deliveries of the lane only after it, because from then on the record
// alone keeps them (C01).
func (s *Store) Park(ctx context.Context, sub *sluice.Subscription, p sluice.Parked, revision uint64) (uint64, error) {
	if revision == 0 {
		if err := s.core.MayAdd(); err != nil {
			return 0, err
		}
	}
	return s.lanes().Put(ctx, p.Lane, laneRecord{Parked: p, Since: sub.Began(), At: time.Now()}, revision)
}

// Unpark deletes the record of a lane. Code Conflict unless the stored revision is the given one.
func (s *Store) Unpark(ctx context.Context, lane string, revision uint64) error {
	return s.lanes().Delete(ctx, lane, revision)
}

// ForgetLanes deletes the records of all lanes of a subscription, or of a replay. lanesOf is the ID
// of the subscription, or streams.ReplayLanes of a replay. A lane that is changed at the same time
// stays.
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
