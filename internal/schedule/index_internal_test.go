package schedule

import (
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// pages returns all of a namespace, page by page.
func (x *index) pages(size int) (listed []Mark) {
	var place Mark
	for {
		page := x.after("acme", place, size, func(Mark) bool { return true })
		if listed = append(listed, page...); len(page) < size {
			return listed
		}
		place = page[size-1]
	}
}

// However records come, move and go, they are listed in the order of their times, page by page, each once.
func TestIndex_ListsRecordsInTheOrderOfTimes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		x, want := newIndex(), map[string]Mark{}
		for range rapid.IntRange(0, 3000).Draw(t, "changes") {
			id := rapid.IntRange(0, 1500).Draw(t, "id")
			key := strconv.Itoa(id)
			if rapid.IntRange(0, 3).Draw(t, "removed") == 0 {
				x.remove(key)
				delete(want, key)
				continue
			}
			m := Mark{At: time.Unix(rapid.Int64Range(0, 40).Draw(t, "at"), 0), ID: key, Over: id%3 == 0}
			x.set("acme", key, 1, m)
			want[key] = m
		}
		x.set("other", "o", 1, Mark{ID: "o"})
		sorted := slices.SortedFunc(maps.Values(want), Mark.compare)
		require.Equal(t, sorted, x.pages(rapid.IntRange(1, 700).Draw(t, "page")))
		odd := func(m Mark) bool { return len(m.ID)%2 == 1 }
		require.Len(t, x.after("acme", Mark{}, 5000, odd), len(slices.DeleteFunc(sorted, func(m Mark) bool { return !odd(m) })))
		require.Equal(t, len(slices.DeleteFunc(slices.Collect(maps.Values(want)), func(m Mark) bool { return m.Over })), x.waiting()["acme"])
		for key := range want {
			got, ok := x.get(key)
			require.True(t, ok)
			require.Equal(t, want[key], got)
			x.remove(key)
		}
		require.NotContains(t, x.lists, "acme")
		require.Equal(t, map[string]int{"other": 1}, x.waiting())
	})
}

// A reader that found a record gone does not remove the one that was made in its place meanwhile.
func TestIndex_RemovesTheRevisionItWasToldOf(t *testing.T) {
	t.Parallel()
	x := newIndex()
	x.set("acme", "acme/a", 7, Mark{ID: "a"})
	x.removeOf("acme/a", 6)
	require.Len(t, x.pages(10), 1)
	x.removeOf("acme/a", 7)
	require.Empty(t, x.pages(10))
}

// Those that are due at one instant are listed by their ids, over pages that end between them.
func TestIndex_ListsOneInstantByID(t *testing.T) {
	t.Parallel()
	x := newIndex()
	for _, id := range []string{"c", "a", "d", "b"} {
		x.set("acme", "acme/"+id, 1, Mark{At: time.Unix(1_700_000_000, 0), ID: id})
	}
	for size := 1; size < 5; size++ {
		var ids []string
		for _, m := range x.pages(size) {
			ids = append(ids, m.ID)
		}
		require.Equal(t, []string{"a", "b", "c", "d"}, ids)
	}
}
