package httpapi

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/feed"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// isUpgrade reports whether a request wants a WebSocket.
func isUpgrade(req *http.Request) bool {
	return strings.EqualFold(req.Header.Get(echo.HeaderUpgrade), "websocket")
}

// checkOrigin refuses a WebSocket of a page of another origin, unless it has a ticket. No page can send a token with one: somebody
// on the way added that, for whichever page it was.
func checkOrigin(c echo.Context) error {
	origin := c.Request().Header.Get(echo.HeaderOrigin)
	if origin == "" || !isUpgrade(c.Request()) || len(ticketsOf(c)) > 0 {
		return nil
	}
	if u, err := url.Parse(origin); err == nil && strings.EqualFold(u.Host, c.Request().Host) {
		return nil
	}
	return sluice.Errorf(sluice.Forbidden, "a page of another origin opens a WebSocket with a ticket; see POST /v1/namespaces/{ns}/feed/tickets")
}

// feedSocket sends a feed over a WebSocket: a text message a frame. Whoever reads it has nothing to say.
func (s *Server) feedSocket(c echo.Context, f *feed.Feed) error {
	conn, err := websocket.Accept(c.Response(), c.Request(), &websocket.AcceptOptions{
		InsecureSkipVerify: true, // checkOrigin has looked
	})
	if err != nil {
		return gone(c, sluice.Errorf(sluice.InvalidRequest, "this is no handshake of a WebSocket: %v", err)) // it was answered
	}
	stop, cancel := s.untilStop(c.Request().Context())
	defer cancel()
	attached, detach := context.WithCancel(context.WithoutCancel(stop)) // what is left is still to be sent when the server stops
	defer detach()
	reading := conn.CloseRead(attached) // ends with the connection
	ctx, end := context.WithCancel(stop)
	defer end()
	defer context.AfterFunc(reading, end)()
	out := &socketWriter{feed: f, conn: conn}
	writing, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	if err = out.write(writing, acknowledgement(f)); err == nil {
		err = f.Run(ctx, func(frames []feed.Frame) error { return out.send(writing, frames) }, func() { time.AfterFunc(feedFarewell, cut) })
	}
	if out.failed != nil || reading.Err() != nil {
		_ = conn.CloseNow() // the client has gone
		return nil
	}
	e, text := s.feedEnd(c, err)
	if out.write(writing, text) == nil {
		defer time.AfterFunc(feedFarewell, detach).Stop() // whoever does not take leave is left
		_ = conn.Close(closeCode(e.Code), string(e.Code)) // if that fails, it is gone
	}
	return nil
}

// closeCode returns how a WebSocket is closed for an error.
func closeCode(code sluice.Code) websocket.StatusCode {
	switch code { //nolint:exhaustive // of the others there is nothing to add
	case sluice.Unavailable:
		return websocket.StatusTryAgainLater
	case sluice.Internal:
		return websocket.StatusInternalError
	}
	return websocket.StatusPolicyViolation
}

// socketWriter writes frames as messages.
type socketWriter struct {
	feed   *feed.Feed
	conn   *websocket.Conn
	text   []byte
	failed error
}

func (w *socketWriter) send(ctx context.Context, frames []feed.Frame) error {
	for _, frame := range frames {
		text := w.feed.Rendered(frame) // not copied: there may be a thousand who wait with the same
		if text == nil {
			w.text = w.feed.AppendFrame(w.text[:0], frame)
			text = w.text
		}
		if err := w.write(ctx, text); err != nil {
			return err
		}
	}
	if cap(w.text) > feedIdle {
		w.text = nil
	}
	return nil
}

func (w *socketWriter) write(ctx context.Context, text []byte) error {
	ctx, cancel := context.WithTimeout(ctx, feedStall)
	defer cancel()
	err := w.conn.Write(ctx, websocket.MessageText, text)
	if err != nil {
		w.failed = err
	}
	return err
}
