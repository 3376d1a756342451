package eventlog

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// TailEvents calls each for the events of a namespace after a sequence, in the order of the log and then as they come,
// until it returns an error, ctx ends, or there is trouble; the caller then goes on after the
// last one it was given. Messages that are no events are left out. A log that does not reach the
// sequence, because it lost its end in a crash, is read from its end on.
func (l *Log) TailEvents(ctx context.Context, ns string, after uint64, each func(sluice.Event) error) error {
	stream := streams.EventsStream(ns)
	return l.core.Tail(ctx, stream, streams.EventsSubjects(ns), after, func(msg *nats.Msg, meta *nats.MsgMetadata) error {
		e, err := l.EventIn(msg, meta)
		if err != nil {
			return nil //nolint:nilerr // it is no event
		}
		return each(e)
	})
}

// WatchLogs tells of every namespace, when it was made, then of every change, until ctx ends;
// the zero time says that it is gone.
func (l *Log) WatchLogs(ctx context.Context, change func(name string, since time.Time)) error {
	return natsstore.OpenBucket[sluice.Namespace](l.core, streams.Namespaces).Watch(ctx, ">", func(e natsstore.Entry[sluice.Namespace]) {
		switch e.Change {
		case natsstore.Set:
			change(e.Key, e.Value.CreatedAt)
		case natsstore.Removed:
			change(e.Key, time.Time{})
		case natsstore.CaughtUp:
		}
	})
}
