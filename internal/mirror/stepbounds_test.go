package mirror_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/mirror"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// A step of several pages is what the pages are one after the other, and has each entry once. A page that is refused
// ends it.
func TestNextAll_EqualsThePagesInOrder(t *testing.T) {
	t.Parallel()
	r := rule()
	for seed := range uint64(200) {
		w := &world{Rand: rand.New(rand.NewPCG(seed, 3)), first: 1, erased: map[uint64]bool{}}
		for range 40 {
			w.act()
		}
		w.first = max(w.first, 3)
		var pages []*sluice.ObservePage
		held, gaps := mirror.Held{Entries: map[string]mirror.Entry{}}, []sluice.MirrorGap(nil)
		for held.Place.Watermark < w.last {
			p := w.read(held.Place.Watermark, 3)
			pages = append(pages, p)
			next, c := take(t, r, held, p)
			held, gaps = next, append(gaps, c.Gaps...)
		}
		for name, refused := range map[string][]*sluice.ObservePage{"": nil, "refused": {{Incarnation: "origin"}}} {
			all, err := r.NextAll(mirror.Held{Entries: map[string]mirror.Entry{}}, append(slices.Clip(pages), refused...), noon)
			require.Equal(t, len(refused) > 0, err != nil, name)
			has := map[string]mirror.Entry{}
			for _, e := range all.Entries {
				has[e.Change.Key()] = e
			}
			require.Len(t, has, len(all.Entries), "each once")
			require.Equal(t, held.Entries, has)
			require.Equal(t, held.Place, all.Place)
			require.Equal(t, gaps, all.Gaps)
		}
	}
}

// The bounds of a page: one more is refused.
func TestNext_BoundsOfAPage(t *testing.T) {
	t.Parallel()
	const last = 1<<53 - 1
	lost := func(n int) (ranges []sluice.Gap) {
		for i := range n {
			ranges = append(ranges, sluice.Gap{From: uint64(i + 1), To: uint64(i + 1)})
		}
		return ranges
	}
	for name, c := range map[string]struct {
		page sluice.ObservePage
		ok   bool
	}{
		"the last sequence":            {sluice.ObservePage{LastSeq: last, ThroughSeq: last}, true},
		"one behind it":                {sluice.ObservePage{LastSeq: last + 1, ThroughSeq: last}, false},
		"an empty log":                 {sluice.ObservePage{FirstSeq: 10, LastSeq: 9, ThroughSeq: 9}, true},
		"a begin behind the end":       {sluice.ObservePage{FirstSeq: 11, LastSeq: 20, ThroughSeq: 9}, false},
		"five hundred ranges":          {sluice.ObservePage{LastSeq: 500, ThroughSeq: 500, Lost: lost(500)}, true},
		"one more, at its end":         {sluice.ObservePage{LastSeq: 501, ThroughSeq: 501, Lost: lost(501)}, false},
		"one more, behind its end":     {sluice.ObservePage{LastSeq: 501, ThroughSeq: 500, Lost: lost(501)}, true},
		"a range that ends too early":  {sluice.ObservePage{LastSeq: 9, ThroughSeq: 9, Lost: []sluice.Gap{{From: 3, To: 2}}}, false},
		"ranges that share a sequence": {sluice.ObservePage{LastSeq: 9, ThroughSeq: 9, Lost: []sluice.Gap{{From: 2, To: 3}, {From: 3, To: 4}}}, false},
	} {
		c.page.Incarnation = "origin"
		commit, err := rule().Next(mirror.Held{}, &c.page, noon)
		require.Equal(t, c.ok, err == nil, name)
		if len(c.page.Lost) >= 500 && c.ok {
			require.Len(t, commit.Gaps, 500, "each is of one sequence")
		}
	}
	p := &sluice.ObservePage{Incarnation: "origin", LastSeq: 501, ThroughSeq: 501, Lost: lost(501)}
	commit, err := rule().Next(mirror.Held{Place: mirror.Place{Watermark: 1}}, p, noon)
	require.NoError(t, err, "one of the ranges is before the place")
	require.Len(t, commit.Gaps, 500)
}

// A deletion is no content: its label makes no gap. Two changes of an entry in a page are one.
func TestNext_DeletionHasNoLabel(t *testing.T) {
	t.Parallel()
	gone := erase(3, "x")
	gone.Event.Extensions = map[string]string{sluice.AttributeClassification: "TOP_SECRET"}
	held, c := take(t, rule(), mirror.Held{}, page(3, write(1, "x", "/a"), write(2, "y", "/a"), gone))
	require.Empty(t, c.Gaps)
	require.Len(t, c.Entries, 2)
	x := held.Entries["x"]
	require.True(t, x.Tombstone())
}
