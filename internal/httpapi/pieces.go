package httpapi

import "sync"

// pieces are buffers for what is written at a time: a feed that is sent nothing has none.
type pieces struct{ pool sync.Pool }

// mostPiece is how large a buffer is that is kept for others, in bytes.
const mostPiece = 2 * feedPiece

// get returns an empty buffer.
func (p *pieces) get() []byte {
	if b, ok := p.pool.Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return nil
}

// put keeps a buffer for others.
func (p *pieces) put(b []byte) {
	if 0 < cap(b) && cap(b) <= mostPiece {
		p.pool.Put(&b)
	}
}
