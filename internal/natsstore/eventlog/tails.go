package eventlog

import (
	"context"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// FollowTails tells where every path of a namespace that has events ends, in the order of the log, and
// then of every event as it comes, until ctx ends or there is trouble: all is to be told again then.
// Without a path it says up to where all has been told. Code NotFound for the namespace.
func (l *Log) FollowTails(ctx context.Context, ns string, tell func(path sluice.Path, seq uint64)) error {
	last, err := l.LastSeq(ctx, ns) // what is gone by then is never told
	if err != nil {
		return err
	}
	behind := true
	ends := ends{jetstream.DeliverLastPerSubjectPolicy, []string{streams.EventsSubjects(ns), streams.RecordsSubjects(ns)}}
	return l.followEnds(ctx, ns, ends, func(e end) (more bool) {
		if e.path != "" {
			tell(e.path, e.seq)
		}
		if behind = behind && e.left > 0; !behind {
			tell("", max(e.seq, last))
		}
		return true
	})
}

// ends is what is read of a log to know where its paths end: the last message of every subject and then what comes
// (DeliverLastPerSubjectPolicy), or what comes (DeliverNewPolicy).
type ends struct {
	from     jetstream.DeliverPolicy
	subjects []string // none: all
}

// end is a message of a log. The zero value is none.
type end struct {
	subject string
	path    sluice.Path // of an event; not of one that no client can ask for
	seq     uint64
	left    uint64 // messages that are there and not read yet
}

// followEnds calls each for messages of a namespace's log in their order, until it returns false, ctx ends or there is
// trouble. It is called once without a message if there is nothing to read in the beginning.
func (l *Log) followEnds(ctx context.Context, ns string, which ends, each func(end) (more bool)) error {
	config := jetstream.ConsumerConfig{DeliverPolicy: which.from, FilterSubjects: which.subjects, HeadersOnly: true}
	follow := l.core.FollowToEnd
	if which.from == jetstream.DeliverNewPolicy {
		follow = l.core.Follow
	}
	return follow(ctx, streams.EventsStream(ns), config, natsstore.FollowAhead, func(msg *nats.Msg, meta *nats.MsgMetadata) (bool, error) {
		if msg == nil {
			return each(end{}), nil
		}
		e := end{subject: msg.Subject, seq: meta.Sequence.Stream, left: meta.NumPending}
		if _, path, err := streams.ParseSubject(e.subject); err == nil && !path.Dotted() {
			e.path = path
		}
		return each(e), nil
	})
}
