package rollup

import (
	"fmt"
	"maps"
)

// ownHour is the current hour of this process: its completed steps of five minutes, and the open
// one.
type ownHour struct {
	slot  int64 // the open step: minutes since 1970 / recent
	cells map[string]StoredCells
	open  map[string]*Counts
}

func newHour(minute int64) ownHour {
	return ownHour{slot: minute / recent, cells: map[string]StoredCells{}, open: map[string]*Counts{}}
}

// cellsWithOpen returns the cells, including one for the open step. The stored cells are not
// changed.
func (h *ownHour) cellsWithOpen() map[string]StoredCells {
	all := maps.Clone(h.cells)
	for id, c := range h.open {
		all[id] = all[id].with(int(h.slot%(hour/recent)), c)
	}
	return all
}

// turnHour adds a completed minute to the hour, and queues the hour for storing. It does the latter
// each minute if there are few subscriptions, otherwise every five minutes.
func (b *Book) turnHour(minute int64, all map[string]Counts, now int64) {
	h := &b.own
	if minute/recent != h.slot { // no minute of the open step had attempts
		b.closeSlot(minute / recent)
	}
	for id, c := range all {
		sum(h.open, id, &c)
	}
	if now/recent != h.slot {
		b.closeSlot(now / recent)
	} else if len(h.open) > 0 && len(h.open) <= crowd {
		b.saveHour(h.slot*recent/hour, h.cellsWithOpen())
	}
}

// closeSlot closes the open step, and the hour if it is over.
func (b *Book) closeSlot(next int64) {
	h := &b.own
	hourOf := h.slot * recent / hour
	if len(h.open) > 0 {
		h.cells = h.cellsWithOpen()
		b.enterColumn(b.hours, hourOf, b.deps.Process, hourColumn(h.cells))
		b.saveHour(hourOf, h.cells)
	}
	h.slot, h.open = next, map[string]*Counts{}
	if next*recent/hour != hourOf {
		h.cells = map[string]StoredCells{}
	}
}

// saveHour queues the cells of an hour for the next Flush.
func (b *Book) saveHour(hourOf int64, cells map[string]StoredCells) {
	for part, ids := range parts(cells) {
		block := Block{Hour: hourOf, At: b.deps.Now().UTC(), Cells: make(map[string]StoredCells, len(ids))}
		for _, id := range ids {
			block.Cells[id] = cells[id]
		}
		b.unsaved[fmt.Sprintf("%s.hour.%d.%d", b.deps.Process, hourOf, part)] = block
	}
}

// enterColumn sets a column of this or another process, in place of any other with its key.
func (b *Book) enterColumn(all map[int64]map[string]*column, at int64, key string, c *column) {
	if all[at] == nil {
		all[at] = map[string]*column{}
	}
	all[at][key] = c
}
