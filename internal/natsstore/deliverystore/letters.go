package deliverystore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/streams"
)

const lettersWait = 20 * time.Second // for a first letter

// FollowLetters calls tell for the dead letters as they are buried, in order, and again for those for which it returned an
// error, until ctx ends. All replicas share them: each letter is one replica's to tell. One that was handed out
// before, here or to a replica that is no more, is again.
func (s *Store) FollowLetters(ctx context.Context, tell func(ctx context.Context, letters []model.BuriedLetter, again bool) error) error {
	wait := backoff.NewExponentialBackOff(backoff.WithInitialInterval(100*time.Millisecond),
		backoff.WithMaxInterval(10*time.Second), backoff.WithMaxElapsedTime(0))
	err := backoff.RetryNotify(func() error {
		err := s.followLetters(ctx, wait.Reset, tell)
		if s.core.Conn().IsClosed() {
			return backoff.Permanent(err)
		}
		return err
	}, backoff.WithContext(wait, ctx), func(err error, next time.Duration) {
		s.core.Log().WarnContext(ctx, "system events of dead letters not published", slog.Any("error", err), slog.Duration("again", next))
	})
	return fmt.Errorf("follow %s: %w", streams.DeadLetters, err)
}

func (s *Store) followLetters(ctx context.Context, well func(), tell func(context.Context, []model.BuriedLetter, bool) error) error {
	consumer, err := s.core.LettersConsumer(ctx)
	if err != nil {
		return err
	}
	for {
		msgs, err := nextLetters(ctx, consumer)
		if err != nil {
			return err
		}
		if err := s.tellLetters(ctx, msgs, tell); err != nil {
			return err
		}
		well()
	}
}

// nextLetters waits for letters and returns those that are there; none after a while.
func nextLetters(ctx context.Context, consumer jetstream.Consumer) ([]jetstream.Msg, error) {
	limit, cancel := context.WithTimeout(ctx, lettersWait)
	defer cancel()
	first, err := consumer.Next(jetstream.FetchContext(limit))
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if errors.Is(err, jetstream.ErrNoMessages) || errors.Is(err, nats.ErrTimeout) || errors.Is(err, context.DeadlineExceeded) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("fetch a dead letter: %w", err)
	}
	msgs := []jetstream.Msg{first}
	more, err := consumer.FetchNoWait(streams.LettersConsumer().MaxPending - 1)
	if err != nil {
		return msgs, nil // the others come next time
	}
	for msg := range more.Messages() {
		msgs = append(msgs, msg)
	}
	return msgs, nil
}

// tellLetters passes letters on, and has those that fail handed out again soon.
func (s *Store) tellLetters(ctx context.Context, msgs []jetstream.Msg, tell func(context.Context, []model.BuriedLetter, bool) error) error {
	var letters []model.BuriedLetter
	again := false
	for _, msg := range msgs {
		meta, err := msg.Metadata()
		if err != nil {
			return fmt.Errorf("dead letter: %w", err)
		}
		if d, ok := s.letterOf(ctx, msg.Subject(), msg.Data(), meta.Sequence.Stream); ok {
			letters = append(letters, d)
			again = again || meta.NumDelivered > 1
		}
	}
	var err error
	if len(letters) > 0 {
		err = tell(ctx, letters, again)
	}
	for _, msg := range msgs {
		settle := msg.Ack
		if err != nil {
			settle = msg.Nak
		}
		if failed := settle(); failed != nil {
			return errors.Join(err, fmt.Errorf("acknowledge a dead letter: %w", failed))
		}
	}
	return err
}

// TailDeadLetters is TailEvents of the log for the dead letters of all subscriptions.
func (s *Store) TailDeadLetters(ctx context.Context, after uint64, each func(model.BuriedLetter) error) error {
	return s.core.Tail(ctx, streams.DeadLetters, streams.DeadLettersSubjects(), after, func(msg *nats.Msg, meta *nats.MsgMetadata) error {
		d, ok := s.letterOf(ctx, msg.Subject, msg.Data, meta.Sequence.Stream)
		if !ok {
			return nil
		}
		if err := s.complete(ctx, &d); err != nil {
			return err
		}
		return each(d)
	})
}
