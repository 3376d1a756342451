package eventlog

import (
	"context"

	"github.com/nats-io/nats-server/v2/server/gsl"

	"github.com/sluice-io/sluice/internal/fanout"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// Shared accesses the logs for the shared reader of subscriptions.
type Shared struct{ Log *Log }

var _ fanout.Log = Shared{}

// Follow calls each for the stored messages after a sequence and then for new ones, like
// Log.TailEvents for events.
func (s Shared) Follow(ctx context.Context, ns string, after uint64, each func(fanout.Message) error) error {
	return s.Log.readers.Follow(ctx, ns, after, nil, func(m entry) error {
		return each(fanout.Message{Subject: m.subject, Seq: m.seq, Event: m.event})
	})
}

// Subjects returns an empty set of filter subjects.
func (s Shared) Subjects() fanout.Subjects { return gsl.NewSublist[any]() }

// Bounds returns the sequences of the first and the last stored message, and the incarnation.
func (s Shared) Bounds(ctx context.Context, ns string) (fanout.Bounds, error) {
	info, err := s.Log.core.EventsInfo(ctx, ns)
	if err != nil {
		return fanout.Bounds{}, err
	}
	return fanout.Bounds{
		First: info.State.FirstSeq, Last: info.State.LastSeq,
		Log: incarnationOf(info), Former: streams.FormerIncarnation(info.Config.Metadata),
	}, nil
}

// Next returns at most limit messages of a subject from a sequence on, in ascending order. It
// returns none only if the leader has none.
func (s Shared) Next(ctx context.Context, ns, subject string, from uint64, limit int) ([]fanout.Message, error) {
	msgs, _, err := s.Log.core.Direct(ctx, ns, natsstore.DirectRequest{Seq: from, Subject: subject, Batch: limit})
	if err != nil {
		return nil, err
	}
	all := make([]fanout.Message, 0, len(msgs))
	for _, msg := range msgs {
		e, err := s.Log.stamps.directEvent(msg)
		if e.Seq == 0 {
			return nil, err
		}
		all = append(all, fanout.Message{Subject: subject, Seq: e.Seq, Event: func() (sluice.Event, error) { return e, err }})
	}
	if len(all) > 0 {
		return all, nil
	}
	return s.leadersNext(ctx, ns, subject, from)
}

// leadersNext returns the next message of a subject that the leader of the log has, if there is
// one, because a replica may be behind.
func (s Shared) leadersNext(ctx context.Context, ns, subject string, from uint64) ([]fanout.Message, error) {
	for {
		seq, err := s.Log.NextSeq(ctx, ns, subject, from)
		if err != nil || seq == 0 {
			return nil, err
		}
		e, err := s.Log.Event(ctx, ns, seq)
		switch code := sluice.CodeOf(err); {
		case e.Seq > 0:
			return []fanout.Message{{Subject: subject, Seq: seq, Event: func() (sluice.Event, error) { return e, err }}}, nil
		case code != sluice.NotFound && code != sluice.WindowExceeded:
			return nil, err
		}
		from = seq + 1 // it was deleted in the meantime
	}
}
