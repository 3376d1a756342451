package deliverystore

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// lagBatch is the number of events that are read to find the oldest undelivered one.
const lagBatch = 16

// Attempts returns the attempts of the subscription, newest first, and the place before which there
// are older ones, 0 if there are none. It ignores attempts of an earlier subscription with the same
// ID. Pass the place as q.Before. It returns at most q.Limit attempts.
func (s *Store) Attempts(ctx context.Context, sub *sluice.Subscription, q model.HistoryQuery) ([]model.Placed[sluice.Attempt], uint64, error) {
	if q.Since.Before(sub.CreatedAt) {
		q.Since = sub.CreatedAt
	}
	b := backwards[sluice.Attempt]{
		store: s, stream: s.core.Names().Attempts(), split: streams.SplitBlock, subject: s.core.Names().AttemptsSubject(sub.Namespace, sub.ID), before: q.Before, limit: q.Limit,
		look: func(a *sluice.Attempt) (wanted, older bool) {
			return q.WantsAttempt(a), precedes(a.StartedAt, q.Since)
		},
	}
	return b.read(ctx)
}

// LetterHistory returns the dead letters of the subscription like Attempts returns its attempts. A
// dead letter for a range of events has the sequence of the first one.
func (s *Store) LetterHistory(ctx context.Context, sub *sluice.Subscription, q model.HistoryQuery) ([]model.Placed[sluice.DeadLetter], uint64, error) {
	return s.letters(ctx, sub, q, func(d *sluice.DeadLetter) bool {
		kind := ""
		if d.Event != nil {
			kind = d.Event.Type
		}
		return q.Wants(d.EventID, d.Seq, d.Path, kind, d.At)
	})
}

func (s *Store) letters(ctx context.Context, sub *sluice.Subscription, q model.HistoryQuery, wanted func(*sluice.DeadLetter) bool) ([]model.Placed[sluice.DeadLetter], uint64, error) {
	if q.Since.Before(sub.CreatedAt) {
		q.Since = sub.CreatedAt
	}
	b := backwards[sluice.DeadLetter]{
		store: s, stream: s.core.Names().DeadLetters(), subject: s.core.Names().DeadLettersSubject(sub.Namespace, sub.ID), before: q.Before, limit: q.Limit,
		look: func(d *sluice.DeadLetter) (bool, bool) {
			return !d.At.Before(q.Since) && wanted(d), precedes(d.At, q.Since)
		},
	}
	return b.read(ctx)
}

// precedes reports whether a record with a time is so old that those stored before it are older
// than since, too. Records are not in the order of their times: an attempt is stored when it ends,
// and a dead letter when the store has room.
func precedes(at, since time.Time) bool { return at.Before(since.Add(-recoverAll)) }

// LastAttemptAt returns the time at which the last attempt of the subscription was recorded; zero
// if there is none.
func (s *Store) LastAttemptAt(ctx context.Context, sub *sluice.Subscription) (time.Time, error) {
	at, err := s.lastTime(ctx, s.core.Names().Attempts(), s.core.Names().AttemptsSubject(sub.Namespace, sub.ID))
	if at.Before(sub.CreatedAt) {
		return time.Time{}, err // it belongs to an earlier subscription with the same ID
	}
	return at, err
}

// Status returns the status of a subscription according to its consumers, parked lanes and stored
// health. Of a cancelled subscription, it only counts the dead letters. ParkedLanes has at most
// maxParkedLanes of the Parked lanes. It reads the parts one after another, so they may not fit
// together exactly.
func (s *Store) Status(ctx context.Context, sub *sluice.Subscription) (sluice.Status, error) {
	status, at, err := s.brief(ctx, sub)
	if err != nil || sub.State == sluice.Cancelled {
		return status, err
	}
	return status, s.addWaiting(ctx, sub, at, &status)
}

// Brief is Status without the number of undelivered events, which costs one or two requests for
// each parked lane.
func (s *Store) Brief(ctx context.Context, sub *sluice.Subscription) (sluice.Status, error) {
	status, _, err := s.brief(ctx, sub)
	return status, err
}

// brief is Brief, and also returns how far the consumers are.
func (s *Store) brief(ctx context.Context, sub *sluice.Subscription) (sluice.Status, reach, error) {
	status := sluice.Status{State: sub.State, Reason: sub.Reason, Breaker: sluice.BreakerClosed, ParkedLanes: []sluice.Parked{}}
	at := reach{floor: math.MaxUint64 - 1}
	if sub.State == sluice.Cancelled {
		return status, at, s.countDead(ctx, sub, &status)
	}
	for i, c := range s.core.Names().PushConsumers(sub) {
		one, err := s.addConsumer(ctx, sub, i, c, &status)
		if err != nil {
			return status, at, err
		}
		at = at.join(one)
	}
	parked, _, err := s.laneRecords(ctx, sub, sub.ID)
	if err != nil {
		return status, at, err
	}
	addLanes(parked, &status)
	if err := s.addHealth(ctx, sub, &status); err != nil {
		return status, at, err
	}
	return status, at, s.countDead(ctx, sub, &status)
}

// maxParkedLanes is the maximum number of lanes in a status.
const maxParkedLanes = 100

// addLanes adds the parked lanes in the order in which they are due; held lanes last.
func addLanes(parked []model.ParkedEntry, status *sluice.Status) {
	slices.SortFunc(parked, func(a, b model.ParkedEntry) int {
		return cmp.Or(cmp.Compare(min(len(a.Held), 1), min(len(b.Held), 1)), a.NextAt.Compare(b.NextAt), a.HeldAt.Compare(b.HeldAt))
	})
	status.Parked = len(parked)
	due := slices.IndexFunc(parked, func(p model.ParkedEntry) bool { return p.Held == "" && !p.NextAt.IsZero() })
	if due >= 0 {
		status.NextAttemptAt = &parked[due].NextAt
	}
	for i := range parked {
		p := &parked[i].Parked
		if p.Held != "" {
			status.Held++
		}
		if since := p.Since(); !since.IsZero() {
			status.LagSeconds = max(status.LagSeconds, time.Since(since).Seconds())
		}
		if i < maxParkedLanes {
			status.ParkedLanes = append(status.ParkedLanes, *p)
		}
	}
}

// addConsumer adds the counts of a consumer, and returns how far it is.
func (s *Store) addConsumer(ctx context.Context, sub *sluice.Subscription, i int, want streams.Consumer, status *sluice.Status) (at reach, err error) {
	info, err := s.consumerInfo(ctx, sub, i, want)
	if err != nil || info == nil {
		return at, err // it is being created
	}
	if sub.Pattern.WildFirst() && info.NumPending > 0 {
		own, err := s.systemEvents(ctx, sub.Namespace, info.Delivered.Stream+1)
		if err != nil {
			return at, err
		}
		info.NumPending -= min(own, info.NumPending) // receivers do not get them
	}
	status.Backlog += info.NumPending + uint64(max(0, info.NumAckPending))
	status.InFlight += info.NumAckPending
	status.AckFloor = max(status.AckFloor, info.AckFloor.Stream)
	at.floor = info.AckFloor.Stream
	if info.NumPending > 0 {
		at.unread = info.Delivered.Stream + 1
	}
	if info.NumPending == 0 && info.NumAckPending == 0 {
		return at, nil
	}
	events, err := s.log.NextEvent(ctx, sub.Namespace, want.Filter.Subject, info.AckFloor.Stream+1, lagBatch)
	if err != nil {
		return at, err
	}
	first := slices.IndexFunc(events, func(e model.ReadEvent) bool { return sub.Pattern.Match(e.Path) })
	if first >= 0 {
		status.LagSeconds = max(status.LagSeconds, time.Since(events[first].Stored).Seconds())
	}
	return at, nil
}

func (s *Store) countDead(ctx context.Context, sub *sluice.Subscription, status *sluice.Status) (err error) {
	status.DeadLetters, err = s.CountDeadLetters(ctx, sub)
	return err
}

// maxNotices is the maximum number of attempts of a wake that are returned.
const maxNotices = 50

// Notices returns the last attempts to send the notices of a wake that started at a time, the
// newest last.
func (l *AttemptLog) Notices(ctx context.Context, sub *sluice.Subscription, wakeID string, since time.Time) ([]sluice.Attempt, error) {
	b := backwards[sluice.Attempt]{
		store: l.store, stream: l.store.core.Names().Attempts(), split: streams.SplitBlock, subject: l.store.core.Names().AttemptsSubject(sub.Namespace, sub.ID), limit: maxNotices,
		look: func(a *sluice.Attempt) (bool, bool) { return a.EventID == wakeID, precedes(a.StartedAt, since) },
	}
	found, _, err := b.read(ctx)
	if err != nil {
		return nil, fmt.Errorf("attempts of %s: %w", wakeID, natsstore.StoreError(ctx, err))
	}
	all := make([]sluice.Attempt, len(found))
	for i := range found {
		all[len(all)-1-i] = found[i].Value
	}
	return all, nil
}
