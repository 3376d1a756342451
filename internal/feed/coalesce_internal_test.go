package feed

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func coalescing(labels ...string) *coalescer {
	return &coalescer{
		wish: Coalesce{Labels: labels, Window: time.Hour}, most: 100, groups: map[string]*Frame{},
		labels: func(ev *sluice.Event) func(string) (string, bool) { return filter.LabelsOf(ev, nil) },
	}
}

// Values that look alike when they are put together are different: a:b and c are not a and b:c.
func TestCoalesce_KeepsValuesApart(t *testing.T) { // S2-143…145
	t.Parallel()
	for i, pair := range [][2][2]string{
		{{"a:b", "c"}, {"a", "b:c"}},
		{{"a", "bc"}, {"ab", "c"}},
		{{"1:a", "b"}, {"1", "a:b"}},
		{{"", "a"}, {"a", ""}},
		{{"a1:", "b"}, {"a", ":b"}},
	} {
		c := coalescing("x", "y")
		for seq, values := range pair {
			require.Empty(t, c.add(item(uint64(seq+1), fmt.Sprintf(`{"x":%q,"y":%q}`, values[0], values[1])), time.Now()))
		}
		require.Len(t, c.groups, 2, "pair %d", i)
	}
}

// Frames leave in the order of their sequences, and each says where a reader goes on that has got it.
func TestCoalesce_FlushOrdersAndResumes(t *testing.T) { // S2-66…71
	t.Parallel()
	c := coalescing("k")
	for i, k := range []string{"a", "b", "c", "b", "d", "a", "e", "f", "g", "h"} { // a is 1 and 6, b 2 and 4
		require.Empty(t, c.add(item(uint64(i+1), fmt.Sprintf(`{"k":%q}`, k)), time.Now()))
	}
	require.Zero(t, c.resume(10), "before the first of every group")
	var seqs, resumes []uint64
	for _, f := range c.flush() {
		seqs, resumes = append(seqs, f.Seq), append(resumes, f.Resume)
	}
	require.Equal(t, []uint64{3, 4, 5, 6, 7, 8, 9, 10}, seqs)
	require.Equal(t, []uint64{0, 0, 0, 6, 7, 8, 9, 10}, resumes, "a begins with 1: before it is sent, nothing is complete")
	require.Empty(t, c.groups)
	require.Equal(t, []any{0, true}, []any{c.weight, c.due.IsZero()})
}

// A window ends at its time, and not while nothing is held.
func TestCoalesce_WindowEnds(t *testing.T) {
	t.Parallel()
	c, now := coalescing("path"), time.Now()
	c.wish.Window = time.Second
	require.False(t, c.isOver(now))
	c.add(item(1, "{}"), now)
	require.False(t, c.isOver(now.Add(time.Second-1)))
	require.True(t, c.isOver(now.Add(time.Second)))
	c.flush()
	require.False(t, c.isOver(now.Add(time.Hour)))
}

// What is held is bounded in groups: the one too many sends all before it.
func TestCoalesce_BoundsGroups(t *testing.T) {
	t.Parallel()
	c := coalescing("k")
	c.most = 3
	for seq, k := range []string{"a", "b", "c", "a"} {
		require.Empty(t, c.add(item(uint64(seq+1), fmt.Sprintf(`{"k":%q}`, k)), time.Now()))
	}
	require.Len(t, c.add(item(5, `{"k":"d"}`), time.Now()), 3)
	require.Len(t, c.groups, 1)
}

// The weight is that of what is held: the last event of a group takes the place of the one before, unless the first is sent.
func TestCoalesce_WeighsItsHeldEvents(t *testing.T) {
	t.Parallel()
	large, small := item(1, strings.Repeat("x", maxWeight/2)), item(2, "{}")
	for first, want := range map[bool]int{false: small.weight(), true: large.weight()} {
		c := coalescing("path")
		c.wish.First = first
		c.add(large, time.Now())
		c.add(small, time.Now())
		require.Equal(t, want, c.weight)
	}
	c := coalescing("path")
	c.weight = maxWeight // as much as may be held
	c.groups["other"] = &Frame{item: small, Seq: 1, from: 1, Count: 1}
	require.Len(t, c.add(large, time.Now()), 1)
}

// Every event has a type and a path; source, subject and other labels it may lack, and then it is sent at once.
func TestCoalesce_SendsUnlabelledEventsAtOnce(t *testing.T) { // S2-143
	t.Parallel()
	full := sluice.Event{Seq: 1, Type: "t", Path: "/p", Source: "/s", Subject: "who", Data: []byte(`{"variant":"v"}`)}
	bare := sluice.Event{Seq: 1, Path: "/p"}
	for name, want := range map[string][2]string{
		"type": {"t", sluice.DefaultType}, "path": {"/p", "/p"}, "source": {"/s", ""}, "subject": {"who", ""}, "variant": {"v", sluice.DefaultType}, "other": {"", ""},
	} {
		c := coalescing(name)
		for i, ev := range []sluice.Event{full, bare} {
			value, ok := labelOf(&ev, c.labels(&ev), name)
			require.Equal(t, want[i], value, name)
			require.Equal(t, want[i] != "", ok, name)
			require.Equal(t, !ok, len(c.add(NewItem(ev), time.Now())) == 1, name)
		}
	}
}
