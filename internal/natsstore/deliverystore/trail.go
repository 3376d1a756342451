package deliverystore

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/natsstore/eventlog"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// clockMargin is the time by which the clock of NATS may be ahead of the clock of a server.
const clockMargin = time.Minute

// maxTrail is the maximum number of attempts for one event that are read.
const maxTrail = 1000

// Trail returns the known history of an event, named by its ID or its sequence, for a subscription.
// Code NotFound if it is unknown: neither the log nor any record contains it, and nothing indicates
// that the log has contained it. Fields without a known value are zero. It makes many requests, and
// reads the attempts since the event was stored.
func (s *Store) Trail(ctx context.Context, sub *sluice.Subscription, name string) (model.Trail, error) {
	var t model.Trail
	info, err := s.core.EventsInfo(ctx, sub.Namespace)
	if err != nil {
		return t, err
	}
	t.FirstSeq = max(info.State.FirstSeq, 1)
	if err := s.trailEvent(ctx, sub.Namespace, name, &t); err != nil {
		return t, err
	}
	for _, add := range []func(context.Context, *sluice.Subscription, *model.Trail) error{
		s.trailAttempts, s.trailDead, s.trailLane, s.trailConsumer, s.trailLater, s.trailSuperseded, s.trailHealth,
	} {
		if err := add(ctx, sub, &t); err != nil {
			return t, err
		}
	}
	if t.Event != nil || len(t.Attempts) > 0 || t.Dead != nil || t.Seq > 0 && t.Seq < t.FirstSeq {
		return t, nil
	}
	if made, ok := eventlog.UUIDTime(name); ok && t.FirstSeq > 1 && made.Before(info.State.FirstTime) {
		return t, nil
	}
	return t, sluice.Errorf(sluice.NotFound, "event %q not found in %s, and no record of it", name, sub.Namespace)
}

// trailEvent finds the event, or at least the sequence in its name.
func (s *Store) trailEvent(ctx context.Context, ns, name string, t *model.Trail) error {
	seq, err := strconv.ParseUint(name, 10, 64)
	var e sluice.Event
	if err == nil {
		e, err = s.log.Event(ctx, ns, seq)
		if sluice.CodeOf(err) == sluice.WindowExceeded {
			t.Seq = seq
		}
	} else {
		t.Seq, _ = model.PlaceOf(ns, name)
	}
	if err != nil {
		t.EventID = name
		e, err = s.log.EventByID(ctx, ns, name)
	}
	switch code := sluice.CodeOf(err); {
	case err == nil:
		t.EventID, t.Seq, t.Path, t.Type, t.Event = e.ID, e.Seq, e.Path, e.Type, &e
	case code == sluice.InvalidRequest && e.Seq > 0: // it is stored but cannot be decoded
		t.EventID, t.Seq, t.Path, t.Event = e.ID, e.Seq, e.Path, &e
	case code != sluice.NotFound && code != sluice.WindowExceeded:
		return err
	}
	return nil
}

// trailAttempts reads the attempts: by the ID of the event, and by its sequence if the event is in
// the log. If there are none and only the sequence is known, it reads the attempts by the sequence.
func (s *Store) trailAttempts(ctx context.Context, sub *sluice.Subscription, t *model.Trail) error {
	q := model.HistoryQuery{EventID: t.EventID, Limit: maxTrail}
	if t.Event != nil {
		q.Seq, q.Since = t.Seq, t.Event.Stored.Add(-clockMargin) // no attempt is earlier
	}
	found, _, err := s.Attempts(ctx, sub, q)
	if err == nil && len(found) == 0 && t.Event == nil && t.Seq > 0 {
		found, _, err = s.Attempts(ctx, sub, model.HistoryQuery{Seq: t.Seq, Limit: maxTrail})
	}
	for i := range found {
		t.Attempts = append(t.Attempts, found[len(found)-1-i].Value)
	}
	if t.Event == nil && len(found) > 0 {
		for one := range found[0].Value.Events() {
			if one.EventID == t.EventID || one.Seq == t.Seq {
				t.EventID, t.Seq, t.Path, t.Type = one.EventID, one.Seq, one.Path, one.Type
			}
		}
	}
	return err
}

func (s *Store) trailDead(ctx context.Context, sub *sluice.Subscription, t *model.Trail) error {
	found, _, err := s.letters(ctx, sub, model.HistoryQuery{Limit: 1}, func(d *sluice.DeadLetter) bool {
		if t.Seq == 0 || d.EventID != "" && d.Seq == t.Seq {
			return d.EventID == t.EventID
		}
		others := d.Path != "" && t.Path != "" && d.Path != t.Path
		return d.Seq == t.Seq || t.Event == nil && d.Seq <= t.Seq && t.Seq <= d.LastSeq && !others
	})
	if err != nil || len(found) == 0 {
		return err
	}
	t.Dead = &found[0].Value
	if t.Seq == 0 {
		t.Seq, t.Path = t.Dead.Seq, t.Dead.Path
	}
	if t.Type == "" && t.Dead.Event != nil && t.Dead.Event.ID == t.EventID {
		t.Type = t.Dead.Event.Type
	}
	return nil
}

func (s *Store) trailLane(ctx context.Context, sub *sluice.Subscription, t *model.Trail) error {
	if t.Path == "" {
		return nil
	}
	record, _, err := s.lanes().Get(ctx, streams.LaneKey(sub.ID, sub.Policy.Ordering, t.Path, t.Seq))
	if sluice.CodeOf(err) == sluice.NotFound {
		return nil
	}
	if err != nil || !record.Since.Equal(sub.Began()) {
		return err
	}
	t.Lane = &record.Parked
	if t.Lane.EventID != "" || t.Lane.FromSeq == t.Seq {
		return nil
	}
	head, err := s.log.Event(ctx, sub.Namespace, t.Lane.FromSeq)
	if err == nil && head.Path == t.Path {
		t.Lane.EventID = head.ID
	}
	return nil // the ID of the head is optional
}

func (s *Store) trailConsumer(ctx context.Context, sub *sluice.Subscription, t *model.Trail) error {
	if sub.State == sluice.Cancelled || t.Path == "" {
		return nil
	}
	all, i := s.core.Names().PushConsumers(sub), 0
	if len(all) == 2 && len(t.Path.Segments()) == len(sub.Pattern.Segments())-1 {
		i = 1
	}
	info, err := s.consumerInfo(ctx, sub, i, all[i])
	if err != nil || info == nil {
		return natsstore.StoreError(ctx, err) // if it is missing, it is being created
	}
	t.Handed, t.Settled = info.Delivered.Stream, info.AckFloor.Stream
	return nil
}

func (s *Store) trailLater(ctx context.Context, sub *sluice.Subscription, t *model.Trail) error {
	if sub.From.Kind != sluice.StartLastPerPath || t.Event == nil || t.Path == "" {
		return nil
	}
	next, err := s.log.NextSeq(ctx, sub.Namespace, s.core.Names().Subject(sub.Namespace, t.Path), t.Seq+1)
	t.Later = next
	return err
}

// trailSuperseded searches for the attempt that superseded one for the event.
func (s *Store) trailSuperseded(ctx context.Context, sub *sluice.Subscription, t *model.Trail) error {
	if sub.Policy.Debounce.Quiet == 0 || t.Event == nil || len(t.Attempts) > 0 {
		return nil
	}
	since := t.Event.Stored.Add(-clockMargin)
	b := backwards[sluice.Attempt]{
		store: s, stream: s.core.Names().Attempts(), split: streams.SplitBlock, subject: s.core.Names().AttemptsSubject(sub.Namespace, sub.ID), limit: 1,
		look: func(a *sluice.Attempt) (wanted, older bool) {
			covers := a.SupersedesFrom > 0 && a.SupersedesFrom <= t.Seq && t.Seq < a.Seq
			return covers && a.Path == t.Path, a.StartedAt.Before(since)
		},
	}
	found, _, err := b.read(ctx)
	if err == nil && len(found) > 0 {
		t.SupersededBy = &sluice.EventRef{EventID: found[0].Value.EventID, Seq: found[0].Value.Seq, Path: t.Path, Type: found[0].Value.Type}
	}
	return err
}

// ParkedLanes returns the parked lanes of the subscription in no particular order, and changes
// nothing.
func (s *Store) ParkedLanes(ctx context.Context, sub *sluice.Subscription) ([]sluice.Parked, error) {
	own, _, err := s.laneRecords(ctx, sub, sub.ID)
	lanes := make([]sluice.Parked, len(own))
	for i := range own {
		lanes[i] = own[i].Parked
	}
	return lanes, err
}

// Forgotten returns the lanes whose head was attempted, or is held without an attempt, and has no
// attempt in the stream of attempts. It returns nil if there are none. It reads attempts backwards
// until all heads are found, and in the worst case all attempts.
func (s *Store) Forgotten(ctx context.Context, sub *sluice.Subscription, lanes []sluice.Parked) ([]sluice.Parked, error) {
	if len(lanes) == 0 {
		return nil, nil
	}
	first, err := s.FirstAttemptAt(ctx, sub)
	if err != nil {
		return nil, err
	}
	old := map[uint64]sluice.Parked{}
	for _, p := range lanes {
		if p.Held != "" && p.Attempts == 0 || p.Attempts > 0 && (first.IsZero() || p.FirstFailedAt.Before(first)) {
			old[p.FromSeq] = p
		}
	}
	if len(old) == 0 {
		return nil, nil
	}
	b := backwards[sluice.Attempt]{
		store: s, stream: s.core.Names().Attempts(), split: streams.SplitBlock, subject: s.core.Names().AttemptsSubject(sub.Namespace, sub.ID), limit: len(old),
		look: func(a *sluice.Attempt) (bool, bool) {
			_, ok := old[a.Seq]
			delete(old, a.Seq)
			return ok, len(old) == 0
		},
	}
	if _, _, err := b.read(ctx); err != nil {
		return nil, err
	}
	return slices.Collect(maps.Values(old)), nil
}

// FirstAttemptAt returns the start of the first stored attempt of a subscription; zero if there is
// none. The dead letter of an attempt may be stored before the record of the attempt, but never
// before the start of the attempt.
func (s *Store) FirstAttemptAt(ctx context.Context, sub *sluice.Subscription) (time.Time, error) {
	var at time.Time
	err := s.core.ScanAhead(ctx, s.core.Names().Attempts(), jetstream.ConsumerConfig{
		FilterSubject: s.core.Names().AttemptsSubject(sub.Namespace, sub.ID), DeliverPolicy: jetstream.DeliverAllPolicy,
	}, 1, func(msg *nats.Msg, _ *nats.MsgMetadata) (bool, error) {
		for record := range streams.SplitBlock(msg.Data) {
			var first tried
			if err := json.Unmarshal(record, &first); err != nil {
				return false, fmt.Errorf("attempt: %w", err)
			}
			at = first.StartedAt
			break
		}
		return false, nil
	})
	return at, err
}

// trailHealth adds the stored health of the endpoint if the subscription is active. It is
// meaningless if no replica serves the subscription.
func (s *Store) trailHealth(ctx context.Context, sub *sluice.Subscription, t *model.Trail) (err error) {
	if sub.State == sluice.Active {
		t.Health, err = s.Health(ctx, sub)
	}
	return err
}
