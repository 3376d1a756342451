package deliverystore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// ackWait is the delay of deliveries that requeue has negatively acknowledged with a delay, if it
// fails before the second acknowledgement.
const ackWait = 30 * time.Second

// openTimeout is the time limit for opening a source, which reads the events between the ack floor
// and the last delivery.
const openTimeout = time.Minute

// consumerTries is how many times creating a consumer is tried if other processes create and delete
// it concurrently.
const consumerTries = 5

// EnsureConsumers creates the durable consumers of the subscription, or adapts the existing ones to
// its window. They start at the From of the subscription, or, if they existed before, at their last
// known position. Codes: QuotaExceeded if NATS has no space for them; Unprocessable if it does not
// allow the window; Unavailable.
//
// For a subscription that the shared reader is to serve, it stores a position instead. It can be
// repeated, and replicas may call it at the same time.
func (s *Store) EnsureConsumers(ctx context.Context, sub *sluice.Subscription) error {
	if placed, err := s.ensurePosition(ctx, sub); placed || err != nil {
		return err
	}
	_, err := s.liveConsumers(ctx, sub)
	return natsstore.StoreError(ctx, err)
}

// RemoveConsumers deletes the durable consumers of the subscription, its lookout and its health.
// Missing ones are not an error. Lanes, attempts and dead letters stay.
func (s *Store) RemoveConsumers(ctx context.Context, sub *sluice.Subscription) error {
	return errors.Join(s.deleteConsumers(ctx, sub),
		s.lookouts().Delete(ctx, streams.LookoutKey(sub.ID), 0), s.healths().Delete(ctx, streams.HealthKey(sub.ID), 0))
}

// deleteConsumers deletes the durable consumers of the subscription. Missing ones are not an error.
func (s *Store) deleteConsumers(ctx context.Context, sub *sluice.Subscription) error {
	return s.deleteConsumersFrom(ctx, sub, 0)
}

// deleteConsumersFrom is deleteConsumers without the first i consumers.
func (s *Store) deleteConsumersFrom(ctx context.Context, sub *sluice.Subscription, i int) error {
	var errs []error
	for _, name := range streams.Consumers(sub.ID, 2)[i:] {
		err := s.core.JetStream().DeleteConsumer(ctx, s.core.Names().EventsStream(sub.Namespace), name)
		if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) && !errors.Is(err, jetstream.ErrStreamNotFound) {
			errs = append(errs, fmt.Errorf("delete consumer %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// liveConsumers returns the consumers of the subscription and creates the missing ones. If the
// subscription has ended in the meantime, liveConsumers deletes them again, because nothing else
// would, and returns code NotFound.
//
// The replica of a subscription and a change of it may call it concurrently. Calls are serialized
// per subscription, because the behavior of the NATS server is unpredictable if a consumer is
// deleted and created concurrently.
func (s *Store) liveConsumers(ctx context.Context, sub *sluice.Subscription) ([]jetstream.Consumer, error) {
	release, err := s.alone(ctx, sub.ID)
	if err != nil {
		return nil, err
	}
	defer release()
	all, err := s.consumers(ctx, sub)
	if err != nil && ctx.Err() == nil {
		return nil, err
	}
	limit, cancel := context.WithTimeout(shutdown.Lasting(ctx), natsstore.TidyUpTimeout) // also if ctx has ended
	defer cancel()
	now, _, failed := s.core.Subscriptions().Get(limit, sub.ID)
	if sluice.CodeOf(failed) == sluice.NotFound || failed == nil && now.State == sluice.Cancelled {
		return nil, errors.Join(hasEnded(sub), s.RemoveConsumers(limit, sub))
	}
	return all, errors.Join(err, failed)
}

// alone waits until no other caller in this process creates consumers of the subscription, and
// locks out others until release is called.
func (s *Store) alone(ctx context.Context, id string) (release func(), err error) {
	for {
		s.mu.Lock()
		other := s.making[id]
		if other == nil {
			made := make(chan struct{})
			s.making[id] = made
			s.mu.Unlock()
			return func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				delete(s.making, id)
				close(made)
			}, nil
		}
		s.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, fmt.Errorf("consumers of %s: %w", id, ctx.Err())
		}
	}
}

func (s *Store) consumers(ctx context.Context, sub *sluice.Subscription) ([]jetstream.Consumer, error) {
	var all []jetstream.Consumer
	for i, want := range s.core.Names().PushConsumers(sub) {
		c, err := s.oneConsumer(ctx, sub, i, want)
		if err != nil {
			return nil, fmt.Errorf("consumer %s: %w", want.Name, err)
		}
		all = append(all, c)
	}
	return all, nil
}

// oneConsumer returns a consumer, and creates it if it is missing. It retries if another process
// does so concurrently.
func (s *Store) oneConsumer(ctx context.Context, sub *sluice.Subscription, i int, want streams.Consumer) (c jetstream.Consumer, err error) {
	for range consumerTries {
		c, err = s.consumer(ctx, sub, i, want)
		if errors.Is(err, jetstream.ErrConsumerNotFound) {
			c, err = s.makeConsumer(ctx, sub, i, want)
		}
		if !errors.Is(err, jetstream.ErrConsumerExists) && !errors.Is(err, jetstream.ErrConsumerDoesNotExist) {
			break
		}
	}
	return c, err
}

// consumer returns the existing consumer of the subscription. It deletes one that an earlier
// subscription with the same ID has left, and those after it: they would deliver the events of the
// earlier subscription, whose pattern may have had more filters.
func (s *Store) consumer(ctx context.Context, sub *sluice.Subscription, i int, want streams.Consumer) (jetstream.Consumer, error) {
	c, err := s.core.JetStream().Consumer(ctx, want.Stream, want.Name)
	if err != nil {
		return nil, err
	}
	config := c.CachedInfo().Config
	if config.Metadata[metaSince] != since(sub) {
		if err := s.deleteConsumersFrom(ctx, sub, i); err != nil {
			return nil, err
		}
		return nil, jetstream.ErrConsumerNotFound
	}
	if config.MaxAckPending == want.MaxPending {
		return c, nil
	}
	config.MaxAckPending, config.Description = want.MaxPending, want.Description
	return s.core.JetStream().UpdateConsumer(ctx, want.Stream, config)
}

// makeConsumer creates a missing consumer. If it existed before, it was deleted by another program:
// then it starts after the floor of the last look.
func (s *Store) makeConsumer(ctx context.Context, sub *sluice.Subscription, i int, want streams.Consumer) (jetstream.Consumer, error) {
	l, _, err := s.lookout(ctx, sub)
	if err != nil {
		return nil, err
	}
	last, err := s.log.LastSeq(ctx, sub.Namespace)
	if err != nil {
		return nil, err
	}
	m, known := l.mark(i)
	switch {
	case m.Floor > last || want.Start.Kind == sluice.StartSeq && want.Start.Seq > last+1:
		want.Start = sluice.StartAt{Kind: sluice.StartSeq, Seq: 1} // it is another log with the same name
	case known && m.Floor > 0 && (want.Start.Kind != sluice.StartSeq || m.Floor >= want.Start.Seq):
		want.Start = sluice.StartAt{Kind: sluice.StartSeq, Seq: m.Floor + 1}
	}
	if known && m != (mark{}) { // a look may store the mark of a new subscription before its consumer is created
		s.core.Log().WarnContext(ctx, "consumer was removed and is recreated",
			slog.String("consumer", want.Name), slog.Uint64("from", want.Start.Seq))
	}
	return s.core.JetStream().CreateConsumer(ctx, want.Stream, consumerConfig(sub, want))
}

// checkAlive returns an error with code NotFound if the subscription has ended: a replica that
// learns of that late must not create its consumers again.
func (s *Store) checkAlive(ctx context.Context, sub *sluice.Subscription) error {
	now, _, err := s.core.Subscriptions().Get(ctx, sub.ID)
	if err != nil {
		return err
	}
	if now.State == sluice.Cancelled || !now.Began().Equal(sub.Began()) {
		return hasEnded(sub)
	}
	return nil
}

func hasEnded(sub *sluice.Subscription) error {
	return sluice.Errorf(sluice.NotFound, "subscription %q has ended", sub.ID)
}

// metaSince is the metadata key of a consumer for the time at which its subscription started.
const metaSince = "sluice-since"

func since(sub *sluice.Subscription) string { return sub.Began().UTC().Format(time.RFC3339Nano) }

func consumerConfig(sub *sluice.Subscription, want streams.Consumer) jetstream.ConsumerConfig {
	config := jetstream.ConsumerConfig{
		Metadata:      map[string]string{metaSince: since(sub)},
		Durable:       want.Name,
		Description:   want.Description,
		FilterSubject: want.Filter.Subject,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       want.AckWait,
		MaxDeliver:    want.MaxDeliver,
		MaxAckPending: want.MaxPending,
		HeadersOnly:   want.HeadersOnly,
	}
	switch want.Start.Kind {
	case sluice.StartSeq:
		config.DeliverPolicy, config.OptStartSeq = jetstream.DeliverByStartSequencePolicy, max(1, want.Start.Seq)
	case sluice.StartTime:
		config.DeliverPolicy, config.OptStartTime = jetstream.DeliverByStartTimePolicy, &want.Start.Time
	case sluice.StartLastPerPath:
		config.DeliverPolicy = jetstream.DeliverLastPerSubjectPolicy
	}
	return config
}

// Source passes on the deliveries of a subscription. At most a window of them is unacknowledged for
// each consumer. It ends by itself when the connection is replaced, a delivery is missing or the
// consumer fails; the caller closes it in each case and opens another.
type Source struct {
	store   *Store
	sub     *sluice.Subscription
	seen    []uint64 // last delivered sequence of each consumer when the source was opened
	floor   uint64
	acks    []*ackTracker
	out     chan *model.Delivery
	done    chan struct{} // closed when the source ends
	once    sync.Once
	running []func() // each stops a puller
	log     *slog.Logger

	watching sync.WaitGroup
}

// OpenSource opens the source of the subscription. Earlier deliveries that were not acknowledged
// come first, in the order of the log: otherwise they would come when their ack wait is over, after
// later ones of the same path.
//
// The source ends when the connection is replaced: acknowledgements and answers that were in flight
// are lost, and their deliveries would be repeated when the ack wait is over, long after the engine
// has forgotten that they were settled.
func (s *Store) OpenSource(ctx context.Context, sub *sluice.Subscription) (*Source, error) {
	broken := s.core.Reconnected()
	ctx, stop := s.core.UntilReconnect(ctx)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	if err := s.checkAlive(ctx, sub); err != nil {
		return nil, err
	}
	if err := s.unshare(ctx, sub); err != nil {
		return nil, err
	}
	consumers, err := s.liveConsumers(ctx, sub)
	if err != nil {
		return nil, natsstore.StoreError(ctx, err)
	}
	known, _, err := s.lookout(ctx, sub)
	if err != nil {
		return nil, err
	}
	src := &Source{store: s, sub: sub, out: make(chan *model.Delivery), done: make(chan struct{}), floor: math.MaxUint64, log: s.core.Log()}
	src.watching.Go(func() {
		select {
		case <-broken:
			src.stop()
		case <-src.done:
		}
	})
	for i, c := range consumers {
		info, err := s.requeue(ctx, sub.Namespace, c)
		if err != nil {
			src.Close()
			return nil, fmt.Errorf("take over consumer of %s: %w", sub.ID, err)
		}
		src.seen = append(src.seen, info.Delivered.Stream)
		src.floor = min(src.floor, floorOf(info))
		m, _ := known.mark(i)
		h := newAckTracker(info, sub.Policy.MaxPending(), m)
		src.acks = append(src.acks, h)
		stop, err := s.core.PullDeliveries(info, max(2, sub.Policy.MaxPending()), src.hand(h, info.Delivered.Consumer), src.trouble)
		if err != nil {
			src.Close()
			return nil, fmt.Errorf("consume %s: %w", sub.ID, err)
		}
		src.running = append(src.running, stop)
	}
	return src, nil
}

// floorOf returns the sequence after which all further deliveries of a consumer are.
func floorOf(info *jetstream.ConsumerInfo) uint64 {
	switch {
	case info.NumAckPending > 0:
		return info.AckFloor.Stream // the deliveries after it are repeated
	case info.NumPending > 0:
		return info.Delivered.Stream
	}
	return math.MaxUint64 // further deliveries are of events that are not stored yet
}

// requeue has all unacknowledged deliveries repeated, in the order of the log. It returns when the
// server has queued them before new events.
//
// A delivery that is already in the redelivery queue of the server keeps its place there,
// regardless of a negative acknowledgement. One with a delay removes it from the queue first.
func (s *Store) requeue(ctx context.Context, ns string, c jetstream.Consumer) (*jetstream.ConsumerInfo, error) {
	info, err := s.unasked(ctx, c)
	if err != nil || info.NumAckPending == 0 {
		return info, err
	}
	var subjects []string
	var last uint64
	err = s.core.Scan(ctx, info.Stream, jetstream.ConsumerConfig{
		FilterSubject: info.Config.FilterSubject,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: info.AckFloor.Stream + 1, HeadersOnly: true,
	}, func(_ *nats.Msg, meta *nats.MsgMetadata) (bool, error) {
		last = meta.Sequence.Stream
		subjects = append(subjects, ackSubject(info, last))
		return last < info.Delivered.Stream, nil
	})
	if err == nil && last < info.Delivered.Stream {
		err = s.checkGone(ctx, ns, info.Delivered.Stream)
	}
	if err != nil {
		return info, err
	}
	for _, answer := range []string{"-NAK " + ackWait.String(), "-NAK"} {
		for _, subject := range subjects {
			if err := s.core.Conn().Publish(subject, []byte(answer)); err != nil {
				return info, err
			}
		}
	}
	if len(subjects) > 0 { // acknowledgements are processed in order: when this one is, all are
		_, err = natsstore.Once(ctx, func(ctx context.Context) (*nats.Msg, error) {
			return s.core.Conn().RequestWithContext(ctx, subjects[len(subjects)-1], []byte("-NAK"))
		})
	}
	return info, err
}

// unasked waits until no request of an earlier source is pending at an external server, and returns
// the state of the consumer. For up to two seconds, a server with leaf nodes or gateways sends
// deliveries to a request of a disconnected client, thousands of times, and the next source misses
// each of them. unasked waits at most for the lifetime of a request, because another source may
// still be running.
func (s *Store) unasked(ctx context.Context, c jetstream.Consumer) (*jetstream.ConsumerInfo, error) {
	for until := time.Now().Add(s.core.RequestsLast()); ; {
		info, err := natsstore.Asked(ctx, c.Info)
		if err != nil || info.NumWaiting == 0 || time.Now().After(until) {
			return info, err
		}
		select {
		case <-time.After(unaskedAgain):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// unaskedAgain is the interval at which unasked reads the state of the consumer.
const unaskedAgain = 100 * time.Millisecond

// checkGone returns an error if the event is still stored: then the replica that was read before is
// behind.
func (s *Store) checkGone(ctx context.Context, ns string, seq uint64) error {
	_, err := s.log.Event(ctx, ns, seq)
	if code := sluice.CodeOf(err); code == sluice.NotFound || code == sluice.WindowExceeded {
		return nil
	} else if code == sluice.Internal || code == sluice.Unavailable {
		return err
	}
	return fmt.Errorf("event %d was found only on retry: %w", seq, natsstore.ErrGap)
}

// ackSubject returns the subject to which a delivery of the sequence is acknowledged. The consumer
// sequence only has to be between the ack floor and the last one; the server ignores the rest.
func ackSubject(info *jetstream.ConsumerInfo, seq uint64) string {
	return "$JS.ACK." + info.Stream + "." + info.Name + ".1." + strconv.FormatUint(seq, 10) + "." +
		strconv.FormatUint(info.Delivered.Consumer, 10) + ".0.0"
}

// Deliveries returns the channel of the deliveries. It is never closed: receive from it and from
// Ended. It has no buffer.
func (s *Source) Deliveries() <-chan *model.Delivery { return s.out }

// Ended returns a channel that is closed when the source has ended.
func (s *Source) Ended() <-chan struct{} { return s.done }

// Exhausted returns nil, because a log has no end.
func (s *Source) Exhausted() <-chan struct{} { return nil }

// Seen returns the highest sequence that the consumer of the path had delivered before the source
// was opened; for an empty path, that of the first consumer.
func (s *Source) Seen(path sluice.Path) uint64 {
	if len(s.seen) == 2 && path != "" && len(path.Segments()) == len(s.sub.Pattern.Segments())-1 {
		return s.seen[1]
	}
	return s.seen[0]
}

// Floor returns the sequence after which all deliveries of the source are. A consumer without
// pending and unacknowledged events delivers none of the stored events. math.MaxUint64 if no
// consumer has anything pending: then every delivery is of an event that is stored later.
func (s *Source) Floor() uint64 { return s.floor }

// Close ends the source. Deliveries that were not acknowledged are repeated later. Close waits for
// the delivery that is being passed on, and may be called again. Receipts stay usable.
func (s *Source) Close() {
	s.stop()
	s.watching.Wait()
	for _, stop := range s.running {
		stop()
	}
}

// stop ends the source without waiting: it passes on nothing more.
func (s *Source) stop() { s.once.Do(func() { close(s.done) }) }

// hand returns the function that passes on deliveries. A consumer numbers its deliveries, starting
// after last. If a number is missing, another reader received that delivery or it was lost. It
// would be repeated later, after others of its path. Therefore the source ends and has to be opened
// again.
func (s *Source) hand(h *ackTracker, last uint64) func(*nats.Msg) {
	return func(msg *nats.Msg) {
		meta, err := msg.Metadata()
		if err != nil || meta.Sequence.Consumer != last+1 {
			s.log.Info("delivery missing: reopening the source", slog.String("subscription", s.sub.ID), slog.Any("error", err))
			s.stop()
			return
		}
		last++
		h.handed(meta)
		d := s.delivery(h, msg, meta)
		if d.Event.Path != "" && d.Event.Path.Reserved() && !s.sub.Pattern.Match(d.Event.Path) {
			s.passOver(d) // immediately: if it stayed unacknowledged when the source is closed, it would count as undelivered
			return
		}
		select {
		case s.out <- d:
		case <-s.done:
		}
	}
}

// passOver acknowledges a delivery that matches the filter but not the pattern. If that fails, the
// delivery is repeated.
func (s *Source) passOver(d *model.Delivery) {
	if err := d.Receipt.Ack(); err != nil {
		s.log.Debug("acknowledgement lost", slog.String("subscription", s.sub.ID), slog.Any("error", err))
	}
}

// trouble ends the source after an error, because there would be no more deliveries.
func (s *Source) trouble(err error) {
	s.log.Debug("consumer", slog.String("subscription", s.sub.ID), slog.Any("error", err))
	s.stop()
}

func (s *Source) delivery(h *ackTracker, msg *nats.Msg, meta *nats.MsgMetadata) *model.Delivery {
	d := &model.Delivery{Redelivered: meta.NumDelivered > 1, Receipt: receipt{s.store.core.Conn(), msg.Reply, h, meta.Sequence.Stream}}
	d.Event, d.Err = s.store.log.EventIn(msg, meta)
	return d
}

// receipt implements the receipt of a delivery with its message.
type receipt struct {
	nc    *nats.Conn
	reply string
	acks  *ackTracker
	seq   uint64
}

// Ack acknowledges the delivery to the server. It does not wait for the server: an acknowledgement
// that is lost leads to a second delivery. It may be called from any goroutine, and after the
// source was closed.
func (r receipt) Ack() error {
	r.acks.acknowledged(r.seq)
	return r.nc.Publish(r.reply, []byte("+ACK"))
}

// Hold restarts the ack wait of the delivery. Call it more often than the ack wait of the consumer
// while an attempt runs.
func (r receipt) Hold() error { return r.nc.Publish(r.reply, []byte("+WPI")) }
