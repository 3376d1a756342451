package eventlog

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// leadersAnchor returns the message at a sequence; if that was deleted, the next one; if there is
// none, the last one before the sequence; the zero value if the log is empty. JetStream itself does
// not find the last message if messages at the end of a log were deleted. It makes one request if
// the message exists, and otherwise O(log n).
func (l *Log) leadersAnchor(ctx context.Context, ns string, seq uint64) (natsstore.StoredMessage, error) {
	place, err := l.leadersPlace(ctx, ns, seq)
	for low, step := seq, uint64(1); err == nil && place.Seq == 0 && low > 0; step *= 2 {
		low -= min(step, low)
		place, err = l.leadersPlace(ctx, ns, low)
	}
	for end := seq; err == nil && place.Seq > 0 && place.Seq+1 < end; {
		middle := place.Seq + 1 + (end-place.Seq-1)/2
		var later natsstore.StoredMessage
		if later, err = l.leadersPlace(ctx, ns, middle); later.Seq > 0 {
			place = later
		} else {
			end = middle
		}
	}
	return place, err
}

// leaders returns a message of the log of a namespace that the leader has; the zero value if there
// is none. Code NotFound for the namespace.
func (l *Log) leaders(ctx context.Context, ns string, request natsstore.MessageRequest) (natsstore.StoredMessage, error) {
	if sluice.CheckNamespaceName(ns) != nil {
		return natsstore.StoredMessage{}, natsstore.NamespaceMissing(ns)
	}
	msg, err := l.core.LeadersMessage(ctx, l.core.Names().EventsStream(ns), request)
	if natsstore.APICode(err) == int(jetstream.JSErrCodeStreamNotFound) {
		return msg, natsstore.NamespaceMissing(ns)
	}
	return msg, err
}

// NextSeq returns the sequence of the first message of a subject from a sequence on that the leader
// has; 0 if there is none.
func (l *Log) NextSeq(ctx context.Context, ns, subject string, from uint64) (uint64, error) {
	next, err := l.leaders(ctx, ns, natsstore.MessageRequest{Seq: max(from, 1), Next: subject})
	return next.Seq, err
}

// StoredFrom returns when the first message from a sequence on was stored that the leader has; zero
// if there is none. Code NotFound for the namespace.
func (l *Log) StoredFrom(ctx context.Context, ns string, from uint64) (time.Time, error) {
	place, err := l.leadersPlace(ctx, ns, from)
	return place.Time, err
}

// leadersPlace returns the first message from a sequence on; the zero value if there is none.
func (l *Log) leadersPlace(ctx context.Context, ns string, from uint64) (natsstore.StoredMessage, error) {
	return l.leaders(ctx, ns, natsstore.MessageRequest{Seq: max(from, 1), Next: ">"})
}

// seqOf returns the sequence in a response to a direct get; 0 if there is none.
func seqOf(msg *nats.Msg) uint64 {
	seq, err := strconv.ParseUint(natsstore.LastHeader(msg, natsstore.HeaderSequence), 10, 64)
	if err != nil {
		return 0
	}
	return seq
}

// subjects returns the subjects in the log of a namespace that match a filter, with the numbers of
// their messages. JetStream lists at most 100,000 in one answer: callers check the number of
// subjects before.
func (l *Log) subjects(ctx context.Context, ns, filter string) (map[string]uint64, error) {
	info, err := natsstore.AskedFor(ctx, natsstore.RequestTimeout, func(ctx context.Context) (*jetstream.StreamInfo, error) {
		handle, err := l.core.JetStream().Stream(ctx, l.core.Names().EventsStream(ns))
		if err != nil {
			return nil, err
		}
		return handle.Info(ctx, jetstream.WithSubjectFilter(filter))
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, natsstore.NamespaceMissing(ns)
	}
	if err != nil {
		return nil, err
	}
	return info.State.Subjects, nil
}
