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

// While a log refuses to be told of events that were cancelled or refused, one is tried for all, less often each time; then all are told of.
func TestEnd_OneIsTriedForAll(t *testing.T) {
	t.Parallel()
	const events, outage = 100, time.Hour
	for _, s := range []model.Scheduled{{DeliverAt: time.Unix(1_800_000_000, 0), Outcome: sluice.OutcomeCancelled}, {Creator: sluice.Creator{CreatedBy: sluice.Root}}} {
		var lines bytes.Buffer
		begin := time.Unix(1_700_000_000, 0)
		w := &world{
			now: begin, records: map[string]model.Scheduled{}, told: map[string]bool{}, left: -1, refuse: sluice.Errorf(sluice.Forbidden, "no"),
			deaf: sluice.Errorf(sluice.QuotaExceeded, "the log is full"), lines: slog.New(slog.NewTextHandler(&lines, nil)),
		}
		e, next, fires := w.engine("one"), map[string]time.Time{}, 0
		for n := range events {
			s.Event = sluice.Event{Namespace: "acme", ID: strconv.Itoa(n), Path: sluice.Path("/" + strconv.Itoa(n))}
			_, err := w.Put(t.Context(), &s)
			require.NoError(t, err)
			next[streams.ScheduledKey("acme", s.Event.ID)] = begin
		}
		for len(next) > 0 {
			key := earliest(next)
			if w.now = next[key]; w.now.Sub(begin) >= outage && w.deaf != nil {
				w.deaf = nil
				require.LessOrEqual(t, w.asked, 70)
				require.LessOrEqual(t, fires, 70*events)
				require.Equal(t, w.asked, strings.Count(lines.String(), "due record not processed yet"))
			}
			fires++
			if next[key] = e.due.Fire(t.Context(), key).At; next[key].IsZero() {
				delete(next, key)
			}
		}
		require.Empty(t, w.records)
		require.Equal(t, events, w.tells)
		require.LessOrEqual(t, w.now.Sub(begin), outage+time.Minute)
	}
}

func earliest(all map[string]time.Time) (first string) {
	for key, at := range all {
		if first == "" || at.Before(all[first]) {
			first = key
		}
	}
	return first
}
