package eventlog

import (
	"context"
	"time"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// TailEvents calls each for the events of a namespace after a sequence, in the order of the log, and then for new ones,
// until each returns an error, ctx ends or the log fails; the caller then goes on after the last event it was given.
// Messages that are no events are left out. A log that ends before the sequence, because it lost its end in a crash, is
// read from its end on. Callers share the events and must not change them.
func (l *Log) TailEvents(ctx context.Context, ns string, after uint64, each func(sluice.Event) error) error {
	return l.readers.Follow(ctx, ns, after, nil, func(m entry) error { return handEvent(m, each) })
}

// FeedTail is TailEvents without silent gaps: code WindowExceeded, with oldest_available_seq and current_seq, if messages
// left the log before they were read.
func (l *Log) FeedTail(ctx context.Context, ns string, after uint64, each func(sluice.Event) error) error {
	return l.readers.Follow(ctx, ns, after, nil, func(m entry) error {
		if m.seq > after+1 { // removed from the middle, or by retention
			if err := l.overtook(ctx, ns, after); err != nil {
				return err
			}
		}
		after = m.seq
		return handEvent(m, each)
	})
}

// handEvent calls each for an event, and for no other message.
func handEvent(m entry, each func(sluice.Event) error) error {
	ev, err := m.event()
	if err != nil {
		return nil //nolint:nilerr // it is no event
	}
	return each(ev)
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
