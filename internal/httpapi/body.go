package httpapi

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	lingerTime  = 5 * time.Second // for the rest of a body that nobody reads
	lingerBytes = 64 << 20        // of it

	// easilyRead is what net/http itself reads of a body that is left over, before it closes the
	// connection, which throws away the answer that is under way.
	easilyRead = 256 << 10
)

// incoming is a request's body as it arrives.
type incoming struct {
	io.ReadCloser

	expected bool // the client sends it only when it is read
	large    bool // too large for net/http to read what a handler leaves
	began    bool
	err      error // io.EOF: it has come whole
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

// receive bounds the request's body and watches how much of it is read. What a handler leaves of a
// large body is read after the answer, by linger: a client that is still sending would
// otherwise meet a closed connection and never see the answer.
//
// A chunked body ends its connection: net/http does not tell whether there was a Content-Length
// too, and behind a proxy that believes that one, what follows may be somebody else's words (RFC
// 9112, 6.3).
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

// maxBody returns how many bytes a request's body may have.
func (s *Server) maxBody(c echo.Context) int64 {
	switch {
	case isStream(c.Request().URL.Path):
		return s.opts.Streams.MaxBody
	case isCallback(c):
		return min(s.opts.MaxBody, maxCallback)
	}
	return s.opts.MaxBody
}

// linger sends the answer and reads for a while what is left of the request's body.
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
		s.opts.Logger.LogAttrs(c.Request().Context(), slog.LevelDebug, "body", slog.Any("error", err)) // the client has gone, or is too slow
	}
}

// fits refuses a request that says itself that its body is too large (TooLarge) or compressed (unsupportedMedia): what is
// compressed would be taken for the data as it is.
func (s *Server) fits(c echo.Context) error {
	for _, coding := range c.Request().Header.Values(echo.HeaderContentEncoding) {
		if coding != "" && !strings.EqualFold(coding, "identity") {
			return sluice.Errorf(unsupportedMedia, "Content-Encoding %q: send the body as it is", coding)
		}
	}
	if most := s.maxBody(c); c.Request().ContentLength > most {
		return &http.MaxBytesError{Limit: most}
	}
	return nil
}
