package eventlog

import (
	"context"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/sluice-io/sluice/internal/logtail/broadcast"
	"github.com/sluice-io/sluice/internal/logtail/ringbuffer"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Limits of the messages that the single reader of a log keeps for followers that are slightly
// behind.
const (
	readersSize   = 128      // messages
	readersWeight = 1 << 20  // bytes
	readersAll    = 64 << 20 // bytes for all logs together
)

// entry is a message of a log that its single reader passes to all followers.
type entry struct {
	subject string
	seq     uint64
	weight  int
	data    []byte
	batch   string                       // ID of the atomic batch that it belongs to; "": none
	commits bool                         // it is the last message of the batch
	event   func() (sluice.Event, error) // decodes it once; an error if it is not an event
}

// newReaders returns the readers of all logs: one for each log with followers in this process, for
// example feeds, watches, wakes, stream subscriptions and exports. A follower that is further
// behind than the kept messages reads the log by itself until it has caught up, so a slow one does
// not hold up others.
func newReaders(ctx context.Context, l *Log) *broadcast.Broadcaster[entry] {
	return broadcast.New(shutdown.Lasting(ctx), broadcast.Options[entry]{
		Source: source{l},
		Of:     ringbuffer.Of[entry]{Seq: func(m entry) uint64 { return m.seq }, Weight: func(m entry) int { return m.weight }},
		Size:   readersSize, Weight: readersWeight, All: readersAll, Slog: l.core.Log(),
	})
}

// source reads the log of a namespace.
type source struct{ log *Log }

// Last returns the last sequence of the log of a namespace.
func (s source) Last(ctx context.Context, ns string) (uint64, error) { return s.log.LastSeq(ctx, ns) }

// Tail reads the log of a namespace after a sequence.
func (s source) Tail(ctx context.Context, ns string, after uint64, each func(entry) error) error {
	return s.log.core.TailOn(ctx, s.log.core.Names().EventsStream(ns), after, func(msg *nats.Msg, meta *nats.MsgMetadata) error {
		return each(entry{
			subject: msg.Subject, seq: meta.Sequence.Stream, weight: msg.Size(), data: msg.Data,
			batch: msg.Header.Get(natsstore.HeaderBatchID), commits: msg.Header.Get(natsstore.HeaderBatchCommit) != "",
			event: sync.OnceValues(func() (sluice.Event, error) { return s.log.EventIn(msg, meta) }),
		})
	})
}

var _ broadcast.Source[entry] = source{}
