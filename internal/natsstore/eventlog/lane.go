package eventlog

import (
	"context"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// ReadLane returns at most limit events of the path, or of the whole subscription if the path is
// empty, from a sequence on, in ascending order; none if there are none yet. It also returns from
// if that event is the first result, and otherwise the first sequence of the log. If the event at
// from is gone, first tells the caller whether retention has removed it: then from is before first.
// The pattern only selects subjects, so the caller must match each event, and check its error.
func (l *Log) ReadLane(ctx context.Context, sub *sluice.Subscription, path sluice.Path, from uint64, limit int) (events []model.ReadEvent, first uint64, err error) {
	subject := l.core.Names().Superset(sub.Namespace, sub.Pattern).Subject
	if path != "" {
		subject = l.core.Names().Subject(sub.Namespace, path)
	}
	events, err = l.NextEvent(ctx, sub.Namespace, subject, from, limit)
	if err == nil && len(events) == 0 {
		events, err = l.LeadersNext(ctx, sub.Namespace, subject, from)
	}
	if err != nil || len(events) > 0 && events[0].Seq == from {
		return events, from, err
	}
	first, _, err = l.Bounds(ctx, sub.Namespace)
	return events, first, err
}

// LeadersNext returns the next event of a subject that the leader of the log has, if there is one:
// with a replica that is behind, a lane would end too early, without having sent the missing
// events.
func (l *Log) LeadersNext(ctx context.Context, ns, subject string, from uint64) ([]model.ReadEvent, error) {
	for {
		seq, err := l.NextSeq(ctx, ns, subject, from)
		if err != nil || seq == 0 {
			return nil, err
		}
		e, err := l.Event(ctx, ns, seq)
		switch code := sluice.CodeOf(err); {
		case e.Path != "":
			return []model.ReadEvent{{Event: e, Err: err}}, nil
		case e.Seq == 0 && code != sluice.NotFound && code != sluice.WindowExceeded:
			return nil, err
		}
		from = seq + 1 // deleted in the meantime, or not an event
	}
}
