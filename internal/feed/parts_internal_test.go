package feed

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func item(seq uint64, data string) *Item {
	return NewItem(sluice.Event{Seq: seq, Type: "t", Path: "/p", Data: []byte(data)})
}

// S2-63, S2-66…71, S2-143…145: events with the same labels are one within a window, and the highest sequence is the frame's.
func TestCoalesce_MergesEventsOfEqualLabels(t *testing.T) {
	t.Parallel()
	static := func(*sluice.Event) map[string]string { return map[string]string{"team": "money"} }
	for _, first := range []bool{false, true} {
		c := &coalescer{
			wish: Coalesce{Labels: []string{"variant", "handle_id", "team"}, Window: 100 * time.Millisecond, First: first}, most: 10, groups: map[string]*Frame{},
			labels: func(ev *sluice.Event) func(string) (string, bool) { return filter.LabelsOf(ev, static) },
		}
		now := time.Now()
		for i, data := range []string{`{"handle_id":"a"}`, `{"handle_id":1}`, `{"handle_id":"1"}`, `{"handle_id":true}`} {
			require.Empty(t, c.add(item(uint64(i+1), data), now.Add(time.Duration(i))))
		}
		require.Len(t, c.groups, 3, "1 and \"1\" are the same text")
		require.Equal(t, now.Add(100*time.Millisecond), c.due, "the window begins with the first")
		for i, data := range []string{`{"handle_id":null}`, `{"handle_id":[1]}`, `{"handle_id":{}}`, `{}`, `"handle_id"`, `no JSON`} {
			passed := c.add(item(uint64(i+10), data), now)
			require.Len(t, passed, 1, data)
			require.Equal(t, uint64(i+10), passed[0].Seq)
			require.Zero(t, passed[0].Resume, "a reader that resumes behind it gets the held events")
		}
		frames := c.flush()
		var seqs []uint64
		for _, f := range frames {
			require.Equal(t, f.Seq, f.Resume, "nothing before it is held")
			seqs = append(seqs, f.Seq)
			if f.Count == 2 {
				require.Equal(t, map[bool]uint64{false: 3, true: 2}[first], f.item.Event.Seq)
			}
		}
		require.Equal(t, []uint64{1, 3, 4}, seqs)
		require.Zero(t, c.due)
	}
}

// Every event is in exactly one frame, and a reader that resumes behind any frame gets everything that was not sent.
func TestCoalesce_LosesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		c := &coalescer{
			wish: Coalesce{Labels: []string{"k"}, Window: 3}, most: rapid.IntRange(1, 4).Draw(rt, "most"), groups: map[string]*Frame{},
			labels: func(ev *sluice.Event) func(string) (string, bool) { return filter.LabelsOf(ev, nil) },
		}
		a := accounted{rt: rt, left: map[uint64]int{}}
		for i, k := range rapid.SliceOfN(rapid.IntRange(0, 5), 1, 40).Draw(rt, "keys") {
			seq, now := uint64(i+1), time.Unix(0, int64(i+1))
			data := fmt.Sprintf(`{"k":%d}`, k)
			if k == 0 {
				data = `{}`
			}
			if !c.due.IsZero() && !now.Before(c.due) {
				a.send(c.flush())
			}
			a.left[seq] = k
			a.send(c.add(item(seq, data), now))
		}
		a.send(c.flush())
		require.Empty(rt, a.left)
	})
}

// Held events are bounded in bytes, too, for any number of groups.
func TestCoalesce_IsBoundedInBytes(t *testing.T) {
	t.Parallel()
	c := &coalescer{
		wish: Coalesce{Labels: []string{"path"}, Window: time.Hour}, most: 1000, groups: map[string]*Frame{},
		labels: func(ev *sluice.Event) func(string) (string, bool) { return filter.LabelsOf(ev, nil) },
	}
	large, flushed := strings.Repeat("x", maxWeight/8), 0
	for seq := uint64(1); seq <= 100; seq++ {
		it := item(seq, large)
		it.Event.Path = sluice.Path(fmt.Sprintf("/p%d", seq))
		flushed += len(c.add(it, time.Now()))
		require.LessOrEqual(t, c.weight, maxWeight+it.weight())
	}
	require.Equal(t, 100, flushed+len(c.groups))
	require.Less(t, len(c.groups), 6)
	c.flush()
	require.Zero(t, c.weight)
}

// accounted is what was not sent yet: the keys of events, by their sequence.
type accounted struct {
	rt   *rapid.T
	left map[uint64]int
}

func (a *accounted) send(frames []Frame) {
	for _, f := range frames {
		key, ok := a.left[f.Seq]
		require.True(a.rt, ok)
		sent := 0
		for seq, k := range a.left {
			if k == key && seq <= f.Seq {
				delete(a.left, seq)
				sent++
			}
		}
		require.Equal(a.rt, f.Count, sent)
		for seq := range a.left {
			require.Greater(a.rt, seq, f.Resume, "it would be missing")
		}
	}
}

// S2-89: a full queue loses what is oldest, and says how much in the place where it was.
func TestQueue_CountsDroppedFrames(t *testing.T) {
	t.Parallel()
	q := queue{most: 20}
	var into [3]Frame
	require.Empty(t, q.take(into[:0], 99))
	for seq := uint64(1); seq <= 30; seq++ {
		q.push(Frame{item: item(seq, ""), Seq: seq})
	}
	require.True(t, q.isFull())
	frames := q.take(into[:0], 99)
	require.Equal(t, &Lagged{Missed: 10, Oldest: 11, Head: 99}, frames[0].Lagged)
	require.Equal(t, []uint64{11, 12}, []uint64{frames[1].Seq, frames[2].Seq})
	q.push(Frame{item: item(31, ""), Seq: 31})
	var seqs []uint64
	for q.count > 0 {
		for _, f := range q.take(into[:0], 99) {
			require.Nil(t, f.Lagged)
			seqs = append(seqs, f.Seq)
		}
	}
	require.Len(t, seqs, 19)
	require.True(t, slices.IsSorted(seqs))
	require.Empty(t, q.frames, "an empty queue takes no memory")
}

// weighing returns a frame whose item has a weight.
func weighing(t *testing.T, seq uint64, weight int) Frame {
	t.Helper()
	it := item(seq, strings.Repeat("x", (weight-item(seq, "").weight())/2))
	require.Equal(t, weight, it.weight())
	return Frame{item: it, Seq: seq}
}

// A queue is bounded in bytes, and so is what is sent at once; it takes memory as it grows.
func TestQueue_BoundsBytes(t *testing.T) {
	t.Parallel()
	q := queue{most: 20}
	for seq := range uint64(20) {
		q.push(Frame{item: item(seq, ""), Seq: seq})
		require.Len(t, q.frames, map[bool]int{true: firstFrames, false: 20}[seq < firstFrames])
	}
	q = queue{most: 20}
	q.push(weighing(t, 1, maxWeight-2))
	require.False(t, q.isFull())
	q.push(weighing(t, 2, maxWeight))
	require.True(t, q.isFull())
	q.push(weighing(t, 3, 1000))
	require.Equal(t, 2, q.missed, "one event may be as large as it likes")
	require.Len(t, q.take(make([]Frame, 0, 3), 99), 2)
	require.Zero(t, q.weight)
	for seq := range uint64(3) {
		q.push(weighing(t, seq, atOnceWeight/2))
	}
	require.Len(t, q.take(make([]Frame, 0, 3), 99), 2)
	require.Len(t, q.take(make([]Frame, 0, 3), 99), 1)
}

// A feed whose filter was dear rests for as long as it owes, and reads the log then; another one goes on.
func TestRest_AsLongAsItOwes(t *testing.T) {
	t.Parallel()
	m, err := filter.Compile(sluice.Filter{})
	require.NoError(t, err)
	for owed, rests := range map[float64]time.Duration{0: 0, costSaved: 0, costSaved + 2*costPerSecond: 2 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			f := &Feed{filter: m, budget: budget{owed: owed, at: began}}
			f.rest(t.Context())
			require.Equal(t, rests, time.Since(began))
			require.Equal(t, rests > 0, f.dear)
		})
	}
}

// S2-113…116: an event is rendered once for each projection, on one line.
func TestFrame_IsOneLine(t *testing.T) {
	t.Parallel()
	it := item(7, "{\n\t\"a\":\r\n 1}")
	r := renderer{publicURL: "http://x/"}
	frame := r.frame(it, Full)
	require.NotContains(t, string(frame), "\n")
	require.NotContains(t, string(frame), "\r")
	require.Equal(t, `{"seq":7,"event":`+string(r.event(it, Full))+`}`, string(frame))
	require.Same(t, &frame[0], &r.frame(it, Full)[0])
	require.NotContains(t, string(r.frame(it, None)), `"data"`)
	require.Contains(t, string(r.frame(it, None)), `"dataref":"http://x/v1/namespaces//events/7"`)
}

// An event that comes again is not examined again: the page of the log and the ring may both have it.
func TestPlace_MovesForwardOnly(t *testing.T) {
	t.Parallel()
	f := &Feed{place: 5, queue: queue{most: 10}, wish: Wish{Pattern: "/none"}}
	for _, tt := range []struct{ items, upTo, looked, place uint64 }{{6, 9, 6, 6}, {8, 7, 7, 7}, {8, 9, 8, 8}, {8, 9, 8, 8}, {3, 9, 3, 8}} {
		var items []*Item
		for seq := uint64(1); seq <= tt.items; seq++ {
			items = append(items, item(seq, ""))
		}
		n, err := f.lookAt(items, tt.upTo)
		require.NoError(t, err)
		require.Equal(t, int(tt.looked), n)
		require.Equal(t, tt.place, f.place)
	}
}

// What a feed's filter costs in a second is bounded; what was not used is saved up for a while.
func TestFilter_CostIsBoundedPerSecond(t *testing.T) {
	t.Parallel()
	var b budget
	now := time.Now()
	require.Zero(t, b.wait(costSaved, now), "it begins with what may be saved up")
	require.Equal(t, time.Second, b.wait(costSaved+costPerSecond, now))
	require.Equal(t, time.Second/2, b.wait(costSaved+costPerSecond, now.Add(time.Second/2)))
	require.Zero(t, b.wait(costSaved+costPerSecond, now.Add(time.Second)))
	require.Equal(t, time.Second, b.wait(costSaved+2*costPerSecond, now.Add(time.Second)))
	require.Zero(t, b.wait(2*costSaved+2*costPerSecond, now.Add(time.Hour)), "no more than that")
	require.Equal(t, time.Second, b.wait(2*costSaved+3*costPerSecond, now.Add(time.Hour)))
}
