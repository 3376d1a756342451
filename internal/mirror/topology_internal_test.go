package mirror

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// S3-107, S3-108, S3-119…121: of mirrors that exclude each other, those that were stored first stay.
func TestConflict_ConcernsTheLaterMirror(t *testing.T) {
	t.Parallel()
	all := []Edge{{"1", "b", "a", 1}, {"2", "c", "b", 2}, {"3", "d", "c", 3}, {"4", "d", "b", 4}, {"5", "d", "https://x/v1/namespaces/d", 5}}
	for name, c := range map[string]struct {
		one  Edge
		want sluice.Code
	}{
		"another pair":                {Edge{"9", "e", "a", 9}, ""},
		"a diamond":                   {Edge{"9", "d", "a", 9}, ""},
		"the same pair":               {Edge{"9", "c", "b", 9}, sluice.SubscriptionExists},
		"the same pair, stored first": {Edge{"0", "c", "b", 0}, ""},
		"itself again":                {Edge{"2", "c", "b", 2}, ""},
		"both ways":                   {Edge{"9", "a", "b", 9}, sluice.MirrorCycle},
		"a cycle of four":             {Edge{"9", "a", "d", 9}, sluice.MirrorCycle},
		"a cycle, stored first":       {Edge{"0", "a", "d", 0}, ""},
		"a namespace of that name":    {Edge{"9", "a", "https://x/v1/namespaces/d", 9}, ""},
	} {
		require.Equal(t, c.want, sluice.CodeOf(conflict(c.one, all)), name)
	}
}
