package eventlog

import (
	"context"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// ReadLane returns up to limit events of the path, or of the whole subscription if the path is empty,
// from a sequence on, ascending, none if there are none yet; and the first sequence that the
// log still holds.
func (l *Log) ReadLane(ctx context.Context, sub *sluice.Subscription, path sluice.Path, from uint64, limit int) (events []sluice.Event, first uint64, err error) {
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

// LeadersNext returns the next event of a subject as the leader of the log has it, if there is
// one: a replica that lags behind would let a lane end too soon, with the missing events unsent.
func (l *Log) LeadersNext(ctx context.Context, ns, subject string, from uint64) ([]sluice.Event, error) {
	for {
		seq, err := l.NextSeq(ctx, ns, subject, from)
		if err != nil || seq == 0 {
			return nil, err
		}
		e, err := l.Event(ctx, ns, seq)
		switch code := sluice.CodeOf(err); {
		case e.Path != "":
			return []sluice.Event{e}, nil
		case e.Seq == 0 && code != sluice.NotFound && code != sluice.WindowExceeded:
			return nil, err
		}
		from = seq + 1 // gone meanwhile, or no event
	}
}
