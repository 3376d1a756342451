package breaker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// S0-46: of many attempts nine in ten failed, for a while, and the last five did too.
func TestBreaker_OpensOnAShareThatLasts(t *testing.T) {
	t.Parallel()
	d := newDrill(64)
	d.now = d.now.Truncate(shareSpan)
	opened := -1
	for i := range 120 {
		s := Trouble
		if i%10 == 9 {
			s = Well
		}
		d.send(string(rune('a'+i%3)), s)
		if d.b.state == sluice.BreakerOpen {
			opened = i
			break
		}
		d.pass(100 * time.Millisecond)
	}
	require.Equal(t, 104, opened, "50 attempts were there at 49; it lasted at 99; the fifth failure in a row is 104")
}

func TestBreaker_CountsARecentShare(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_800_000_000, 0).Truncate(shareSpan)
	span := at.UnixNano() / int64(shareSpan)
	add := func(s recency, n int, lanes string, said Outcome, now time.Time) recency {
		for i := range n {
			s = s.add(Answer{Lane: lanes[i%len(lanes) : i%len(lanes)+1], Outcome: said}, now)
		}
		return s
	}
	for name, c := range map[string]struct {
		well, failed int
		lanes        string
		want         bool
	}{
		"nine in ten":    {5, 45, "abc", true},
		"fewer":          {6, 44, "abc", false},
		"one too few":    {0, 49, "abc", false},
		"two lanes":      {0, 50, "ab", false},
		"more than that": {0, 500, "abcdef", true},
	} {
		s := add(add(recency{}, c.well, "abc", Well, at), c.failed, c.lanes, Trouble, at)
		require.Equal(t, c.want, s.failing(span), name)
		require.Equal(t, c.want, !s.since.IsZero(), name)
	}
	s := add(recency{}, 50, "abc", Trouble, at)
	require.False(t, s.trouble(at.Add(troubleLasts-1)))
	require.True(t, s.trouble(at.Add(troubleLasts)))
	require.True(t, s.failing(span+shareSpans-1))
	require.False(t, s.failing(span+shareSpans), "it was long ago")
	require.False(t, s.failing(span-1), "the clock was set back")
	s = add(s, 6, "a", Well, at.Add(time.Second))
	require.Zero(t, s.since, "it has to last from its beginning")
}

// The trouble began with the earliest of the requests, but not before the endpoint last worked.
func TestBreaker_DatesTroubleByItsRequests(t *testing.T) {
	t.Parallel()
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	fails := func(s streak, began int64) streak {
		return s.add(Answer{Outcome: Trouble, Lane: "a", Began: at(began)}, at(100))
	}
	s := fails(fails(streak{after: at(10)}, 50), 40)
	require.Equal(t, at(40), s.since)
	s = fails(s, 60)
	require.Equal(t, at(40), s.since)
	s = fails(s, 5)
	require.Equal(t, at(10), s.since)
	require.Equal(t, 4, s.count)
	require.Equal(t, streak{after: at(100)}, s.add(Answer{Outcome: Nothing}, at(100)))
}

// A lane that was spared fails by itself if others were well since, in the same spell.
func TestBreaker_TellsALaneFromItsEndpoint(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		state  sluice.Breaker
		cured  uint64
		spared Mark
		want   bool
	}{
		"others were well":      {sluice.BreakerHalfOpen, 5, Mark{spell: 2, cured: 4}, true},
		"none was":              {sluice.BreakerHalfOpen, 5, Mark{spell: 2, cured: 5}, false},
		"in another spell":      {sluice.BreakerHalfOpen, 5, Mark{spell: 1, cured: 4}, false},
		"it is open":            {sluice.BreakerOpen, 5, Mark{spell: 2, cured: 4}, false},
		"it was never in spell": {sluice.BreakerHalfOpen, 5, Mark{}, false},
	} {
		b := Breaker{state: c.state, spell: 2, cured: c.cured}
		if c.spared == (Mark{}) {
			b.spell = 0
		}
		require.Equal(t, c.want, b.IsCurrent(c.spared), name)
	}
	require.Equal(t, Mark{spell: 2, cured: 5}, Breaker{spell: 2, cured: 5}.Mark())
}

func TestBreaker_BeginsEachSpellAnew(t *testing.T) {
	t.Parallel()
	d := newDrill(2)
	d.send("a", Well)
	require.Zero(t, d.b.held, "nothing was asked for")
	for range 2 {
		d.opened()
		_, at := d.b.Admits(d.now)
		require.Equal(t, time.Second, at.Sub(d.now), "its first pause is the shortest")
		require.Zero(t, d.b.cured)
		d.pass(time.Second)
		d.round()
		d.round()
		require.True(t, d.b.Closed())
		require.Equal(t, streak{after: d.now}, d.b.streak)
		require.Equal(t, d.b, d.b.Settle(d.now.Add(time.Hour)), "it is closed already")
		d.fail(9, 3, 5*time.Second)
		require.True(t, d.b.Closed())
		d.send("a", Well)
	}
	require.Zero(t, d.b.Began().Began().ResetAfterRestart().under)
}

// A failure while it is half-open begins the quiet time anew.
func TestBreaker_ClosesAfterQuietOnly(t *testing.T) {
	t.Parallel()
	d := newDrill(64).opened()
	d.pass(time.Second)
	for range 4 {
		d.round()
	}
	require.Equal(t, 8, d.b.limit)
	d.pass(20 * time.Second)
	d.send("a", Trouble)
	require.False(t, d.b.Settle(d.now.Add(quietCloses-1)).Closed())
	require.True(t, d.b.Settle(d.now.Add(quietCloses)).Closed())
}
