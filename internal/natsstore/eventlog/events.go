package eventlog

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// Limits of a page of events.
const (
	defaultPage = 100
	maxPage     = 1000
	maxScan     = 50_000 // messages that are read for one page
)

// Events returns events in the order of the log. It skips messages that are not events. Codes:
// NotFound for the namespace or for an unknown cursor; InvalidRequest for an invalid pattern;
// WindowExceeded, with oldest_available_seq and current_seq, if events after the cursor are no
// longer stored. It includes every event that was stored before the call, also on a cluster. Next
// is 0 at the end. A page before the end may have fewer events than the limit, or none: it ends
// after maxScan messages, so that a rare pattern costs bounded time. A q.After above 0 has
// precedence over q.Since.
func (l *Log) Events(ctx context.Context, ns string, q model.EventQuery) (model.EventPage, error) {
	r, err := l.newReader(ctx, ns, q)
	if err != nil {
		return model.EventPage{}, err
	}
	err = natsstore.UntilCaughtUp(ctx, func() error {
		r.ended = false
		if err := l.collect(ctx, ns, r); err != nil || !r.ended || !r.replicated {
			return err
		}
		next, err := l.NextSeq(ctx, ns, r.filter.Subject, r.after+1)
		if err == nil && next > 0 && next <= r.until {
			err = natsstore.ErrBehind
		}
		return err
	})
	if err != nil {
		return model.EventPage{}, natsstore.StoreError(ctx, err)
	}
	return r.page(), nil
}

// collect reads until the page is full, the end of the log is reached, or the limit of messages is
// reached.
func (l *Log) collect(ctx context.Context, ns string, r *reader) error {
	for r.more() {
		msgs, more, err := l.core.Direct(ctx, ns, natsstore.DirectRequest{Seq: r.after + 1, Subject: r.filter.Subject, Batch: r.batch()})
		if err != nil {
			return err
		}
		all, err := r.enter(l.stamps, msgs)
		if err != nil {
			return err
		}
		r.ended = r.ended || all && !more
	}
	return nil
}

// reader collects a page.
type reader struct {
	q       model.EventQuery
	filter  streams.Filter
	wanted  func(*sluice.Event) bool // nil: every event that matches the query
	begin   uint64                   // sequence after which the page starts
	after   uint64                   // last sequence that was read
	until   uint64                   // last sequence that is wanted
	scanned int
	most    int // limit of the messages that are read
	ended   bool
	events  []sluice.Event

	replicated bool // the replica that was read may be behind
}

func (l *Log) newReader(ctx context.Context, ns string, q model.EventQuery) (*reader, error) {
	if q.Pattern == "" {
		q.Pattern = "/**"
	}
	if _, err := sluice.ParsePattern(string(q.Pattern)); err != nil {
		return nil, err
	}
	if q.Limit <= 0 {
		q.Limit = defaultPage
	}
	q.Limit = min(q.Limit, maxPage)
	info, err := l.core.EventsInfo(ctx, ns)
	if err != nil {
		return nil, err
	}
	r := &reader{q: q, filter: l.core.Names().Superset(ns, q.Pattern), wanted: q.Visible, after: q.After, until: info.State.LastSeq, most: maxScan, replicated: isReplicated(info)}
	if r.after == 0 {
		r.after, err = l.resolve(ctx, ns, q.Since, info.State)
	} else {
		err = checkWindow(r.after, info.State)
	}
	if err != nil {
		return nil, err
	}
	r.begin = r.after
	if q.Until != "" {
		until, err := l.resolveUntil(ctx, ns, q.Until, info.State)
		if err != nil {
			return nil, err
		}
		r.until = min(r.until, until)
	}
	return r, nil
}

func isReplicated(info *jetstream.StreamInfo) bool {
	return info.Cluster != nil && len(info.Cluster.Replicas) > 0
}

func (r *reader) more() bool {
	return !r.ended && r.after < r.until && len(r.events) < r.q.Limit && r.scanned < r.most
}

// batch returns the number of messages to request: more than are missing after some were unwanted.
func (r *reader) batch() int {
	missing := r.q.Limit - len(r.events)
	if len(r.events) == r.scanned {
		return missing
	}
	return max(missing, 256)
}

// enter adds the wanted events, and reports whether it processed all messages.
func (r *reader) enter(st *stamps, msgs []*nats.Msg) (all bool, err error) {
	for _, msg := range msgs {
		e, err := st.directEvent(msg)
		if e.Seq == 0 {
			return false, err
		}
		if e.Seq > r.until {
			r.ended = true
		}
		if r.ended || len(r.events) == r.q.Limit {
			return false, nil
		}
		r.after = e.Seq
		r.scanned++
		if err == nil && r.wants(&e) {
			r.events = append(r.events, e)
		}
	}
	return true, nil
}

func (r *reader) wants(e *sluice.Event) bool {
	return (r.filter.Exact || r.q.Pattern.Match(e.Path)) && (len(r.q.Types) == 0 || sluice.MatchType(r.q.Types, e.Type)) && (r.wanted == nil || r.wanted(e))
}

func (r *reader) page() model.EventPage {
	page := model.EventPage{Events: r.events, After: r.begin, UpTo: r.until}
	if !r.ended && r.after < r.until {
		page.Next, page.UpTo = r.after, r.after
	}
	return page
}

// NextEvent returns at most limit events from a sequence on that match the filter subject, in
// ascending order; none if there are none now. On a cluster, an event that was stored a moment ago
// may be missing. It skips a message whose subject is not that of a path. A message that cannot be
// decoded is returned with its error. Code NotFound for the namespace. NextEvent reads on until it
// has an event or the log ends.
func (l *Log) NextEvent(ctx context.Context, ns, filterSubject string, from uint64, limit int) ([]model.ReadEvent, error) {
	var events []model.ReadEvent
	for {
		msgs, more, err := l.core.Direct(ctx, ns, natsstore.DirectRequest{Seq: from, Subject: filterSubject, Batch: limit})
		if err != nil {
			return nil, err
		}
		for _, msg := range msgs {
			e, err := l.stamps.directEvent(msg)
			if e.Seq == 0 {
				return nil, err
			}
			from = e.Seq + 1
			if e.Path != "" {
				events = append(events, model.ReadEvent{Event: e, Err: err})
			}
		}
		if len(events) > 0 || !more || len(msgs) == 0 {
			return events, nil
		}
	}
}

// Event returns the event with the sequence. The leader answers. Therefore an event that was stored
// before the call is found. Codes: NotFound; WindowExceeded if it is no longer stored;
// InvalidRequest if the message is not an event.
func (l *Log) Event(ctx context.Context, ns string, seq uint64) (sluice.Event, error) {
	msg, err := l.leaders(ctx, ns, natsstore.MessageRequest{Seq: seq})
	if err != nil && (seq > 0 || natsstore.APICode(err) == 0) {
		return sluice.Event{}, err
	}
	if msg.Seq == 0 {
		return sluice.Event{}, l.eventMissing(ctx, ns, seq)
	}
	header, err := msg.Header()
	if err != nil {
		return sluice.Event{}, fmt.Errorf("read %s: %w", ns, err)
	}
	return l.stamps.eventOf(msg.Subject, header, msg.Data, seq, msg.Time)
}

// eventMissing returns the error for a sequence without an event.
func (l *Log) eventMissing(ctx context.Context, ns string, seq uint64) error {
	info, err := l.core.EventsInfo(ctx, ns)
	switch {
	case err != nil:
		return err
	case seq > 0 && seq < info.State.FirstSeq:
		return windowExceeded(info.State)
	}
	return sluice.Errorf(sluice.NotFound, "event %d not found in %s", seq, ns)
}
