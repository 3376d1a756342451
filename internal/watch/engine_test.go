package watch_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/watch"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestWatch_FiresWhenTheConditionBegins(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		s.publish("on", "off") // before the watch has an owner: from pages
		s.run(t, asIs, func() {
			synctest.Wait()
			s.publish("on", "on", "off", "off", "on")
		})
		ids, outcomes := s.said()
		require.Equal(t, []string{"fired-watch-hot-7-1", "fired-watch-hot-7-3", "fired-watch-hot-7-7", alarm(1), alarm(3), alarm(7)}, ids)
		require.Equal(t, []string{"ok", "ok", "ok"}, outcomes)
		ev := s.published[alarm(3)]
		require.Equal(t, map[string]string{"causationid": "e3", "correlationid": "e3", "authid": "user:ann", "authtype": "user"}, ev.Extensions)
		require.Equal(t, uint64(7), s.record.Place, "it was stored at the end")
		require.Empty(t, s.record.Firing)
	})
}

func TestWatch_WaitsForUndecidedEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		s.shows = model.Undecided
		s.run(t, asIs, func() {
			s.publish("on")
			<-time.After(time.Minute)
			ids, _ := s.said()
			require.Empty(t, ids)
			s.locked(func() {
				s.shows = model.Pass
				s.wake()
			})
		})
		ids, _ := s.said()
		require.Equal(t, []string{"fired-watch-hot-7-1", alarm(1)}, ids)
	})
}

func TestWatch_IgnoresUnreadableEvents(t *testing.T) {
	t.Parallel()
	for _, d := range []model.Decision{model.Withhold, model.Lost} {
		t.Run(fmt.Sprint(d), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newSite()
				s.shows = d
				s.run(t, asIs, func() { s.publish("on", "off", "on") })
				ids, _ := s.said()
				require.Empty(t, ids)
				require.Equal(t, uint64(3), s.record.Place)
				require.Empty(t, s.record.Paths)
			})
		})
	}
}

func TestAction_IsRetriedUntilItsOutcomeIsKnown(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		perform func(n int) error
		tries   int
		outcome string
	}{
		"the log cannot be reached": {func(n int) error {
			if n < 30 {
				return sluice.Errorf(sluice.Unavailable, "not now")
			}
			return nil
		}, 30, "ok"},
		"it is forbidden":        {func(int) error { return sluice.Errorf(sluice.Forbidden, "no") }, 1, "forbidden"},
		"it is more than may be": {func(int) error { return sluice.Errorf(sluice.QuotaExceeded, "no") }, 1, "quota_exceeded"},
		"an unknown error":       {func(int) error { return errors.New("a fault of ours") }, 11, "internal"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newSite()
				s.perform = tt.perform
				s.run(t, asIs, func() {
					s.publish("on")
					<-time.After(10 * time.Minute)
				})
				require.Equal(t, tt.tries, s.tries)
				_, outcomes := s.said()
				require.Equal(t, []string{tt.outcome}, outcomes)
			})
		})
	}
}

// What was decided and may have been done is done if it was not.
func TestAction_DecidedOneIsCompleted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		s.publish("on", "off", "on", "on")
		s.record, s.version = watch.Record{Revision: 7, Kept: watch.Kept{Place: 4}, Firing: []watch.Firing{{Seq: 1}, {Seq: 3}}}, 5
		s.published[alarm(1)] = sluice.Event{ID: alarm(1), Extensions: map[string]string{sluice.AuthID: "user:ann"}}
		s.unknown = true
		s.run(t, asIs, func() {
			<-time.After(time.Minute)
			require.Zero(t, s.tries, "while it is not known what was done, nothing is")
			s.locked(func() { s.unknown = false })
			<-time.After(time.Minute)
		})
		require.Equal(t, 1, s.tries)
		ids, outcomes := s.said()
		require.Equal(t, []string{"fired-watch-hot-7-1", "fired-watch-hot-7-3", alarm(1), alarm(3)}, ids)
		require.Equal(t, []string{"ok", "ok"}, outcomes)
	})
}

// An earlier build published events under ids that others can compute: only one of the creator is that of the firing.
func TestAction_EarlierBuildsEventIsTheCreators(t *testing.T) {
	t.Parallel()
	const id = "watch-hot-7-1"
	for by, tries := range map[string]int{"user:ann": 0, "user:eve": 1} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite()
			s.publish("on")
			s.record, s.version = watch.Record{Revision: 7, Kept: watch.Kept{Place: 1}, Firing: []watch.Firing{{Seq: 1}}}, 5
			s.published[id] = sluice.Event{ID: id, Extensions: map[string]string{sluice.AuthID: by}}
			s.run(t, asIs, func() { <-time.After(time.Minute) })
			require.Equal(t, tries, s.tries, by)
			event := []string{id, alarm(1)}[tries]
			require.Contains(t, s.published, event)
			require.Contains(t, string(s.published["fired-watch-hot-7-1"].Data), `"event_id":"`+event+`"`)
		})
	}
}

// A replica that finds another one's state of the watch continues from it.
func TestWatch_SecondReplicaContinuesFromTheStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		s.foreign = func(r *watch.Record) {
			*r = watch.Record{Revision: 7, Kept: watch.Kept{Place: 3}}
		}
		s.run(t, asIs, func() {
			s.publish("on", "off", "on", "off", "on")
			<-time.After(time.Minute)
		})
		ids, _ := s.said()
		require.Equal(t, []string{"fired-watch-hot-7-5", alarm(5)}, ids, "the first two were the other's")
	})
}

// What has left the log, or may not be read any more, when a duration is over is told of.
func TestDuration_LostReadingDoesNotFire(t *testing.T) {
	t.Parallel()
	lasting := func(w *sluice.Watch) { w.For = sluice.Duration(time.Minute) }
	for name, tt := range map[string]struct {
		change func(*site)
		id     string
	}{
		"it left the log":                   {func(s *site) { s.gone = 1 }, "missed-watch-hot-7-1-expired"},
		"its creator may not read it again": {func(s *site) { s.shows = model.Withhold }, "missed-watch-hot-7-1-not_readable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newSite()
				s.run(t, lasting, func() {
					s.publish("on")
					<-time.After(30 * time.Second)
					s.locked(func() { tt.change(s) })
					<-time.After(35 * time.Second)
				})
				ids, _ := s.said()
				require.Equal(t, []string{tt.id}, ids)
			})
		})
	}
}

// An event that ends a condition in time does so, though it arrives later.
func TestDuration_LateArrivalStillEndsTheCondition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		s.run(t, func(w *sluice.Watch) { w.For = sluice.Duration(time.Minute) }, func() {
			s.publish("on")
			<-time.After(59 * time.Second)
			s.locked(func() { s.slow = 1 })
			s.publish("off")
			<-time.After(time.Minute)
			s.locked(func() {
				s.slow = 0
				s.wake()
			})
			<-time.After(time.Minute)
			s.publish("on")
			<-time.After(2 * time.Minute)
		})
		ids, _ := s.said()
		require.Equal(t, []string{"fired-watch-hot-7-3", alarm(3)}, ids)
	})
}

// A watch that has nothing to do but to be overtaken stores where it is, now and then.
func TestPlace_IsStoredPeriodically(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		s.run(t, func(w *sluice.Watch) { w.Pattern = "/other" }, func() {
			for range 60 {
				s.publish("on", "on")
				<-time.After(time.Second)
			}
			<-time.After(time.Hour)
			s.locked(func() {
				require.InDelta(t, 12, s.puts, 1, "every five seconds, and not at all when nothing comes")
				require.Equal(t, uint64(120), s.record.Place)
			})
		})
	})
}
