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
	followHeartbeat = 2 * time.Second // a server without a heartbeat for twice as long counts as lost
	followExpiry    = 30 * time.Second
	FollowAhead     = 500         // messages in flight
	followBytes     = 16 << 20    // of the messages in flight, if each has the maximum size
	followLeast     = 4           // messages in flight, of any size
	followEarly     = 50          // tries, which take about a second
	followSilence   = time.Second // without an announced message, after which it is checked whether it can be read
)

// Limits of a consumer that is created for one reader.
const (
	TidyUpTimeout = time.Second // for deleting it; if that fails, the server deletes it later
	Unused        = time.Minute // after which the server deletes an unused one
)

// How many times a read is tried that meets a replica that is behind, and the pause between the
// tries. The next try may reach another replica.
const (
	behindTries = 40
	behindPause = 50 * time.Millisecond
)

// Reasons to read a stream again, starting after the last message.
var (
	ErrGap       = errors.New("a message was lost in transit")
	errReconnect = errors.New("the connection was replaced")
	errSilence   = errors.New("no message for a while")
)

// IsInterrupted reports whether reading ended because the server is shutting down, or the
// connection was replaced. The store logs that once for all readers.
func IsInterrupted(err error) bool {
	return errors.Is(err, errReconnect) || errors.Is(err, errServerStops)
}

// retryLevel returns the level at which work that retries forever logs an error. Only the first of
// consecutive failures is a warning, and none that the store logs once for all: a missing stream,
// a lost connection.
func (s *Store) retryLevel(err error, failed int) slog.Level {
	if failed > 0 || IsGone(err) || IsInterrupted(err) || !s.nc.IsConnected() {
		return slog.LevelDebug
	}
	return slog.LevelWarn
}

// Interruption returns the error of a call with a context of UntilReconnect. If the context was
// cancelled because of a reconnect, the error says so.
func Interruption(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), errReconnect) {
		return fmt.Errorf("%w: %w", errReconnect, err)
	}
	return err
}

// ErrBehind means that the replica that answered lacks messages that the request needs.
var ErrBehind = errors.New("the replica is behind")

// Taker is called with a message, or with nil if there is none. It returns whether it wants more
// messages.
type Taker func(*nats.Msg, *nats.MsgMetadata) (more bool, err error)

// Follow calls each for the messages of a stream that config selects, in order, until each returns
// false or an error. It calls each without a message if there is no message to read at the start.
// The consumer is temporary and kept in memory. Any problem ends Follow with an error, and the
// caller decides where to continue. At most ahead messages are in flight, or fewer if they may be
// large: a server closes a connection with more pending bytes than it allows, 64 MiB by default,
// and other readers share the connection.
//
// On a cluster JetStream creates such a consumer on any server that has the stream. A replica that
// is behind does not know of its missing messages: only FollowToEnd guarantees that there are no
// messages, or no further ones. Follow calls each from the caller's goroutine, and returns nil if
// each returns false. Its error wraps that of each, or has no code: callers wrap it with
// StoreError.
func (s *Store) Follow(ctx context.Context, stream string, config jetstream.ConsumerConfig, ahead int, each Taker) error {
	return s.followAs(ctx, stream, config, ahead, func(*jetstream.ConsumerInfo) Taker { return each })
}

// FollowToEnd is Follow for a caller that must know when it has read all messages that were stored
// before. Each is called without a message, or with a message after which none is pending, only if
// that is true for the leader of the stream. If the replica of the consumer lacks messages,
// FollowToEnd returns ErrBehind.
func (s *Store) FollowToEnd(ctx context.Context, stream string, config jetstream.ConsumerConfig, ahead int, each Taker) error {
	return s.followAs(ctx, stream, config, ahead, func(info *jetstream.ConsumerInfo) Taker {
		if info.Cluster == nil {
			return each
		}
		e := &ending{store: s, stream: stream, config: config, each: each}
		return func(msg *nats.Msg, meta *nats.MsgMetadata) (bool, error) { return e.take(ctx, msg, meta) }
	})
}

// Scan calls each for the messages of a stream that are stored now and that config selects, in
// order, until each returns false or an error. It retries for about two seconds if the replica is
// behind. Messages that are stored during the call may or may not be among them. Each message is
// passed on once: a retry continues after the last one.
func (s *Store) Scan(ctx context.Context, stream string, config jetstream.ConsumerConfig, each Taker) error {
	return s.ScanAhead(ctx, stream, config, FollowAhead, each)
}

// ScanAhead is Scan with at most ahead messages in flight.
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

// UntilCaughtUp calls read, and again while the replica that was read is behind, at most
// behindTries times. The next consumer may be on another server.
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
	config.InactiveThreshold = Unused // also removes one that JetStream creates after the caller has stopped waiting for it
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
	in.missing = func() uint64 { return s.missing(ctx, in, config) }
	err = in.handTo(each, config.OptStartSeq)
	if in.unreadable > 0 {
		s.opts.Log.ErrorContext(ctx, "messages cannot be read: the stream's files are damaged; run sluice doctor --deep",
			slog.String("stream", stream), slog.Uint64("messages", in.unreadable))
	}
	return err
}

// inflow receives the messages of a consumer one at a time. The caller of Follow reads last, left
// and unreadable; only take runs elsewhere.
type inflow struct {
	ctx  context.Context //nolint:containedctx // of the call of Follow that it belongs to
	msgs chan *nats.Msg
	end  context.CancelCauseFunc
	stop func()
	last uint64 // consumer sequence of the last message that arrived
	seq  uint64 // its sequence in the stream
	left uint64 // messages that were announced and have not arrived

	stream     string
	idle       func() bool   // whether the consumer has delivered all messages that it can read
	missing    func() uint64 // messages that are stored and were not delivered
	unreadable uint64        // messages that were announced and cannot be read
}

// missing returns how many messages that config selects are stored behind those that arrived; 0 if
// that is unknown. Those that were removed after they were announced are not stored any more.
func (s *Store) missing(ctx context.Context, in *inflow, config jetstream.ConsumerConfig) uint64 {
	lasts := config.DeliverPolicy == jetstream.DeliverLastPerSubjectPolicy
	if !lasts && in.seq > 0 {
		config.DeliverPolicy, config.OptStartSeq, config.OptStartTime = jetstream.DeliverByStartSequencePolicy, in.seq+1, nil
	}
	consumer, err := s.js.CreateConsumer(ctx, in.stream, config)
	if err != nil {
		return 0
	}
	info := consumer.CachedInfo()
	s.TidyUp(ctx, in.stream, info.Name)
	if lasts {
		return info.NumPending - min(info.NumPending, in.last)
	}
	return info.NumPending
}

// openInflow starts requesting messages of the consumer, of which at most ahead are requested and
// not received.
func (s *Store) openInflow(ctx context.Context, info *jetstream.ConsumerInfo, ahead int) (*inflow, error) {
	in := &inflow{msgs: make(chan *nats.Msg), stream: info.Stream}
	in.ctx, in.end = context.WithCancelCause(ctx)
	var err error
	in.stop, err = s.pull(info, s.followPace(ahead), in.take, func(err error) {
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

// followPace returns the limits of the requests to the consumer of a reader. The readers of an
// embedded server wait longer for its heartbeats. It cannot be lost without its connections, but it
// may be too busy to send them in time, and new consumers for all readers would keep it busy.
func (s *Store) followPace(most int) pace {
	p := pace{most: most, expiry: followExpiry, heartbeat: followHeartbeat, silence: 2 * followHeartbeat, early: followEarly}
	if s.opts.Conn != nil {
		p.heartbeat, p.silence = pullHeartbeat, pullSilence
	}
	return p
}

func (in *inflow) take(msg *nats.Msg) {
	select {
	case in.msgs <- msg:
	case <-in.ctx.Done():
	}
}

// next waits for the next message. It returns errSilence if silence fires first.
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
		if err == nil {
			in.seq = meta.Sequence.Stream
		}
		return msg, meta, err
	case <-silence:
		return nil, nil, errSilence
	case <-in.ctx.Done():
		return nil, nil, context.Cause(in.ctx)
	}
}

// handTo calls each for messages until it returns false or an error. Messages before start come
// from a replica that is behind: its consumer starts at the end of the replica.
//
// The server counts an unreadable message as pending and never delivers it: once the consumer is
// idle, the end is reached.
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

// hand calls each for a message that arrived. It skips one before start, unless no more are
// pending: then it calls each without a message.
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

// silent calls each without a message if none arrives because the remaining ones cannot be read, or
// were removed. A message that is stored meanwhile is pending, and no missing one.
func (in *inflow) silent(each Taker) (more bool, err error) {
	if in.left == 0 || !in.idle() {
		return true, nil
	}
	missing := in.missing()
	if !in.idle() {
		return true, nil
	}
	in.unreadable, in.left = in.unreadable+missing, 0
	return each(nil, nil)
}

func (in *inflow) close() {
	in.end(nil)
	in.stop()
}

// UntilReconnect returns a context that ends with errReconnect when the connection is replaced: a
// consumer in memory may be lost then, and only the missing heartbeats would show it. The caller
// must call the returned function.
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

// TidyUp deletes a consumer that is no longer read. If that fails, the server deletes it after it
// was unused for the duration Unused.
func (s *Store) TidyUp(ctx context.Context, stream, consumer string) {
	ctx, cancel := context.WithTimeout(shutdown.Lasting(ctx), TidyUpTimeout)
	defer cancel()
	_ = s.js.DeleteConsumer(ctx, stream, consumer) // see above
}
