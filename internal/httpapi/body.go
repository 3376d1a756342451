package httpapi

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/httpapi/access"
	"github.com/sluice-io/sluice/internal/httpapi/dstreams"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/internal/httpapi/mirrors"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	lingerTime  = 5 * time.Second // for the unread rest of a body
	lingerBytes = 64 << 20        // of the unread rest of a body

	// easilyRead is how much of an unread body net/http itself reads after the response. If more is
	// left, it closes the connection, which would discard the response in flight.
	easilyRead = 256 << 10
)

// maxCallback limits the body of a callback, which may name every path that a consumer follows,
// each with an offset.
const maxCallback = 2 << 20

// incoming is a request's body as it arrives.
type incoming struct {
	io.ReadCloser

	expected bool // the client waits for 100 Continue
	large    bool // too large for net/http to discard the unread rest
	began    bool
	err      error // io.EOF: complete
}

// Read reads from the connection.
func (b *incoming) Read(p []byte) (int, error) {
	b.began = true
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.err = err
	}
	return n, err
}

// receive limits the request's body and tracks how much of it is read. The unread rest of a large
// body is read after the response, by linger: a client that is still sending would otherwise find
// the connection closed and never see the response.
//
// A chunked body ends its connection: net/http does not report whether there was a Content-Length
// too, and behind a proxy that trusts that header, the following bytes could be another client's
// request (RFC 9112, 6.3).
func (s *Server) receive(c echo.Context) *incoming {
	req := c.Request()
	b := &incoming{
		ReadCloser: req.Body,
		expected:   strings.EqualFold(req.Header.Get("Expect"), "100-continue"),
		large:      req.ProtoMajor == 1 && (req.ContentLength < 0 || req.ContentLength > easilyRead),
	}
	if b.large && http.NewResponseController(c.Response().Writer).EnableFullDuplex() != nil {
		b.large = false
	}
	req.Body = http.MaxBytesReader(c.Response(), b, s.maxBody(c))
	chunked := req.ProtoMajor == 1 && len(req.TransferEncoding) > 0
	c.Response().Before(func() {
		if chunked || b.large && !errors.Is(b.err, io.EOF) {
			c.Response().Header().Set(echo.HeaderConnection, "close")
		}
	})
	return b
}

// maxBody returns the maximum size of a request's body.
func (s *Server) maxBody(c echo.Context) int64 {
	switch {
	case dstreams.IsStream(c.Request().URL.Path):
		return s.streams.MaxBody()
	case c.Path() == mirrors.ImportRoute:
		return s.mirrors.MaxBody(c, s.opts.MaxBody)
	case opensSession(c):
		return access.MaxSessionRequest
	case isCallback(c):
		return min(s.opts.MaxBody, maxCallback)
	}
	return s.opts.MaxBody
}

// linger sends the response and reads the rest of the request's body for a limited time.
func (s *Server) linger(c echo.Context, b *incoming) {
	if !b.large || b.err != nil || b.expected && !b.began {
		return
	}
	answer := http.NewResponseController(c.Response().Writer)
	err := errors.Join(answer.Flush(), answer.SetReadDeadline(time.Now().Add(lingerTime)))
	if err == nil {
		_, err = io.CopyN(io.Discard, b, lingerBytes)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		// The client has disconnected, or is too slow.
		s.opts.Logger.LogAttrs(c.Request().Context(), slog.LevelDebug, "body", slog.Any("error", err))
	}
}

// fits refuses a request with a declared body size above the limit (TooLarge) or a compressed body
// (httpkit.UnsupportedMedia), which would be stored compressed.
func (s *Server) fits(c echo.Context) error {
	for _, coding := range c.Request().Header.Values(echo.HeaderContentEncoding) {
		if coding != "" && !strings.EqualFold(coding, "identity") {
			return sluice.Errorf(httpkit.UnsupportedMedia, "Content-Encoding %q: send the body unencoded", coding)
		}
	}
	if most := s.maxBody(c); c.Request().ContentLength > most {
		return sluice.Errorf(sluice.TooLarge, "the body of %d bytes is larger than %d bytes; send less", c.Request().ContentLength, most).
			With("limit", most).With("size", c.Request().ContentLength)
	}
	return nil
}
