package mirror

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// S3-107, S3-108, S3-119…121: of mirrors that exclude each other, those that were stored first stay.
func TestConflict_ConcernsTheLaterMirror(t *testing.T) {
	t.Parallel()
	all := graph(
		Edge{"1", "b", "a", true, 71},
		Edge{"2", "c", "b", true, 2},
		Edge{"3", "d", "c", false, 3},
		Edge{"4", "d", "b", true, 4},
		Edge{"5", "d", "https://x/v1/namespaces/d", true, 5},
		Edge{"6", "f", "e", false, 6},
	)
	for name, c := range map[string]struct {
		one  Edge
		want sluice.Code
	}{
		"another pair":                {Edge{"9", "e", "a", false, 9}, ""},
		"a diamond":                   {Edge{"9", "d", "a", false, 9}, ""},
		"the same pair":               {Edge{"9", "c", "b", false, 9}, sluice.SubscriptionExists},
		"the same pair, not settled":  {Edge{"9", "f", "e", false, 9}, sluice.SubscriptionExists},
		"the same pair, stored first": {Edge{"0", "f", "e", false, 0}, ""},
		"settled ones were first":     {Edge{"0", "c", "b", false, 0}, sluice.SubscriptionExists},
		"itself again":                {Edge{"2", "c", "b", false, 2}, ""},
		"both ways":                   {Edge{"9", "a", "b", false, 9}, sluice.MirrorCycle},
		"a cycle of four":             {Edge{"9", "a", "d", false, 9}, sluice.MirrorCycle},
		"a cycle, stored first":       {Edge{"0", "e", "f", false, 0}, ""},
		"a cycle, not settled":        {Edge{"9", "e", "f", false, 9}, sluice.MirrorCycle},
		"a namespace of that name":    {Edge{"9", "a", "https://x/v1/namespaces/d", false, 9}, ""},
	} {
		require.Equal(t, c.want, sluice.CodeOf(all.conflict(c.one)), name)
	}
}

// Mirrors in a circle elsewhere end the search, too.
func TestConflict_EndsInACircle(t *testing.T) {
	t.Parallel()
	circle := graph(Edge{ID: "1", Subscriber: "a", Source: "b", Settled: true}, Edge{ID: "2", Subscriber: "b", Source: "d", Settled: true}, Edge{ID: "4", Subscriber: "d", Source: "b", Settled: true})
	require.NoError(t, circle.conflict(Edge{ID: "3", Subscriber: "c", Source: "a"}))
}

func graph(all ...Edge) edges {
	g := edges{}
	for _, e := range all {
		g.set(e)
	}
	return g
}

// A mirror that is gone counts no more, and leaves nothing; nor does one whose id has another source by now.
func TestEngine_ForgetsTheEdgesOfDeletedMirrors(t *testing.T) {
	t.Parallel()
	e := New(Deps{Owns: owner{}}, Options{})
	record := func(id, source string, revision uint64) *Stored {
		m := active(id, "high")
		m.Source, m.Revision = source, revision
		return m
	}
	e.change("m", record("m", "low", 1))
	e.change("n", record("n", "lower", 2))
	e.change("n", record("n", "lowest", 4)) // that it was deleted meanwhile was not reported
	require.ElementsMatch(t, []string{"m", "n"}, e.of("high"))
	require.NoError(t, e.conflict(Edge{ID: "o", Subscriber: "high", Source: "lower", Revision: 9}))
	require.Equal(t, sluice.SubscriptionExists, sluice.CodeOf(e.conflict(Edge{ID: "o", Subscriber: "high", Source: "low", Revision: 9})))
	gone := record("m", "low", 5)
	gone.Gone = true
	e.change("m", gone)
	require.Equal(t, []string{"n"}, e.of("high"))
	require.NoError(t, e.conflict(Edge{ID: "o", Subscriber: "high", Source: "low", Revision: 9}))
	e.change("m", nil)
	e.change("n", nil)
	require.Empty(t, e.edges)
}
