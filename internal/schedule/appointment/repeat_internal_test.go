package appointment

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/schedule"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// One that repeats by the clock on a wall fires at each of its times, also when that clock is set in between; of what was missed, those that
// are within the grace are one.
func TestRepeat_FollowsTheWallClock(t *testing.T) {
	t.Parallel()
	at := func(text string) time.Time {
		is, err := time.Parse(time.RFC3339, text)
		require.NoError(t, err)
		return is
	}
	w := newWorld(at("2026-03-27T12:00:00Z"))
	daily := func(a *sluice.Appointment) {
		a.At, a.Notice, a.Cron, a.TimeZone, a.Grace = time.Time{}, 0, "30 8,20 * * *", "Europe/Berlin", sluice.Duration(20*time.Hour)
	}
	e := w.engine("one")
	w.set(t, e, daily)
	was := w.read("a")
	require.Equal(t, at("2026-03-27T19:30:00Z"), was.At)
	w.set(t, e, daily)
	require.Equal(t, was, w.read("a"), "the same once more changes nothing")
	w.keep(t, "one", at("2026-03-29T12:00:00Z"))
	require.Len(t, w.stored, 4)
	require.Equal(t, at("2026-03-29T06:30:00Z"), w.read("a").Last.ScheduledFor, "an hour earlier than the day before")
	w.set(t, e, daily)
	require.Equal(t, at("2026-03-29T18:30:00Z"), w.read("a").At, "its time has gone on")

	w.now = at("2026-04-02T12:00:00Z") // no server ran for four days
	w.told = nil
	w.keep(t, "one", w.now)
	require.Equal(t, []string{sluice.TypeAppointmentMissed, sluice.TypeAppointmentFired}, w.told)
	require.Equal(t, at("2026-04-01T18:30:00Z"), w.read("a").Last.ScheduledFor, "the first within its grace")
	require.Equal(t, at("2026-04-02T18:30:00Z"), w.read("a").At)
	_, _, err := e.Set(t.Context(), sluice.Appointment{ID: "a", Namespace: "acme", Cron: "0 0 31 2 *", Action: sluice.Action{Path: "/a", Type: "t"}}, func(*sluice.Appointment) error { return nil })
	require.ErrorContains(t, err, "matches no time")
}

func TestPut_SameAgainChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(time.Unix(1_700_000_000, 0).UTC())
	e := w.engine("one")
	start := w.now
	every := func(a *sluice.Appointment) { a.At, a.Every = start.Add(time.Hour), sluice.Duration(time.Hour) }
	w.set(t, e, every)
	was := w.read("a")
	w.set(t, e, every)
	require.Equal(t, was, w.read("a"))
	w.keep(t, "one", start.Add(3*time.Hour))
	was = w.read("a")
	require.Equal(t, start.Add(4*time.Hour), was.At)
	require.Len(t, w.stored, 3)
	w.set(t, e, every)
	require.Equal(t, was, w.read("a"), "its time has gone on")
	w.set(t, e, func(a *sluice.Appointment) { every(a); a.Action.Type = "other" })
	require.NotEqual(t, was.Work.Series, w.read("a").Work.Series)
}

// While what an appointment is about cannot be done, it can be cancelled between the tries, once it is known that none has done it.
func TestCancel_WorksBetweenRetries(t *testing.T) {
	t.Parallel()
	for _, stored := range []bool{false, true} {
		w := newWorld(time.Unix(1_700_000_000, 0).UTC())
		e := w.engine("one")
		w.set(t, e, func(a *sluice.Appointment) { a.Notice, a.MissPolicy, a.Grace = 0, sluice.MissCatchUp, 0 })
		w.now = w.now.Add(time.Hour)
		w.refuse = sluice.Errorf(sluice.Unavailable, "away")
		again := e.due.Fire(t.Context(), "acme/a")
		require.Equal(t, sluice.AppointmentFiring, w.read("a").State)
		require.Equal(t, sluice.Conflict, sluice.CodeOf(e.Cancel(t.Context(), w.read("a"), "user:bob")), "what was sent a moment ago may be on its way")
		if stored {
			is := w.read("a")
			w.log[event(&is).ID] = w.now
		}
		w.now = w.now.Add(schedule.OnTheWay)
		err := e.Cancel(t.Context(), w.read("a"), "user:bob")
		w.refuse, w.now = nil, w.now.Add(again.At.Sub(w.now))
		w.keep(t, "one", w.now.Add(time.Hour))
		require.Empty(t, w.stored)
		if stored {
			require.Equal(t, sluice.Conflict, sluice.CodeOf(err))
			require.Equal(t, []string{sluice.TypeAppointmentFired}, w.told)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, []string{sluice.TypeAppointmentCancelled}, w.told)
		require.Empty(t, w.records)
	}
}

// One that repeats goes on at the first of its times that can still fire: after it fired, one that is to come; after it was
// missed, one that is in time or within its grace, to the nanosecond.
func TestFollowing_IsTheFirstInTime(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_700_000_000, 0).UTC()
	const fired, missed, hour = sluice.AppointmentFired, sluice.AppointmentMissed, time.Hour
	for _, c := range []struct {
		name   string
		end    sluice.AppointmentState
		policy sluice.MissPolicy
		after  time.Duration // its time
		want   time.Duration
	}{
		{"it fired in time", fired, sluice.MissDrop, time.Second, hour},
		{"it fired at the instant of its next time", fired, sluice.MissCatchUp, hour, 2 * hour},
		{"it fired after several", fired, sluice.MissCatchUp, 3*hour + 1, 4 * hour},
		{"missed, and the next is just in time", missed, sluice.MissDrop, hour + punctual, hour},
		{"missed, and the next is just over", missed, sluice.MissDrop, hour + punctual + 1, 2 * hour},
		{"missed, and the third is at the end of its grace", missed, sluice.MissCatchUpWithin, 3*hour + 5*time.Minute, 3 * hour},
		{"missed, and the third is behind its grace", missed, sluice.MissCatchUpWithin, 3*hour + 5*time.Minute + 1, 4 * hour},
	} {
		a := &sluice.Appointment{At: at, Every: sluice.Duration(hour), MissPolicy: c.policy, Grace: sluice.Duration(5 * time.Minute)}
		got, ok := following(a, c.end, at.Add(c.after))
		require.True(t, ok, c.name)
		require.Equal(t, at.Add(c.want), got, c.name)
	}
}

// A record whose schedule this server cannot read ends with its last time.
func TestFollowing_EndsUnreadableRecords(t *testing.T) {
	t.Parallel()
	for _, a := range []sluice.Appointment{{}, {Cron: "0 0 * * *", TimeZone: "Mars/Olympus"}} {
		a.At = time.Unix(1_700_000_000, 0)
		_, ok := following(&a, sluice.AppointmentFired, a.At)
		require.False(t, ok, a.TimeZone)
	}
}

// One that repeats is stored again with the time at which it once began: it does not fire for times that are over.
func TestPut_ChangeFiresNothingThatIsOver(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_700_000_000, 0).UTC()
	const hour, day, late = time.Hour, 24 * time.Hour, 100*24*time.Hour + 4*time.Hour
	for _, c := range []struct {
		name   string
		change func(*sluice.Appointment)
		want   time.Duration
	}{
		{"the action", func(a *sluice.Appointment) { a.Action.Type = "other" }, 101 * day},
		{"a begin on the same times", func(a *sluice.Appointment) { a.At = start.Add(day) }, 101 * day},
		{"the interval", func(a *sluice.Appointment) { a.Every = sluice.Duration(2 * hour) }, late + 2*hour},
		{"other times", func(a *sluice.Appointment) { a.At = start.Add(hour) }, 101*day + hour},
		{"a begin that is to come", func(a *sluice.Appointment) { a.At = start.Add(200 * day) }, 200 * day},
		{"an earlier begin that is to come", func(a *sluice.Appointment) { a.At = start.Add(150 * day) }, 150 * day},
		{"a begin right now", func(a *sluice.Appointment) { a.At = start.Add(late - time.Second) }, late - time.Second},
	} {
		w := newWorld(start.Add(-hour))
		e := w.engine("one")
		daily := func(a *sluice.Appointment) {
			a.At, a.Every, a.Notice, a.MissPolicy, a.Grace = start, sluice.Duration(day), 0, sluice.MissCatchUp, 0
		}
		w.set(t, e, daily)
		w.now = start.Add(late)
		w.keep(t, "one", w.now)
		if c.name == "an earlier begin that is to come" {
			w.set(t, e, func(a *sluice.Appointment) { daily(a); a.At = start.Add(200 * day) })
		}
		w.stored = nil
		w.set(t, e, func(a *sluice.Appointment) { daily(a); c.change(a) })
		require.Equal(t, start.Add(c.want), w.read("a").At, c.name)
		w.keep(t, "one", start.Add(late))
		require.Equal(t, c.want < late, len(w.stored) == 1, c.name)
	}
}

// Of one that is caught up, the same again changes nothing.
func TestPut_SameAgainKeepsAPendingCatchUp(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_700_000_000, 0).UTC()
	w := newWorld(start.Add(100 * time.Hour))
	e := w.engine("one")
	for range 2 {
		w.set(t, e, func(a *sluice.Appointment) {
			a.At, a.Every, a.MissPolicy, a.Grace = start, sluice.Duration(time.Hour), sluice.MissCatchUp, 0
		})
	}
	require.Equal(t, start, w.read("a").At)
	w.keep(t, "one", w.now)
	require.Len(t, w.stored, 1)
}
