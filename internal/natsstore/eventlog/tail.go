package eventlog

import (
	"context"
	"time"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// TailEvents calls each for the events of a namespace after a sequence, in the order of the log,
// and then for new ones, until each returns an error, ctx ends or reading the log fails; then the
// caller can continue after the last event. It skips messages that are not events. If the log ends
// before the sequence, because it lost its last messages in a crash, TailEvents starts at its end.
// Callers share the events and must not change them.
func (l *Log) TailEvents(ctx context.Context, ns string, after uint64, each func(sluice.Event) error) error {
	return l.readers.Follow(ctx, ns, after, nil, func(m entry) error { return handEvent(m, each) })
}

// FeedTail is TailEvents without silent gaps: it returns code WindowExceeded, with
// oldest_available_seq and current_seq, if messages were deleted because of the retention before
// they were read.
func (l *Log) FeedTail(ctx context.Context, ns string, after uint64, each func(sluice.Event) error) error {
	return l.readers.Follow(ctx, ns, after, nil, func(m entry) error {
		if m.seq > after+1 { // deleted from the middle, or because of the retention
			if err := l.overtook(ctx, ns, after); err != nil {
				return err
			}
		}
		after = m.seq
		return handEvent(m, each)
	})
}

// handEvent calls each if the message is an event.
func handEvent(m entry, each func(sluice.Event) error) error {
	ev, err := m.event()
	if err != nil {
		return nil //nolint:nilerr // it is not an event
	}
	return each(ev)
}

// WatchLogs calls change for every namespace with the time of its creation, and then for every
// change, until ctx ends. The zero time means that the namespace was deleted.
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
