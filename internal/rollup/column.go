package rollup

import (
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"unique"
)

// owner is a subscription: its ID and its creation time.
type owner struct {
	id    string
	began int64
}

// column has the counts of subscriptions in a span of time, in a compact form. It is not changed
// after it was made. A handle for each owner shares the ID between all columns.
type column struct {
	owners []unique.Handle[owner] // by ID
	ends   []uint32               // in data
	data   []byte

	delivered, failed uint64 // totals of all subscriptions; only for a minute
}

// find returns the data of a subscription; nil if it has none.
func (c *column) find(of owner) []byte {
	i, ok := slices.BinarySearchFunc(c.owners, of.id, func(h unique.Handle[owner], id string) int { return strings.Compare(h.Value().id, id) })
	if !ok || c.owners[i].Value().began != of.began {
		return nil
	}
	return c.at(i)
}

func (c *column) at(i int) []byte {
	begin := uint32(0)
	if i > 0 {
		begin = c.ends[i-1]
	}
	return c.data[begin:c.ends[i]]
}

// add adds a subscription, whose data the caller has appended.
func (c *column) add(id string, began int64) {
	c.owners = append(c.owners, unique.Make(owner{id, began}))
	c.ends = append(c.ends, uint32(len(c.data))) //nolint:gosec // there are some megabytes at most
}

// minuteColumn returns the column of a minute: a cell for each subscription.
func minuteColumn(all map[string]Counts) *column {
	var c column
	for _, id := range slices.Sorted(maps.Keys(all)) {
		counts := all[id]
		c.delivered, c.failed = c.delivered+uint64(counts.Delivered), c.failed+uint64(counts.Failed)
		c.data = appendCell(c.data, &counts)
		c.add(id, counts.began)
	}
	c.data = slices.Clip(c.data)
	return &c
}

// hourColumn returns the column of an hour: cells for each subscription.
func hourColumn(all map[string]StoredCells) *column {
	var c column
	for _, id := range slices.Sorted(maps.Keys(all)) {
		c.data = append(c.data, all[id].Cells...)
		c.add(id, all[id].Began)
	}
	c.data = slices.Clip(c.data)
	return &c
}

// StoredCells holds the attempts of a subscription in an hour. Its first two bytes have a bit for
// each period of five minutes with attempts, and a cell follows for each of these periods.
type StoredCells struct {
	Began int64  `json:"began"`
	Cells []byte `json:"cells"`
}

const maskBytes = 2

// with returns the cells with one more at the end.
func (s StoredCells) with(slot int, counts *Counts) StoredCells {
	if s.Began != counts.began || len(s.Cells) < maskBytes {
		s = StoredCells{Began: counts.began, Cells: make([]byte, maskBytes, 8*maskBytes)}
	}
	cells := appendCell(slices.Clone(s.Cells), counts)
	binary.LittleEndian.PutUint16(cells, binary.LittleEndian.Uint16(cells)|1<<slot)
	return StoredCells{Began: s.Began, Cells: cells}
}

// eachCell calls f for the cells of an hour. It stops at a damaged cell.
func eachCell(cells []byte, f func(slot int, counts *Counts)) {
	if len(cells) < maskBytes {
		return
	}
	mask := binary.LittleEndian.Uint16(cells)
	cells = cells[maskBytes:]
	for slot := range 60 / recent {
		if mask&(1<<slot) == 0 {
			continue
		}
		counts, rest, ok := readCell(cells)
		if !ok {
			return
		}
		f(slot, &counts)
		cells = rest
	}
}

// appendCell appends counts as varints: bits that say which numbers follow, the attempts by bucket
// of duration, and the failures by class. Most cells have three bytes. A cell of two deliveries
// within 5 ms has two bytes: 02 (bucket 0), 02 (two).
func appendCell(b []byte, c *Counts) []byte {
	filled, failed := filledOf(c.Durations[:])<<1, uint64(0)
	if c.Failures != nil {
		if failed = filledOf(c.Failures[:]); failed > 0 {
			filled |= 1
		}
	}
	b = binary.AppendUvarint(b, filled)
	b = appendFilled(b, c.Durations[:])
	if failed > 0 {
		b = appendFilled(binary.AppendUvarint(b, failed), c.Failures[:])
	}
	return b
}

// filledOf returns a bit for each number that is not zero.
func filledOf(all []uint32) (bits uint64) {
	for i, n := range all {
		if n > 0 {
			bits |= 1 << i
		}
	}
	return bits
}

func appendFilled(b []byte, all []uint32) []byte {
	for _, n := range all {
		if n > 0 {
			b = binary.AppendUvarint(b, uint64(n))
		}
	}
	return b
}

// readCell returns the counts of the first cell and the bytes after it; false if the cell is
// damaged.
func readCell(b []byte) (c Counts, rest []byte, ok bool) {
	r := varints{b: b, ok: true}
	filled := r.next()
	var all uint32
	for i := range c.Durations {
		if filled&(2<<i) != 0 {
			c.Durations[i] = uint32(r.next()) //nolint:gosec // it was one
			all += c.Durations[i]
		}
	}
	if filled&1 != 0 {
		failed := r.next()
		c.Failures = new(Failures)
		for i := range c.Failures {
			if failed&(1<<i) != 0 {
				c.Failures[i] = uint32(r.next()) //nolint:gosec // it was one
				c.Failed += c.Failures[i]
			}
		}
	}
	c.Delivered = all - min(c.Failed, all)
	return c, r.b, r.ok
}

// varints reads varints.
type varints struct {
	b  []byte
	ok bool
}

func (r *varints) next() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.ok, r.b = false, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}
