package endpoint

import (
	"encoding/binary"
	"errors"
	"net"
	"os"
	"syscall"
	"time"
)

// quiet reports whether nothing has arrived on a connection since its last response: neither its
// end nor a response without a request. Behind TLS it also takes what TLS has read ahead; messages
// of TLS itself, such as tickets, do not count. It does not wait for the other end. A byte that it
// takes is lost, so the caller must drop a connection that is not quiet.
func (c *wire) quiet(until time.Time) bool {
	if c.below == nil {
		_, err := readNow(c.raw, c.one[:])
		return errors.Is(err, os.ErrDeadlineExceeded)
	}
	// TLS may write an answer to a change of keys. If the old deadline is over, that would break
	// all later writes.
	if c.conn.SetDeadline(until) != nil {
		return false
	}
	c.below.now = true
	n, err := c.conn.Read(c.one[:]) // TLS can be used after a deadline was exceeded
	c.below.now = false
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && c.below.whole()
}

// records is the connection below TLS. It counts the bytes of each record, because TLS does not
// tell whether it holds a part of one. One goroutine reads at a time.
type records struct {
	net.Conn

	raw  syscall.RawConn // nil: unknown
	now  bool            // reads do not wait
	head [5]byte         // header of a record; the last two bytes are its length
	got  int             // how many bytes of the next header have arrived
	left int             // how many bytes of the record have not arrived
}

func (r *records) Read(p []byte) (n int, err error) {
	if r.now {
		n, err = readNow(r.raw, p)
	} else {
		n, err = r.Conn.Read(p)
	}
	r.count(p[:n])
	return n, err
}

func (r *records) count(p []byte) {
	for len(p) > 0 {
		n := min(len(p), r.left)
		r.left -= n
		if n == 0 {
			n = copy(r.head[r.got:], p)
			r.got += n
		}
		if r.got == len(r.head) {
			r.got, r.left = 0, int(binary.BigEndian.Uint16(r.head[3:]))
		}
		p = p[n:]
	}
}

// whole reports whether no record has arrived in part.
func (r *records) whole() bool { return r.got == 0 && r.left == 0 }

// SetLinger makes Close reset the connection, if sec is 0 and the connection is one of TCP.
func (r *records) SetLinger(sec int) error {
	if tcp, ok := r.Conn.(interface{ SetLinger(sec int) error }); ok {
		return tcp.SetLinger(sec)
	}
	return nil
}
