package watch_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/watch"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// begin is when the logs of these tests begin.
var begin = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// condition is met by events of type "on"; one of type "odd" cannot be judged.
func condition(ev *sluice.Event) (bool, error) {
	if ev.Type == "odd" {
		return false, errors.New("division by zero")
	}
	return ev.Type == "on", nil
}

// line is a log written as "0 /a on": milliseconds, path, type; a line "5000 tick" lets the time come.
type line string

// play has a state look at a log and returns what it said, as "fires 1", "missed 2 cooldown ×1", "throttled 3 ×2".
func play(t *testing.T, s *watch.State, r *watch.Rule, log ...line) []string {
	t.Helper()
	var said []string
	seq := s.Place()
	for _, l := range log {
		var ms int64
		var path, kind string
		_, err := fmt.Sscan(strings.TrimSuffix(string(l), "tick")+" - -", &ms, &path, &kind)
		require.NoError(t, err, l)
		at := begin.Add(time.Duration(ms) * time.Millisecond)
		var verdicts []watch.Verdict
		if path == "-" {
			verdicts = s.Tick(r, at, nil)
		} else {
			seq++
			verdicts = s.Step(r, &sluice.Event{Seq: seq, Path: sluice.Path(path), Type: kind, Stored: at}, nil)
		}
		for _, v := range s.Tell(at, verdicts) {
			said = append(said, say(v))
		}
	}
	return said
}

func say(v watch.Verdict) string {
	switch v.Kind {
	case watch.Missed:
		return fmt.Sprintf("missed %d %s ×%d", v.Seq, v.Reason, v.Count)
	case watch.Throttled:
		return fmt.Sprintf("throttled %d ×%d", v.Seq, v.Count)
	case watch.Fires:
	}
	return fmt.Sprintf("fires %d at %d", v.Seq, v.At.Sub(begin).Milliseconds())
}

func rule(change func(*watch.Rule)) *watch.Rule {
	r := &watch.Rule{Most: 1000, Condition: condition}
	change(r)
	return r
}

func edge(*watch.Rule)    {}
func level(r *watch.Rule) { r.Level = true }

func newState(t *testing.T, kept watch.Kept) *watch.State {
	t.Helper()
	s, err := watch.NewState(kept, 100)
	require.NoError(t, err)
	return s
}

// S2-42, S2-44, S2-46.
func TestStep_KnownHistories(t *testing.T) {
	t.Parallel()
	with := func(change func(*watch.Rule), more func(*watch.Rule)) *watch.Rule {
		r := rule(change)
		more(r)
		return r
	}
	cool := func(r *watch.Rule) { r.Cooldown = 10 * time.Second }
	lasting := func(r *watch.Rule) { r.For = 5 * time.Second }
	scarce := func(r *watch.Rule) { r.Most = 2 }
	none := func(*watch.Rule) {}
	for _, tt := range []struct {
		name string
		rule *watch.Rule
		log  []line
		want []string
	}{
		{"an edge fires when the condition begins to hold", with(edge, none), []line{"0 /a off", "1 /a on", "2 /a on", "3 /a off", "4 /a on"}, []string{"fires 2 at 1", "fires 5 at 4"}},
		{"an edge fires for the first reading of a path", with(edge, none), []line{"0 /a on", "1 /a on"}, []string{"fires 1 at 0"}},
		{"an edge is one path's", with(edge, none), []line{"0 /a on", "1 /b off", "2 /a on", "3 /b on"}, []string{"fires 1 at 0", "fires 4 at 3"}},
		{"a level fires for each reading", with(level, none), []line{"0 /a on", "1 /a off", "2 /a on", "3 /a on"}, []string{"fires 1 at 0", "fires 3 at 2", "fires 4 at 3"}},
		{
			"a level fires once in a cooldown, for each path, and says so",
			with(level, cool),
			[]line{"0 /a on", "1 /a on", "2 /a on", "3 /b on", "9999 /a on", "10000 /a on"},
			[]string{"fires 1 at 0", "missed 2 cooldown ×1", "fires 4 at 3", "missed 3 cooldown ×2", "fires 6 at 10000"},
		},
		{
			"an edge in a cooldown is missed, and not made up for",
			with(edge, cool),
			[]line{"0 /a on", "1 /a off", "2 /a on", "20000 /a on", "20001 /a off", "20002 /a on"},
			[]string{"fires 1 at 0", "missed 3 cooldown ×1", "fires 6 at 20002"},
		},
		{"an edge with a duration fires when it is over, without another reading", with(edge, lasting), []line{"0 /a on", "4999 tick", "5000 tick", "6000 tick"}, []string{"fires 1 at 5000"}},
		{"a reading shows that the duration of another path is over", with(edge, lasting), []line{"0 /a on", "1 /c on", "7000 /b off"}, []string{"fires 1 at 5000", "fires 2 at 5001"}},
		{"what is over at once fires in the order of its beginnings", with(edge, lasting), []line{"0 /b on", "1 /a on", "1 /c on", "2 /b on", "7000 tick"}, []string{"fires 1 at 5000", "fires 2 at 5001", "fires 3 at 5001"}},
		{"a clock that is put back begins another second", with(level, scarce), []line{"5000 /a on", "5001 /a on", "0 /a on"}, []string{"fires 1 at 5000", "fires 2 at 5001", "fires 3 at 0"}},
		{"a condition that does not last does not fire", with(edge, lasting), []line{"0 /a on", "4000 /a off", "4500 /a on", "9000 tick", "9500 tick"}, []string{"fires 3 at 9500"}},
		{"a level with a duration fires from then on", with(level, lasting), []line{"0 /a on", "4999 /a on", "5000 /a on", "5001 /a on", "5002 /a off", "5003 /a on"}, []string{"fires 3 at 5000", "fires 4 at 5001"}},
		{"what cannot be judged says nothing about its path", with(edge, none), []line{"0 /a on", "1 /a odd", "2 /a on", "3 /b odd", "1001 tick"}, []string{"fires 1 at 0", "missed 2 condition_failed ×1", "missed 4 condition_failed ×1"}},
		{
			"readings beyond the cap are not looked at, which is told once a second",
			with(level, scarce),
			[]line{"0 /a on", "1 /a on", "2 /a on", "999 /a on", "1000 /a on", "1001 /a on", "1002 /a on", "1500 tick", "2000 tick", "2001 tick"},
			[]string{"fires 1 at 0", "fires 2 at 1", "fires 5 at 1000", "throttled 3 ×2", "fires 6 at 1001", "throttled 7 ×1"},
		},
		{"a reading that was not looked at says nothing about its path", with(edge, scarce), []line{"0 /a on", "1 /b on", "2 /a off", "1000 /a on", "1001 tick"}, []string{"fires 1 at 0", "fires 2 at 1", "throttled 3 ×1"}},
		{"a clock that is put back delays no firing", with(level, cool), []line{"3600000 /a on", "0 /a on"}, []string{"fires 1 at 3600000", "fires 2 at 0"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, play(t, newState(t, watch.Kept{}), tt.rule, tt.log...))
		})
	}
}

func TestSnapshot_HoldsTheWholeState(t *testing.T) {
	t.Parallel()
	r := rule(func(r *watch.Rule) { r.For, r.Cooldown, r.Most = 5*time.Second, 10*time.Second, 3 })
	log := []line{"0 /a on", "1 /b on", "2 /c odd", "3 /a on", "1500 /b off", "5001 tick", "5500 /a off", "6000 /a on", "6001 /c odd", "11000 tick", "12000 tick", "17000 /a off"}
	want := play(t, newState(t, watch.Kept{}), r, log...)
	require.Equal(t, []string{"missed 3 condition_failed ×1", "throttled 4 ×1", "fires 1 at 5000", "missed 8 condition_failed ×1", "missed 7 cooldown ×1"}, want)
	var said []string
	s := newState(t, watch.Kept{})
	for _, l := range log {
		said = append(said, play(t, s, r, l)...)
		raw, err := json.Marshal(s.Kept())
		require.NoError(t, err)
		var kept watch.Kept
		require.NoError(t, json.Unmarshal(raw, &kept))
		s = newState(t, kept)
	}
	require.Equal(t, want, said)
}

func TestMemory_IsBounded(t *testing.T) {
	t.Parallel()
	s, err := watch.NewState(watch.Kept{}, 2)
	require.NoError(t, err)
	said := play(t, s, rule(edge), "0 /a on", "1 /b on", "2 /a on", "3 /c on", "4 /a on", "5 /b on")
	require.Equal(t, []string{"fires 1 at 0", "fires 2 at 1", "fires 4 at 3", "fires 6 at 5"}, said) // /b, which was quiet, was forgotten
	require.Len(t, s.Kept().Paths, 2)
	_, err = watch.NewState(watch.Kept{}, 0)
	require.Error(t, err)
}

// A path on which the condition does not hold and that does not cool down takes no place.
func TestState_ForgetsIdlePaths(t *testing.T) {
	t.Parallel()
	s, err := watch.NewState(watch.Kept{}, 2)
	require.NoError(t, err)
	r := rule(func(r *watch.Rule) { r.Cooldown = time.Second })
	require.Equal(t, []string{"fires 1 at 0"}, play(t, s, r, "0 /a on", "1 /b off", "2 /c off", "3 /a on"))
	play(t, s, r, "4 /a off")
	require.Len(t, s.Kept().Paths, 1, "it cools down")
	play(t, s, r, "1000 /a off")
	require.Empty(t, s.Kept().Paths)
}

// What a watch has done since it was made is counted, and outlives a restart.
func TestState_CountsItsActivity(t *testing.T) {
	t.Parallel()
	s := newState(t, watch.Kept{})
	play(t, s, rule(func(r *watch.Rule) { r.Most = 2 }), "0 /a on", "1 /a odd", "2 /a on", "3 /a on", "4 /a on")
	s.Fired(1, "unavailable", begin)
	s.Fired(4, "ok", begin.Add(time.Second))
	s.Lost(6, 9, begin)
	want := watch.Totals{Looked: 2, Missed: 5, Throttled: 3, Fired: 2, FiredAt: begin.Add(time.Second), FiredSeq: 4, Outcome: "ok"}
	require.Equal(t, want, s.Totals())
	require.Equal(t, want, newState(t, s.Kept()).Totals())
}

// What is stored has what is still to be told, and does not change with the state.
func TestKept_IsACopyOfAll(t *testing.T) {
	t.Parallel()
	s := newState(t, watch.Kept{})
	s.Lost(1, 1, begin)
	kept := s.Kept()
	s.Lost(2, 9, begin)
	require.Equal(t, []watch.Verdict{{Kind: watch.Missed, Seq: 1, At: begin, Reason: watch.Expired, Count: 1}}, newState(t, kept).Tell(begin, nil))
}

// What was told is told again a second later at the earliest, or when the clock was put back.
func TestTell_OnceASecond(t *testing.T) {
	t.Parallel()
	for after, tells := range map[time.Duration]bool{0: false, time.Second - 1: false, time.Second: true, -1: true} {
		s := newState(t, watch.Kept{})
		s.Lost(1, 1, begin)
		require.Len(t, s.Tell(begin, nil), 1)
		s.Lost(2, 2, begin)
		require.Equal(t, tells, len(s.Tell(begin.Add(after), nil)) == 1, after)
	}
}

// Time alone fires only for what has held for a while, at the instant at which it has.
func TestRipe_WhenTheDurationIsOver(t *testing.T) {
	t.Parallel()
	lasting := func(r *watch.Rule) { r.For = 5 * time.Second }
	for _, r := range []*watch.Rule{rule(edge), rule(level), rule(func(r *watch.Rule) { level(r); lasting(r) })} {
		s := newState(t, watch.Kept{})
		require.False(t, s.Ripe(r, begin))
		play(t, s, r, "0 /a on")
		require.False(t, s.Ripe(r, begin.Add(time.Hour)))
		require.True(t, s.Quiet())
	}
	s, r := newState(t, watch.Kept{}), rule(lasting)
	require.True(t, s.Ripe(r, begin), "it is not known yet what was stored")
	play(t, s, r, "0 /a on")
	require.False(t, s.Ripe(r, begin.Add(5*time.Second-1)))
	require.True(t, s.Ripe(r, begin.Add(5*time.Second)))
}

func TestMissed_UnseenEventsAreReported(t *testing.T) {
	t.Parallel()
	s := newState(t, watch.Kept{Place: 10})
	s.Lost(11, 40, begin)
	require.Equal(t, uint64(40), s.Place())
	verdicts := s.Tell(begin, nil)
	require.Equal(t, []watch.Verdict{{Kind: watch.Missed, Seq: 11, At: begin, Reason: watch.Expired, Count: 30}}, verdicts)
	require.Empty(t, s.Tell(begin.Add(time.Hour), nil))
	s.Rewind(7)
	require.Equal(t, uint64(7), s.Place())
}

func TestCooldown_HeldEventsAreNotQuiet(t *testing.T) {
	t.Parallel()
	s := newState(t, watch.Kept{})
	r := rule(func(r *watch.Rule) { r.Most, r.For = 1, time.Minute })
	s.Tick(r, begin, nil)
	require.True(t, s.Quiet())
	play(t, s, r, "0 /a on")
	require.False(t, s.Quiet(), "it fires in a minute")
	play(t, s, r, "2000 /a off", "61000 tick")
	require.True(t, s.Quiet())
	play(t, s, r, "70000 /a off", "70001 /a off")
	require.False(t, s.Quiet(), "a reading was not looked at, which is to be told")
	play(t, s, r, "71000 tick")
	require.True(t, s.Quiet())
	for _, ms := range []int{0, 1, 1000, 1001} { // one is not looked at in each of two seconds
		s.Step(r, &sluice.Event{Seq: s.Place() + 1, Path: "/a", Type: "off", Stored: begin.Add(time.Hour + time.Duration(ms)*time.Millisecond)}, nil)
	}
	require.False(t, s.Quiet())
	s = newState(t, watch.Kept{})
	s.Tick(r, begin, nil)
	s.Lost(1, 1, begin)
	require.False(t, s.Quiet(), "what was lost is to be told")
}
