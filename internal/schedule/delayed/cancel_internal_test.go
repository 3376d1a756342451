package delayed

import (
	"bytes"
	"context"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/schedule"
	"github.com/sluice-io/sluice/internal/schedule/action"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// While storing an event fails, it can be cancelled in between: at once if nothing was sent, else when the log says that it has nothing.
func TestCancel_WorksWhileStoringFails(t *testing.T) {
	t.Parallel()
	away := sluice.Errorf(sluice.Unavailable, "away")
	for _, c := range []struct {
		name         string
		before, sent error
		after        time.Duration
		stored       bool
		want         sluice.Code
	}{
		{"nothing was sent", away, nil, 0, false, ""},
		{"it was sent a moment ago", nil, away, schedule.OnTheWay - 1, false, sluice.Conflict},
		{"it was sent, and the log has nothing", nil, away, schedule.OnTheWay, false, ""},
		{"it was sent, and the log has it", nil, away, schedule.OnTheWay, true, sluice.Conflict},
	} {
		w := &world{
			now: time.Unix(1_700_000_000, 0), records: map[string]model.Scheduled{}, log: map[string]time.Time{}, told: map[string]bool{}, window: time.Hour, left: -1,
			refuse: c.sent, away: c.before,
		}
		_, err := w.Put(t.Context(), &model.Scheduled{DeliverAt: w.now, Creator: sluice.Creator{CreatedBy: sluice.Root}, Event: sluice.Event{Namespace: "acme", ID: "e", Path: "/a"}})
		require.NoError(t, err)
		e := w.engine("one")
		again := e.due.Fire(t.Context(), streams.ScheduledKey("acme", "e"))
		if c.stored {
			w.log["e"] = w.now
		}
		w.now = w.now.Add(c.after)
		require.Equal(t, c.want, sluice.CodeOf(e.Cancel(t.Context(), w.records["e"], "user:bob")), c.name)
		w.refuse, w.away, w.now = nil, nil, again.At
		require.Zero(t, e.due.Fire(t.Context(), streams.ScheduledKey("acme", "e")))
		require.Empty(t, w.records)
		require.Equal(t, c.want == "", len(w.stored) == 0 && len(w.log) == 0, c.name)
	}
}

// The log's event under the id is taken for the delayed one until the log says otherwise: it is not cancelled.
func TestCancel_RefusesPossiblyStoredEvents(t *testing.T) {
	t.Parallel()
	w := &world{
		now: time.Unix(1_700_000_000, 0), records: map[string]model.Scheduled{}, log: map[string]time.Time{}, told: map[string]bool{}, window: time.Hour, left: -1,
		blind: sluice.Errorf(sluice.Unavailable, "away"),
	}
	_, err := w.Put(t.Context(), &model.Scheduled{DeliverAt: w.now, Creator: sluice.Creator{CreatedBy: sluice.Root}, Event: sluice.Event{Namespace: "acme", ID: "e", Path: "/a"}})
	require.NoError(t, err)
	w.log["e"] = w.now
	e := w.engine("one")
	require.NotZero(t, e.due.Fire(t.Context(), streams.ScheduledKey("acme", "e")))
	for range 2 {
		require.False(t, w.records["e"].Claim.Idle.IsZero())
		require.Equal(t, sluice.Conflict, sluice.CodeOf(e.Cancel(t.Context(), w.records["e"], "user:bob")))
		w.now = w.now.Add(schedule.OnTheWay)
	}
	w.blind = nil
	require.Zero(t, e.due.Fire(t.Context(), streams.ScheduledKey("acme", "e")))
	require.Empty(t, w.records)
	require.Zero(t, w.tells)
}

// On a full store, a due event waits in memory, and can be cancelled; also if a server died while it stored it.
func TestCancel_WorksWithoutRoom(t *testing.T) {
	t.Parallel()
	for _, died := range []bool{false, true} {
		full := sluice.StorageTight.Problem()
		w := &world{
			now: time.Unix(1_700_000_000, 0), records: map[string]model.Scheduled{}, log: map[string]time.Time{}, told: map[string]bool{}, window: time.Hour, left: -1,
			full: full, refuse: full,
		}
		s := model.Scheduled{DeliverAt: w.now, Creator: sluice.Creator{CreatedBy: sluice.Root}, Event: sluice.Event{Namespace: "acme", ID: "e", Path: "/a"}}
		if died {
			s.Claim = &sluice.Claim{By: "two", Since: w.now, At: w.now.Add(-action.ClaimFor), Tries: 1}
		}
		_, err := w.Put(t.Context(), &s)
		require.NoError(t, err)
		e := w.engine("one")
		var last time.Duration
		for range 4 {
			again := e.due.Fire(t.Context(), streams.ScheduledKey("acme", "e"))
			last, w.now = again.At.Sub(w.now), again.At
		}
		require.GreaterOrEqual(t, last, 2*time.Second)
		require.Equal(t, died, w.records["e"].Claim != nil)
		require.Equal(t, map[bool]uint64{false: 1, true: 3}[died], w.revision, "of the attempts, none is stored but the end of the interrupted one")
		w.now = w.now.Add(schedule.OnTheWay)
		require.NoError(t, e.Cancel(t.Context(), w.records["e"], "user:bob"))
		require.Empty(t, w.stored)
		require.Empty(t, w.records)
	}
}

// An event that is cancelled in a full store is told of and removed when there is room, not when it would be due.
func TestCancel_IsToldOnceThereIsRoom(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{-time.Minute, 90 * 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			const outage = 10 * time.Minute
			w := &world{records: map[string]model.Scheduled{}, told: map[string]bool{}, left: -1, tight: time.Now().Add(outage)}
			at, key := time.Now().Add(ahead), streams.ScheduledKey("acme", "e")
			_, err := w.Put(t.Context(), &model.Scheduled{DeliverAt: at, Event: sluice.Event{Namespace: "acme", ID: "e", Path: "/a"}, Creator: sluice.Creator{CreatedBy: sluice.Root}})
			require.NoError(t, err)
			e := w.engine("one")
			require.NoError(t, e.Cancel(t.Context(), w.records["e"], "user:bob"))
			cancelled := w.records["e"]
			require.Equal(t, sluice.OutcomeCancelled, cancelled.Outcome)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				ended <- e.due.Run(ctx, func(ctx context.Context, f func(string, *model.Scheduled)) error {
					f(key, &cancelled)
					f("", nil)
					<-ctx.Done()
					return ctx.Err()
				})
			}()
			<-time.After(outage + time.Minute)
			cancel()
			require.ErrorIs(t, <-ended, context.Canceled)
			require.Equal(t, 1, w.tells)
			require.Empty(t, w.records)
		})
	}
}

// While a log refuses to be told of cancelled events, one of them is tried for all, less often each time; then all are told of.
func TestCancel_OneIsTriedWhileAnnouncementsAreRefused(t *testing.T) {
	t.Parallel()
	const events, outage = 100, time.Hour
	var lines bytes.Buffer
	begin := time.Unix(1_700_000_000, 0)
	w := &world{now: begin, records: map[string]model.Scheduled{}, told: map[string]bool{}, left: -1, deaf: sluice.Errorf(sluice.QuotaExceeded, "the log is full"), lines: slog.New(slog.NewTextHandler(&lines, nil))}
	e, next := w.engine("one"), map[string]time.Time{}
	for n := range events {
		id := strconv.Itoa(n)
		_, err := w.Put(t.Context(), &model.Scheduled{DeliverAt: begin.Add(24 * time.Hour), Outcome: sluice.OutcomeCancelled, Event: sluice.Event{Namespace: "acme", ID: id, Path: sluice.Path("/" + id)}})
		require.NoError(t, err)
		next[streams.ScheduledKey("acme", id)] = begin
	}
	for len(next) > 0 {
		var first string
		for key, at := range next {
			if first == "" || at.Before(next[first]) {
				first = key
			}
		}
		if w.now = next[first]; w.now.Sub(begin) >= outage && w.deaf != nil {
			w.deaf = nil
			require.LessOrEqual(t, w.asked, 70)
			require.Equal(t, w.asked, strings.Count(lines.String(), "level=WARN"))
		}
		if next[first] = e.due.Fire(t.Context(), first).At; next[first].IsZero() {
			delete(next, first)
		}
	}
	require.Empty(t, w.records)
	require.Equal(t, events, w.tells)
	require.LessOrEqual(t, w.now.Sub(begin), outage+time.Minute)
}
