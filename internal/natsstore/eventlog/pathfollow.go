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

// PathBefore returns the sequence of the last event on a path up to a sequence; 0: there is none. Any replica
// answers: the question is about events that were stored long ago.
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

// PathEnds calls each for every path that the pattern matches and that has events, with the sequence of the last. It may
// be called for a path again.
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

// lastOfPaths calls each with the last event of every path below a subject, in log order, and returns the last sequence
// that it read. It fails on a replica that is behind.
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

// FollowChanges calls each when it begins, and then when something was stored in the log, until ctx ends or the log fails.
func (l *Log) FollowChanges(ctx context.Context, ns string, each func()) error {
	return l.readers.Follow(ctx, ns, broadcast.FromNow, each, func(entry) error {
		each()
		return nil
	})
}

// FollowPaths calls each without a path when it begins, and then for every event that is stored, until ctx ends or the log
// fails.
func (l *Log) FollowPaths(ctx context.Context, ns string, each func(sluice.Path, uint64)) error {
	return l.readers.Follow(ctx, ns, broadcast.FromNow, func() { each("", 0) }, func(m entry) error {
		if path := l.pathOf(m.subject); path != "" {
			each(path, m.seq)
		}
		return nil
	})
}

// FollowTails calls tell with the last sequence of every path of a namespace, in log order, and then with every event,
// until ctx ends or the log fails: the caller then begins again. Without a path it says up to where all has been told. Code
// NotFound for the namespace.
func (l *Log) FollowTails(ctx context.Context, ns string, tell func(path sluice.Path, seq uint64)) error {
	told, err := l.LastSeq(ctx, ns) // what is gone by then is never told
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

// pathOf returns the path of an event's subject, "" for other subjects and for paths that no client can ask for.
func (l *Log) pathOf(subject string) sluice.Path {
	if _, path, err := l.core.Names().ParseSubject(subject); err == nil && !path.Dotted() {
		return path
	}
	return ""
}
