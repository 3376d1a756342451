package websocket

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gobwas/ws"
)

// Options is how long a connection waits. Zero values are the defaults.
type Options struct {
	Stall    time.Duration // for which the peer may take nothing before the connection is over; 2 min
	Farewell time.Duration // for what is left to say, and until the peer has left; 2 s
}

const (
	defaultStall    = 2 * time.Minute
	defaultFarewell = 2 * time.Second
)

// errOver is why nothing is written any more.
var errOver = errors.New("the WebSocket is closed")

// Conn is a WebSocket. One goroutine hears, others may write.
type Conn struct {
	conn net.Conn
	in   *bufio.Reader
	opts Options
	ends atomic.Int64  // when writing does, in nanoseconds since 1970; 0: it does not
	deaf chan struct{} // closed when Hear has returned

	mu   sync.Mutex // of who writes
	said bool       // why it closes: nothing follows
	sent int64      // bytes

	// Of who hears, and when Hear has returned of who closes.
	unread int64 // bytes of a message that nobody wants
	state  ws.State
	left   bool // the peer has closed, or is gone
}

// New returns the WebSocket of a connection whose handshake was answered, and of what was read of it already.
func New(conn net.Conn, read []byte, opts Options) *Conn {
	opts.Stall, opts.Farewell = cmp.Or(opts.Stall, defaultStall), cmp.Or(opts.Farewell, defaultFarewell)
	var from io.Reader = conn
	if len(read) > 0 {
		from = io.MultiReader(bytes.NewReader(read), conn)
	}
	return &Conn{conn: conn, in: bufio.NewReaderSize(from, maxHeard), opts: opts, state: ws.StateServerSide, deaf: make(chan struct{})}
}

// Hear answers pings until the peer closes, which it answers too, does what it may not, of which it is told, or has gone. It is
// called once, and ends at the latest when Close or CloseNow has been called.
func (c *Conn) Hear() {
	defer close(c.deaf)
	for {
		f, err := c.next()
		if err == nil && !f.op.IsControl() {
			err = &amiss{Policy, "no text frame is allowed here"}
		}
		switch a, is := errors.AsType[*amiss](err); {
		case is:
			c.Hurry()
			_ = c.say(closing(a.code, a.why)) // it may have gone
			return
		case err != nil:
			c.left = true
			_ = c.conn.Close() // whoever writes need not wait
			return
		case f.op == ws.OpClose:
			c.left = true
			c.Hurry()
			_ = c.say(farewell(f.payload)) // it may have gone
			return
		case f.op == ws.OpPing:
			_ = c.Write(append(appendHead(nil, ws.OpPong, len(f.payload)), f.payload...)) // who reads next finds out
		}
	}
}

// Deaf is closed when the peer has nothing more to say, and is to be told nothing more.
func (c *Conn) Deaf() <-chan struct{} { return c.deaf }

// Write writes messages, which were appended to one another. What is under way at the time of Hurry fails if it takes
// too long, and so does everything that the peer does not take. After that nothing more can be written.
func (c *Conn) Write(pieces ...[]byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.said {
		return errOver
	}
	return c.write(pieces...)
}

func (c *Conn) write(pieces ...[]byte) error {
	err := c.conn.SetWriteDeadline(time.Now().Add(c.opts.Stall))
	c.limit()
	for _, piece := range pieces {
		if err == nil {
			var n int
			n, err = c.conn.Write(piece)
			c.sent += int64(n)
		}
	}
	if err != nil {
		c.said = true // maybe in pieces
		_ = c.conn.Close()
	}
	return err
}

// Sent returns how many bytes were written.
func (c *Conn) Sent() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sent
}

// Hurry has everything that is being written, and all that is written later, end soon.
func (c *Conn) Hurry() {
	c.ends.CompareAndSwap(0, time.Now().Add(c.opts.Farewell).UnixNano())
	c.limit()
}

// limit bounds what is being written, if it is to end.
func (c *Conn) limit() {
	if ends := c.ends.Load(); ends != 0 {
		_ = c.conn.SetWriteDeadline(time.Unix(0, ends)) // if that fails, it is gone
	}
}

// say writes a close frame, behind which there is nothing. It was said already if another one was.
func (c *Conn) say(frame []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.said {
		return nil
	}
	err := c.write(frame)
	c.said = true
	return err
}

// Close says why the WebSocket is closed, unless that was said, waits for a moment for the peer to close it too, and
// closes the connection. Hear has ended then.
func (c *Conn) Close(code Code, why string) {
	c.Hurry()
	if c.say(closing(code, why)) == nil && c.conn.SetReadDeadline(time.Now().Add(c.opts.Farewell)) == nil {
		<-c.deaf
		c.drain()
	}
	c.CloseNow()
}

// drain reads until the peer leaves: what was sent to it is lost if it meets a connection that is closed.
func (c *Conn) drain() {
	for !c.left {
		f, err := c.next()
		if _, is := errors.AsType[*amiss](err); is {
			_, _ = io.Copy(io.Discard, c.in) // where the next frame begins is not known
		}
		c.left = err != nil || f.op == ws.OpClose
	}
}

// CloseNow closes the connection. Hear has ended then.
func (c *Conn) CloseNow() {
	_ = c.conn.Close() // whatever it was, it is closed
	<-c.deaf
}
