package eventlog

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// Codes of JetStream that nats.go has no name for.
const (
	codeWrongLastMsgID = 10070
	codeRollupFailed   = 10111
	codeBatchDuplicate = 10201
)

// MaxBatch is how many events are published at once at most.
const MaxBatch = 1000

// publishPatience is how long a publisher waits for the store: an unplanned change of leader
// takes five to eight seconds.
const publishPatience = 20 * time.Second

// Exact publishes for callers who choose their ids: an id that the log has under another type, or with other data, is
// Conflict instead of a duplicate, and nothing of the batch is stored. A retry sends the same event; one that
// differs is another event, whose publisher has to know that it was not stored. So is an event that the caller may not
// see: whether it says the same is not told.
type Exact struct {
	*Log

	Shows func(ctx context.Context, ev *sluice.Event) bool // whether the caller may see an event that is stored; nil: always
}

// Publish is Log.Publish; code Conflict, besides, as Exact says.
func (x Exact) Publish(ctx context.Context, ns string, events []sluice.Event) ([]sluice.Stored, error) {
	return x.publish(ctx, ns, events, func(ev *sluice.Event) bool { return x.Shows == nil || x.Shows(ctx, ev) })
}

// Publish stores events in the order given and says where they lie. Either all of them are
// stored or none. An id that the log took before, inside the namespace's dedup window, is not
// stored again: Duplicate is set and Seq is the place of the first. That goes for each event
// of a batch: those that are there are reported, the others are stored, all or none, so that
// a batch whose answer was lost can be sent again. While the store does not answer, the same
// ids are published again for up to 20 seconds; an event whose first answer was lost is then
// reported as duplicate of itself. The auth attributes of the events are believed from then on.
//
// Each event needs an id and a path. Codes: InvalidRequest; NotFound for the namespace;
// TooLarge; QuotaExceeded; Unavailable, and then it is not known whether they were stored.
func (l *Log) Publish(ctx context.Context, ns string, events []sluice.Event) ([]sluice.Stored, error) {
	return l.publish(ctx, ns, events, nil)
}

func (l *Log) publish(ctx context.Context, ns string, events []sluice.Event, exact func(*sluice.Event) bool) ([]sluice.Stored, error) {
	if err := sluice.CheckNamespaceName(ns); err != nil {
		return nil, natsstore.NamespaceMissing(ns)
	}
	if len(events) == 0 || len(events) > MaxBatch {
		return nil, sluice.Errorf(sluice.InvalidRequest, "%d events: publish 1 to %d at once", len(events), MaxBatch)
	}
	for i := range events {
		if err := checkEvent(&events[i]); err != nil {
			return nil, err
		}
	}
	b := newBatch(ns, events, l.stamps)
	b.exact = exact
	if err := b.check(); err != nil {
		return nil, err
	}
	wait := backoff.NewExponentialBackOff(backoff.WithInitialInterval(50*time.Millisecond),
		backoff.WithMaxInterval(2*time.Second), backoff.WithMaxElapsedTime(publishPatience))
	err := backoff.Retry(func() error {
		err := l.core.Writable() //nolint:contextcheck // it asks a context of the server's
		if err == nil {
			err = l.try(ctx, b)
		}
		return l.core.Retryable(ctx, err)
	}, backoff.WithContext(wait, ctx))
	if err != nil {
		return nil, fmt.Errorf("publish to %s: %w", ns, natsstore.StoreError(ctx, err))
	}
	return b.stored(), nil
}

// try makes one try to store the events that are not stored yet.
func (l *Log) try(ctx context.Context, b *batch) error {
	err := l.reachable(ctx)
	if err != nil {
		return err
	}
	switch fresh := b.fresh(); len(fresh) {
	case 0:
		return nil
	case 1:
		err = l.publishOne(ctx, b, fresh[0])
	default:
		err = l.publishBatch(ctx, b, fresh)
	}
	if errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrNoResponders) {
		if _, err := l.core.EventsInfo(ctx, b.ns); sluice.CodeOf(err) == sluice.NotFound {
			return err
		}
	}
	return err
}

// reachable waits for a connection, for as long as an answer is waited for. An event that is published without one is kept by the client, and sent
// when there is one again, long after it was given up: by then another replica has done it, and the log may have forgotten its id.
func (l *Log) reachable(ctx context.Context) error {
	again := l.core.Reconnected()
	if l.core.Conn().Status() != nats.RECONNECTING {
		return nil
	}
	limit := time.NewTimer(natsstore.RequestTimeout)
	defer limit.Stop()
	select {
	case <-again:
		return nil
	case <-limit.C:
		return nats.ErrConnectionReconnecting
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *Log) publishOne(ctx context.Context, b *batch, i int) error {
	ctx, cancel := l.core.WhileWritable(ctx)
	defer cancel()
	msg, err := b.message(i)
	if err != nil {
		return err
	}
	ack, err := l.core.JetStream().PublishMsg(ctx, msg)
	if err != nil {
		return l.tooLarge(err, msg)
	}
	if ack.Duplicate {
		if err := l.sameAs(ctx, b, i, ack.Sequence); err != nil {
			return err
		}
	}
	b.place(i, ack.Sequence)
	b.duplicate[i] = ack.Duplicate
	return nil
}

// tooLarge adds the limit, and the size of the largest message, to the error for one that NATS does
// not take; other errors are returned unchanged.
func (l *Log) tooLarge(err error, msgs ...*nats.Msg) error {
	if !errors.Is(err, nats.ErrMaxPayload) {
		return err
	}
	size, limit := 0, l.core.Conn().MaxPayload()
	for _, msg := range msgs {
		size = max(size, sizeOf(msg))
	}
	says := sluice.Errorf(sluice.TooLarge, "the event exceeds the size limit of the NATS server, %d bytes (max_payload); send less data or a reference to it", limit)
	return fmt.Errorf("%w: %w", says.With("limit", limit).With("size", size), err)
}

// sameAs returns an error (Conflict) if the message at a sequence, which has the event's id, is on another path: a publisher
// on one path could else keep out events on others, by taking their ids. Of an exact batch it also is one
// if that says something else. A message that is no longer kept cannot be told apart.
func (l *Log) sameAs(ctx context.Context, b *batch, i int, seq uint64) error {
	e := &b.events[i]
	stored, err := l.Event(ctx, b.ns, seq)
	switch code := sluice.CodeOf(err); {
	case code == sluice.NotFound || code == sluice.WindowExceeded:
		return nil
	case err != nil && code != sluice.InvalidRequest:
		return err
	case err != nil || stored.Path != e.Path:
		return idTaken(e)
	case b.exact != nil && (!b.exact(&stored) || !e.Repeats(&stored)):
		return e.OtherEvent()
	}
	return nil
}

func idTaken(e *sluice.Event) error {
	return sluice.Errorf(sluice.Conflict, "the id %q belongs to an event on another path; ids are unique in a namespace", e.ID).With("id", e.ID)
}

// publishBatch stores several events as one atomic batch. JetStream refuses a batch with an id
// that it knows: those are then looked up and left out, and the rest is tried again.
func (l *Log) publishBatch(ctx context.Context, b *batch, fresh []int) error {
	msgs := make([]*nats.Msg, len(fresh))
	for at, i := range fresh {
		msg, err := b.message(i)
		if err != nil {
			return err
		}
		if int64(sizeOf(msg)) > l.core.Conn().MaxPayload() {
			return l.tooLarge(nats.ErrMaxPayload, msg) // before the others are sent, which would be a batch without an end
		}
		msgs[at] = msg
	}
	last, err := l.commits.commit(ctx, b.ns, msgs)
	if natsstore.APICode(err) == codeBatchDuplicate {
		return l.leaveOut(ctx, b, fresh)
	}
	if err != nil {
		return err
	}
	for _, i := range slices.Backward(fresh) {
		b.place(i, last)
		last--
	}
	return nil
}

// leaveOut finds the events that are stored already. The error makes the others be tried again.
func (l *Log) leaveOut(ctx context.Context, b *batch, fresh []int) error {
	for _, i := range fresh {
		seq, err := l.lookUp(ctx, b.ns, b.events[i].ID)
		if err != nil {
			return err
		}
		if seq > 0 {
			if err := l.sameAs(ctx, b, i, seq); err != nil {
				return err
			}
			b.place(i, seq)
			b.duplicate[i] = true
		}
	}
	if len(b.fresh()) == 0 {
		return nil
	}
	return errTryRest
}

// errTryRest is transient by the timeout that it wraps.
var errTryRest = fmt.Errorf("some of the events are stored: %w", nats.ErrTimeout)

// lookUp returns the sequence of the event with the id if it was stored inside the dedup
// window, else 0. It offers the log a message with the id that can never be stored: JetStream
// looks at the id first and names the place of the event that has it, and only then finds that
// the last id is not the expected one (a server alone) and that this stream has no rollups (a
// cluster, before it proposes the message to its members). The leader answers, so that nothing
// stored is missed.
func (l *Log) lookUp(ctx context.Context, ns, id string) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, natsstore.RequestTimeout)
	defer cancel()
	ack, err := l.core.JetStream().PublishMsg(ctx, &nats.Msg{
		Subject: l.core.Names().Subject(ns, "/_sys/lookup"),
		Header: nats.Header{
			streams.HeaderMsgID:               {escape(id)},
			jetstream.ExpectedLastMsgIDHeader: {rand.Text()},
			jetstream.MsgRollup:               {jetstream.MsgRollupSubject},
		},
	})
	switch code := natsstore.APICode(err); {
	case code == codeWrongLastMsgID || code == codeRollupFailed:
		return 0, nil
	case err != nil:
		return 0, err
	case !ack.Duplicate:
		return 0, fmt.Errorf("look up: %s was stored at %d", ns, ack.Sequence)
	}
	return ack.Sequence, nil
}
