package eventlog

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// windowScan is the maximum number of messages that are read for one page of a replay window. With
// a filter that matches rarely, a page is not full, but has a position from which to continue.
const windowScan = 10_000

// Window returns the events of a subscription that were stored within its replay window, in the
// order of the log (S0-50…52). It does not return events from before the start of the subscription.
// Codes: NotFound for the unknown ID of an event in q.After; WindowExceeded, with
// oldest_available_seq, current_seq and replay_window_s, if events between q.After and the window
// are no longer available.
func (l *Log) Window(ctx context.Context, sub *sluice.Subscription, q model.WindowQuery) (model.WindowPage, error) {
	info, err := l.core.EventsInfo(ctx, sub.Namespace)
	if err != nil {
		return model.WindowPage{}, err
	}
	after, err := l.windowStart(ctx, sub, q.After, info.State)
	if err != nil {
		return model.WindowPage{}, err
	}
	if q.Limit <= 0 {
		q.Limit = defaultPage
	}
	r := &reader{
		q:      model.EventQuery{Pattern: sub.Pattern, Types: q.Types, Limit: min(q.Limit, maxPage)},
		filter: l.core.Names().Superset(sub.Namespace, sub.Pattern), wanted: q.Wanted,
		after: after, until: info.State.LastSeq, most: windowScan,
	}
	if err := l.collect(ctx, sub.Namespace, r); err != nil {
		return model.WindowPage{}, err
	}
	page := model.WindowPage{Events: r.events, Next: r.after, More: r.after < r.until}
	if !r.ended || !page.More {
		return page, nil
	}
	// A replica that is behind does not know the events that it lacks.
	next, err := l.NextSeq(ctx, sub.Namespace, r.filter.Subject, r.after+1)
	if err != nil {
		return model.WindowPage{}, err
	}
	if next == 0 || next > r.until {
		page.Next, page.More = r.until, false
	}
	return page, nil
}

// windowStart returns the sequence after which a page starts.
func (l *Log) windowStart(ctx context.Context, sub *sluice.Subscription, after string, state jetstream.StreamState) (uint64, error) {
	opens := time.Now().Add(-sub.ReplayWindow.Std())
	floor, err := l.before(ctx, sub.Namespace, opens, state)
	if err != nil {
		return 0, err
	}
	floor = max(floor, max(state.FirstSeq, 1)-1)
	began := max(sub.From.Seq, 1) - 1
	if sub.From.Kind == sluice.StartTime {
		if began, err = l.before(ctx, sub.Namespace, sub.From.Time, state); err != nil {
			return 0, err
		}
	}
	if after == "" || after == cursorBeginning {
		return max(floor, began), nil
	}
	place, err := l.windowPlace(ctx, sub.Namespace, after, opens, state)
	if err != nil && sluice.CodeOf(err) != sluice.WindowExceeded {
		return 0, err
	}
	place = max(place, began)
	if err != nil || place < floor {
		return 0, outsideWindow(sub, floor+1, state.LastSeq)
	}
	return place, nil
}

// windowPlace returns the sequence of a cursor. Code WindowExceeded if the cursor is an unknown ID,
// and the time or the sequence in it is before the window or the log.
func (l *Log) windowPlace(ctx context.Context, ns, after string, opens time.Time, state jetstream.StreamState) (uint64, error) {
	if after == cursorNow {
		return state.LastSeq, nil
	}
	if at, ok := parseTime(after); ok {
		if expired(at, state) {
			return 0, nil
		}
		return l.before(ctx, ns, at, state)
	}
	place, err := l.resolveSeq(ctx, ns, after)
	if sluice.CodeOf(err) != sluice.NotFound {
		return place, err
	}
	made, hasTime := UUIDTime(after)
	was, hasPlace := model.PlaceOf(ns, after)
	if hasTime && made.Before(opens) || hasPlace && was < state.FirstSeq {
		return 0, windowExceeded(state)
	}
	return 0, err
}

func outsideWindow(sub *sluice.Subscription, oldest, current uint64) error {
	return sluice.Errorf(sluice.WindowExceeded, "the next events are older than the replay window of %s or no longer stored; continue at sequence %d or later", sub.ReplayWindow, oldest).
		With("oldest_available_seq", oldest).With("current_seq", current).With("replay_window_s", sub.ReplayWindowS)
}

// Await waits until the log has an event after the sequence that the subscription gets and for
// which wanted returns true, or ctx ends. It returns the sequence up to which there is none. It
// returns no error if ctx ends.
func (l *Log) Await(ctx context.Context, sub *sluice.Subscription, after uint64, wanted func(*sluice.Event) bool) (uint64, error) {
	filter := l.core.Names().Superset(sub.Namespace, sub.Pattern)
	err := l.core.Follow(ctx, l.core.Names().EventsStream(sub.Namespace), jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: after + 1, FilterSubject: filter.Subject,
	}, natsstore.FollowAhead, func(msg *nats.Msg, meta *nats.MsgMetadata) (bool, error) {
		if msg == nil {
			return true, nil
		}
		e, err := l.EventIn(msg, meta)
		if err == nil && (filter.Exact || sub.Pattern.Match(e.Path)) && wanted(&e) {
			return false, nil
		}
		after = e.Seq
		return true, nil
	})
	if ctx.Err() != nil {
		return after, nil //nolint:nilerr // no event arrived in time, which is not an error
	}
	return after, err
}
