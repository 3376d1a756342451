package natsstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/internal/shutdown"
)

// Limits of a reader of a stream.
const (
	followHeartbeat = 2 * time.Second // a server that is silent for twice as long is gone
	followExpiry    = 30 * time.Second
	FollowAhead     = 500         // messages that are on their way
	followBytes     = 16 << 20    // that they may take, if each is as large as it may be
	followLeast     = 4           // messages that are on their way, however large they may be
	followEarly     = 50          // tries, for a second
	followSilence   = time.Second // without a message that was announced: can it be read?
)

// Limits of a consumer that is made for one reader.
const (
	TidyUpTimeout = time.Second // for deleting it; the server does it later by itself
	Unused        = time.Minute // until the server deletes one that nothing is read from
)

// A replica that is behind is asked again so often, or rather another one maybe, and after so long.
const (
	behindTries = 40
	behindPause = 50 * time.Millisecond
)

// Reasons to read a stream again from the last message on.
var (
	ErrGap       = errors.New("a message was lost in transit")
	errReconnect = errors.New("the connection was replaced")
	errSilence   = errors.New("no message for a while")
)

// IsInterrupted reports whether reading ended because the server stops, or the connection is a new one. The store logs that
// once, for all readers.
func IsInterrupted(err error) bool {
	return errors.Is(err, errReconnect) || errors.Is(err, errServerStops)
}

// Interruption returns why a call failed whose ctx is of UntilReconnect: not that ctx was cancelled, but the reason.
func Interruption(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), errReconnect) {
		return fmt.Errorf("%w: %w", errReconnect, err)
	}
	return err
}

// ErrBehind says that the answering replica has not got as far as was asked for.
var ErrBehind = errors.New("the replica is behind")

// Taker is called for a message, or without one. It returns whether another one is wanted.
type Taker func(*nats.Msg, *nats.MsgMetadata) (more bool, err error)

// Follow calls each for the messages of a stream in order, as config chooses them, until it
// returns false or an error. It is called once without a message as soon as there is nothing
// to read. The consumer is short-lived and kept in memory; any trouble ends following with an
// error, and the caller decides where to go on. The number of messages on their way is ahead, or fewer where they may be
// large: a server cuts a connection that waits for more bytes than the server may hold, 64 MiB by default, and other
// readers share the connection.
//
// On a cluster JetStream puts such a consumer on any server that has the stream. A replica that is behind does not know of
// its missing messages: only FollowToEnd is certain that there is nothing to read, or nothing left.
func (s *Store) Follow(ctx context.Context, stream string, config jetstream.ConsumerConfig, ahead int, each Taker) error {
	return s.followAs(ctx, stream, config, ahead, func(*jetstream.ConsumerInfo) Taker { return each })
}

// FollowToEnd is Follow for a caller that must know when it has read everything that was stored before. Each is called without
// a message, or with one and nothing pending, only when that is so. If the replica behind the consumer lacks messages, following
// ends with ErrBehind.
func (s *Store) FollowToEnd(ctx context.Context, stream string, config jetstream.ConsumerConfig, ahead int, each Taker) error {
	return s.followAs(ctx, stream, config, ahead, func(info *jetstream.ConsumerInfo) Taker {
		if info.Cluster == nil {
			return each
		}
		e := &ending{store: s, stream: stream, config: config, each: each}
		return func(msg *nats.Msg, meta *nats.MsgMetadata) (bool, error) { return e.take(ctx, msg, meta) }
	})
}

// Scan calls each for the messages of a stream that are stored now, in order, as config
// chooses them, until it returns false or an error. It waits a while for a replica that is behind.
func (s *Store) Scan(ctx context.Context, stream string, config jetstream.ConsumerConfig, each Taker) error {
	return s.ScanAhead(ctx, stream, config, FollowAhead, each)
}

// ScanAhead is Scan, with so many messages on their way at most.
func (s *Store) ScanAhead(ctx context.Context, stream string, config jetstream.ConsumerConfig, ahead int, each Taker) error {
	return UntilCaughtUp(ctx, func() error {
		return s.FollowToEnd(ctx, stream, config, ahead, func(msg *nats.Msg, meta *nats.MsgMetadata) (bool, error) {
			if msg == nil {
				return false, nil
			}
			config.DeliverPolicy, config.OptStartSeq, config.OptStartTime = jetstream.DeliverByStartSequencePolicy, meta.Sequence.Stream+1, nil
			more, err := each(msg, meta)
			return more && meta.NumPending > 0, err
		})
	})
}

// UntilCaughtUp reads, and reads again for as long as the replica that was read is behind, up to a bound. The next consumer may be
// on another server.
func UntilCaughtUp(ctx context.Context, read func() error) error {
	for try := 1; ; try++ {
		err := read()
		if !errors.Is(err, ErrBehind) || try == behindTries || ctx.Err() != nil {
			return err
		}
		pause(ctx, behindPause)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func (s *Store) followAs(ctx context.Context, stream string, config jetstream.ConsumerConfig, ahead int, begun func(*jetstream.ConsumerInfo) Taker) (err error) {
	ctx, stop := s.UntilReconnect(ctx)
	defer stop()
	defer func() { err = Interruption(ctx, err) }()
	config.AckPolicy = jetstream.AckNonePolicy
	config.MemoryStorage, config.Replicas = true, 1
	config.InactiveThreshold = Unused // and so goes one that JetStream makes after it was given up
	consumer, err := Asked(ctx, func(ctx context.Context) (jetstream.Consumer, error) {
		return s.js.CreateConsumer(ctx, stream, config)
	})
	if err != nil {
		return fmt.Errorf("read %s: %w", stream, err)
	}
	info := consumer.CachedInfo()
	defer s.TidyUp(ctx, stream, info.Name)
	in, err := s.openInflow(ctx, info, min(ahead, max(followLeast, followBytes/int(max(1, s.nc.MaxPayload())))))
	if err != nil {
		return fmt.Errorf("read %s: %w", stream, err)
	}
	defer in.close()
	each := begun(info)
	if info.NumPending == 0 {
		if more, err := each(nil, nil); err != nil || !more {
			return err
		}
	}
	in.left, in.idle = info.NumPending, func() bool {
		now, err := Asked(ctx, consumer.Info)
		return err == nil && now.NumPending == 0 && now.Delivered.Consumer == in.last
	}
	err = in.handTo(each, config.OptStartSeq)
	if in.unreadable > 0 {
		s.opts.Log.ErrorContext(ctx, "messages cannot be read: the stream's files are damaged; run sluice doctor --deep",
			slog.String("stream", stream), slog.Uint64("messages", in.unreadable))
	}
	return err
}

// inflow is the messages of a consumer, one after the other.
type inflow struct {
	ctx  context.Context //nolint:containedctx // of the reading that it is a part of
	msgs chan *nats.Msg
	end  context.CancelCauseFunc
	stop func()
	last uint64 // that came
	left uint64 // messages that were announced and have not come

	stream     string
	idle       func() bool // whether the consumer has handed out all that it can
	unreadable uint64      // messages that were announced and cannot be read
}

// openInflow asks the consumer for messages: at most ahead of them are not taken yet.
func (s *Store) openInflow(ctx context.Context, info *jetstream.ConsumerInfo, ahead int) (*inflow, error) {
	in := &inflow{msgs: make(chan *nats.Msg), stream: info.Stream}
	in.ctx, in.end = context.WithCancelCause(ctx)
	var err error
	in.stop, err = s.pull(info, pace{ahead, followExpiry, followHeartbeat, 2 * followHeartbeat, followEarly}, in.take, func(err error) {
		if !errors.Is(err, errPullSilent) || !s.nc.IsReconnecting() { // a new connection ends ctx
			in.end(err)
		}
	})
	if err != nil {
		in.end(err)
		return nil, err
	}
	return in, nil
}

func (in *inflow) take(msg *nats.Msg) {
	select {
	case in.msgs <- msg:
	case <-in.ctx.Done():
	}
}

// next waits for the next message. It returns errSilence if there is none for a while.
func (in *inflow) next(silence <-chan time.Time) (*nats.Msg, *nats.MsgMetadata, error) {
	if in.ctx.Err() != nil {
		return nil, nil, context.Cause(in.ctx)
	}
	select {
	case msg := <-in.msgs:
		meta, err := msg.Metadata()
		if in.last++; err == nil && meta.Sequence.Consumer != in.last {
			err = ErrGap
		}
		return msg, meta, err
	case <-silence:
		return nil, nil, errSilence
	case <-in.ctx.Done():
		return nil, nil, context.Cause(in.ctx)
	}
}

// handTo calls each for messages until it returns false or an error. Messages before the start come from a replica that is behind,
// and began at its own end.
//
// The server counts an unreadable message among those that are left, and the message never comes: once the consumer is idle, the
// end was met.
func (in *inflow) handTo(each Taker, start uint64) error {
	silence := time.NewTimer(followSilence)
	defer silence.Stop()
	for {
		msg, meta, err := in.next(silence.C)
		more := true
		switch {
		case errors.Is(err, errSilence):
			more, err = in.silent(each)
		case err != nil:
			err = fmt.Errorf("read %s: %w", in.stream, err)
		default:
			more, err = in.hand(msg, meta, start, each)
		}
		if err != nil || !more {
			return err
		}
		silence.Reset(followSilence)
	}
}

// hand calls each for a message that came.
func (in *inflow) hand(msg *nats.Msg, meta *nats.MsgMetadata, start uint64, each Taker) (more bool, err error) {
	in.left = meta.NumPending
	if meta.Sequence.Stream < start {
		msg = nil
	}
	if msg == nil && meta.NumPending > 0 {
		return true, nil
	}
	return each(msg, meta)
}

// silent calls each without a message if none comes because the rest cannot be read.
func (in *inflow) silent(each Taker) (more bool, err error) {
	if in.left == 0 || !in.idle() {
		return true, nil
	}
	in.unreadable, in.left = in.unreadable+in.left, 0
	return each(nil, nil)
}

func (in *inflow) close() {
	in.end(nil)
	in.stop()
}

// UntilReconnect returns a context that ends with errReconnect when the connection is a new
// one: a consumer in memory may be gone then, and only its silence would show it.
func (s *Store) UntilReconnect(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	s.mu.Lock()
	broken := s.broken
	s.mu.Unlock()
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-broken:
			cancel(errReconnect)
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		cancel(nil)
		watching.Wait()
	}
}

// TidyUp deletes a consumer that has no reader any more. If that fails, the server deletes it
// when it has been unused for a while.
func (s *Store) TidyUp(ctx context.Context, stream, consumer string) {
	ctx, cancel := context.WithTimeout(shutdown.Lasting(ctx), TidyUpTimeout)
	defer cancel()
	_ = s.js.DeleteConsumer(ctx, stream, consumer) // see above
}
