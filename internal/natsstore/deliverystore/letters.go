package deliverystore

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
)

// FollowLetters calls tell for new dead letters in order until ctx ends, and again for those for
// which it returned an error. The replicas share the dead letters: each is passed to one replica.
// The argument again is true if a dead letter was passed before, here or to a replica that has
// ended. FollowLetters returns only with an error. It calls tell from the caller's goroutine. tell
// must be idempotent, because it may be called again with dead letters that it has processed.
//
//	request ─► arrived ─► holding ─── tell: nil ────► +ACK
//	                         │ ▲
//	                         │ └───── tell: error ──► +WPI, and again after a pause
//	                         └─────── the end ──────► -NAK: for another replica, at once
func (s *Store) FollowLetters(ctx context.Context, tell func(ctx context.Context, letters []model.BuriedLetter, again bool) error) error {
	wait := lettersAgain()
	err := s.insistOnLetters(ctx, wait, func() error {
		err := s.followLetters(ctx, wait.Reset, tell)
		if s.core.Conn().IsClosed() {
			return backoff.Permanent(err)
		}
		return err
	})
	return fmt.Errorf("follow %s: %w", s.core.Names().DeadLetters(), err)
}

func lettersAgain() *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(backoff.WithInitialInterval(100*time.Millisecond),
		backoff.WithMaxInterval(10*time.Second), backoff.WithMaxElapsedTime(0))
}

func (s *Store) insistOnLetters(ctx context.Context, wait backoff.BackOff, do func() error) error {
	return backoff.RetryNotify(do, backoff.WithContext(wait, ctx), func(err error, next time.Duration) {
		level := slog.LevelWarn
		if natsstore.IsInterrupted(err) {
			level = slog.LevelDebug // the store has logged it
		}
		s.core.Log().Log(ctx, level, "system events of dead letters not published", slog.Any("error", err), slog.Duration("again", next))
	})
}

// letters receives the dead letters that this replica has requested.
type letters struct {
	store   *Store
	arrived chan *nats.Msg
	holding []*nats.Msg // received, and neither passed on nor returned
	tries   int         // to pass them on
}

// followLetters passes dead letters on until ctx ends or the connection is replaced: then the
// server has no request of this replica any more. It calls well after each success.
func (s *Store) followLetters(ctx context.Context, well func(), tell func(context.Context, []model.BuriedLetter, bool) error) error {
	ctx, unwatch := s.core.UntilReconnect(ctx)
	defer unwatch()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	consumer, err := s.core.LettersConsumer(ctx)
	if err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	most := s.core.Names().LettersConsumer().MaxPending
	l := &letters{store: s, arrived: make(chan *nats.Msg, most)}
	stop, err := s.core.PullDeliveries(consumer.CachedInfo(), most, func(msg *nats.Msg) {
		select {
		case l.arrived <- msg:
		case <-ctx.Done():
		}
	}, end)
	if err != nil {
		return fmt.Errorf("fetch dead letters: %w", err)
	}
	defer l.giveBack()
	defer func() { end(nil); stop() }() // before giveBack: otherwise returned dead letters would be received here again
	for {
		if err := l.next(ctx); err != nil {
			return err
		}
		if err := s.insistOnLetters(ctx, lettersAgain(), func() error { return l.tell(ctx, tell) }); err != nil {
			return cmp.Or(context.Cause(ctx), err)
		}
		well()
	}
}

// next waits for dead letters and holds all that have arrived.
func (l *letters) next(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case msg := <-l.arrived:
		l.holding, l.tries = append(l.holding, msg), 0
	}
	l.drain()
	return nil
}

func (l *letters) drain() {
	for {
		select {
		case msg := <-l.arrived:
			l.holding = append(l.holding, msg)
		default:
			return
		}
	}
}

// tell passes the held dead letters on and acknowledges them. While that fails, this replica keeps
// them.
func (l *letters) tell(ctx context.Context, tell func(context.Context, []model.BuriedLetter, bool) error) error {
	var letters []model.BuriedLetter
	again := l.tries > 0
	l.tries++
	for _, msg := range l.holding {
		meta, err := msg.Metadata()
		if err != nil {
			return backoff.Permanent(fmt.Errorf("dead letter: %w", err))
		}
		if d, ok := l.store.letterOf(ctx, msg.Subject, msg.Data, meta.Sequence.Stream); ok {
			letters = append(letters, d)
			again = again || meta.NumDelivered > 1
		}
	}
	if len(letters) > 0 {
		if err := tell(ctx, letters, again); err != nil {
			l.say("+WPI")
			return err
		}
	}
	l.say("+ACK")
	l.holding = nil
	return nil
}

// say sends an answer for all held dead letters. If the connection is lost, the server delivers
// them again when their ack wait is over.
func (l *letters) say(answer string) {
	for _, msg := range l.holding {
		_ = l.store.core.Conn().Publish(msg.Reply, []byte(answer)) // see above
	}
}

// giveBack returns the dead letters that were not passed on, so that the server delivers them
// again, here or to another replica.
func (l *letters) giveBack() {
	l.drain()
	l.say("-NAK")
}

// TailDeadLetters is like TailEvents of the log, for the dead letters of all subscriptions. Every
// caller gets every dead letter, unlike FollowLetters.
func (s *Store) TailDeadLetters(ctx context.Context, after uint64, each func(model.BuriedLetter) error) error {
	return s.core.Tail(ctx, s.core.Names().DeadLetters(), s.core.Names().DeadLettersSubjects(), after, func(msg *nats.Msg, meta *nats.MsgMetadata) error {
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

// LetterIncarnations returns the ID of the stream of dead letters, and the ID that it had in the
// backup from which it was restored; "" if it was not restored.
func (s *Store) LetterIncarnations(ctx context.Context) (is, was string, err error) {
	return s.core.Incarnations(ctx, s.core.Names().DeadLetters())
}
