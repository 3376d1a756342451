package terminal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// Grace is how long work in flight may continue after a signal.
const Grace = 5 * time.Second

// UntilSignalled returns a context that ends with the first SIGINT, SIGTERM or SIGHUP, with a cause
// that names the signal, and the function that ends it. A second SIGINT ends the process at once.
// An ignored SIGHUP stays ignored, for nohup. A write to a closed pipe is an error, not a signal.
// Call it once in a process: it also makes SIGPIPE ignored, for good.
func UntilSignalled(parent context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	came := make(chan os.Signal, 1)
	signal.Notify(came, signals...)
	signal.Ignore(syscall.SIGPIPE)
	go func() { // until the process ends
		cancel(fmt.Errorf("interrupted by a signal: %s", <-came))
		signal.Reset(os.Interrupt)
	}()
	return ctx, cancel
}

// errOutputClosed means that the reader of stdout has closed it.
var errOutputClosed = errors.New("stdout was closed by its reader")

// PipeWriter is stdout. It ends the command's context when the reader has closed the pipe.
type PipeWriter struct {
	io.Writer

	Cancel context.CancelCauseFunc
}

// Write returns errOutputClosed when the reader has closed the pipe.
func (o PipeWriter) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if errors.Is(err, syscall.EPIPE) {
		o.Cancel(errOutputClosed)
		return n, errOutputClosed
	}
	return n, err //nolint:wrapcheck // a writer returns the error of the writer below it
}

// Outliving returns a context that ends a time after its parent was cancelled, or at the parent's
// deadline. The caller must call the function when the work is done. Its cause is that of the
// parent, unless that function ended it.
func Outliving(parent context.Context, by time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(parent))
	var mu sync.Mutex
	var timer *time.Timer
	end := func() { cancel(context.Cause(parent)) }
	stop := context.AfterFunc(parent, func() {
		if errors.Is(parent.Err(), context.DeadlineExceeded) {
			end()
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if ctx.Err() == nil {
			timer = time.AfterFunc(by, end)
		}
	})
	return ctx, func() {
		stop()
		mu.Lock()
		defer mu.Unlock()
		cancel(context.Canceled)
		if timer != nil {
			timer.Stop()
		}
	}
}

// patient sends requests. When the context of a change in flight is cancelled, patient waits up to
// Grace for the response, so that the command prints the result and does not lose a secret that is
// shown once. It cancels reads at once. The time also covers the reading of the body. A request
// that begins after the cancellation is not patient.
type patient struct{ http.RoundTripper }

// RoundTrip sends one request.
func (p patient) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodGet || req.Method == http.MethodHead || req.Context().Err() != nil {
		return p.RoundTripper.RoundTrip(req) //nolint:wrapcheck // as it would be without patience
	}
	ctx, done := Outliving(req.Context(), Grace)
	resp, err := p.RoundTripper.RoundTrip(req.WithContext(ctx))
	if err != nil {
		done()
		return nil, err //nolint:wrapcheck // see above
	}
	resp.Body = answerBody{resp.Body, done}
	return resp, nil
}

// CloseIdleConnections closes the idle connections.
func (p patient) CloseIdleConnections() {
	(&http.Client{Transport: p.RoundTripper}).CloseIdleConnections()
}

// answerBody is an answer that ends its request's context when it is closed.
type answerBody struct {
	io.ReadCloser

	done context.CancelFunc
}

// Close ends reading.
func (b answerBody) Close() error {
	defer b.done()
	return b.ReadCloser.Close() //nolint:wrapcheck // it is that body's
}
