package mirror

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// S3-107, S3-108, S3-119…121: of mirrors that exclude each other, those that were stored first stay.
func TestConflict_ConcernsTheLaterMirror(t *testing.T) {
	t.Parallel()
	all := []Edge{
		{"1", "b", "a", true, 71},
		{"2", "c", "b", true, 2},
		{"3", "d", "c", false, 3},
		{"4", "d", "b", true, 4},
		{"5", "d", "https://x/v1/namespaces/d", true, 5},
		{"6", "f", "e", false, 6},
	}
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
		require.Equal(t, c.want, sluice.CodeOf(conflict(c.one, all)), name)
	}
}

// Mirrors in a circle elsewhere end the search, too.
func TestConflict_EndsInACircle(t *testing.T) {
	t.Parallel()
	circle := []Edge{{ID: "1", Subscriber: "a", Source: "b", Settled: true}, {ID: "2", Subscriber: "b", Source: "d", Settled: true}, {ID: "4", Subscriber: "d", Source: "b", Settled: true}}
	require.NoError(t, conflict(Edge{ID: "3", Subscriber: "c", Source: "a"}, circle))
}
