package watch_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/watch"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Issue 13, F5: readings that may be lost to damage are reported as missed, once, when the watch passes them or when they are
// found, also if an earlier process passed them; those of other paths are not.
func TestGap_IsReportedAsMissed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		s.lost = []sluice.Gap{{From: 2, To: 3, Events: 2}, {From: 4, To: 4, Path: "/z", Events: 1}, {From: 6, To: 6, Path: "/a", Events: 1}}
		s.run(t, asIs, func() {
			s.publish("off", "off", "off", "off", "off")
			<-time.After(time.Minute)
			ids, _ := s.said()
			require.Equal(t, []string{"missed-watch-hot-7-2-unreadable"}, ids)
			require.Contains(t, string(s.published[ids[0]].Data), `"reason":"unreadable","count":2,"seq":2}`)
			s.locked(func() { s.lost = append(s.lost, sluice.Gap{From: 1, To: 1, Path: "/a", Events: 1}) })
			<-time.After(time.Minute)
			s.publish("off", "off")
			<-time.After(time.Minute)
		})
		want := []string{"missed-watch-hot-7-1-unreadable", "missed-watch-hot-7-2-unreadable", "missed-watch-hot-7-6-unreadable"}
		ids, _ := s.said()
		require.Equal(t, want, ids)
		require.EqualValues(t, 4, s.record.Totals.Missed)
		require.EqualValues(t, 7, s.record.Place)

		s.lost = append(s.lost, sluice.Gap{From: 5, To: 5, Events: 1})
		for range 2 {
			s.run(t, asIs, func() {
				s.publish("off")
				<-time.After(time.Minute)
			})
		}
		ids, _ = s.said()
		require.Equal(t, slices.Insert(want, 2, "missed-watch-hot-7-5-unreadable"), ids, "an earlier process passed it")
		require.EqualValues(t, 5, s.record.Totals.Missed)
		require.Len(t, s.record.Gaps, 4)
	})
}

// What a crash kept from being stored is reported again, under the same id.
func TestGap_IsCountedOnceAfterAConflict(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		s.lost = []sluice.Gap{{From: 2, To: 2, Events: 1}}
		s.foreign = func(r *watch.Record) { *r = watch.Record{Revision: 7, Kept: watch.Kept{Place: 1}} }
		s.run(t, asIs, func() {
			s.publish("off", "off", "off")
			<-time.After(time.Minute)
		})
		ids, _ := s.said()
		require.Equal(t, []string{"missed-watch-hot-7-2-unreadable"}, ids)
		require.EqualValues(t, 1, s.record.Totals.Missed)
	})
}

// A creator that may not read a path does not learn that events of it are lost.
func TestGap_OfHiddenPathIsNotReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite()
		s.lost, s.shows = []sluice.Gap{{From: 1, To: 1, Path: "/a", Events: 1}}, model.Withhold
		s.run(t, asIs, func() {
			s.publish("off", "off")
			<-time.After(time.Minute)
		})
		ids, _ := s.said()
		require.Empty(t, ids)
	})
}
