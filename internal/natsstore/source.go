package natsstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// EnsureConsumers makes the subscription's durable consumers, or brings those that exist to
// its window. Where they start is the subscription's From.
func (s *Store) EnsureConsumers(ctx context.Context, sub *sluice.Subscription) error {
	_, err := s.consumers(ctx, sub)
	return err
}

// RemoveConsumers deletes the subscription's durable consumers; missing ones are no error.
func (s *Store) RemoveConsumers(ctx context.Context, sub *sluice.Subscription) error {
	var errs []error
	for _, name := range streams.Consumers(sub.ID, 2) {
		err := s.js.DeleteConsumer(ctx, streams.EventsStream(sub.Namespace), name)
		if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) && !errors.Is(err, jetstream.ErrStreamNotFound) {
			errs = append(errs, fmt.Errorf("delete consumer %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

func (s *Store) consumers(ctx context.Context, sub *sluice.Subscription) ([]jetstream.Consumer, error) {
	var all []jetstream.Consumer
	for _, want := range streams.PushConsumers(sub) {
		c, err := s.consumer(ctx, want)
		if err != nil {
			return nil, fmt.Errorf("consumer %s: %w", want.Name, err)
		}
		all = append(all, c)
	}
	return all, nil
}

func (s *Store) consumer(ctx context.Context, want streams.Consumer) (jetstream.Consumer, error) {
	c, err := s.js.Consumer(ctx, want.Stream, want.Name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return s.js.CreateConsumer(ctx, want.Stream, consumerConfig(want))
	}
	if err != nil {
		return nil, err
	}
	config := c.CachedInfo().Config
	if config.MaxAckPending == want.MaxPending {
		return c, nil
	}
	config.MaxAckPending = want.MaxPending
	return s.js.UpdateConsumer(ctx, want.Stream, config)
}

func consumerConfig(want streams.Consumer) jetstream.ConsumerConfig {
	config := jetstream.ConsumerConfig{
		Durable:       want.Name,
		Description:   want.Description,
		FilterSubject: want.Filter.Subject,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       want.AckWait,
		MaxDeliver:    want.MaxDeliver,
		MaxAckPending: want.MaxPending,
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
	sub     *sluice.Subscription
	seen    []uint64 // of each consumer, when it was opened
	out     chan *sluice.Delivery
	done    chan struct{} // closed by Close
	once    sync.Once
	running []jetstream.ConsumeContext
	log     *slog.Logger
}

// OpenSource opens the subscription's source. Deliveries that were handed out before and not
// acknowledged come first, in the order of the log: without that they would come when their
// ack wait is over, behind later ones of their path.
func (s *Store) OpenSource(ctx context.Context, sub *sluice.Subscription) (*Source, error) {
	consumers, err := s.consumers(ctx, sub)
	if err != nil {
		return nil, err
	}
	src := &Source{sub: sub, out: make(chan *sluice.Delivery), done: make(chan struct{}), log: s.opts.Log}
	for _, c := range consumers {
		info, err := s.requeue(ctx, c)
		if err != nil {
			return nil, fmt.Errorf("take over consumer of %s: %w", sub.ID, err)
		}
		src.seen = append(src.seen, info.Delivered.Stream)
	}
	var ended sync.WaitGroup
	for _, c := range consumers {
		run, err := c.Consume(src.hand, jetstream.PullMaxMessages(max(2, sub.Policy.Window)), jetstream.ConsumeErrHandler(src.trouble))
		if err != nil {
			src.Close()
			return nil, fmt.Errorf("consume %s: %w", sub.ID, err)
		}
		src.running = append(src.running, run)
		ended.Go(func() { <-run.Closed() })
	}
	go func() { // ends with the consume contexts, which Close stops
		ended.Wait()
		close(src.out)
	}()
	return src, nil
}

// requeue asks for everything that was handed out and not acknowledged. It returns when the
// server has put it in front of what is new.
func (s *Store) requeue(ctx context.Context, c jetstream.Consumer) (*jetstream.ConsumerInfo, error) {
	info, err := c.Info(ctx)
	if err != nil || info.NumAckPending == 0 {
		return info, err
	}
	var last string
	err = s.scan(ctx, info.Stream, jetstream.ConsumerConfig{
		FilterSubject: info.Config.FilterSubject,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: info.AckFloor.Stream + 1, HeadersOnly: true,
	}, func(_ jetstream.Msg, meta *jetstream.MsgMetadata) (bool, error) {
		if meta.Sequence.Stream > info.Delivered.Stream {
			return false, nil
		}
		if last != "" {
			if err := s.nc.Publish(last, nak); err != nil {
				return false, err
			}
		}
		last = ackSubject(info, meta.Sequence.Stream)
		return true, nil
	})
	if err != nil || last == "" {
		return info, err
	}
	_, err = s.nc.RequestWithContext(ctx, last, nak)
	return info, err
}

var nak = []byte("-NAK") //nolint:gochecknoglobals // a constant, were slices allowed to be

// ackSubject returns where a delivery of the sequence is answered. The consumer sequence only
// has to lie between the ack floor and the last one; the rest is not looked at.
func ackSubject(info *jetstream.ConsumerInfo, seq uint64) string {
	return "$JS.ACK." + info.Stream + "." + info.Name + ".1." + strconv.FormatUint(seq, 10) + "." +
		strconv.FormatUint(info.Delivered.Consumer, 10) + ".0.0"
}

// Deliveries returns where deliveries come; it is closed when the source cannot go on.
func (s *Source) Deliveries() <-chan *sluice.Delivery { return s.out }

// Seen returns the highest sequence that the path's consumer had handed out before the source
// was opened; with an empty path, of the first consumer.
func (s *Source) Seen(path sluice.Path) uint64 {
	if len(s.seen) == 2 && path != "" && len(path.Segments()) == len(s.sub.Pattern.Segments())-1 {
		return s.seen[1]
	}
	return s.seen[0]
}

// Close ends the source. What it handed out and was not acknowledged comes again.
func (s *Source) Close() {
	s.once.Do(func() {
		close(s.done)
		for _, run := range s.running {
			run.Stop()
		}
		for _, run := range s.running {
			<-run.Closed()
		}
	})
}

func (s *Source) hand(msg jetstream.Msg) {
	d, err := delivery(msg)
	if err != nil {
		s.log.Warn("unreadable delivery", slog.String("subscription", s.sub.ID), slog.Any("error", err))
		return
	}
	select {
	case s.out <- d:
	case <-s.done:
	}
}

func (s *Source) trouble(run jetstream.ConsumeContext, err error) {
	s.log.Debug("consumer", slog.String("subscription", s.sub.ID), slog.Any("error", err))
	if errors.Is(err, jetstream.ErrConsumerDeleted) || errors.Is(err, jetstream.ErrConsumerNotFound) {
		run.Stop()
	}
}

func delivery(msg jetstream.Msg) (*sluice.Delivery, error) {
	meta, err := msg.Metadata()
	if err != nil {
		return nil, err
	}
	d := &sluice.Delivery{Redelivered: meta.NumDelivered > 1, Receipt: receipt{msg}}
	d.Event, d.Err = eventOf(msg.Subject(), msg.Headers(), msg.Data(), meta.Sequence.Stream, meta.Timestamp)
	return d, nil
}

// receipt is a message as the engines see it.
type receipt struct{ msg jetstream.Msg }

// Ack tells the server that the delivery is settled.
func (r receipt) Ack() error { return r.msg.Ack() }

// Hold starts the delivery's ack wait again.
func (r receipt) Hold() error { return r.msg.InProgress() }

// scan calls each for the messages of a stream that are stored now, in order, as config
// chooses them, until it returns false or an error.
func (s *Store) scan(ctx context.Context, stream string, config jetstream.ConsumerConfig,
	each func(jetstream.Msg, *jetstream.MsgMetadata) (more bool, err error),
) error {
	return s.follow(ctx, stream, config, func(msg jetstream.Msg, meta *jetstream.MsgMetadata) (bool, error) {
		if msg == nil {
			return false, nil
		}
		more, err := each(msg, meta)
		return more && meta.NumPending > 0, err
	})
}
