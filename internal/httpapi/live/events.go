package live

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/feed"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// openEvents answers a request for a feed with server-sent events. Over HTTP/1.1 they continue
// after the request, until the connection ends. Over HTTP/2, where requests share a connection,
// they are sent within the request.
func (s *Handler) openEvents(c echo.Context, f view) error {
	w := &eventWriter{feed: f, who: httpkit.Caller(c), namespace: c.Param("ns"), pieces: &s.pieces}
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	if c.Request().ProtoMajor > 1 {
		defer f.Close()
		return s.serveEvents2(c, w)
	}
	h.Set("Transfer-Encoding", "identity") // for net/http: the response ends with the connection
	c.Response().WriteHeader(http.StatusOK)
	conn, _, err := c.Response().Hijack()
	if err != nil {
		f.Close()
		return fmt.Errorf("take over a connection: %w", err)
	}
	w.to = taken{conn}
	httpkit.SetAfter(c, httpkit.After{
		Run: func(ctx context.Context, end context.CancelFunc) error {
			go func() {
				hear(conn)
				end()
			}()
			return s.serveEvents(ctx, w)
		},
		Sent: func() int64 { return w.sent },
		End: func() {
			_ = conn.Close() // in any case
			f.Close()
		},
	})
	return nil
}

// feedHeard is how many reads of a reader's data the server ignores before it disconnects the
// reader.
const feedHeard = 64

// hear returns when the reader has disconnected, or has sent data too often. Readers should send
// nothing.
func hear(conn net.Conn) {
	var few [64]byte // small, because there may be thousands
	for range feedHeard {
		if _, err := conn.Read(few[:]); err != nil {
			return
		}
	}
}

// serveEvents2 streams a feed in response to an HTTP/2 request.
func (s *Handler) serveEvents2(c echo.Context, w *eventWriter) error {
	ctx, cancel := s.needs.UntilStop(c.Request().Context())
	defer cancel()
	control := http.NewResponseController(c.Response())
	// The server reads nothing more, and the read deadline of the request would end the feed.
	if err := control.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	w.to = answer{c.Response(), control}
	c.Response().WriteHeader(http.StatusOK)
	return s.serveEvents(ctx, w)
}

// serveEvents streams a feed until it ends, and sends the reason to the reader. It returns the
// reason unless the server is shutting down or the reader has disconnected.
func (s *Handler) serveEvents(ctx context.Context, w *eventWriter) error {
	err := w.begin()
	if err == nil {
		err = w.feed.Run(ctx, w.send, w.hurry)
	}
	stopping := s.stopping(err)
	if w.failed != nil || ctx.Err() != nil && !stopping {
		return nil //nolint:nilerr // the client has gone
	}
	e, text := s.feedEnd(w.who, w.namespace, err)
	if w.end(text) != nil || stopping {
		return nil //nolint:nilerr // the reader has disconnected
	}
	return e
}

// stream is the destination of server-sent events.
type stream interface {
	io.Writer
	SetWriteDeadline(t time.Time) error
	Flush() error
}

// taken is a hijacked connection.
type taken struct{ net.Conn }

// Flush does nothing: writes are unbuffered.
func (taken) Flush() error { return nil }

// answer makes the response to an HTTP/2 request a stream.
type answer struct {
	io.Writer
	*http.ResponseController
}

// eventWriter writes frames as server-sent events, such as these. A heartbeat is a comment, which
// browsers ignore:
//
//	id: 41
//	data: {"subscribed":true,"current_seq":41,"incarnation":"…"}
//
//	id: 42
//	data: {…an event…}
//
//	: heartbeat
//
// One goroutine uses it, except for hurry.
type eventWriter struct {
	feed      view
	to        stream
	who       sluice.Caller
	namespace string
	pieces    *pieces
	buffer    []byte // pending output
	sent      int64  // bytes sent
	failed    error
	hurried   atomic.Bool
}

// begin sends the acknowledgement.
func (w *eventWriter) begin() error {
	w.id(w.feed.Since())
	return w.end(acknowledgement(w.feed))
}

// end writes a text that is not an event, and everything before it.
func (w *eventWriter) end(text []byte) error {
	w.buffer = append(append(append(w.buffer, "data: "...), text...), "\n\n"...)
	err := w.flush()
	w.buffer = nil
	return err
}

// send writes frames. An event's ID is the resume position after it (Last-Event-ID).
func (w *eventWriter) send(frames []feed.Frame) error {
	w.buffer = w.pieces.get()
	defer func() {
		w.pieces.put(w.buffer)
		w.buffer = nil
	}()
	for _, frame := range frames {
		if frame.Lagged == nil {
			w.id(frame.Resume)
		}
		if frame.Idle {
			w.buffer = append(w.buffer, ": heartbeat\n\n"...)
			continue
		}
		if err := w.frame(frame); err != nil {
			return err
		}
	}
	return w.flush()
}

// frame writes a frame, or buffers it for the next write.
func (w *eventWriter) frame(frame feed.Frame) error {
	w.buffer = append(w.buffer, "data: "...)
	// Not copied: a thousand readers may wait with the same frame.
	if text := w.feed.Rendered(frame); len(text) > feedPiece {
		err := w.write(w.buffer, text)
		w.buffer = append(w.buffer[:0], "\n\n"...)
		return err
	}
	w.buffer = append(w.feed.AppendFrame(w.buffer, frame), "\n\n"...)
	if len(w.buffer) < feedPiece {
		return nil
	}
	return w.flush()
}

// id writes the resume position after the following frame.
func (w *eventWriter) id(seq uint64) {
	w.buffer = append(strconv.AppendUint(append(w.buffer, "id: "...), seq, 10), '\n')
}

// hurry limits the current write and all further ones to feedFarewell from now.
func (w *eventWriter) hurry() {
	w.hurried.Store(true)
	_ = w.to.SetWriteDeadline(time.Now().Add(feedFarewell)) // on failure, the connection is gone
}

// write writes texts within feedStall.
func (w *eventWriter) write(texts ...[]byte) error {
	err := w.to.SetWriteDeadline(time.Now().Add(feedStall))
	if w.hurried.Load() {
		w.hurry()
	}
	for _, text := range texts {
		if err == nil && len(text) > 0 {
			var n int
			n, err = w.to.Write(text)
			w.sent += int64(n)
		}
	}
	w.failed = cmp.Or(w.failed, err)
	return err
}

// flush sends the buffer and empties it. The first error is kept in failed.
func (w *eventWriter) flush() error {
	err := w.write(w.buffer)
	if err == nil {
		err = w.to.Flush()
	}
	w.buffer = w.buffer[:0]
	w.failed = cmp.Or(w.failed, err)
	return err
}
