package deliverystore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// Replays stores the records of replays, by subscription and ID.
type Replays struct {
	store  *Store
	bucket natsstore.Bucket[sluice.Replay]
}

// Replays returns the bucket of the replays.
func (s *Store) Replays() Replays {
	return Replays{s, natsstore.OpenBucket[sluice.Replay](s.core, streams.Replays)}
}

// Add stores a new replay. Code Conflict if there is one with the ID.
func (r Replays) Add(ctx context.Context, rep sluice.Replay) error {
	_, err := r.bucket.Put(ctx, streams.ReplayKey(rep.Subscription, rep.ID), rep, 0)
	return err
}

// Replay returns the stored record of a replay. It uses only the ID and the subscription of rep.
// Code NotFound if there is none.
func (r Replays) Replay(ctx context.Context, rep sluice.Replay) (sluice.Replay, error) {
	if streams.CheckSubscriptionID(rep.ID) != nil {
		return sluice.Replay{}, replayMissing(rep)
	}
	now, revision, err := r.bucket.Get(ctx, streams.ReplayKey(rep.Subscription, rep.ID))
	if sluice.CodeOf(err) == sluice.NotFound {
		return sluice.Replay{}, replayMissing(rep)
	}
	now.Revision = revision
	return now, err
}

func replayMissing(rep sluice.Replay) error {
	return sluice.Errorf(sluice.NotFound, "replay %[2]q not found for subscription %[1]q", rep.Subscription, rep.ID)
}

// Of returns the replays of a subscription, newest first.
func (r Replays) Of(ctx context.Context, subscription string) ([]sluice.Replay, error) {
	entries, err := r.bucket.List(ctx, streams.ReplayKeys(subscription))
	if err != nil {
		return nil, err
	}
	all := make([]sluice.Replay, len(entries))
	for i, e := range entries {
		all[i] = e.Value
		all[i].Revision = e.Revision
	}
	slices.SortFunc(all, func(a, b sluice.Replay) int { return b.CreatedAt.Compare(a.CreatedAt) })
	return all, nil
}

// Progress changes the record of a replay, and retries on a conflict with another writer. A replay
// that has ended keeps its state, reason and end. Code NotFound if there is none. change may be
// called several times. Progress ends with ctx.
func (r Replays) Progress(ctx context.Context, rep sluice.Replay, change func(*sluice.Replay)) error {
	for {
		was, err := r.Replay(ctx, rep)
		if err != nil {
			return err
		}
		is := was
		change(&is)
		is.UpdatedAt = time.Now().UTC()
		if was.State != sluice.ReplayRunning {
			is.State, is.Reason, is.EndedAt = was.State, was.Reason, was.EndedAt
		}
		revision := is.Revision
		is.Revision = 0
		_, err = r.bucket.Put(ctx, streams.ReplayKey(rep.Subscription, rep.ID), is, revision)
		if sluice.CodeOf(err) != sluice.Conflict {
			return err
		}
	}
}

// Remove deletes all replays of a subscription with their lanes.
func (r Replays) Remove(ctx context.Context, subscription string) error {
	all, err := r.Of(ctx, subscription)
	if err != nil {
		return err
	}
	for _, rep := range all {
		if err := r.Drop(ctx, rep); err != nil {
			return err
		}
	}
	return nil
}

// Drop deletes a replay with its lanes. It deletes the record first: lanes without a replay are
// harmless, and a replay without its lanes would lose retries. It is no error if there is none.
func (r Replays) Drop(ctx context.Context, rep sluice.Replay) error {
	if err := r.bucket.Delete(ctx, streams.ReplayKey(rep.Subscription, rep.ID), 0); err != nil {
		return err
	}
	return r.Forget(ctx, streams.ReplayLanes(rep.ID))
}

// Watch calls f for all replays and their changes, like Bucket.Watch. A deleted replay has only its
// ID and subscription. A change that cannot be read is logged and not passed: the lanes of a removed
// replay are deleted.
func (r Replays) Watch(ctx context.Context, f func(natsstore.Entry[sluice.Replay])) error {
	return r.bucket.Watch(ctx, ">", func(e natsstore.Entry[sluice.Replay]) {
		if e.Unreadable {
			return
		}
		if e.Change == natsstore.Removed {
			e.Value.Subscription, e.Value.ID = streams.ParseReplayKey(e.Key)
		}
		f(e)
	})
}

// Recover returns the recorded progress of the latest attempts of a replay.
func (r Replays) Recover(ctx context.Context, sub *sluice.Subscription, rep sluice.Replay) (map[uint64]model.Progress, error) {
	return r.store.latestOf(ctx, sub, &rep)
}

// Parked returns the parked lanes of the subscription with the key prefix lanesOf.
func (r Replays) Parked(ctx context.Context, sub *sluice.Subscription, lanesOf string) ([]model.ParkedEntry, error) {
	own, _, err := r.store.laneRecords(ctx, sub, lanesOf)
	return own, err
}

// Forget deletes the records of the lanes with the key prefix lanesOf.
func (r Replays) Forget(ctx context.Context, lanesOf string) error {
	if err := r.store.ForgetLanes(ctx, lanesOf); err != nil {
		return fmt.Errorf("lanes of %s: %w", lanesOf, err)
	}
	return nil
}
