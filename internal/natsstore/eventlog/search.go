package eventlog

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Limits of a search for an ID. JetStream has no index of IDs. Therefore the headers of the log are
// read, up to these limits if the ID does not exist.
const (
	defaultSearch  = 50_000          // messages at the end of the log, and as many around the time in the ID
	searchTime     = 5 * time.Second // the ID may be in the body of messages, which takes longer
	searchAtOnce   = 2               // concurrent searches
	checksAtOnce   = 4               // concurrent searches of StoredSince
	searchPatience = 2 * time.Second // to wait for another search to end

	clockSkew = 5 * time.Minute // by which the clock of a publisher may be ahead of that of the log
)

// EventByID returns the event with the ID. It finds the event if its ID is in the dedup window of
// the namespace or contains its sequence, if the event is among the last 50,000 messages of the
// log, or, for a UUIDv7, among as many messages around the time in the ID. If several events have
// the ID, it returns one of them. Codes: NotFound; QuotaExceeded, with retry_after, if too many
// searches are running. Code NotFound does not prove that the event is not stored. A search ends
// soon after searchTime, and at most two run at a time.
func (l *Log) EventByID(ctx context.Context, ns, id string) (sluice.Event, error) {
	info, err := l.core.EventsInfo(ctx, ns)
	if err != nil {
		return sluice.Event{}, err
	}
	seq, err := l.findNear(ctx, ns, id)
	if seq == 0 && err == nil && info.State.Msgs > 0 {
		seq, err = l.search(ctx, ns, id, info.State)
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

// StoredSince returns the sequence of an event with the namespace, path and ID of e that was stored
// at a time or later; 0 if there is none. It may also find one that was stored before. It reads the
// headers of the path's events since that time. Only ctx limits its time. Codes: NotFound for the
// namespace; QuotaExceeded, with retry_after, if too many of these searches are running.
func (l *Log) StoredSince(ctx context.Context, e *sluice.Event, since time.Time) (uint64, error) {
	info, err := l.core.EventsInfo(ctx, e.Namespace)
	if err != nil {
		return 0, err
	}
	seq, err := l.findNear(ctx, e.Namespace, e.ID)
	if err == nil && !l.isOn(ctx, e, seq) {
		seq, err = l.searchPath(ctx, e, since, info.State)
	}
	return seq, natsstore.StoreError(ctx, err)
}

// isOn reports whether the event at a sequence is on the path of e. If it cannot be read, the
// caller reads the log next.
func (l *Log) isOn(ctx context.Context, e *sluice.Event, seq uint64) bool {
	if seq == 0 {
		return false
	}
	is, err := l.Event(ctx, e.Namespace, seq)
	return err == nil && is.Path == e.Path
}

// searchPath searches the events of a path that were stored at a time or later for an ID. It
// returns 0 if it does not find the ID.
func (l *Log) searchPath(ctx context.Context, e *sluice.Event, since time.Time, state jetstream.StreamState) (uint64, error) {
	end, err := take(ctx, l.checks)
	if err != nil {
		return 0, err
	}
	defer end()
	before, err := l.before(ctx, e.Namespace, since, state)
	if err != nil {
		return 0, err
	}
	is := sought{e.Namespace, e.ID, l.core.Names().Subject(e.Namespace, e.Path)}
	return l.scanSpan(ctx, is, span{max(before+1, state.FirstSeq), state.LastSeq}, time.Time{})
}

// take waits for one of the slots, and returns a function that gives it back. Code QuotaExceeded if
// none is free within searchPatience.
func take(ctx context.Context, slots chan struct{}) (end func(), err error) {
	turn := time.NewTimer(searchPatience)
	defer turn.Stop()
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, nil
	case <-turn.C:
		return nil, sluice.Errorf(sluice.QuotaExceeded, "too many lookups of old events by ID; retry, or use the sequence").
			With("retry_after", 1)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// search searches parts of the log for the ID: around the time in it, if it contains one, and the
// end. It returns 0 if it does not find the ID.
func (l *Log) search(ctx context.Context, ns, id string, state jetstream.StreamState) (uint64, error) {
	done, err := take(ctx, l.searches)
	if err != nil {
		return 0, err
	}
	defer done()
	until, is := time.Now().Add(searchTime), sought{ns, id, l.core.Names().EventsSubjects(ns)}
	end := span{max(state.FirstSeq, state.LastSeq+1-min(l.searched, state.LastSeq)), state.LastSeq}
	if made, ok := UUIDTime(id); ok {
		around, err := l.around(ctx, ns, made, state)
		if err != nil {
			return 0, err
		}
		around.to = min(around.from+l.searched, end.from) - 1
		if seq, err := l.scanSpan(ctx, is, around, until); seq > 0 || err != nil {
			return seq, err
		}
	}
	return l.scanSpan(ctx, is, end, until)
}

// around returns the span in which an event is that was created at a time: from shortly before that
// time, limited in the number of messages, to the end of the log.
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

// sought is an ID in a namespace, and the filter of the subjects on which it is searched.
type sought struct{ ns, id, subject string }

// scanSpan returns the sequence of the ID in a span; 0 if it is not there, or was not found until
// the given time. A zero time means no limit.
func (l *Log) scanSpan(ctx context.Context, is sought, part span, until time.Time) (found uint64, err error) {
	if part.from > part.to {
		return 0, nil
	}
	config := jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: part.from, HeadersOnly: true,
		FilterSubject: is.subject,
	}
	err = l.core.Scan(ctx, l.core.Names().EventsStream(is.ns), config, func(msg *nats.Msg, meta *nats.MsgMetadata) (bool, error) {
		if meta.Sequence.Stream > part.to || !until.IsZero() && time.Now().After(until) {
			return false, nil
		}
		e, err := l.stamps.eventOf(msg.Subject, msg.Header, nil, meta.Sequence.Stream, meta.Timestamp)
		if err != nil && e.ContentType != "" { // the ID may be in the body
			e, err = l.Event(ctx, is.ns, e.Seq)
		}
		if e.ID == is.id {
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
