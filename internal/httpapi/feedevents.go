package httpapi

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
	"github.com/sluice-io/sluice/pkg/sluice"
)

// openEvents answers a request for a feed with server-sent events. Over HTTP/1.1 they go on when the request has been served,
// and end with their connection; over HTTP/2, whose connections are of several requests, they are what is served.
func (s *Server) openEvents(c echo.Context, f *feed.Feed) error {
	w := &eventWriter{feed: f, who: caller(c), namespace: c.Param("ns"), pieces: &s.pieces}
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	if c.Request().ProtoMajor > 1 {
		defer f.Close()
		return s.serveEvents2(c, w)
	}
	h.Set("Transfer-Encoding", "identity") // for net/http: the end of the connection is that of the answer
	c.Response().WriteHeader(http.StatusOK)
	conn, _, err := c.Response().Hijack()
	if err != nil {
		f.Close()
		return fmt.Errorf("take over a connection: %w", err)
	}
	w.to = taken{conn}
	c.Set(afterKey, after{
		run: func(ctx context.Context, end context.CancelFunc) error {
			go func() {
				hear(conn)
				end()
			}()
			return s.serveEvents(ctx, w)
		},
		sent: func() int64 { return w.sent },
		end: func() {
			_ = conn.Close() // whatever happened
			f.Close()
		},
	})
	return nil
}

// feedHeard is how often a reader of events may send something, for nothing.
const feedHeard = 64

// hear returns when whoever reads has gone. They have nothing to say.
func hear(conn net.Conn) {
	var few [64]byte // of which there may be thousands
	for range feedHeard {
		if _, err := conn.Read(few[:]); err != nil {
			return
		}
	}
}

// serveEvents2 sends a feed in answer to a request of HTTP/2.
func (s *Server) serveEvents2(c echo.Context, w *eventWriter) error {
	ctx, cancel := s.untilStop(c.Request().Context())
	defer cancel()
	control := http.NewResponseController(c.Response())
	if err := control.SetReadDeadline(time.Time{}); err != nil { // nothing more is read; the request's deadline would end it
		return err
	}
	w.to = answer{c.Response(), control}
	c.Response().WriteHeader(http.StatusOK)
	return s.serveEvents(ctx, w)
}

// serveEvents sends a feed until it is over, and says why, if there is anybody who reads it. It returns that unless it is because
// the server stops.
func (s *Server) serveEvents(ctx context.Context, w *eventWriter) error {
	err := w.begin()
	if err == nil {
		err = w.feed.Run(ctx, w.send, w.hurry)
	}
	stopping := s.opts.Stopping != nil && s.opts.Stopping.Err() != nil
	if w.failed != nil || ctx.Err() != nil && !stopping {
		return nil //nolint:nilerr // the client has gone
	}
	e, text := s.feedEnd(w.who, w.namespace, err)
	if w.end(text) != nil || stopping {
		return nil //nolint:nilerr // whom it was said has gone
	}
	return e
}

// stream is where server-sent events go.
type stream interface {
	io.Writer
	SetWriteDeadline(t time.Time) error
	Flush() error
}

// taken is a connection that was taken over.
type taken struct{ net.Conn }

// Flush does nothing: what is written is on its way.
func (taken) Flush() error { return nil }

// answer is the answer to a request.
type answer struct {
	io.Writer
	*http.ResponseController
}

// eventWriter writes frames as server-sent events.
type eventWriter struct {
	feed      *feed.Feed
	to        stream
	who       sluice.Caller
	namespace string
	pieces    *pieces
	buffer    []byte // what is written next
	sent      int64  // bytes
	failed    error
	hurried   atomic.Bool
}

// begin acknowledges.
func (w *eventWriter) begin() error {
	w.id(w.feed.Since())
	return w.end(acknowledgement(w.feed))
}

// end writes a text that is no event, and everything before it.
func (w *eventWriter) end(text []byte) error {
	w.buffer = append(append(append(w.buffer, "data: "...), text...), "\n\n"...)
	err := w.flush()
	w.buffer = nil
	return err
}

// send writes frames. An event's id is where a reader goes on that has got it (Last-Event-ID).
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

// frame writes one, or has it written with the next ones.
func (w *eventWriter) frame(frame feed.Frame) error {
	w.buffer = append(w.buffer, "data: "...)
	if text := w.feed.Rendered(frame); len(text) > feedPiece { // it is not copied: there may be a thousand who wait with the same
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

// id says where a reader goes on that has got what follows.
func (w *eventWriter) id(seq uint64) {
	w.buffer = append(strconv.AppendUint(append(w.buffer, "id: "...), seq, 10), '\n')
}

// hurry has what is being written, and all that comes, end soon.
func (w *eventWriter) hurry() {
	w.hurried.Store(true)
	_ = w.to.SetWriteDeadline(time.Now().Add(feedFarewell)) // if that fails, it is gone
}

// write writes something, for which there is so much time.
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

func (w *eventWriter) flush() error {
	err := w.write(w.buffer)
	if err == nil {
		err = w.to.Flush()
	}
	w.buffer = w.buffer[:0]
	w.failed = cmp.Or(w.failed, err)
	return err
}
