package deliverystore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Headers of a message with a dead letter. With them dead letters can be counted without reading
// their events.
const (
	headerReason     = "sluice-reason"
	headerRedrivable = "sluice-redrivable"
)

// Bury stores a dead letter in place of an earlier one of the same delivery. If the dead letter is
// too large with the event, it is stored without it; the event is then read from the log as long as
// the log contains it. Bury returns when the dead letter is stored. An error of NATS has no code.
// Bury does not retry: the caller repeats it with the same d.At, so that the dead letter is stored
// once.
func (l *AttemptLog) Bury(ctx context.Context, d sluice.DeadLetter) error {
	err := l.store.bury(ctx, &d)
	if d.Event != nil && sluice.CodeOf(natsstore.StoreError(ctx, err)) == sluice.TooLarge {
		d.Event = nil
		err = l.store.bury(ctx, &d)
	}
	if err != nil {
		return fmt.Errorf("dead letter: %w", err)
	}
	return nil
}

// bury publishes the dead letter. Its message ID only prevents that a publication without a
// response is stored twice: if the same delivery is given up again, the dead letter has another
// time.
func (s *Store) bury(ctx context.Context, d *sluice.DeadLetter) error {
	data, err := d.AppendJSON(nil)
	if err != nil {
		return err
	}
	subject := s.core.Names().DeadLetterSubject(d)
	msg := &nats.Msg{Subject: subject, Data: data, Header: nats.Header{
		jetstream.MsgIDHeader: {subject + "@" + strconv.FormatInt(d.At.UnixNano(), 10)},
		headerReason:          {string(d.Reason)},
		headerRedrivable:      {strconv.FormatBool(d.Reason.Sendable())},
	}}
	_, err = s.core.JetStream().PublishMsg(ctx, msg)
	return err
}

// Unbury deletes the dead letter with a sequence. It returns no error if there is none: a later
// dead letter of the same delivery has another sequence.
func (s *Store) Unbury(ctx context.Context, letterSeq uint64) error {
	stream, err := s.core.JetStream().Stream(ctx, s.core.Names().DeadLetters())
	if err == nil {
		_, err = natsstore.Once(ctx, func(ctx context.Context) (struct{}, error) { return struct{}{}, stream.DeleteMsg(ctx, letterSeq) })
	}
	if errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) { // the reason is only in the text of the error
		_, why := natsstore.Asked(ctx, func(ctx context.Context) (*jetstream.RawStreamMsg, error) { return stream.GetMsg(ctx, letterSeq) })
		if errors.Is(why, jetstream.ErrMsgNotFound) {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("delete dead letter %d: %w", letterSeq, natsstore.StoreError(ctx, err))
	}
	return nil
}

// ListDeadLetters returns the dead letters of the subscription, newest first, and the cursor of the
// next page, 0 at the end. Events in dead letters have no data. Pass the cursor as q.Before. A dead
// letter that was stored without its event costs a further request.
func (s *Store) ListDeadLetters(ctx context.Context, sub *sluice.Subscription, q model.DeadLetterQuery) ([]model.BuriedLetter, uint64, error) {
	placed, next, err := s.letters(ctx, sub, model.HistoryQuery{Since: q.Since, Before: q.Before, Limit: q.Limit}, func(d *sluice.DeadLetter) bool {
		if d.Event != nil {
			d.Event.Data = nil
		}
		return q.Wants(d)
	})
	found := make([]model.BuriedLetter, len(placed))
	for i, p := range placed {
		found[i] = model.BuriedLetter{DeadLetter: p.Value, LetterSeq: p.Place}
		if err == nil {
			err = s.complete(ctx, &found[i])
		}
	}
	return found, next, err
}

// DeadLetters returns at most limit dead letters of the subscription with from ≤ sequence ≤ to, in
// ascending order; none if there are no more. They include dead letters that cannot be redriven.
func (s *Store) DeadLetters(ctx context.Context, sub *sluice.Subscription, from, to uint64, limit int) ([]model.BuriedLetter, error) {
	var found []model.BuriedLetter
	err := s.scanLetters(ctx, sub, from, func(d model.BuriedLetter) bool {
		if d.LetterSeq <= to {
			found = append(found, d)
		}
		return d.LetterSeq < to && len(found) < limit
	})
	if err != nil {
		return nil, err
	}
	for i := range found {
		if err := s.complete(ctx, &found[i]); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// DeadLetter returns the dead letter of the event with the ID, or, if there is none, that of an
// event with the sequence whose ID is unknown. Code NotFound. event is an ID, or a sequence in
// decimal digits; an ID of digits only has precedence.
func (s *Store) DeadLetter(ctx context.Context, sub *sluice.Subscription, event string) (model.BuriedLetter, error) {
	d, _, err := s.findLetter(ctx, sub, event)
	if err == nil {
		err = s.complete(ctx, &d)
	}
	return d, err
}

// Discard deletes the dead letter that DeadLetter returns. Code NotFound. A dead letter of the same
// event that was stored in between is deleted, too.
func (s *Store) Discard(ctx context.Context, sub *sluice.Subscription, event string) error {
	_, subjects, err := s.findLetter(ctx, sub, event)
	if err != nil {
		return err
	}
	return s.purgeLetters(ctx, subjects)
}

// DiscardAll deletes all dead letters of the subscription. No error if there are none. The cost
// does not depend on their number.
func (s *Store) DiscardAll(ctx context.Context, sub *sluice.Subscription) error {
	return s.purgeLetters(ctx, s.core.Names().DeadLettersSubject(sub.Namespace, sub.ID))
}

func (s *Store) purgeLetters(ctx context.Context, subjects string) error {
	stream, err := s.core.JetStream().Stream(ctx, s.core.Names().DeadLetters())
	if err == nil {
		err = stream.Purge(ctx, jetstream.WithPurgeSubject(subjects))
	}
	if err != nil {
		return fmt.Errorf("discard %s: %w", subjects, natsstore.StoreError(ctx, err))
	}
	return nil
}

// findLetter returns the newest dead letter for the ID or the sequence of an event, and the filter
// that matched it.
func (s *Store) findLetter(ctx context.Context, sub *sluice.Subscription, event string) (model.BuriedLetter, string, error) {
	subjects := []string{s.core.Names().DeadLetterOfEvent(sub.Namespace, sub.ID, event)}
	if seq, err := strconv.ParseUint(event, 10, 64); err == nil {
		subjects = append(subjects, s.core.Names().DeadLetterOfSeq(sub.Namespace, sub.ID, seq))
	}
	for _, filter := range subjects {
		msg, err := s.core.LeadersMessage(ctx, s.core.Names().DeadLetters(), natsstore.MessageRequest{Last: filter})
		if err != nil {
			return model.BuriedLetter{}, "", err
		}
		if msg.Seq == 0 {
			continue
		}
		d := model.BuriedLetter{LetterSeq: msg.Seq}
		if err := json.Unmarshal(msg.Data, &d.DeadLetter); err != nil {
			return d, "", fmt.Errorf("dead letter %d: %w", msg.Seq, err)
		}
		if isOwn(sub, &d.DeadLetter) {
			return d, filter, nil
		}
	}
	return model.BuriedLetter{}, "", sluice.Errorf(sluice.NotFound, "no dead letter found for event %q", event)
}

// CountDeadLetters returns the number of dead letters of the subscription. Those of an earlier
// subscription with the same ID do not count. It makes one request.
func (s *Store) CountDeadLetters(ctx context.Context, sub *sluice.Subscription) (uint64, error) {
	request := natsstore.DirectRequest{Subject: s.core.Names().DeadLettersSubject(sub.Namespace, sub.ID), StartTime: &sub.CreatedAt, Batch: 1, MaxBytes: natsstore.DirectMaxBytes}
	body, err := json.Marshal(request)
	if err != nil {
		return 0, fmt.Errorf("count dead letters: %w", err)
	}
	msg, err := natsstore.Asked(ctx, func(ctx context.Context) (*nats.Msg, error) {
		return s.core.Conn().RequestWithContext(ctx, s.core.API(natsstore.DirectGet+s.core.Names().DeadLetters()), body)
	})
	if err != nil {
		return 0, fmt.Errorf("count dead letters: %w", natsstore.StoreError(ctx, err))
	}
	if natsstore.LastHeader(msg, natsstore.HeaderSequence) == "" {
		if status := msg.Header.Get(natsstore.HeaderStatus); status != natsstore.StatusNotFound {
			return 0, fmt.Errorf("count dead letters: status %q %s", status, msg.Header.Get("Description"))
		}
		return 0, nil
	}
	behind, err := strconv.ParseUint(natsstore.LastHeader(msg, natsstore.HeaderPending), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("count dead letters: %w", err)
	}
	return 1 + behind, nil
}

// Redrivable returns how many dead letters of the subscription can and cannot be redriven, and the
// last sequence of the dead letters. It reads the headers of all of them. Later dead letters have a
// sequence above Last and do not count.
func (s *Store) Redrivable(ctx context.Context, sub *sluice.Subscription) (model.Redrivable, error) {
	_, last, err := s.deadLetterBounds(ctx)
	if err != nil {
		return model.Redrivable{}, err
	}
	r := model.Redrivable{Last: last}
	config := jetstream.ConsumerConfig{
		FilterSubject: s.core.Names().DeadLettersSubject(sub.Namespace, sub.ID), HeadersOnly: true,
		DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &sub.CreatedAt,
	}
	err = s.core.Scan(ctx, s.core.Names().DeadLetters(), config, func(msg *nats.Msg, meta *nats.MsgMetadata) (bool, error) {
		switch {
		case meta.Sequence.Stream > last:
			return false, nil
		case msg.Header.Get(headerRedrivable) == "true":
			r.Can++
		default:
			r.Not++
		}
		return true, nil
	})
	if err != nil {
		return r, fmt.Errorf("dead letters of %s: %w", sub.ID, natsstore.StoreError(ctx, err))
	}
	return r, nil
}

func (s *Store) deadLetterBounds(ctx context.Context) (first, last uint64, err error) {
	stream, err := s.core.JetStream().Stream(ctx, s.core.Names().DeadLetters())
	if err != nil {
		return 0, 0, fmt.Errorf("stream %s: %w", s.core.Names().DeadLetters(), natsstore.StoreError(ctx, err))
	}
	state := stream.CachedInfo().State
	return state.FirstSeq, state.LastSeq, nil
}

// scanLetters calls each for the dead letters of the subscription from a sequence on, in ascending
// order, until each returns false.
func (s *Store) scanLetters(ctx context.Context, sub *sluice.Subscription, from uint64, each func(model.BuriedLetter) (more bool)) error {
	config := jetstream.ConsumerConfig{
		FilterSubject: s.core.Names().DeadLettersSubject(sub.Namespace, sub.ID),
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: max(1, from),
	}
	err := s.core.Scan(ctx, s.core.Names().DeadLetters(), config, func(msg *nats.Msg, meta *nats.MsgMetadata) (bool, error) {
		d, ok := s.letterOf(ctx, msg.Subject, msg.Data, meta.Sequence.Stream)
		if !ok || !isOwn(sub, &d.DeadLetter) {
			return true, nil
		}
		return each(d), nil
	})
	if err != nil {
		return fmt.Errorf("dead letters of %s: %w", sub.ID, natsstore.StoreError(ctx, err))
	}
	return nil
}

// letterOf returns the dead letter in a message. It logs any other message, because only servers
// may write to the stream.
func (s *Store) letterOf(ctx context.Context, subject string, data []byte, seq uint64) (model.BuriedLetter, bool) {
	d := model.BuriedLetter{LetterSeq: seq}
	if err := json.Unmarshal(data, &d.DeadLetter); err != nil {
		s.core.Log().ErrorContext(ctx, "dead letter cannot be read",
			slog.String("subject", subject), slog.Uint64("seq", d.LetterSeq), slog.Any("error", err))
		return d, false
	}
	return d, true
}

// isOwn reports whether the dead letter belongs to the subscription and not to an earlier one with
// the same ID.
func isOwn(sub *sluice.Subscription, d *sluice.DeadLetter) bool { return !d.At.Before(sub.CreatedAt) }

// complete adds the event that was too large for its dead letter, if the log still contains it.
func (s *Store) complete(ctx context.Context, d *model.BuriedLetter) error {
	if d.Event != nil || d.EventID == "" || d.Reason == sluice.Expired {
		return nil
	}
	e, err := s.log.Event(ctx, d.Namespace, d.Seq)
	switch code := sluice.CodeOf(err); {
	case err == nil && e.ID == d.EventID:
		d.Event = &e
	case err != nil && code != sluice.NotFound && code != sluice.WindowExceeded && code != sluice.InvalidRequest:
		return err
	}
	return nil
}
