package natsstore

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

// EnsureLetters makes what FollowLetters reads from, if it is not there: what is buried from then on is told.
func (s *Store) EnsureLetters(ctx context.Context) error {
	_, err := s.lettersConsumer(ctx)
	return err
}

func (s *Store) lettersConsumer(ctx context.Context) (jetstream.Consumer, error) {
	want := streams.LettersConsumer()
	config := jetstream.ConsumerConfig{
		Durable: want.Name, Description: want.Description, FilterSubject: want.Filter.Subject, DeliverPolicy: jetstream.DeliverNewPolicy,
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: want.AckWait, MaxDeliver: want.MaxDeliver, MaxAckPending: want.MaxPending,
	}
	consumer, err := asked(ctx, func(ctx context.Context) (jetstream.Consumer, error) {
		return s.js.CreateOrUpdateConsumer(ctx, want.Stream, config)
	})
	if err != nil {
		return nil, fmt.Errorf("consumer %s: %w", want.Name, storeError(ctx, err))
	}
	return consumer, nil
}

// FollowLetters calls tell for the dead letters as they are buried, in order, and again for those for which it returned an
// error, until ctx ends. All replicas share them: each letter is one replica's to tell. One that was handed out
// before, here or to a replica that is no more, is again.
func (s *Store) FollowLetters(ctx context.Context, tell func(ctx context.Context, letters []model.BuriedLetter, again bool) error) error {
	wait := backoff.NewExponentialBackOff(backoff.WithInitialInterval(100*time.Millisecond),
		backoff.WithMaxInterval(10*time.Second), backoff.WithMaxElapsedTime(0))
	err := backoff.RetryNotify(func() error {
		err := s.followLetters(ctx, wait.Reset, tell)
		if s.nc.IsClosed() {
			return backoff.Permanent(err)
		}
		return err
	}, backoff.WithContext(wait, ctx), func(err error, next time.Duration) {
		s.opts.Log.WarnContext(ctx, "system events of dead letters not published", slog.Any("error", err), slog.Duration("again", next))
	})
	return fmt.Errorf("follow %s: %w", streams.DeadLetters, err)
}

func (s *Store) followLetters(ctx context.Context, well func(), tell func(context.Context, []model.BuriedLetter, bool) error) error {
	consumer, err := s.lettersConsumer(ctx)
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

// tellLetters has letters told, and what cannot be told handed out again soon.
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
