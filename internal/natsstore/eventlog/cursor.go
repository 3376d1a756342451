package eventlog

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Cursors with a special meaning.
const (
	cursorBeginning = "-1"
	cursorNow       = "now"
)

// Resolve returns the sequence that a cursor means; reading continues after it. A cursor is "-1" or
// "" (the start of the stored events), "now", a sequence, a time (RFC 3339), or the ID of an event.
// Codes: NotFound for the namespace or an unknown ID; WindowExceeded, with oldest_available_seq and
// current_seq, if events after the cursor are no longer stored. A cursor that is a sequence after
// the end of the log is returned as it is. A cursor that is an ID may cost a search (EventByID).
func (l *Log) Resolve(ctx context.Context, ns, cursor string) (uint64, error) {
	info, err := l.core.EventsInfo(ctx, ns)
	if err != nil {
		return 0, err
	}
	return l.resolve(ctx, ns, cursor, info.State)
}

func (l *Log) resolve(ctx context.Context, ns, cursor string, state jetstream.StreamState) (uint64, error) {
	switch cursor {
	case "", cursorBeginning:
		return max(state.FirstSeq, 1) - 1, nil
	case cursorNow:
		return state.LastSeq, nil
	}
	if at, ok := parseTime(cursor); ok {
		if expired(at, state) {
			return 0, windowExceeded(state)
		}
		return l.before(ctx, ns, at, state)
	}
	after, err := l.resolveSeq(ctx, ns, cursor)
	if err != nil {
		return 0, err
	}
	return after, checkWindow(after, state)
}

// resolveUntil returns the last sequence that a cursor includes.
func (l *Log) resolveUntil(ctx context.Context, ns, cursor string, state jetstream.StreamState) (uint64, error) {
	switch cursor {
	case cursorBeginning:
		return 0, nil
	case cursorNow:
		return state.LastSeq, nil
	}
	if at, ok := parseTime(cursor); ok {
		return l.before(ctx, ns, at.Add(1), state)
	}
	return l.resolveSeq(ctx, ns, cursor)
}

// resolveSeq returns the sequence of a cursor that is a sequence or the ID of an event.
func (l *Log) resolveSeq(ctx context.Context, ns, cursor string) (uint64, error) {
	if seq, err := strconv.ParseUint(cursor, 10, 64); err == nil {
		return min(seq, math.MaxUint64-1), nil // seq+1 must not overflow
	}
	e, err := l.EventByID(ctx, ns, cursor)
	if sluice.CodeOf(err) == sluice.NotFound {
		return 0, sluice.Errorf(sluice.NotFound, "cursor %q is neither the ID of a recent event in %s, nor a sequence, a time, -1 or now; "+
			"for an older event, use its sequence", cursor, ns)
	}
	return e.Seq, err
}

// before returns the sequence before the first event that was stored at a time or later.
func (l *Log) before(ctx context.Context, ns string, at time.Time, state jetstream.StreamState) (uint64, error) {
	if at.After(state.LastTime) || state.Msgs == 0 {
		return state.LastSeq, nil
	}
	seq, err := l.SeqAt(ctx, ns, at)
	if err != nil || seq == 0 {
		return state.LastSeq, err
	}
	return seq - 1, nil
}

// SeqAt returns the sequence of the first message that was stored at a time or later. It returns 0
// only if the leader has none either.
func (l *Log) SeqAt(ctx context.Context, ns string, at time.Time) (seq uint64, err error) {
	err = natsstore.UntilCaughtUp(ctx, func() error {
		msgs, _, err := l.core.Direct(ctx, ns, natsstore.DirectRequest{StartTime: &at, Batch: 1})
		if err != nil {
			return err
		}
		if len(msgs) > 0 {
			seq, err = strconv.ParseUint(natsstore.LastHeader(msgs[0], natsstore.HeaderSequence), 10, 64)
			return err
		}
		last, err := l.leaders(ctx, ns, natsstore.MessageRequest{Last: ">"})
		if err == nil && last.Seq > 0 && !last.Time.Before(at) {
			err = natsstore.ErrBehind
		}
		return err
	})
	return seq, natsstore.StoreError(ctx, err)
}

func parseTime(s string) (time.Time, bool) {
	at, err := time.Parse(time.RFC3339Nano, s)
	return at, err == nil
}

// expired reports whether events that were stored at the time or later may have been deleted.
func expired(at time.Time, state jetstream.StreamState) bool {
	if state.FirstSeq <= 1 {
		return false
	}
	if state.Msgs == 0 {
		return !at.After(state.LastTime)
	}
	return at.Before(state.FirstTime)
}

func checkWindow(after uint64, state jetstream.StreamState) error {
	if state.FirstSeq > 0 && after < state.FirstSeq-1 {
		return windowExceeded(state)
	}
	return nil
}

func windowExceeded(state jetstream.StreamState) error {
	return sluice.Errorf(sluice.WindowExceeded, "the next events are no longer stored; start at sequence %d or later", state.FirstSeq).
		With("oldest_available_seq", state.FirstSeq).With("current_seq", state.LastSeq)
}

// RecentByID returns the event with the ID if it can be found without reading the log: while its ID
// is in the dedup window of the namespace, or if the ID contains its sequence. The leader answers.
// Therefore an event that was stored before the call is found. Code NotFound for every other ID,
// for a message that cannot be decoded, and for the namespace.
func (l *Log) RecentByID(ctx context.Context, ns, id string) (sluice.Event, error) {
	if sluice.CheckNamespaceName(ns) != nil {
		return sluice.Event{}, natsstore.NamespaceMissing(ns)
	}
	unknown := sluice.Errorf(sluice.NotFound, "event %q not found in the dedup window of %s", id, ns)
	if len(id) > maxRecentID {
		return sluice.Event{}, unknown
	}
	seq, err := natsstore.Asked(ctx, func(ctx context.Context) (uint64, error) {
		seq, err := l.guess(ctx, ns, id)
		if isUnanswered(err) {
			_, missing := l.core.EventsInfo(ctx, ns)
			err = cmp.Or(missing, err)
		}
		return seq, err
	})
	if err != nil {
		return sluice.Event{}, fmt.Errorf("look up an event: %w", natsstore.StoreError(ctx, err))
	}
	if seq == 0 {
		return sluice.Event{}, unknown
	}
	e, err := l.Event(ctx, ns, seq)
	switch sluice.CodeOf(err) { //nolint:exhaustive // other codes are returned
	case sluice.NotFound, sluice.WindowExceeded, sluice.InvalidRequest:
		return sluice.Event{}, unknown
	}
	if err == nil && e.ID != id { // ce-id has precedence over Nats-Msg-Id, which may be the ID of another event
		err = unknown
	}
	return e, err
}

// maxRecentID is the maximum length of an ID that is looked up, because it is sent in a header.
const maxRecentID = 4096

func isUnanswered(err error) bool {
	return errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrNoResponders)
}

// guess returns the sequence at which the event with the ID may be, otherwise 0. It does not look up
// an ID that names its place, because any message may have that one as its Nats-Msg-Id.
func (l *Log) guess(ctx context.Context, ns, id string) (uint64, error) {
	if seq, ok := model.PlaceOf(ns, id); ok {
		return seq, nil
	}
	return l.lookUp(ctx, ns, id)
}

// findNear returns the sequence of the event with the ID if it can be found without reading the
// log, otherwise 0.
func (l *Log) findNear(ctx context.Context, ns, id string) (uint64, error) {
	guess, err := l.guess(ctx, ns, id)
	if err != nil || guess == 0 {
		return 0, err
	}
	// ce-id has precedence over Nats-Msg-Id, which may be the ID of another event.
	if e, err := l.Event(ctx, ns, guess); err != nil || e.ID != id {
		return 0, nil //nolint:nilerr // the caller reads the log next, and gets the error again
	}
	return guess, nil
}

// UUIDTime returns the time in a UUIDv7.
func UUIDTime(id string) (time.Time, bool) {
	digits := strings.ReplaceAll(id, "-", "")
	raw, err := hex.DecodeString(digits)
	if err != nil || len(id) != 36 || len(raw) != 16 || raw[6]>>4 != 7 {
		return time.Time{}, false
	}
	var ms int64
	for _, b := range raw[:6] {
		ms = ms<<8 | int64(b)
	}
	return time.UnixMilli(ms), true
}
