package schedule

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-io/sluice/internal/schedule/timerqueue"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// nothing is a kind of records of which there are none.
type nothing struct{ reads int }

func (n *nothing) Read(context.Context, string) (int, error) {
	n.reads++
	return 0, sluice.Errorf(sluice.NotFound, "none")
}

func (*nothing) Entry(string, *int) timerqueue.Entry { return timerqueue.Entry{} }

func (*nothing) Mark(*int) (Mark, bool) { return Mark{}, false }

func (*nothing) Step(context.Context, string, *int) (Next, error) { return Next{}, nil }

func (*nothing) Tries(*int) int { return 0 }

// While the clock is not believed nothing is done, and what comes after it on its lane waits for it.
func TestClock_DoubtHoldsEverything(t *testing.T) {
	t.Parallel()
	var none nothing
	e := New("nothing", &none, Deps{Now: time.Now}, Options{})
	e.clock.trust.until = time.Hour
	again := e.Fire(t.Context(), "a")
	require.True(t, again.Hold)
	require.WithinDuration(t, time.Now(), again.At, 10*time.Second)
	require.Zero(t, none.reads)
	e.clock.trust.until = 0
	require.Zero(t, e.Fire(t.Context(), "a"))
	require.Equal(t, 1, none.reads)
}

// The metric counts each jump that was seen, once.
func TestClock_CountsItsJumps(t *testing.T) {
	t.Parallel()
	c := newClock(time.Now)
	require.False(t, c.doubted())
	require.Zero(t, c.jumped())
	for jumps := 1; jumps < 3; jumps++ {
		c.trust.last.wall = c.trust.last.wall.Add(-time.Hour)
		require.True(t, c.doubted())
		require.Equal(t, jumps, c.jumped())
		require.True(t, c.doubted())
		require.Equal(t, jumps, c.jumped())
	}
}

// S2-40: a clock that jumps is not believed for a while; one that goes a little wrong, and is corrected, is.
func TestClock_JumpIsDoubtedForAWhile(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	second := func(n int) time.Time { return begin.Add(time.Duration(n) * time.Second) }
	type at struct {
		wall, ran int // seconds
		jumped    bool
		doubted   bool
	}
	for _, c := range []struct {
		name  string
		reads []at
		doubt Doubt
	}{
		{"it goes on", []at{{1, 1, false, false}, {3600, 3600, false, false}}, Doubt{}},
		{"it is corrected", []at{{10, 10, false, false}, {16, 11, false, false}, {12, 12, false, false}}, Doubt{}},
		{"it is set forward", []at{{10, 10, false, false}, {3610, 11, true, true}, {3638, 39, false, true}, {3640, 41, false, false}}, Doubt{second(10), second(3640)}},
		{"it is set back", []at{{10, 10, false, false}, {-3590, 11, true, true}, {-3560, 41, false, false}}, Doubt{second(-3590), second(-3560)}},
		{"it is set back twice", []at{{10, 10, false, false}, {-3590, 11, true, true}, {-7180, 21, true, true}, {-7151, 50, false, true}, {-7150, 51, false, false}}, Doubt{second(-7180), second(-7150)}},
		{"it is set back once more when it is believed", []at{{-3590, 10, true, true}, {-3550, 50, false, false}, {-7140, 60, true, true}}, Doubt{second(-7140), second(-7110)}},
		{"it is set forward once more when it is believed", []at{{3610, 10, true, true}, {3640, 40, false, false}, {7210, 50, true, true}}, Doubt{second(3640), second(7240)}},
		{"it is set forward and back", []at{{10, 10, false, false}, {3610, 11, true, true}, {20, 20, true, true}, {49, 49, false, true}, {50, 50, false, false}}, Doubt{second(10), second(50)}},
	} {
		is := trust{last: reading{wall: begin}}
		for i, r := range c.reads {
			var jumped bool
			is, jumped = is.after(reading{second(r.wall), time.Duration(r.ran) * time.Second})
			require.Equal(t, r.jumped, jumped, "%s: %d", c.name, i)
			require.Equal(t, r.doubted, is.doubted(), "%s: %d", c.name, i)
		}
		require.Equal(t, c.doubt, is.doubt, c.name)
	}
	d := Doubt{second(10), second(20)}
	require.Equal(t, []bool{false, true, true, false}, []bool{d.Covers(second(9)), d.Covers(second(10)), d.Covers(second(19)), d.Covers(second(20))})
	require.False(t, Doubt{}.Covers(begin))
}

// However a clock is set, it is believed again when it has gone on for half a minute.
func TestClock_IsTrustedAgainAfterHalfAMinute(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := reading{wall: time.Unix(1_700_000_000, 0)}
		is := trust{last: r}
		for range rapid.IntRange(0, 50).Draw(t, "readings") {
			ran := time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "ran"))
			r.ran += ran
			r.wall = r.wall.Add(ran + time.Duration(rapid.Int64Range(-int64(time.Hour), int64(time.Hour)).Draw(t, "set")))
			is, _ = is.after(r)
		}
		r.ran, r.wall = r.ran+settle, r.wall.Add(settle)
		is, jumped := is.after(r)
		require.False(t, jumped || is.doubted())
	})
}
