package endpoint

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"syscall"
	"time"
)

const (
	maxHead = 64 << 10 // of an answer, with all that comes before it
	// maxRequest is the largest request on a wire: the kernel takes it at once, whether or not the other end
	// reads it. So the answer to a larger one, which may come before all of it is read, is the transport's.
	maxRequest = 16 << 10
)

var (
	errUnsent = errors.New("the connection was closed before anything was sent")
	errHead   = fmt.Errorf("the answer's header has more than %d bytes", maxHead)
)

// wire is a connection that speaks HTTP/1.1.
type wire struct {
	of     *wires
	host   *wiresOf
	conn   net.Conn
	raw    syscall.RawConn // of the kernel's connection; nil: unknown
	since  time.Time       // free since then
	left   int             // bytes to read
	served bool            // a request was answered on it
}

func newWire(w *wires, h *wiresOf, conn net.Conn) *wire {
	c := &wire{of: w, host: h, conn: conn}
	if in, ok := conn.(syscall.Conn); ok {
		c.raw, _ = in.SyscallConn() // nil, then
	}
	return c
}

// exchange makes a request and has its answer read. It reports whether the connection can be used again.
func (c *wire) exchange(req *http.Request, body []byte, until time.Time, read func(*http.Response) error) (again bool, err error) {
	if err := c.conn.SetDeadline(until); err != nil {
		return false, errUnsent
	}
	if err := c.send(req, body); err != nil {
		return false, err
	}
	from, ok := c.of.answers.Get().(*bufio.Reader)
	if !ok {
		from = bufio.NewReader(nil)
	}
	from.Reset(c)
	defer func() {
		from.Reset(nil)
		c.of.answers.Put(from)
	}()
	res, err := c.answer(req, from) //nolint:bodyclose // nothing is behind it but the connection
	if err != nil {
		return false, err
	}
	rest := &ending{ReadCloser: res.Body}
	res.Body = rest
	if err := read(res); err != nil {
		return false, err
	}
	c.served = true
	return rest.over && !res.Close && !req.Close && res.StatusCode >= http.StatusOK && from.Buffered() == 0, nil
}

// send writes a request at once.
func (c *wire) send(req *http.Request, body []byte) error {
	buf, ok := c.of.requests.Get().(*[]byte)
	if !ok {
		buf = new([]byte)
	}
	defer c.of.requests.Put(buf)
	head, err := appendHead((*buf)[:0], req, len(body))
	if err != nil {
		return err
	}
	*buf = append(head, body...)
	n, err := c.conn.Write(*buf)
	if err != nil && n == 0 && !c.host.origin.secure && (errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)) {
		return errUnsent
	}
	return err
}

// answer reads the header of the final answer.
func (c *wire) answer(req *http.Request, from *bufio.Reader) (*http.Response, error) {
	c.left = maxHead
	for {
		res, err := http.ReadResponse(from, req)
		if err != nil {
			return nil, err
		}
		if res.StatusCode >= http.StatusOK || res.StatusCode == http.StatusSwitchingProtocols {
			c.left = math.MaxInt
			return res, nil
		}
	}
}

// Read reads from the connection, while the answer's header lasts no more than may be.
func (c *wire) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, errHead
	}
	n, err := c.conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

// ending is a body that knows whether it was read to its end.
type ending struct {
	io.ReadCloser

	over bool
}

func (e *ending) Read(p []byte) (int, error) {
	n, err := e.ReadCloser.Read(p)
	e.over = e.over || err == io.EOF
	return n, err
}

// exchange makes a request and has its answer read, on one connection. It ends with ctx, or at a time.
func (w *wires) exchange(ctx context.Context, req *http.Request, body []byte, until time.Time, read func(*http.Response) error) error {
	l := line{parent: ctx}
	defer l.watch()()
	for {
		c, reused, err := w.take(ctx, req.URL, until)
		if err != nil {
			return err
		}
		l.hold(c.conn)
		again, err := c.exchange(req, body, until, read)
		if errors.Is(err, errUnsent) && reused && l.release() {
			w.drop(ctx, c)
			continue
		}
		if err != nil {
			l.end()
			w.drop(ctx, c)
			if !time.Now().Before(until) { // the connection failed because of that
				return context.DeadlineExceeded
			}
			return err
		}
		if l.release() && again {
			w.put(c)
		} else {
			w.drop(ctx, c)
		}
		return nil
	}
}
