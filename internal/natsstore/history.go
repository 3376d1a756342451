package natsstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// firstSpan is how many sequences of the attempt log are looked at first; every further look
// back is four times as wide.
const firstSpan = 2000

// lagBatch is how many events are looked at to find the oldest that waits.
const lagBatch = 16

// AttemptQuery chooses attempts. Zero values choose all.
type AttemptQuery struct {
	EventID string
	Seq     uint64 // of the event
	Outcome sluice.Outcome
	Since   time.Time
	Before  uint64 // the cursor of an earlier page
	Limit   int
}

func (q *AttemptQuery) wants(a *sluice.Attempt) bool {
	return (q.EventID == "" || a.EventID == q.EventID) && (q.Seq == 0 || a.Seq == q.Seq) &&
		(q.Outcome == "" || a.Outcome == q.Outcome) && !a.StartedAt.Before(q.Since)
}

type placed struct {
	sluice.Attempt

	at uint64
}

// Attempts returns the subscription's attempts, newest first, and the cursor of the next page,
// 0 at the end. The log is read backwards in widening spans.
func (s *Store) Attempts(ctx context.Context, sub *sluice.Subscription, q AttemptQuery) ([]sluice.Attempt, uint64, error) {
	stream, err := s.js.Stream(ctx, streams.Attempts)
	if err != nil {
		return nil, 0, fmt.Errorf("stream %s: %w", streams.Attempts, err)
	}
	state := stream.CachedInfo().State
	end := state.LastSeq + 1
	if q.Before > 0 {
		end = min(end, q.Before)
	}
	var found []placed // ascending
	for span := uint64(firstSpan); end > state.FirstSeq && len(found) <= q.Limit; span *= 4 {
		begin := max(state.FirstSeq, end-min(end, span))
		part, older, err := s.attemptsBetween(ctx, sub, &q, begin, end)
		if err != nil {
			return nil, 0, err
		}
		found = append(part, found...)
		end = begin
		if older {
			break
		}
	}
	var next uint64
	if len(found) > q.Limit {
		found = found[len(found)-q.Limit:]
		next = found[0].at
	}
	page := make([]sluice.Attempt, 0, len(found))
	for _, p := range slices.Backward(found) {
		page = append(page, p.Attempt)
	}
	return page, next, nil
}

// attemptsBetween returns the attempts with begin ≤ place < end, ascending, and whether some
// of the span are older than the query wants.
func (s *Store) attemptsBetween(ctx context.Context, sub *sluice.Subscription, q *AttemptQuery, begin, end uint64) (found []placed, older bool, err error) {
	err = s.scan(ctx, streams.Attempts, jetstream.ConsumerConfig{
		FilterSubject: streams.AttemptsSubject(sub.Namespace, sub.ID),
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: max(1, begin),
	}, func(msg jetstream.Msg, meta *jetstream.MsgMetadata) (bool, error) {
		if meta.Sequence.Stream >= end {
			return false, nil
		}
		var a sluice.Attempt
		if err := json.Unmarshal(msg.Data(), &a); err != nil {
			return false, fmt.Errorf("attempt %d: %w", meta.Sequence.Stream, err)
		}
		older = older || a.StartedAt.Before(q.Since)
		if q.wants(&a) {
			found = append(found, placed{a, meta.Sequence.Stream})
		}
		return true, nil
	})
	return found, older, err
}

// LastAttemptAt returns when the subscription's last attempt was recorded; zero if there is none.
func (s *Store) LastAttemptAt(ctx context.Context, sub *sluice.Subscription) (time.Time, error) {
	at, err := s.lastTime(ctx, streams.Attempts, streams.AttemptsSubject(sub.Namespace, sub.ID))
	if at.Before(sub.CreatedAt) {
		return time.Time{}, err // it was an earlier subscription's of the same id
	}
	return at, err
}

// Status returns how a subscription is doing, as its consumers and its parked lanes tell.
func (s *Store) Status(ctx context.Context, sub *sluice.Subscription) (sluice.Status, error) {
	status := sluice.Status{State: sub.State, Reason: sub.Reason, Breaker: "closed", ParkedLanes: []sluice.Parked{}}
	if sub.State == sluice.Cancelled {
		return status, s.countDead(ctx, sub, &status)
	}
	for _, c := range streams.PushConsumers(sub) {
		if err := s.addConsumer(ctx, sub, c, &status); err != nil {
			return status, err
		}
	}
	parked, _, err := s.laneRecords(ctx, sub)
	if err != nil {
		return status, err
	}
	slices.SortFunc(parked, func(a, b sluice.ParkedEntry) int { return a.NextAt.Compare(b.NextAt) })
	status.Parked = len(parked)
	if len(parked) > 0 {
		status.NextAttemptAt = &parked[0].NextAt
	}
	for _, p := range parked[:min(len(parked), 100)] {
		status.ParkedLanes = append(status.ParkedLanes, p.Parked)
	}
	for _, p := range parked {
		if !p.FirstFailedAt.IsZero() {
			status.LagSeconds = max(status.LagSeconds, time.Since(p.FirstFailedAt).Seconds())
		}
	}
	return status, s.countDead(ctx, sub, &status)
}

func (s *Store) addConsumer(ctx context.Context, sub *sluice.Subscription, want streams.Consumer, status *sluice.Status) error {
	c, err := s.js.Consumer(ctx, want.Stream, want.Name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil // it is being made
	}
	if err != nil {
		return fmt.Errorf("consumer %s: %w", want.Name, err)
	}
	info := c.CachedInfo()
	if sub.Pattern.WildFirst() && info.NumPending > 0 {
		own, err := s.systemEvents(ctx, sub.Namespace, info.Delivered.Stream+1)
		if err != nil {
			return err
		}
		info.NumPending -= min(own, info.NumPending) // nobody waits for them
	}
	status.Backlog += info.NumPending + uint64(max(0, info.NumAckPending))
	status.InFlight += info.NumAckPending
	status.AckFloor = max(status.AckFloor, info.AckFloor.Stream)
	if info.NumPending == 0 && info.NumAckPending == 0 {
		return nil
	}
	events, err := s.NextEvent(ctx, sub.Namespace, want.Filter.Subject, info.AckFloor.Stream+1, lagBatch)
	if err != nil {
		return err
	}
	first := slices.IndexFunc(events, func(e sluice.Event) bool { return sub.Pattern.Match(e.Path) })
	if first >= 0 {
		status.LagSeconds = max(status.LagSeconds, time.Since(events[first].Stored).Seconds())
	}
	return nil
}

func (s *Store) countDead(ctx context.Context, sub *sluice.Subscription, status *sluice.Status) error {
	stream, err := s.js.Stream(ctx, streams.DeadLetters)
	if err != nil {
		return fmt.Errorf("stream %s: %w", streams.DeadLetters, err)
	}
	subject := streams.DeadLettersSubject(sub.Namespace, sub.ID)
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(subject))
	if err != nil {
		return fmt.Errorf("stream %s: %w", streams.DeadLetters, err)
	}
	status.DeadLetters = info.State.Subjects[subject]
	return nil
}
