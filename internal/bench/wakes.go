package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// crowd is how many paths are woken at once.
const crowd = 1000

// worker is an endpoint that is told of what woke it, and is done with it at once.
type worker struct {
	url    string
	server *http.Server
	ended  chan struct{}
	came   chan came
}

// work starts a worker. Nobody may have more than crowd requests under way to it.
func work(ctx context.Context) (*worker, error) {
	var config net.ListenConfig
	at, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &worker{url: "http://" + at.Addr().String() + "/wake", ended: make(chan struct{}), came: make(chan came, 2*crowd)}
	w.server = &http.Server{Handler: w, ReadHeaderTimeout: time.Minute, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)}
	go func() { // ends with close
		defer close(w.ended)
		_ = w.server.Serve(at) // ErrServerClosed; anything else shows as notices that are missing
	}()
	return w, nil
}

func (w *worker) close() {
	_ = w.server.Close() // nothing can be done about it
	<-w.ended
}

// ServeHTTP takes a notice, or a bare POST.
func (w *worker) ServeHTTP(out http.ResponseWriter, req *http.Request) {
	_, err := io.Copy(io.Discard, req.Body)
	w.came <- came{time.Now(), err}
	_, _ = io.WriteString(out, `{"done":true}`) // if the other side has gone, it comes again
}

// each calls f with what comes, until that returns false or ctx is done.
func (w *worker) each(ctx context.Context, f func(error) bool) {
	for {
		select {
		case c := <-w.came:
			if !f(c.err) {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// last waits for so many and returns when the last came.
func (w *worker) last(ctx context.Context, n int) (time.Time, error) {
	var at time.Time
	for range n {
		select {
		case c := <-w.came:
			if c.err != nil {
				return at, c.err
			}
			at = c.at
		case <-ctx.Done():
			return at, context.Cause(ctx)
		}
	}
	return at, nil
}

// barePost makes a bare POST of as much as a notice has.
func barePost(ctx context.Context, api *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(make([]byte, 2*size)))
	if err != nil {
		return err
	}
	resp, err := api.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return errors.Join(err, resp.Body.Close())
}

// postToWorker measures from the beginning of a bare POST to its arrival.
func (p streamsPlan) postToWorker(ctx context.Context, b *bed) (streamRow, error) {
	w, err := work(ctx)
	if err != nil {
		return streamRow{}, err
	}
	defer w.close()
	api, done := b.manyConnections(1)
	defer done()
	return p.oneByOne(ctx, func(ctx context.Context, _ int) error { return barePost(ctx, api.HTTP, w.url) }, w.each)
}

// appendToWake measures from the beginning of an append to the arrival of the notice that it causes.
func (p streamsPlan) appendToWake(ctx context.Context, b *bed) (streamRow, error) {
	const path = "/woken/one"
	w, err := work(ctx)
	if err != nil {
		return streamRow{}, err
	}
	defer w.close()
	api, done := b.manyConnections(2)
	defer done()
	if err := wakeAt(ctx, api, "woken", w.url); err != nil {
		return streamRow{}, err
	}
	if _, _, err := api.CreateStream(ctx, namespace, path, client.StreamSpec{ContentType: media}); err != nil {
		return streamRow{}, err
	}
	return p.oneByOne(ctx, func(ctx context.Context, number int) error { return appendTo(ctx, api, path, number) }, w.each)
}

// wakeAt makes a subscription that wakes a worker for the paths /<id>/*.
func wakeAt(ctx context.Context, api *client.Client, id, url string) error {
	_, _, err := api.CreateSubscription(ctx, map[string]any{
		"id": id, "namespace": namespace, "mode": sluice.Wake, "pattern": "/" + id + "/*", "endpoint": map[string]any{"url": url},
	})
	return err
}

// postCrowd measures how long as many bare POSTs take as are woken at once.
func (p streamsPlan) postCrowd(ctx context.Context, b *bed) (streamRow, error) {
	w, err := work(ctx)
	if err != nil {
		return streamRow{}, err
	}
	defer w.close()
	api, done := b.manyConnections(p.clients)
	defer done()
	begun := time.Now()
	if err := together(p.clients, func(c int) error {
		for n := c; n < crowd; n += p.clients {
			if err := barePost(ctx, api.HTTP, w.url); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return streamRow{}, err
	}
	at, err := w.last(ctx, crowd)
	return streamRow{count: crowd, p50: at.Sub(begun), p99: at.Sub(begun)}, err
}

// wakeCrowd measures how long it takes from one publish of as many events, each on a path of its own, until all of
// those paths' workers have their notice.
func (p streamsPlan) wakeCrowd(ctx context.Context, b *bed) (streamRow, error) {
	w, err := work(ctx)
	if err != nil {
		return streamRow{}, err
	}
	defer w.close()
	api, done := b.manyConnections(2)
	defer done()
	if err := wakeAt(ctx, api, "crowd", w.url); err != nil {
		return streamRow{}, err
	}
	events := make([]sluice.Event, crowd)
	for i := range events {
		events[i] = sluice.Event{
			ID: fmt.Sprintf("crowd-%d", i), Path: sluice.Path(fmt.Sprintf("/crowd/%d", i)), Type: "t",
			Data: json.RawMessage(body(0, i, time.Now(), size)),
		}
	}
	begun := time.Now()
	if _, err := api.Publish(ctx, namespace, events...); err != nil {
		return streamRow{}, err
	}
	at, err := w.last(ctx, crowd)
	return streamRow{count: crowd, p50: at.Sub(begun), p99: at.Sub(begun)}, err
}
