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

// Options are a connection's time limits. Zero values are the defaults.
type Options struct {
	Stall    time.Duration // how long the peer may read nothing; default: 2 min
	Farewell time.Duration // for the remaining frames, then for the peer's close; default: 2 s
}

const (
	defaultStall    = 2 * time.Minute
	defaultFarewell = 2 * time.Second
)

// errOver is the error of writes after the close frame.
var errOver = errors.New("the WebSocket is closed")

// Conn is a WebSocket. One goroutine reads, others may write.
type Conn struct {
	conn net.Conn
	in   *bufio.Reader
	opts Options
	ends atomic.Int64  // deadline of writes, in nanoseconds since 1970; 0: none
	deaf chan struct{} // closed when Hear has returned

	mu   sync.Mutex // of writers
	said bool       // a close frame was sent: nothing follows
	sent int64      // bytes

	// Of the reader, and after Hear has returned of the closer.
	unread int64 // bytes of a message that is discarded
	state  ws.State
	left   bool // the peer has closed, or is gone
}

// New returns the WebSocket of a connection after the handshake, given the bytes that were already
// read from the connection.
func New(conn net.Conn, read []byte, opts Options) *Conn {
	opts.Stall, opts.Farewell = cmp.Or(opts.Stall, defaultStall), cmp.Or(opts.Farewell, defaultFarewell)
	var from io.Reader = conn
	if len(read) > 0 {
		from = io.MultiReader(bytes.NewReader(read), conn)
	}
	return &Conn{conn: conn, in: bufio.NewReaderSize(from, maxHeard), opts: opts, state: ws.StateServerSide, deaf: make(chan struct{})}
}

// Hear reads frames and answers pings until the peer closes the WebSocket, which it answers too;
// breaks a rule, which it reports to the peer; or has disconnected. It is called once, and returns
// at the latest when Close or CloseNow is called.
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
			_ = c.conn.Close() // writers need not wait
			return
		case f.op == ws.OpClose:
			c.left = true
			c.Hurry()
			_ = c.say(farewell(f.payload)) // it may have gone
			return
		case f.op == ws.OpPing:
			_ = c.Write(append(appendHead(nil, ws.OpPong, len(f.payload)), f.payload...)) // the next read reports a failure
		}
	}
}

// Deaf returns a channel that is closed when Hear has returned.
func (c *Conn) Deaf() <-chan struct{} { return c.deaf }

// Write writes messages, given as appended frames. A write fails if the peer does not read it, and,
// after Hurry, if it takes too long. After a failure, nothing more can be written.
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

// Hurry limits the time of the write in progress and of all later writes.
func (c *Conn) Hurry() {
	c.ends.CompareAndSwap(0, time.Now().Add(c.opts.Farewell).UnixNano())
	c.limit()
}

// limit sets the deadline of writes, if Hurry has set one.
func (c *Conn) limit() {
	if ends := c.ends.Load(); ends != 0 {
		_ = c.conn.SetWriteDeadline(time.Unix(0, ends)) // if that fails, it is gone
	}
}

// say writes a close frame, the last frame, unless one was written already.
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

// Close sends a close frame with the reason, unless one was sent, waits a moment for the peer to
// close the WebSocket too, and closes the connection. When it returns, Hear has returned.
func (c *Conn) Close(code Code, why string) {
	c.Hurry()
	if c.say(closing(code, why)) == nil && c.conn.SetReadDeadline(time.Now().Add(c.opts.Farewell)) == nil {
		<-c.deaf
		c.drain()
	}
	c.CloseNow()
}

// drain reads until the peer has closed the WebSocket or the connection. If the connection were
// closed while data is unread, the peer could lose what the server sent.
func (c *Conn) drain() {
	for !c.left {
		f, err := c.next()
		if _, is := errors.AsType[*amiss](err); is {
			_, _ = io.Copy(io.Discard, c.in) // the start of the next frame is unknown
		}
		c.left = err != nil || f.op == ws.OpClose
	}
}

// CloseNow closes the connection. When it returns, Hear has returned.
func (c *Conn) CloseNow() {
	_ = c.conn.Close() // after any error it is closed
	<-c.deaf
}
