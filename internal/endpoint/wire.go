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
	maxHead = 64 << 10 // of a response, including informational responses before it
	// maxRequest is the maximum size of a request on a wire. The kernel accepts such a request at
	// once, whether or not the other end reads it. The transport sends larger requests, because it
	// can read a response that comes before the request is written.
	maxRequest = 16 << 10
)

var (
	errUnsent = errors.New("the connection was closed before anything was sent")
	errHead   = fmt.Errorf("the answer's header has more than %d bytes", maxHead)
)

// wire is a connection that speaks HTTP/1.1. One goroutine uses it at a time: the attempt that took
// it, or wires while it is free. since is set under the lock of wires.
type wire struct {
	of     *wires
	host   *wiresOf
	conn   net.Conn
	raw    syscall.RawConn // the connection in the kernel; nil: unknown
	below  *records        // what TLS reads from; nil: no TLS
	one    [1]byte         // read by quiet
	since  time.Time       // free since then
	left   int             // how many bytes of the head may still be read
	served bool            // a request on it has had a response
}

func newWire(w *wires, h *wiresOf, conn net.Conn) *wire {
	c := &wire{of: w, host: h, conn: conn}
	if in, ok := conn.(syscall.Conn); ok {
		c.raw, _ = in.SyscallConn() // nil, then
	}
	return c
}

// exchange makes a request, and calls read with the response. It reports whether the connection can
// be used again. An error other than errUnsent says that the endpoint may have got the request.
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
	res, err := c.answer(req, from) //nolint:bodyclose // the body is only a view of the connection
	if err != nil {
		return false, err
	}
	rest := &ending{ReadCloser: res.Body}
	res.Body = rest
	if err := read(res); err != nil {
		return false, err
	}
	c.served = true
	// Bytes after the body would be taken for the next response, so the connection is not used
	// again.
	return rest.over && !res.Close && !req.Close && res.StatusCode >= http.StatusOK && from.Buffered() == 0, nil
}

// send writes a request with one call. It returns errUnsent if the other end had closed the
// connection before. A head and a body in two packets would cost the receiver two reads, and the
// second may wait for an acknowledgement of the first. With TLS it never returns errUnsent, because
// bytes may have left.
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

// answer reads the head of the final response, and skips informational ones.
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

// Read reads from the connection. It fails with errHead when the response's head exceeds maxHead.
func (c *wire) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, errHead
	}
	n, err := c.conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

// ending is a body that records whether it was read to its end.
type ending struct {
	io.ReadCloser

	over bool
}

func (e *ending) Read(p []byte) (int, error) {
	n, err := e.ReadCloser.Read(p)
	e.over = e.over || err == io.EOF
	return n, err
}

// exchange makes a request on a kept or new connection, and calls read with the response. It ends
// with ctx, or at the time until. Only a request of which nothing was sent, on a connection that
// had served others, is repeated on another: the endpoint closed it while it was free. So a request
// reaches the endpoint at most once.
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
			if !time.Now().Before(until) { // the connection failed because the time was over
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
