package wake

import "container/heap"

// clock is a heap of consumers, ordered by the time of their next check.
type clock []*entry

func (c clock) Len() int           { return len(c) }
func (c clock) Less(i, j int) bool { return c[i].at.Before(c[j].at) }
func (c clock) Swap(i, j int) {
	c[i], c[j] = c[j], c[i]
	c[i].place, c[j].place = i, j
}

// Push appends an entry; see heap.Interface.
func (c *clock) Push(x any) {
	en, _ := x.(*entry)
	en.place = len(*c)
	*c = append(*c, en)
}

// Pop removes the last entry; see heap.Interface.
func (c *clock) Pop() any {
	last := len(*c) - 1
	en := (*c)[last]
	(*c)[last] = nil
	*c = (*c)[:last]
	en.place = -1
	return en
}

// set moves an entry to its place by time.
func (c *clock) set(en *entry) {
	if en.place < 0 {
		heap.Push(c, en)
		return
	}
	heap.Fix(c, en.place)
}

// drop removes an entry if it is in the clock.
func (c *clock) drop(en *entry) {
	if en.place >= 0 {
		heap.Remove(c, en.place)
	}
}
