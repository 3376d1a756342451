package vector

import (
	"math/bits"
	"math/rand/v2"
)

const (
	sketchBits  = 1024
	sketchWords = sketchBits / 64
	rounds      = 3 // of random signs and a Hadamard transform, together approximately a random rotation

	leastCandidates = 2048
	candidatesEach  = 64 // for each wanted neighbour
)

func candidatesFor(top int) int { return max(leastCandidates, candidatesEach*top) }

// sketch holds the signs of a vector's coordinates after rotations, a bit each.
type sketch [sketchWords]uint64

// rotation holds enough random rotations to fill the bits of a sketch.
type rotation struct {
	size  int // a power of two, at least the number of dimensions
	signs [][rounds][]float32
}

// newRotation returns the rotations for vectors with dims dimensions. It always returns the same
// ones. So sketches of different indexes with the same dimensions can be compared, and a restart
// changes no result.
func newRotation(dims int) rotation {
	r := rotation{size: 64}
	for r.size < dims {
		r.size *= 2
	}
	random := rand.New(rand.NewPCG(0x51c3, uint64(r.size))) //nolint:gosec // not a secret: it must be the same each time
	for n := 0; n < sketchBits; n += r.size {
		var signs [rounds][]float32
		for i := range signs {
			signs[i] = make([]float32, r.size)
			for j := range signs[i] {
				signs[i][j] = float32(1 - 2*int(random.Uint32()&1))
			}
		}
		r.signs = append(r.signs, signs)
	}
	return r
}

// sketch returns the sketch of a vector.
func (r *rotation) sketch(v []float32) (s sketch) {
	turned := make([]float32, r.size)
	for n := range r.signs {
		clear(turned)
		copy(turned, v)
		for i := range rounds {
			for j, sign := range r.signs[n][i] {
				turned[j] *= sign
			}
			hadamard(turned)
		}
		for j := 0; j < r.size && n*r.size+j < sketchBits; j++ {
			if bit := n*r.size + j; turned[j] >= 0 {
				s[bit/64] |= 1 << (bit % 64)
			}
		}
	}
	return s
}

// hadamard computes the Walsh-Hadamard transform of v in place. The length of v must be a power of
// two.
func hadamard(v []float32) {
	for half := 1; half < len(v); half *= 2 {
		for from := 0; from < len(v); from += 2 * half {
			a, b := v[from:from+half], v[from+half:from+2*half]
			for i := range a {
				a[i], b[i] = a[i]+b[i], a[i]-b[i]
			}
		}
	}
}

// scratch is the memory of one search.
type scratch struct {
	apart []uint16 // differing bits, by slot
}

// candidates returns the slots with the sketches that differ least from q: at least most slots, and
// all further ones that differ as much as the last of these. The caller holds the lock.
func (x *Index[K]) candidates(q *sketch, most int) []int32 {
	s, _ := x.scratch.Get().(*scratch)
	if s == nil {
		s = &scratch{}
	}
	defer x.scratch.Put(s)
	if cap(s.apart) < len(x.keys) {
		s.apart = make([]uint16, len(x.keys)+len(x.keys)/4)
	}
	s.apart = s.apart[:len(x.keys)]
	var count [sketchBits + 1]int32
	for slot := range s.apart {
		d := q.apart((*sketch)(x.sketches[slot*sketchWords:]))
		s.apart[slot] = uint16(d) //nolint:gosec // at most sketchBits
		count[d]++
	}
	limit, seen := uint16(0), int(count[0])
	for seen < most && limit < sketchBits {
		limit++
		seen += int(count[limit])
	}
	slots := make([]int32, 0, seen)
	for slot, d := range s.apart {
		if d <= limit {
			slots = append(slots, int32(slot))
		}
	}
	return slots
}

// apart returns the number of bits in which two sketches differ.
func (s *sketch) apart(o *sketch) (n int) {
	for i := 0; i < sketchWords; i += 4 {
		n += bits.OnesCount64(s[i]^o[i]) + bits.OnesCount64(s[i+1]^o[i+1]) +
			bits.OnesCount64(s[i+2]^o[i+2]) + bits.OnesCount64(s[i+3]^o[i+3])
	}
	return n
}
