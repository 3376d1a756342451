package watch_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/watch"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// What was held back and may have been told is told if it was not.
func TestCooldown_EarlierHeldEventsAreReported(t *testing.T) { // S2-44
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		s.publish("on", "off", "on")
		s.record, s.version = watch.Record{Revision: 7, Kept: watch.Kept{Place: 3}, Untold: []watch.Said{
			{ID: "missed-watch-hot-7-1-cooldown", Kind: sluice.TypeWatchMissed, Data: json.RawMessage(`{"count":1}`)},
			{ID: "throttled-watch-hot-7-3", Kind: sluice.TypeWatchThrottled, Seq: 3, Data: json.RawMessage(`{"dropped":4}`)},
		}}, 5
		s.published["missed-watch-hot-7-1-cooldown"] = sluice.Event{ID: "missed-watch-hot-7-1-cooldown", Source: "it is there"}
		s.run(t, asIs, func() { <-time.After(time.Minute) })
		ids, _ := s.said()
		require.Equal(t, []string{"missed-watch-hot-7-1-cooldown", "throttled-watch-hot-7-3"}, ids)
		require.Equal(t, "it is there", s.published[ids[0]].Source)
		require.JSONEq(t, `{"dropped":4}`, string(s.published[ids[1]].Data))
		require.Equal(t, sluice.WatchPath("hot"), s.published[ids[1]].Path)
		require.Empty(t, s.record.Untold)
	})
}

// What a log takes late is told late, and nothing else is done before.
func TestReport_WaitsForTheLog(t *testing.T) { // S2-44
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		s.shut = sluice.Errorf(sluice.Unavailable, "not now")
		s.run(t, func(w *sluice.Watch) { w.Trigger, w.Cooldown = sluice.TriggerLevel, sluice.Duration(time.Hour) }, func() {
			s.publish("on", "on", "on")
			<-time.After(time.Minute)
			ids, _ := s.said()
			require.Equal(t, []string{alarm(1)}, ids)
			require.Equal(t, "missed-watch-hot-7-2-cooldown", s.record.Untold[0].ID, "it is kept")
			s.locked(func() { s.shut = nil })
			<-time.After(time.Minute)
		})
		ids, _ := s.said()
		require.Equal(t, []string{"fired-watch-hot-7-1", "missed-watch-hot-7-2-cooldown", alarm(1)}, ids)
	})
}

// A watch that was cancelled by a process that died before it could tell is announced by the process that serves it next.
func TestCancel_IsReportedAndForgotten(t *testing.T) { // S2-45
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		s.shut = sluice.Errorf(sluice.Unavailable, "not now")
		s.run(t, asIs, func() {
			s.watch <- &watch.Stored{
				Watch:  sluice.Watch{ID: "old", Namespace: "acme", Revision: 9, Creator: sluice.Creator{CreatedBy: "user:ann"}},
				Untold: &watch.Cancelled{ID: "cancelled-watch-old-8", By: "user:eve"},
			}
			<-time.After(time.Minute)
			require.Empty(t, s.buried)
			s.locked(func() { s.shut = nil })
			<-time.After(time.Minute)
		})
		require.JSONEq(t, `{"creator":"user:ann","watch_id":"old","cancelled_by":"user:eve"}`, string(s.published["cancelled-watch-old-8"].Data))
		require.Equal(t, []string{"old 9"}, s.buried)
	})
}

func id(w *watch.Stored) string {
	if w == nil {
		return "hot"
	}
	return w.ID
}

func (s *site) Delete(_ context.Context, _, id string, revision uint64) error {
	s.locked(func() { s.buried = append(s.buried, fmt.Sprint(id, " ", revision)) })
	return nil
}

func (s *site) Forget(context.Context, string, string) error {
	s.locked(func() { s.record, s.version = watch.Record{}, 0 })
	return nil
}

func TestWatch_DeletedOneDoesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		s.run(t, asIs, func() {
			s.publish("on", "off")
			synctest.Wait()
			require.Empty(t, s.deleted)
			s.watch <- nil
			synctest.Wait()
			s.publish("on")
		})
		require.Equal(t, []string{"hot"}, s.deleted, "its counters are removed")
		ids, _ := s.said()
		require.Equal(t, []string{"fired-watch-hot-7-1", alarm(1)}, ids)
	})
}

// The counters of a deleted watch go also where another replica runs it.
func TestWatch_DeletedElsewhereLosesItsCounters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		s.theirs = true
		s.run(t, asIs, func() {
			s.watch <- nil
			synctest.Wait()
		})
		require.Equal(t, []string{"hot"}, s.deleted)
	})
}
