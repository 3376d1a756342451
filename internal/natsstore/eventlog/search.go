package eventlog

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Limits of a lookup by id: JetStream has no index of ids, so the log is read, headers only. Every lookup of an id that is not
// there reads up to these limits.
const (
	defaultSearch  = 50_000          // messages at the end of the log, and as many around the time in the id
	searchTime     = 5 * time.Second // an id may be in a message's body, which takes longer
	searchAtOnce   = 2               // for all
	searchPatience = 2 * time.Second // for one's turn

	clockSkew = 5 * time.Minute // a publisher's clock may be ahead of the log's
)

// EventByID returns the event with the id. It is found while its id is in the namespace's dedup window, if the
// id names its place, among the last 50,000 messages of the log, and among as many around the time in a
// UUIDv7. Of several events with the id one is returned. Codes: NotFound; QuotaExceeded, with retry_after, if others
// are being looked for.
func (l *Log) EventByID(ctx context.Context, ns, id string) (sluice.Event, error) {
	return l.eventByID(ctx, ns, id, func(state jetstream.StreamState) (uint64, error) { return l.search(ctx, ns, id, state) })
}

// EventByIDAnywhere is EventByID for a caller that must find every event: all of the log is read.
func (l *Log) EventByIDAnywhere(ctx context.Context, ns, id string) (sluice.Event, error) {
	return l.eventByID(ctx, ns, id, func(state jetstream.StreamState) (uint64, error) { return l.searchAll(ctx, ns, id, state) })
}

func (l *Log) eventByID(ctx context.Context, ns, id string, search func(jetstream.StreamState) (uint64, error)) (sluice.Event, error) {
	info, err := l.core.EventsInfo(ctx, ns)
	if err != nil {
		return sluice.Event{}, err
	}
	seq, err := l.findNear(ctx, ns, id)
	if seq == 0 && err == nil && info.State.Msgs > 0 {
		seq, err = search(info.State)
	}
	if err != nil {
		return sluice.Event{}, natsstore.StoreError(ctx, err)
	}
	if seq == 0 {
		return sluice.Event{}, sluice.Errorf(sluice.NotFound, "event %q not found in %s, or too old for a lookup by ID; use its sequence", id, ns)
	}
	e, err := l.Event(ctx, ns, seq)
	if sluice.CodeOf(err) == sluice.WindowExceeded {
		err = sluice.Errorf(sluice.NotFound, "event %q in %s is no longer stored", id, ns)
	}
	return e, err
}

// search reads a part of the log for the id: around the time in it, if there is one, and the end. 0 if it is not there.
func (l *Log) search(ctx context.Context, ns, id string, state jetstream.StreamState) (uint64, error) {
	turn := time.NewTimer(searchPatience)
	defer turn.Stop()
	select {
	case l.searches <- struct{}{}:
		defer func() { <-l.searches }()
	case <-turn.C:
		return 0, sluice.Errorf(sluice.QuotaExceeded, "too many lookups of old events by ID; retry, or use the sequence").
			With("retry_after", 1)
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	until := time.Now().Add(searchTime)
	end := span{max(state.FirstSeq, state.LastSeq+1-min(l.searched, state.LastSeq)), state.LastSeq}
	if made, ok := UUIDTime(id); ok {
		around, err := l.around(ctx, ns, made, state)
		if err != nil {
			return 0, err
		}
		around.to = min(around.from+l.searched, end.from) - 1
		if seq, err := l.scanSpan(ctx, ns, id, around, until); seq > 0 || err != nil {
			return seq, err
		}
	}
	return l.scanSpan(ctx, ns, id, end, until)
}

// around returns where an event lies that was made at a time: from a while before it, but not too many events, to the end of
// the log.
func (l *Log) around(ctx context.Context, ns string, made time.Time, state jetstream.StreamState) (span, error) {
	early, err := l.before(ctx, ns, made.Add(-clockSkew), state)
	if err != nil {
		return span{}, err
	}
	then, err := l.before(ctx, ns, made, state)
	if err != nil {
		return span{}, err
	}
	from := max(early, then-min(then, l.searched/2)) + 1
	return span{max(from, state.FirstSeq), state.LastSeq}, nil
}

// searchAll reads the log for the id: first from the time in it, if there is one, to the end,
// then the part before. 0 if it is not there.
func (l *Log) searchAll(ctx context.Context, ns, id string, state jetstream.StreamState) (uint64, error) {
	middle := state.FirstSeq
	if made, ok := UUIDTime(id); ok {
		before, err := l.before(ctx, ns, made.Add(-clockSkew), state)
		if err != nil {
			return 0, err
		}
		middle = max(middle, before+1)
	}
	seq, err := l.scanSpan(ctx, ns, id, span{middle, state.LastSeq}, time.Time{})
	if seq > 0 || err != nil {
		return seq, err
	}
	return l.scanSpan(ctx, ns, id, span{state.FirstSeq, middle - 1}, time.Time{})
}

// scanSpan returns the place of the id among some sequences, 0 if it has none there, or none that was come to until a time; zero:
// all of them are looked at.
func (l *Log) scanSpan(ctx context.Context, ns, id string, part span, until time.Time) (found uint64, err error) {
	if part.from > part.to {
		return 0, nil
	}
	config := jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: part.from, HeadersOnly: true,
		FilterSubject: l.core.Names().EventsSubjects(ns),
	}
	err = l.core.Scan(ctx, l.core.Names().EventsStream(ns), config, func(msg *nats.Msg, meta *nats.MsgMetadata) (bool, error) {
		if meta.Sequence.Stream > part.to || !until.IsZero() && time.Now().After(until) {
			return false, nil
		}
		e, err := l.stamps.eventOf(msg.Subject, msg.Header, nil, meta.Sequence.Stream, meta.Timestamp)
		if err != nil && e.ContentType != "" { // the id may be in the body
			e, err = l.Event(ctx, ns, e.Seq)
		}
		if e.ID == id {
			found = e.Seq
		}
		if err != nil && sluice.CodeOf(err) != sluice.InvalidRequest {
			return false, err
		}
		return found == 0 && meta.Sequence.Stream < part.to, nil
	})
	return found, err
}

// span is a range of sequences.
type span struct{ from, to uint64 }
