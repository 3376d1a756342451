package eventlog

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/internal/logtail/broadcast"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// PathBefore returns the sequence of the last event on a path up to a sequence; 0 if there is none.
// Any replica may answer, because callers ask for events that were stored long ago.
func (l *Log) PathBefore(ctx context.Context, ns string, path sluice.Path, upTo uint64) (uint64, error) {
	body, err := json.Marshal(map[string]any{"multi_last": []string{l.core.Names().Subject(ns, path)}, "up_to_seq": upTo, "batch": 1})
	if err != nil {
		return 0, fmt.Errorf("read request: %w", err)
	}
	answer, err := natsstore.AskedFor(ctx, natsstore.RequestTimeout, func(ctx context.Context) (natsstore.DirectAnswer, error) {
		return l.core.DirectOnce(ctx, ns, body, 2)
	})
	if err != nil || len(answer.Msgs) == 0 {
		return 0, natsstore.StoreError(ctx, err)
	}
	e, err := l.stamps.directEvent(answer.Msgs[0])
	if e.Seq == 0 {
		return 0, err
	}
	return e.Seq, nil
}

// PathEnds calls each for every path with events that the pattern matches, with the sequence of the
// last event. It may call each repeatedly for a path.
func (l *Log) PathEnds(ctx context.Context, ns string, pattern sluice.Pattern, each func(sluice.Path, uint64)) error {
	for _, filter := range l.core.Names().Filters(ns, pattern) {
		err := natsstore.UntilCaughtUp(ctx, func() error {
			_, err := l.lastOfPaths(ctx, ns, filter.Subject, func(path sluice.Path, seq uint64) {
				if pattern.Match(path) {
					each(path, seq)
				}
			})
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// lastOfPaths calls each with the sequence of the last event of every path whose subject matches
// the given one, in the order of the log, and returns the last sequence that it read. It fails if
// the replica is behind.
func (l *Log) lastOfPaths(ctx context.Context, ns, subject string, each func(sluice.Path, uint64)) (last uint64, err error) {
	config := jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, FilterSubject: subject, HeadersOnly: true}
	err = l.core.FollowToEnd(ctx, l.core.Names().EventsStream(ns), config, natsstore.FollowAhead, func(msg *nats.Msg, meta *nats.MsgMetadata) (bool, error) {
		if msg == nil {
			return false, nil
		}
		last = meta.Sequence.Stream
		if path := l.pathOf(msg.Subject); path != "" {
			each(path, last)
		}
		return meta.NumPending > 0, nil
	})
	return last, err
}

// FollowChanges calls each when it starts, and then for every message that is stored in the log,
// until ctx ends or reading the log fails.
func (l *Log) FollowChanges(ctx context.Context, ns string, each func()) error {
	return l.readers.Follow(ctx, ns, broadcast.FromNow, each, func(entry) error {
		each()
		return nil
	})
}

// FollowPaths calls each without a path when it starts, and then for every event that is stored,
// until ctx ends or reading the log fails.
func (l *Log) FollowPaths(ctx context.Context, ns string, each func(sluice.Path, uint64)) error {
	return l.readers.Follow(ctx, ns, broadcast.FromNow, func() { each("", 0) }, func(m entry) error {
		if path := l.pathOf(m.subject); path != "" {
			each(path, m.seq)
		}
		return nil
	})
}

// FollowTails calls tell with the last sequence of every path of a namespace, in the order of the
// log, and then for every new event, until ctx ends or reading the log fails: then the caller
// starts again. A call without a path means that everything up to the sequence was passed. Code
// NotFound for the namespace.
func (l *Log) FollowTails(ctx context.Context, ns string, tell func(path sluice.Path, seq uint64)) error {
	told, err := l.LastSeq(ctx, ns) // events that were deleted before are never passed
	if err != nil {
		return err
	}
	last, err := l.lastOfPaths(ctx, ns, l.core.Names().EventsSubjects(ns), tell)
	if err != nil {
		return err
	}
	told = max(told, last)
	tell("", told)
	return l.readers.Follow(ctx, ns, told, nil, func(m entry) error {
		if path := l.pathOf(m.subject); path != "" {
			tell(path, m.seq)
		}
		tell("", m.seq)
		return nil
	})
}

// pathOf returns the path of the subject of an event; "" for other subjects and for paths that
// clients cannot request.
func (l *Log) pathOf(subject string) sluice.Path {
	if _, path, err := l.core.Names().ParseSubject(subject); err == nil && !path.Dotted() {
		return path
	}
	return ""
}
