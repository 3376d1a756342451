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

// windowScan is how many messages one page of a replay window looks at: a filter that matches
// rarely gets a page that is not full, and a place to go on from.
const windowScan = 10_000

// Window returns, in the order of the log, the events that a subscription gets, as far as they
// were stored within its replay window (S0-50…52). Events from before the subscription began are
// not its own. Codes: NotFound for an After that is an unknown event's id; WindowExceeded, with
// oldest_available_seq, current_seq and replay_window_s, if events between After and the window
// cannot be had any more.
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
	// A replica that lags behind does not know the events that it lacks.
	next, err := l.NextSeq(ctx, sub.Namespace, r.filter.Subject, r.after+1)
	if err != nil {
		return model.WindowPage{}, err
	}
	if next == 0 || next > r.until {
		page.Next, page.More = r.until, false
	}
	return page, nil
}

// windowStart returns the sequence after which a page begins.
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

// windowPlace returns the sequence that a cursor means. Code WindowExceeded if it is an id that
// says of itself that its event is older than the window or the log, and that is not kept.
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
	was, hasPlace := PlaceOf(ns, after)
	if hasTime && made.Before(opens) || hasPlace && was < state.FirstSeq {
		return 0, windowExceeded(state)
	}
	return 0, err
}

func outsideWindow(sub *sluice.Subscription, oldest, current uint64) error {
	return sluice.Errorf(sluice.WindowExceeded, "the next events are older than the replay window of %s or no longer stored; continue at sequence %d or later", sub.ReplayWindow, oldest).
		With("oldest_available_seq", oldest).With("current_seq", current).With("replay_window_s", sub.ReplayWindowS)
}

// Await waits until the log has an event behind the sequence that the subscription gets and
// that wanted takes, or ctx ends. It returns up to where there is none, and never an error
// because of ctx.
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
		return after, nil //nolint:nilerr // nothing came in time, which is an answer
	}
	return after, err
}
