package problem

import (
	"hash/fnv"
	"math"
	"math/bits"
)

// sketchBytes is the size of a sketch. It counts few elements exactly, 4,000 to within two percent,
// and at most 30,000.
const sketchBytes = 512

// sketch estimates the number of distinct elements. It has a bit for each hash; hashes may share a
// bit.
type sketch []byte

// add makes an empty sketch usable. The order and repetitions do not matter.
func (s *sketch) add(element string) {
	if *s == nil {
		*s = make(sketch, sketchBytes)
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(element)) // it does not fail
	bit := mixed(h.Sum64()) % (8 * sketchBytes)
	(*s)[bit/8] |= 1 << (bit % 8)
}

// mixed spreads the hash of short elements over all bits.
func mixed(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	return h ^ h>>33
}

// merge adds the elements of o, without keeping o's memory. A sketch of another size, from another
// version, replaces this one.
func (s *sketch) merge(o sketch) {
	if *s == nil || len(*s) != len(o) {
		if len(o) > 0 {
			*s = append(sketch(nil), o...)
		}
		return
	}
	for i, b := range o {
		(*s)[i] |= b
	}
}

// count estimates how many elements were added.
func (s sketch) count() uint64 {
	set := 0
	for _, b := range s {
		set += bits.OnesCount8(b)
	}
	all := float64(8 * sketchBytes)
	free := max(all-float64(set), 1)
	return uint64(math.Round(all * math.Log(all/free)))
}
