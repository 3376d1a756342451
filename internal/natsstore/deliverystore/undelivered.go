package deliverystore

import (
	"context"
	"fmt"
	"strconv"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// reach is how far the consumers of a subscription are.
type reach struct {
	floor  uint64 // all events up to here are acknowledged
	unread uint64 // the first sequence that was not delivered yet; 0: all were
}

// join returns what the consumers of both reaches have in common.
func (r reach) join(other reach) reach {
	if other.unread > 0 && (r.unread == 0 || other.unread < r.unread) {
		r.unread = other.unread
	}
	r.floor = min(r.floor, other.floor)
	return r
}

// addWaiting counts the undelivered events: the backlog, and the events of each lane in the status
// from its head up to the first event that was not delivered yet, which is part of the backlog.
// Each lane costs one or two requests.
//
// An event of a lane that was delivered and is not acknowledged is part of the backlog, too. If
// there may be any, the sum is limited to the events of the lanes up to the floor and all events
// after it. This costs one request, and two for each lane whose head is before the floor.
func (s *Store) addWaiting(ctx context.Context, sub *sluice.Subscription, at reach, status *sluice.Status) error {
	parked, err := s.inLanes(ctx, sub, at.unread, status)
	if err != nil {
		return err
	}
	status.Undelivered = status.Backlog + parked
	if parked == 0 || status.InFlight == 0 {
		return nil
	}
	before, err := s.inLanes(ctx, sub, at.floor+1, status)
	if err != nil {
		return err
	}
	after, err := s.countLane(ctx, sub, "", at.floor+1)
	status.Undelivered = min(status.Undelivered, before+after)
	return err
}

// inLanes counts the events of the lanes in the status that are before a sequence; 0: all.
func (s *Store) inLanes(ctx context.Context, sub *sluice.Subscription, before uint64, status *sluice.Status) (n uint64, _ error) {
	for i := range status.ParkedLanes {
		waiting, err := s.waiting(ctx, sub, &status.ParkedLanes[i], before)
		if err != nil {
			return 0, fmt.Errorf("lane %s: %w", status.ParkedLanes[i].Lane, err)
		}
		n += waiting
	}
	return n, nil
}

func (s *Store) waiting(ctx context.Context, sub *sluice.Subscription, lane *sluice.Parked, before uint64) (uint64, error) {
	if sub.Policy.Ordering == sluice.OrderNone {
		return 1, nil // such a lane has one event
	}
	if before > 0 && before <= lane.FromSeq {
		return 0, nil
	}
	from, err := s.countLane(ctx, sub, lane.Path, lane.FromSeq)
	if err != nil || before == 0 {
		return from, err
	}
	behind, err := s.countLane(ctx, sub, lane.Path, before)
	return from - min(behind, from), err
}

// countLane counts the events of a path, or of the whole subscription if the path is empty, from a
// sequence on. It excludes system events if the subscription does not get them.
func (s *Store) countLane(ctx context.Context, sub *sluice.Subscription, path sluice.Path, from uint64) (uint64, error) {
	if path != "" {
		return s.countFrom(ctx, sub.Namespace, s.core.Names().Subject(sub.Namespace, path), from)
	}
	all, err := s.countFrom(ctx, sub.Namespace, s.core.Names().Superset(sub.Namespace, sub.Pattern).Subject, from)
	if err != nil || !sub.Pattern.WildFirst() {
		return all, err
	}
	own, err := s.countFrom(ctx, sub.Namespace, s.core.Names().SystemSubjects(sub.Namespace), from)
	return all - min(own, all), err
}

// countFrom returns the number of messages with a subject in the log of a namespace, from a
// sequence on.
func (s *Store) countFrom(ctx context.Context, ns, subject string, seq uint64) (uint64, error) {
	msgs, _, err := s.core.Direct(ctx, ns, natsstore.DirectRequest{Seq: seq, Subject: subject, Batch: 1})
	if err != nil || len(msgs) == 0 {
		return 0, err
	}
	behind, err := strconv.ParseUint(natsstore.LastHeader(msgs[0], natsstore.HeaderPending), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("count %s: %w", subject, err)
	}
	return behind + 1, nil
}
