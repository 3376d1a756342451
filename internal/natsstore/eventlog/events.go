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

// Bounds of a page of events.
const (
	defaultPage = 100
	maxPage     = 1000
	maxScan     = 50_000 // messages looked at for one page
)

// Events returns events in the order of the log. Messages that are no events are left out.
// Codes: NotFound for the namespace; InvalidRequest for a pattern or a cursor that is none;
// WindowExceeded, with oldest_available_seq and current_seq, if events after the cursor are no
// longer kept.
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

// collect reads until the page is full, the log is at its end, or enough was looked at.
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
	wanted  func(*sluice.Event) bool // nil: every event that the query chooses
	begin   uint64                   // where it began
	after   uint64                   // everything up to here was looked at
	until   uint64                   // nothing beyond is wanted
	scanned int
	most    int // messages to look at
	ended   bool
	events  []sluice.Event

	replicated bool // the messages that were read may be behind
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

// batch returns how many messages to ask for: more than are missing once some of them were
// not wanted.
func (r *reader) batch() int {
	missing := r.q.Limit - len(r.events)
	if len(r.events) == r.scanned {
		return missing
	}
	return max(missing, 256)
}

// enter takes the wanted events and reports whether it looked at all messages.
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

// NextEvent returns the next events, limit at most, whose subjects match the filter subject,
// from a sequence on, ascending; none if there are none now. On a cluster, an event that was stored
// a moment ago may be missing. A message whose subject is not a path's is left out; one whose
// body cannot be read comes with its data as it is. Code NotFound for the namespace.
func (l *Log) NextEvent(ctx context.Context, ns, filterSubject string, from uint64, limit int) ([]sluice.Event, error) {
	var events []sluice.Event
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
				events = append(events, e)
			}
		}
		if len(events) > 0 || !more || len(msgs) == 0 {
			return events, nil
		}
	}
}

// Event returns the event with the sequence. The leader answers, so that an event that was stored
// before the call is found. Codes: NotFound; WindowExceeded if it is no longer kept;
// InvalidRequest if the message is no event.
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

// eventMissing says why there is no event with the sequence.
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
