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

// FollowLetters calls tell for the dead letters as they are buried, in order, and again for those for which it returned an
// error, until ctx ends. All replicas share them: each letter is one replica's to tell. One that was handed out
// before, here or to a replica that is no more, is again.
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
			level = slog.LevelDebug // which was logged
		}
		s.core.Log().Log(ctx, level, "system events of dead letters not published", slog.Any("error", err), slog.Duration("again", next))
	})
}

// letters are the dead letters that this replica has asked for, as they come.
type letters struct {
	store   *Store
	arrived chan *nats.Msg
	holding []*nats.Msg // handed out, and neither told nor given back
	tries   int         // to tell those
}

// followLetters tells letters until ctx ends, or the connection is a new one: the server then has no request of this replica
// any more.
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
	defer func() { end(nil); stop() }() // first: or letters that are given back would come here again
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

// next waits for letters and holds those that are there.
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

// tell passes the held letters on, and acknowledges them. While that fails they stay this replica's.
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

// say answers for all held letters. If the connection is gone, the server hands them out again when their ack wait is over.
func (l *letters) say(answer string) {
	for _, msg := range l.holding {
		_ = l.store.core.Conn().Publish(msg.Reply, []byte(answer)) // see above
	}
}

// giveBack has the letters that were not told handed out again, here or to another replica.
func (l *letters) giveBack() {
	l.drain()
	l.say("-NAK")
}

// TailDeadLetters is TailEvents of the log for the dead letters of all subscriptions.
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
