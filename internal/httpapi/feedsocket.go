package httpapi

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/feed"
	"github.com/sluice-io/sluice/internal/socket"
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

// openSocket answers the handshake of a feed over a WebSocket, which goes on when the request has been served.
func (s *Server) openSocket(c echo.Context, f *feed.Feed) error {
	conn, err := upgrade(c)
	if err != nil {
		f.Close()
		return err
	}
	w := &feedSocket{feed: f, conn: conn, who: caller(c), namespace: c.Param("ns"), pieces: &s.pieces}
	c.Set(afterKey, after{
		run:  func(ctx context.Context, end context.CancelFunc) error { return s.serveSocket(ctx, end, w) },
		sent: conn.Sent,
		end: func() {
			conn.CloseNow() // whatever happened
			f.Close()
		},
	})
	return nil
}

// serveSocket sends a feed until it is over, and says why, if there is anybody who reads it. It returns that unless it is because
// the server stops.
func (s *Server) serveSocket(ctx context.Context, end context.CancelFunc, w *feedSocket) error {
	err := w.run(ctx, end)
	if w.isLeft() {
		w.conn.Close(socket.Normal, "") // why was said
		return nil
	}
	stopping := ctx.Err() != nil // later it has ended in any case
	e, text := s.feedEnd(w.who, w.namespace, err)
	said := w.write(socket.AppendText(nil, text))
	w.conn.Close(closeCode(e.Code), string(e.Code))
	if said != nil || stopping {
		return nil //nolint:nilerr // whom it was said has gone
	}
	return e
}

// upgrade answers a handshake and takes over the connection.
func upgrade(c echo.Context) (*socket.Conn, error) {
	accept, err := socket.Accept(c.Request())
	header := c.Response().Header()
	if err != nil {
		header.Set("Sec-WebSocket-Version", socket.Version)
		return nil, sluice.Errorf(sluice.InvalidRequest, "this is no handshake of a WebSocket: %v", err)
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
		read, _ = buffered.Peek(n) // it is there
	}
	return socket.New(conn, bytes.Clone(read), socket.Options{Stall: feedStall, Farewell: feedFarewell}), nil
}

// closeCode returns how a WebSocket is closed for an error.
func closeCode(code sluice.Code) socket.Code {
	switch code { //nolint:exhaustive // of the others there is nothing to add
	case sluice.Unavailable:
		return socket.TryAgain
	case sluice.Internal:
		return socket.Failed
	}
	return socket.Policy
}

// feedSocket is a feed over a WebSocket: a text message a frame. Whoever reads it has nothing to say.
type feedSocket struct {
	feed      *feed.Feed
	conn      *socket.Conn
	who       sluice.Caller
	namespace string
	pieces    *pieces
	failed    error // of writing
}

// run sends the feed until ctx ends or the feed does, or nobody reads it any more, and returns why. End ends ctx.
func (w *feedSocket) run(ctx context.Context, end context.CancelFunc) error {
	go func() { // who closes the connection waits for it
		w.conn.Hear()
		end()
	}()
	err := w.write(socket.AppendText(nil, acknowledgement(w.feed)))
	if err == nil {
		err = w.feed.Run(ctx, w.send, w.conn.Hurry)
	}
	return err
}

// isLeft reports whether there is nobody any more who reads it.
func (w *feedSocket) isLeft() bool {
	select {
	case <-w.conn.Deaf():
		return true
	default:
		return w.failed != nil
	}
}

// send writes frames, as many at once as there are.
func (w *feedSocket) send(frames []feed.Frame) error {
	b := w.pieces.get()
	defer func() { w.pieces.put(b) }()
	for _, frame := range frames {
		switch text := w.feed.Rendered(frame); {
		case len(text) > feedPiece: // it is not copied: there may be a thousand who wait with the same
			b = socket.AppendHead(b, len(text))
			if err := w.write(b, text); err != nil {
				return err
			}
			b = b[:0]
		case text != nil:
			b = socket.AppendText(b, text)
		default:
			b = socket.AppendMade(b, func(to []byte) []byte { return w.feed.AppendFrame(to, frame) })
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

func (w *feedSocket) write(pieces ...[]byte) error {
	err := w.conn.Write(pieces...)
	if err != nil {
		w.failed = err
	}
	return err
}
