package natsstore

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// FollowTails tells where every path of a namespace that has events ends, in the order of the log, and
// then of every event as it comes, until ctx ends or there is trouble: all is to be told again then.
// Without a path it says up to where all has been told. Code NotFound for the namespace.
func (s *Store) FollowTails(ctx context.Context, ns string, tell func(path sluice.Path, seq uint64)) error {
	last, err := s.LastSeq(ctx, ns) // what is gone by then is never told
	if err != nil {
		return err
	}
	config := jetstream.ConsumerConfig{
		DeliverPolicy:  jetstream.DeliverLastPerSubjectPolicy,
		FilterSubjects: []string{streams.EventsSubjects(ns), streams.RecordsSubjects(ns)},
		HeadersOnly:    true,
	}
	behind := true
	return s.follow(ctx, streams.EventsStream(ns), config, func(msg jetstream.Msg, meta *jetstream.MsgMetadata) (bool, error) {
		if msg == nil {
			behind = false
			tell("", last)
			return true, nil
		}
		seq := meta.Sequence.Stream
		if _, path, err := streams.ParseSubject(msg.Subject()); err == nil {
			tell(path, seq)
		}
		if behind = behind && meta.NumPending > 0; !behind {
			tell("", max(seq, last))
		}
		return true, nil
	})
}
