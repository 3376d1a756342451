package appointment

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/sluice-io/sluice/internal/schedule"
	"github.com/sluice-io/sluice/internal/schedule/action"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// S2-37…40.
func TestDecide_KnownStates(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const within = sluice.MissCatchUpWithin
	for _, c := range []struct {
		name   string
		policy sluice.MissPolicy
		notice time.Duration
		other  bool // it is another's turn
		told   bool // that it approaches
		after  time.Duration
		want   step
		detail any // until when to rest, after its time; or why it is missed
	}{
		{"long before", sluice.MissDrop, 0, false, false, -time.Hour, rest, time.Duration(0)},
		{"before its notice", sluice.MissDrop, time.Minute, false, false, -time.Hour, rest, -time.Minute},
		{"at its notice", sluice.MissDrop, time.Minute, false, false, -time.Minute, notice, nil},
		{"at its notice, and another's turn", sluice.MissDrop, time.Minute, true, false, -time.Minute, rest, action.Backup - time.Minute},
		{"at a short notice, and another's turn", sluice.MissDrop, time.Second, true, false, -time.Second, rest, -time.Second / 2},
		{"late for its notice", sluice.MissDrop, time.Minute, false, false, -time.Nanosecond, notice, nil},
		{"after its notice", sluice.MissDrop, time.Minute, false, true, -time.Second, rest, time.Duration(0)},
		{"too late for its notice", sluice.MissDrop, time.Minute, false, false, 0, fire, nil},
		{"at its time", sluice.MissDrop, 0, false, false, 0, fire, nil},
		{"at its time, and another's turn", sluice.MissDrop, 0, true, false, 0, rest, action.Backup},
		{"at its time, without notice, and another's turn", sluice.MissDrop, time.Minute, true, false, time.Second, rest, action.Backup},
		{"no replica took its turn", sluice.MissDrop, 0, true, false, action.Backup, fire, nil},
		{"a little late", sluice.MissDrop, 0, false, false, punctual, fire, nil},
		{"late and dropped", sluice.MissDrop, 0, false, false, punctual + 1, miss, sluice.MissedByPolicy},
		{"late within its grace", within, 0, false, false, time.Minute, fire, nil},
		{"later than its grace", within, 0, false, false, time.Minute + 1, miss, sluice.MissedByGrace},
		{"very late, and caught up", sluice.MissCatchUp, 0, false, false, 1000 * time.Hour, fire, nil},
	} {
		a := &sluice.Appointment{
			At: at, Notice: sluice.Duration(c.notice), MissPolicy: c.policy, Grace: sluice.Duration(time.Minute), State: sluice.AppointmentWaiting, Noticed: c.told, Work: &sluice.AppointmentWork{},
		}
		m := moment{now: at.Add(c.after), me: "me"}
		if c.other {
			m.grace = action.Backup
		}
		d := decide(a, m)
		require.Equal(t, c.want, d.do, c.name)
		switch detail := c.detail.(type) {
		case time.Duration:
			require.Equal(t, at.Add(detail), d.until, c.name)
		case string:
			require.Equal(t, detail, d.reason, c.name)
		}
	}
}

// S2-40: what is missed because the clock could not be believed is said to be so, and what the policy has fire does.
func TestMissed_DoubtedClockIsTheReason(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_700_000_000, 0)
	for reason, doubt := range map[string]schedule.Doubt{
		sluice.MissedByClock:  {From: at, Until: at.Add(1)},
		sluice.MissedByPolicy: {From: at.Add(1), Until: at.Add(time.Hour)},
	} {
		a := &sluice.Appointment{At: at, MissPolicy: sluice.MissDrop, State: sluice.AppointmentWaiting, Work: &sluice.AppointmentWork{}}
		m := moment{now: at.Add(time.Minute), me: "me", doubt: doubt}
		require.Equal(t, decision{do: miss, reason: reason}, decide(a, m))
		a.MissPolicy = sluice.MissCatchUp
		require.Equal(t, fire, decide(a, m).do)
	}
}

func TestDecide_ContinuesBegunAndEndedOnes(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	claim := func(by string) *sluice.AppointmentWork {
		return &sluice.AppointmentWork{Claim: &sluice.Claim{By: by, At: at}}
	}
	end := &sluice.AppointmentEnd{At: at}
	for _, c := range []struct {
		name  string
		is    sluice.Appointment
		after time.Duration
		want  step
		until time.Duration
	}{
		{"something is untold", sluice.Appointment{State: sluice.AppointmentFired, Last: end, Work: &sluice.AppointmentWork{Untold: &sluice.Untold{}}}, 0, tell, 0},
		{"another fires it", sluice.Appointment{State: sluice.AppointmentFiring, Work: claim("other")}, time.Second, rest, action.ClaimFor},
		{"another fired it for long", sluice.Appointment{State: sluice.AppointmentFiring, Work: claim("other")}, action.ClaimFor, resume, 0},
		{"we fired it in a former life", sluice.Appointment{State: sluice.AppointmentFiring, Work: claim("me")}, time.Second, resume, 0},
		{"it has fired", sluice.Appointment{State: sluice.AppointmentFired, Last: end, Work: claim("")}, time.Hour, rest, shownFor},
		{"it was missed a day ago", sluice.Appointment{State: sluice.AppointmentMissed, Last: end, Work: claim("")}, shownFor, remove, 0},
		{"it was cancelled", sluice.Appointment{State: sluice.AppointmentCancelled, Work: claim("")}, 0, remove, 0},
	} {
		d := decide(&c.is, moment{now: at.Add(c.after), me: "me"})
		require.Equal(t, c.want, d.do, c.name)
		if c.want == rest {
			require.Equal(t, at.Add(c.until), d.until, c.name)
		}
	}
}

// By any decision it never fires before its time nor is it missed then, who rests is given a time that comes, and one that repeats goes on to a
// time that is its own and still to come.
func TestDecide_NeverFiresEarly(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		at := time.Unix(1_700_000_000, 0)
		span := func(name string, most time.Duration) time.Duration {
			return time.Duration(rapid.Int64Range(0, int64(most)).Draw(t, name))
		}
		a := &sluice.Appointment{
			At: at, Notice: sluice.Duration(span("notice", time.Hour)), Grace: sluice.Duration(span("grace", time.Hour)), Every: sluice.Duration(time.Second + span("every", time.Hour)),
			MissPolicy: rapid.SampledFrom([]sluice.MissPolicy{sluice.MissDrop, sluice.MissCatchUp, sluice.MissCatchUpWithin}).Draw(t, "policy"),
			State:      sluice.AppointmentWaiting, Noticed: rapid.Bool().Draw(t, "noticed"), Work: &sluice.AppointmentWork{},
		}
		m := moment{now: at.Add(span("after", 4*time.Hour) - 2*time.Hour), me: "me", grace: span("grace of others", 3*time.Second)}
		switch d := decide(a, m); d.do {
		case fire, miss:
			require.False(t, m.now.Before(at))
			require.Equal(t, d.do == miss, d.reason != "")
			later, ok := next(a, m.now)
			require.True(t, ok)
			require.True(t, later.After(m.now) && later.After(at))
			require.Zero(t, later.Sub(at)%a.Every.Std())
			require.True(t, later.Equal(at.Add(a.Every.Std())) || later.Sub(m.now) <= a.Every.Std(), "no time is left out that comes")
		case notice:
			require.True(t, m.now.Before(at) && !a.Noticed)
		case rest:
			require.True(t, d.until.After(m.now))
		case tell, resume, remove:
			t.Fatal("there is nothing to tell, to go on with or to remove")
		}
	})
}

// S2-05, S2-37…40: wherever a server dies, and however long no server runs then, it fires once or is missed, which is told once, after it is so.
func TestFire_OnceThroughDeathBetweenAnyTwoWrites(t *testing.T) {
	t.Parallel()
	begin := time.Unix(1_700_000_000, 0).UTC()
	for _, away := range []time.Duration{0, 2 * time.Minute, 20 * time.Minute, 5 * time.Hour} {
		for _, replica := range []string{"one", "two"} {
			for dies := 1; ; dies++ {
				name := fmt.Sprintf("away %s, next %s, dies at %d", away, replica, dies)
				w := newWorld(begin)
				w.set(t, w.engine("one"), nil)
				w.left, w.after = (dies+1)/2, dies%2 == 0
				through := w.life(func() { w.keep(t, "one", begin.Add(2*time.Hour)) })
				w.left, w.now = -1, w.now.Add(away)
				w.keep(t, replica, w.now.Add(2*time.Hour))
				a := w.read("a")
				require.Nil(t, a.Work.Untold, name)
				require.Nil(t, a.Work.Claim, name)
				switch a.State {
				case sluice.AppointmentFired:
					require.Len(t, w.stored, 1, name)
					require.Equal(t, "ok", a.Last.Outcome, name)
					require.Equal(t, sluice.TypeAppointmentFired, w.told[len(w.told)-1], name)
					require.True(t, len(w.told) == 2 || away > time.Minute, "%s: its notice is over", name)
				case sluice.AppointmentMissed:
					require.Empty(t, w.stored, name)
					require.GreaterOrEqual(t, away, 20*time.Minute, name)
					require.Equal(t, sluice.TypeAppointmentMissed, w.told[len(w.told)-1], name)
				default:
					t.Fatal(name, a.State)
				}
				require.Len(t, slices.Compact(slices.Sorted(slices.Values(w.told))), len(w.told), "%s: told once: %s", name, w.told)
				w.now = w.now.Add(2 * shownFor)
				require.Zero(t, w.engine(replica).due.Fire(t.Context(), "acme/a"), name)
				require.Empty(t, w.records, name)
				if through {
					require.Greater(t, dies, 14, "it died at every write")
					break
				}
			}
		}
	}
}

// S2-41: wherever a server dies that cancels, it is told of once or it fires, and never both.
func TestCancel_DeathOfTheServerAnnouncesOnce(t *testing.T) {
	t.Parallel()
	begin := time.Unix(1_700_000_000, 0).UTC()
	for dies := 1; ; dies++ {
		w := newWorld(begin)
		w.set(t, w.engine("one"), nil)
		w.left, w.after = (dies+1)/2, dies%2 == 0
		through := w.life(func() { require.NoError(t, w.engine("one").Cancel(t.Context(), w.read("a"), "user:bob")) })
		w.left = -1
		w.keep(t, "two", begin.Add(2*time.Hour))
		if dies == 1 {
			require.Len(t, w.stored, 1, "it was not cancelled")
		} else {
			require.Empty(t, w.stored, dies)
			require.Equal(t, []string{sluice.TypeAppointmentCancelled}, w.told, dies)
			require.Empty(t, w.records, dies)
		}
		if through {
			require.Greater(t, dies, 6)
			return
		}
	}
}

// Who sets one anew over one that a dead server left half cancelled tells of that first.
func TestPut_AnnouncesAHalfDoneCancellationFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(time.Unix(1_700_000_000, 0).UTC())
	w.set(t, w.engine("one"), nil)
	w.left = 2
	require.False(t, w.life(func() { _ = w.engine("one").Cancel(t.Context(), w.read("a"), "user:bob") }))
	w.left = -1
	w.set(t, w.engine("two"), nil)
	require.Equal(t, []string{sluice.TypeAppointmentCancelled}, w.told)
	w.keep(t, "two", w.now.Add(2*time.Hour))
	require.Len(t, w.stored, 1)
}

// While the log cannot be reached it is tried again as long as the policy has it still fire; then the outcome says what was wrong.
func TestFire_RetriesAsLongAsThePolicyAllows(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		policy  sluice.MissPolicy
		back    bool // before it is given up
		outcome string
	}{{sluice.MissDrop, false, "unavailable"}, {sluice.MissCatchUp, true, "ok"}, {sluice.MissCatchUpWithin, false, "unavailable"}} {
		w := newWorld(time.Unix(1_700_000_000, 0).UTC())
		w.set(t, w.engine("one"), func(a *sluice.Appointment) {
			if a.MissPolicy = c.policy; c.policy != sluice.MissCatchUpWithin {
				a.Grace = 0
			}
		})
		w.refuse = sluice.Errorf(sluice.Unavailable, "away")
		e := w.engine("one")
		for i := 0; i < 40 && !slices.Contains(w.told, sluice.TypeAppointmentFired); i++ {
			if again := e.due.Fire(t.Context(), "acme/a").At; again.After(w.now) {
				w.now = again
			}
		}
		if c.back {
			require.Equal(t, sluice.AppointmentFiring, w.read("a").State)
			w.refuse = nil
			w.keep(t, "one", w.now.Add(time.Hour))
		}
		require.Contains(t, w.told, sluice.TypeAppointmentFired, c.policy)
		require.Equal(t, c.outcome, w.read("a").Last.Outcome, c.policy)
	}
}

// The report of a failed attempt, which the server itself stored, does not put off its next one.
func TestFire_OwnReportsDoNotDelayRetries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(time.Time{})
		w.refuse, w.reports = sluice.Errorf(sluice.Unavailable, "away"), make(chan sluice.Appointment, 100)
		e, at := w.engine("one"), time.Now().Add(time.Hour)
		w.set(t, e, func(a *sluice.Appointment) { a.At, a.Notice, a.MissPolicy, a.Grace = at, 0, sluice.MissDrop, 0 })
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- e.due.Run(ctx, func(ctx context.Context, f func(string, *sluice.Appointment)) error {
				f("", nil)
				for {
					select {
					case a := <-w.reports:
						<-time.After(time.Millisecond) // the step that stored it is over
						f("acme/a", &a)
					case <-ctx.Done():
						return ctx.Err()
					}
				}
			})
		}()
		<-time.After(2 * time.Hour)
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		require.Equal(t, []string{sluice.TypeAppointmentFired}, w.told, "it is not missed")
		require.Equal(t, "unavailable", w.read("a").Last.Outcome)
	})
}
