package mirrors

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// A client must send or read at least leastPace bytes of a directory within paceTime, because other
// clients wait for its place.
const (
	leastPace = 1 << 20
	paceTime  = time.Minute
)

// pace sets the deadlines of a connection so that a client must keep sending or reading. Only the
// time in which the server waits for the client counts; otherwise the connection has no deadline.
// It is used by one goroutine.
type pace struct {
	control *http.ResponseController
	within  time.Duration // in which leastPace must move

	left  time.Duration // of it
	moved int           // bytes since left was last reset
}

func (s *Handler) newPace(c echo.Context) *pace {
	p := &pace{control: http.NewResponseController(c.Response().Writer), within: s.paceTime, left: s.paceTime}
	_, _ = p.control.SetReadDeadline(time.Time{}), p.control.SetWriteDeadline(time.Time{})
	return p
}

// transfer reads or writes within the deadline. A connection that does not support deadlines has
// none.
func (p *pace) transfer(deadline func(time.Time) error, move func([]byte) (int, error), part []byte) (int, error) {
	began := time.Now()
	_ = deadline(began.Add(p.left))
	n, err := move(part)
	_ = deadline(time.Time{})
	p.left -= time.Since(began)
	if p.moved += n; p.moved >= leastPace {
		p.moved, p.left = 0, p.within
	}
	return n, err
}

// respond gives the client time to read the end of a response.
func (p *pace) respond() { _ = p.control.SetWriteDeadline(time.Now().Add(p.within)) }

// pacedBody is the body of a request with a bundle; its reads are paced.
type pacedBody struct {
	from io.Reader
	pace *pace // nil: only the server's timeouts apply, as for any request
}

// Read reads from the client. Codes: Unavailable if it is too slow; InvalidRequest if it is gone.
func (b pacedBody) Read(p []byte) (n int, err error) {
	if b.pace == nil {
		n, err = b.from.Read(p)
	} else {
		n, err = b.pace.transfer(b.pace.control.SetReadDeadline, b.from.Read, p)
	}
	_, tooLarge := errors.AsType[*http.MaxBytesError](err)
	switch {
	case err == nil, errors.Is(err, io.EOF), tooLarge, httpkit.Refused(err):
		return n, err //nolint:wrapcheck // a reader returns the error of the reader below it
	case !errors.Is(err, os.ErrDeadlineExceeded):
		return n, sluice.Errorf(sluice.InvalidRequest, "the body is incomplete")
	case b.pace == nil:
		return n, sluice.Errorf(sluice.Unavailable, "the bundle has not arrived within http.timeouts.request: export it as a directory, which may arrive at any pace above %d bytes in %s", leastPace, paceTime)
	}
	return n, sluice.Errorf(sluice.Unavailable, "less than %d bytes of the bundle have arrived in %s: import it again, it goes on behind the files that arrived whole", leastPace, b.pace.within)
}

// pacedWriter writes in parts, so that the progress of a slow client is noticed.
type pacedWriter struct {
	to   http.ResponseWriter
	pace *pace
}

const sliceBytes = 256 << 10

// Write returns an error if the client does not read at the pace.
func (w pacedWriter) Write(p []byte) (n int, err error) {
	for len(p) > 0 && err == nil {
		var m int
		m, err = w.pace.transfer(w.pace.control.SetWriteDeadline, w.to.Write, p[:min(len(p), sliceBytes)])
		n, p = n+m, p[m:]
	}
	return n, err //nolint:wrapcheck // a writer returns the error of the writer below it
}

// enter waits up to bundleWait for a place for a request about a namespace. The caller must call
// leave to free the place. Code Unavailable.
func enter(ctx context.Context, p *httpkit.Places, namespace string) (leave func(), err error) {
	wait := time.NewTimer(bundleWait)
	defer wait.Stop()
	for {
		freed := p.Take(namespace)
		if freed == nil {
			return func() { p.Leave(namespace) }, nil
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-wait.C:
			return nil, sluice.Errorf(sluice.Unavailable, "%d bundles are being exported or imported, or %d of this namespace, the limit; try again", p.Most, p.Each).With("retry_after", int(bundleWait.Seconds()))
		}
	}
}
