package eventlog

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// Error codes of JetStream for which nats.go has no constants.
const (
	codeWrongLastMsgID = 10070
	codeRollupFailed   = 10111
	codeBatchDuplicate = 10201
)

// MaxBatch is the maximum number of events in one call of Publish.
const MaxBatch = 1000

// Exact publishes for callers that choose their IDs. If the log has an event with the ID that
// differs, for example in the type or the data, Publish returns code Conflict instead of reporting
// a duplicate, and stores nothing of the batch. A retry sends the same event; a different one is
// another event, and its publisher must learn that it was not stored. The code is also Conflict if
// the caller may not see the stored event: whether the two events are equal must not be revealed.
// Event.Repeats decides whether two events differ.
type Exact struct {
	*Log

	Shows func(ctx context.Context, ev *sluice.Event) bool // whether the caller may see a stored event; nil: always
}

// Publish is Log.Publish, with code Conflict as described for Exact.
func (x Exact) Publish(ctx context.Context, ns string, events []sluice.Event) ([]sluice.Stored, error) {
	return x.publish(ctx, ns, events, func(ev *sluice.Event) bool { return x.Shows == nil || x.Shows(ctx, ev) })
}

// Publish stores events in the given order and returns their sequences. It stores either all of
// them or none. An event with an ID that was stored before within the dedup window of the namespace
// is not stored again: Duplicate is set, and Seq is the sequence of the first event. That applies
// to each event of a batch: existing events are reported, and the others are all stored or none of
// them. Therefore a batch without a response can be sent again. While the store does not answer,
// Publish retries with the same IDs for up to 20 seconds, and while the dedup window has them; an
// event that an earlier try has stored is then reported as a duplicate of itself. The auth
// attributes of the events must be true: Publish stamps them.
//
// Each event needs an ID and a path. Codes: InvalidRequest; NotFound for the namespace; Conflict if
// the ID belongs to an event on another path; TooLarge; QuotaExceeded; Unavailable: then it is
// unknown whether the events were stored. The result has an element for each event, in the order of
// events. Publish does not change events. The caller must not change them until it returns; if ctx
// has ended, a group in flight may still use their data. Events of one call are contiguous in the
// log unless some were duplicates. Publish may be called concurrently; the order of concurrent
// calls is undefined.
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
	if err := l.retry(ctx, ns, func() error { return l.try(ctx, b) }); err != nil {
		return nil, fmt.Errorf("publish to %s: %w", ns, natsstore.StoreError(ctx, err))
	}
	return b.stored(), nil
}

// try tries once to store the events that are not stored yet.
func (l *Log) try(ctx context.Context, b *batch) error {
	var err error
	switch fresh := b.fresh(); len(fresh) {
	case 0:
		return nil
	// A single event is cheaper without a batch, also the last one that a try left.
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

// tooLarge adds the limit and the size of the largest message to the error for a message that is
// too large for NATS. It returns other errors unchanged.
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

// sameAs returns an error with code Conflict if the message at a sequence, which has the ID of the
// event, is on another path: otherwise a publisher on one path could suppress events on others by
// using their IDs. For an exact batch it also returns an error if the stored event differs or the
// caller may not see it. A message that is no longer stored counts as the same event.
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

// publishBatch stores several events as one atomic batch. JetStream refuses a batch with a known
// ID: then publishBatch looks up the stored events, and the next try sends only the others.
func (l *Log) publishBatch(ctx context.Context, b *batch, fresh []int) error {
	msgs := make([]*nats.Msg, len(fresh))
	for at, i := range fresh {
		msg, err := b.message(i)
		if err != nil {
			return err
		}
		if int64(sizeOf(msg)) > l.core.Conn().MaxPayload() {
			return l.tooLarge(nats.ErrMaxPayload, msg) // checked before the others are sent, because otherwise the batch would stay open
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

// leaveOut finds the events that are already stored. If there are others, it returns a transient
// error, so that these are tried again.
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

// errTryRest is transient because it wraps a timeout.
var errTryRest = fmt.Errorf("some of the events are stored: %w", nats.ErrTimeout)

// lookUp returns the sequence of the event with the ID if it was stored within the dedup window,
// otherwise 0. It publishes a message with the ID that can never be stored: JetStream first checks
// the ID, and returns the sequence of the event with the ID. Only then does it check that the last
// ID is the expected one (on a single server) and that the stream allows rollups (on a cluster,
// before the message is replicated), which fails. The leader answers. Therefore no stored event is
// missed. It costs one request.
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
