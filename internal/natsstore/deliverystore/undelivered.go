package deliverystore

import (
	"context"
	"fmt"
	"strconv"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// addWaiting counts the undelivered events: the backlog, and the events of each lane in the status
// from its head up to the first event that was not delivered yet, which is part of the backlog.
// Each lane costs one or two requests.
func (s *Store) addWaiting(ctx context.Context, sub *sluice.Subscription, unread uint64, status *sluice.Status) error {
	status.Undelivered = status.Backlog
	for i := range status.ParkedLanes {
		waiting, err := s.waiting(ctx, sub, &status.ParkedLanes[i], unread)
		if err != nil {
			return fmt.Errorf("lane %s: %w", status.ParkedLanes[i].Lane, err)
		}
		status.Undelivered += waiting
	}
	return nil
}

func (s *Store) waiting(ctx context.Context, sub *sluice.Subscription, lane *sluice.Parked, unread uint64) (uint64, error) {
	if sub.Policy.Ordering == sluice.OrderNone {
		return 1, nil // such a lane has one event
	}
	from, err := s.countLane(ctx, sub, lane.Path, lane.FromSeq)
	if err != nil || unread == 0 {
		return from, err
	}
	behind, err := s.countLane(ctx, sub, lane.Path, max(unread, lane.FromSeq))
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
