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

// ackWait is how long deliveries that requeue sets aside would wait if it failed half-way.
const ackWait = 30 * time.Second

// openTimeout is how long opening a source may take; it reads the events between the ack floor
// and the last delivery.
const openTimeout = time.Minute

// consumerTries is how often a consumer is made that others make and remove at the same time.
const consumerTries = 5

// EnsureConsumers makes the subscription's durable consumers, or brings those that exist to
// its window. Where they start is the subscription's From, or where they were if they had been
// there before. Codes: QuotaExceeded if NATS has no room for them; Unprocessable if it does not
// allow the window; Unavailable.
//
// A subscription that is to be served by the shared reader gets a position instead.
func (s *Store) EnsureConsumers(ctx context.Context, sub *sluice.Subscription) error {
	if placed, err := s.ensurePosition(ctx, sub); placed || err != nil {
		return err
	}
	_, err := s.liveConsumers(ctx, sub)
	return natsstore.StoreError(ctx, err)
}

// RemoveConsumers deletes the subscription's durable consumers and the records about them;
// missing ones are no error.
func (s *Store) RemoveConsumers(ctx context.Context, sub *sluice.Subscription) error {
	return errors.Join(s.deleteConsumers(ctx, sub),
		s.lookouts().Delete(ctx, streams.LookoutKey(sub.ID), 0), s.healths().Delete(ctx, streams.HealthKey(sub.ID), 0))
}

// deleteConsumers deletes the subscription's durable consumers; missing ones are no error.
func (s *Store) deleteConsumers(ctx context.Context, sub *sluice.Subscription) error {
	var errs []error
	for _, name := range streams.Consumers(sub.ID, 2) {
		err := s.core.JetStream().DeleteConsumer(ctx, s.core.Names().EventsStream(sub.Namespace), name)
		if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) && !errors.Is(err, jetstream.ErrStreamNotFound) {
			errs = append(errs, fmt.Errorf("delete consumer %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// liveConsumers returns the subscription's consumers and makes those that are missing. If it has
// ended meanwhile nothing would remove them any more, so they go again. Code NotFound.
//
// The replica of a subscription and a change of it ask for them at the same time, and the
// server's answers are unpredictable if one deletes a consumer and one makes it.
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
	limit, cancel := context.WithTimeout(shutdown.Lasting(ctx), natsstore.TidyUpTimeout) // also if the caller ends because of it
	defer cancel()
	now, _, failed := s.core.Subscriptions().Get(limit, sub.ID)
	if sluice.CodeOf(failed) == sluice.NotFound || failed == nil && now.State == sluice.Cancelled {
		return nil, errors.Join(hasEnded(sub), s.RemoveConsumers(limit, sub))
	}
	return all, errors.Join(err, failed)
}

// alone waits until no other caller in this process makes consumers of the subscription.
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

// oneConsumer returns a consumer, and makes it if it is missing, again if another process does so
// at the same time.
func (s *Store) oneConsumer(ctx context.Context, sub *sluice.Subscription, i int, want streams.Consumer) (c jetstream.Consumer, err error) {
	for range consumerTries {
		c, err = s.consumer(ctx, sub, want)
		if errors.Is(err, jetstream.ErrConsumerNotFound) {
			c, err = s.makeConsumer(ctx, sub, i, want)
		}
		if !errors.Is(err, jetstream.ErrConsumerExists) && !errors.Is(err, jetstream.ErrConsumerDoesNotExist) {
			break
		}
	}
	return c, err
}

// consumer returns the consumer if it is there and the subscription's own: one that was left
// behind by an earlier subscription of the same id would hand out the events of that one.
func (s *Store) consumer(ctx context.Context, sub *sluice.Subscription, want streams.Consumer) (jetstream.Consumer, error) {
	c, err := s.core.JetStream().Consumer(ctx, want.Stream, want.Name)
	if err != nil {
		return nil, err
	}
	config := c.CachedInfo().Config
	if config.Metadata[metaSince] != since(sub) {
		if err := s.core.JetStream().DeleteConsumer(ctx, want.Stream, want.Name); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
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

// makeConsumer makes a consumer that is missing. If it was there before, it was removed from outside:
// it begins again where the last look found that everything was settled or parked.
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
		want.Start = sluice.StartAt{Kind: sluice.StartSeq, Seq: 1} // it is another log under the same name
	case known && m.Floor > 0 && (want.Start.Kind != sluice.StartSeq || m.Floor >= want.Start.Seq):
		want.Start = sluice.StartAt{Kind: sluice.StartSeq, Seq: m.Floor + 1}
	}
	if known && m != (mark{}) { // a new subscription may be looked at before its consumer is made
		s.core.Log().WarnContext(ctx, "consumer was removed and is recreated",
			slog.String("consumer", want.Name), slog.Uint64("from", want.Start.Seq))
	}
	return s.core.JetStream().CreateConsumer(ctx, want.Stream, consumerConfig(sub, want))
}

// checkAlive returns an error (NotFound) if the subscription has ended: a replica that is told of it
// late must not make its consumers again.
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

// metaSince is the consumer's note of when its subscription began.
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

// Source hands over a subscription's deliveries. It has no more of them unacknowledged than
// the window for each consumer.
type Source struct {
	store   *Store
	sub     *sluice.Subscription
	seen    []uint64 // of each consumer, when it was opened
	floor   uint64
	acks    []*ackTracker
	out     chan *model.Delivery
	done    chan struct{} // closed by Close
	once    sync.Once
	running []func() // each stops a puller
	log     *slog.Logger

	watching sync.WaitGroup
}

// OpenSource opens the subscription's source. Deliveries that were handed out before and not
// acknowledged come first, in the order of the log: without that they would come when their
// ack wait is over, behind later ones of their path.
//
// The source ends with the connection that it was opened on: acknowledgements and answers that
// were on their way then are lost, and their deliveries would come again when the ack wait is
// over, long after it was forgotten that they were settled.
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

// floorOf returns the sequence behind which all events lie that a consumer hands out.
func floorOf(info *jetstream.ConsumerInfo) uint64 {
	switch {
	case info.NumAckPending > 0:
		return info.AckFloor.Stream // those above come again
	case info.NumPending > 0:
		return info.Delivered.Stream
	}
	return math.MaxUint64 // what comes is not stored yet
}

// requeue asks for everything that was handed out and not acknowledged, in the order of the
// log. It returns when the server has put it in front of new events.
//
// A delivery that the server is about to hand out again already keeps its place there, in spite of the
// asked order; an answer with a delay takes it out first.
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
	if len(subjects) > 0 { // answers are taken in their order: once this one is, all are
		_, err = natsstore.Once(ctx, func(ctx context.Context) (*nats.Msg, error) {
			return s.core.Conn().RequestWithContext(ctx, subjects[len(subjects)-1], []byte("-NAK"))
		})
	}
	return info, err
}

// unasked returns the consumer's state once no request of an earlier source waits at a server elsewhere. A server with leaf nodes
// or gateways hands deliveries to a request of a client that is gone for up to two seconds, thousands of times, and each counts
// as one that the next source misses. Requests of a source that still runs are not waited for longer than theirs last.
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

// unaskedAgain is the interval at which a consumer's requests are counted.
const unaskedAgain = 100 * time.Millisecond

// checkGone returns an error if the event is still there: the replica that was asked before lagged behind.
func (s *Store) checkGone(ctx context.Context, ns string, seq uint64) error {
	_, err := s.log.Event(ctx, ns, seq)
	if code := sluice.CodeOf(err); code == sluice.NotFound || code == sluice.WindowExceeded {
		return nil
	} else if code == sluice.Internal || code == sluice.Unavailable {
		return err
	}
	return fmt.Errorf("event %d was found only on retry: %w", seq, natsstore.ErrGap)
}

// ackSubject returns where a delivery of the sequence is answered. The consumer sequence only
// has to lie between the ack floor and the last one; the rest is not looked at.
func ackSubject(info *jetstream.ConsumerInfo, seq uint64) string {
	return "$JS.ACK." + info.Stream + "." + info.Name + ".1." + strconv.FormatUint(seq, 10) + "." +
		strconv.FormatUint(info.Delivered.Consumer, 10) + ".0.0"
}

// Deliveries returns where deliveries come.
func (s *Source) Deliveries() <-chan *model.Delivery { return s.out }

// Ended returns a channel that is closed when the source cannot go on.
func (s *Source) Ended() <-chan struct{} { return s.done }

// Exhausted returns nil: a log goes on.
func (s *Source) Exhausted() <-chan struct{} { return nil }

// Seen returns the highest sequence that the path's consumer had handed out before the source
// was opened; with an empty path, of the first consumer.
func (s *Source) Seen(path sluice.Path) uint64 {
	if len(s.seen) == 2 && path != "" && len(path.Segments()) == len(s.sub.Pattern.Segments())-1 {
		return s.seen[1]
	}
	return s.seen[0]
}

// Floor returns the sequence behind which all events lie that come. A consumer for which nothing waits and nothing is unacknowledged
// has none of the events that are stored.
func (s *Source) Floor() uint64 { return s.floor }

// Close ends the source. Deliveries that were not acknowledged come again.
func (s *Source) Close() {
	s.stop()
	s.watching.Wait()
	for _, stop := range s.running {
		stop()
	}
}

// stop lets the source hand out nothing more.
func (s *Source) stop() { s.once.Do(func() { close(s.done) }) }

// hand returns the function that hands deliveries out. A consumer counts what it delivers, from last on: if
// a number is missing, another reader got that delivery or it was lost on the way. It would
// come again later, behind others of its path, so the source ends and has to be opened anew.
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
			s.passOver(d) // at once: left lying when the source is closed it would count as waiting
			return
		}
		select {
		case s.out <- d:
		case <-s.done:
		}
	}
}

// passOver settles a delivery that the filter lets through and the pattern does not. If that fails
// now, it comes again.
func (s *Source) passOver(d *model.Delivery) {
	if err := d.Receipt.Ack(); err != nil {
		s.log.Debug("acknowledgement lost", slog.String("subscription", s.sub.ID), slog.Any("error", err))
	}
}

// trouble ends the source: nothing more would come.
func (s *Source) trouble(err error) {
	s.log.Debug("consumer", slog.String("subscription", s.sub.ID), slog.Any("error", err))
	s.stop()
}

func (s *Source) delivery(h *ackTracker, msg *nats.Msg, meta *nats.MsgMetadata) *model.Delivery {
	d := &model.Delivery{Redelivered: meta.NumDelivered > 1, Receipt: receipt{s.store.core.Conn(), msg.Reply, h, meta.Sequence.Stream}}
	d.Event, d.Err = s.store.log.EventIn(msg, meta)
	return d
}

// receipt is a message as the engines see it.
type receipt struct {
	nc    *nats.Conn
	reply string
	acks  *ackTracker
	seq   uint64
}

// Ack tells the server that the delivery is settled.
func (r receipt) Ack() error {
	r.acks.acknowledged(r.seq)
	return r.nc.Publish(r.reply, []byte("+ACK"))
}

// Hold starts the delivery's ack wait again.
func (r receipt) Hold() error { return r.nc.Publish(r.reply, []byte("+WPI")) }
