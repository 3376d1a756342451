package live

import "sync"

// pieces is a pool of write buffers, so that an idle feed holds none.
type pieces struct{ pool sync.Pool }

// mostPiece is the maximum size of a pooled buffer, in bytes.
const mostPiece = 2 * feedPiece

// get returns an empty buffer.
func (p *pieces) get() []byte {
	if b, ok := p.pool.Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return nil
}

// put returns a buffer to the pool.
func (p *pieces) put(b []byte) {
	if 0 < cap(b) && cap(b) <= mostPiece {
		p.pool.Put(&b)
	}
}
