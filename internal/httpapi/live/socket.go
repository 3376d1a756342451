package live

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/feed"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/internal/websocket"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// isUpgrade reports whether a request asks for a WebSocket.
func isUpgrade(req *http.Request) bool {
	return strings.EqualFold(req.Header.Get(echo.HeaderUpgrade), "websocket")
}

// checkOrigin refuses a WebSocket that a page of another origin opens without a ticket. A page
// cannot send a token with a WebSocket, so an intermediary must have added the token, and would do
// so for any page.
func checkOrigin(c echo.Context) error {
	origin := c.Request().Header.Get(echo.HeaderOrigin)
	if origin == "" || !isUpgrade(c.Request()) || len(Tickets(c)) > 0 {
		return nil
	}
	if u, err := url.Parse(origin); err == nil && strings.EqualFold(u.Host, c.Request().Host) {
		return nil
	}
	return sluice.Errorf(sluice.Forbidden, "a page of another origin must open a WebSocket with a ticket; see POST /v1/namespaces/{ns}/feed/tickets")
}

// openSocket answers the handshake of a feed over a WebSocket, which continues after the request.
func (s *Handler) openSocket(c echo.Context, f view) error {
	conn, err := upgrade(c)
	if err != nil {
		f.Close()
		return err
	}
	w := &feedSocket{feed: f, conn: conn, who: httpkit.Caller(c), namespace: c.Param("ns"), pieces: &s.pieces}
	httpkit.SetAfter(c, httpkit.After{
		Run:  func(ctx context.Context, end context.CancelFunc) error { return s.serveSocket(ctx, end, w) },
		Sent: conn.Sent,
		End: func() {
			conn.CloseNow() // in any case
			f.Close()
		},
	})
	return nil
}

// serveSocket streams a feed until it ends, and sends the reason to the reader. It returns the
// reason unless the server is shutting down or the reader has disconnected.
func (s *Handler) serveSocket(ctx context.Context, end context.CancelFunc, w *feedSocket) error {
	err := w.run(ctx, end)
	if w.isLeft() {
		w.conn.Close(websocket.Normal, "") // the reason was sent
		return nil
	}
	stopping := s.stopping(err) || ctx.Err() != nil // checked before Close, which ends ctx
	e, text := s.feedEnd(w.who, w.namespace, err)
	said := w.write(websocket.AppendText(nil, text))
	w.conn.Close(closeCode(e.Code), string(e.Code))
	if said != nil || stopping {
		return nil //nolint:nilerr // the reader has disconnected
	}
	return e
}

// upgrade answers a handshake and hijacks the connection. Code InvalidRequest, before anything is
// sent, for a request that is no valid handshake. Bytes that the client sent early are kept.
func upgrade(c echo.Context) (*websocket.Conn, error) {
	accept, err := websocket.Accept(c.Request())
	header := c.Response().Header()
	if err != nil {
		header.Set("Sec-WebSocket-Version", websocket.Version)
		return nil, sluice.Errorf(sluice.InvalidRequest, "not a WebSocket handshake: %v", err)
	}
	header.Set(echo.HeaderUpgrade, "websocket")
	header.Set(echo.HeaderConnection, "Upgrade")
	header.Set("Sec-WebSocket-Accept", accept)
	c.Response().WriteHeader(http.StatusSwitchingProtocols)
	conn, buffered, err := c.Response().Hijack()
	if err != nil {
		return nil, fmt.Errorf("take over a connection: %w", err)
	}
	var read []byte
	if n := buffered.Reader.Buffered(); n > 0 {
		read, _ = buffered.Peek(n) // already buffered
	}
	return websocket.New(conn, bytes.Clone(read), websocket.Options{Stall: feedStall, Farewell: feedFarewell}), nil
}

// closeCode returns the close code for an error.
func closeCode(code sluice.Code) websocket.Code {
	switch code { //nolint:exhaustive // the other codes have no close code of their own
	case sluice.Unavailable:
		return websocket.TryAgain
	case sluice.Internal:
		return websocket.Failed
	}
	return websocket.Policy
}

// feedSocket is a feed over a WebSocket: one text message per frame. Its reader sends nothing.
type feedSocket struct {
	feed      view
	conn      *websocket.Conn
	who       sluice.Caller
	namespace string
	pieces    *pieces
	failed    error // write error
}

// run streams the feed until ctx or the feed ends, or the reader disconnects, and returns the
// reason. End ends ctx.
func (w *feedSocket) run(ctx context.Context, end context.CancelFunc) error {
	go func() { // conn.Close waits for this goroutine
		w.conn.Hear()
		end()
	}()
	err := w.write(websocket.AppendText(nil, acknowledgement(w.feed)))
	if err == nil {
		err = w.feed.Run(ctx, w.send, w.conn.Hurry)
	}
	return err
}

// isLeft reports whether the reader has disconnected.
func (w *feedSocket) isLeft() bool {
	select {
	case <-w.conn.Deaf():
		return true
	default:
		return w.failed != nil
	}
}

// send writes all given frames at once.
func (w *feedSocket) send(frames []feed.Frame) error {
	b := w.pieces.get()
	defer func() { w.pieces.put(b) }()
	for _, frame := range frames {
		switch text := w.feed.Rendered(frame); {
		case len(text) > feedPiece: // not copied: a thousand readers may wait with the same frame
			b = websocket.AppendHead(b, len(text))
			if err := w.write(b, text); err != nil {
				return err
			}
			b = b[:0]
		case text != nil:
			b = websocket.AppendText(b, text)
		default:
			b = websocket.AppendMade(b, func(to []byte) []byte { return w.feed.AppendFrame(to, frame) })
		}
		if len(b) > feedPiece {
			if err := w.write(b); err != nil {
				return err
			}
			b = b[:0]
		}
	}
	if len(b) == 0 {
		return nil
	}
	return w.write(b)
}

// write sends pieces in one write to the connection. The last error is kept in failed.
func (w *feedSocket) write(pieces ...[]byte) error {
	err := w.conn.Write(pieces...)
	if err != nil {
		w.failed = err
	}
	return err
}
