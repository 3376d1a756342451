package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// bell is an endpoint that is woken, and is done with it at once.
type bell struct {
	url    string
	rung   chan ring
	server *http.Server
	ended  chan struct{}
}

// ring is a received notice.
type ring struct {
	at    time.Time
	Path  sluice.Path `json:"primary_stream"`
	Epoch int         `json:"epoch"`
}

// hang opens a bell on a free port of the loopback address. Close it after use.
func hang(ctx context.Context) (*bell, error) {
	var config net.ListenConfig
	at, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	const room = 4096 // more than are woken at once, so that answers do not wait for the counter
	b := &bell{url: "http://" + at.Addr().String() + "/wake", rung: make(chan ring, room), ended: make(chan struct{})}
	b.server = &http.Server{Handler: b, ReadHeaderTimeout: time.Minute, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)}
	go func() { // ends with close
		defer close(b.ended)
		_ = b.server.Serve(at) // ErrServerClosed; any other error shows as missing notices
	}()
	return b, nil
}

func (b *bell) close() {
	_ = b.server.Close() // there is no remedy
	<-b.ended
}

// ServeHTTP handles a notice.
func (b *bell) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var got ring
	err := json.NewDecoder(r.Body).Decode(&got)
	got.at = time.Now()
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	select {
	case b.rung <- got:
	case <-r.Context().Done():
	}
	w.Header().Set("Content-Type", media)
	_, _ = w.Write([]byte(`{"done":true}`)) // a sender that has gone sends it again
}

// next returns the next notice. They come in the order of arrival.
func (b *bell) next(ctx context.Context) (ring, error) {
	select {
	case r := <-b.rung:
		return r, nil
	case <-ctx.Done():
		return ring{}, context.Cause(ctx)
	}
}

// each calls f with each notice until it returns false.
func (b *bell) each(ctx context.Context, f func(ring, error) bool) {
	for {
		if r, err := b.next(ctx); !f(r, err) {
			return
		}
	}
}

// wakes creates a subscription of mode wake to /<id>/*.
func wakes(ctx context.Context, api *client.Client, id, hook string) error {
	_, _, err := api.CreateSubscription(ctx, map[string]any{
		"id": id, "namespace": namespace, "mode": sluice.Wake, "pattern": "/" + id + "/*", "endpoint": map[string]any{"url": hook},
	})
	if err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	return nil
}

// appendToWake measures from the start of an append to the notice of an idle consumer.
func (p streamsPlan) appendToWake(ctx context.Context, b *bed) (streamRow, error) {
	const path = "/woken/one"
	hook, err := hang(ctx)
	if err != nil {
		return streamRow{}, err
	}
	defer hook.close()
	api, done := b.manyConnections(1)
	defer done()
	if err := wakes(ctx, api, "woken", hook.url); err != nil {
		return streamRow{}, err
	}
	if _, _, err := api.CreateStream(ctx, namespace, path, client.StreamSpec{ContentType: media}); err != nil {
		return streamRow{}, err
	}
	send := func(ctx context.Context, number int) error { return appendTo(ctx, api, path, number) }
	return pace{p.wakes, p.settles}.oneByOne(ctx, send, hook.arrivals)
}

func (b *bell) arrivals(ctx context.Context, each func(error) bool) {
	b.each(ctx, func(_ ring, err error) bool { return each(err) })
}

// post measures from the start of a request of a notice's size to its arrival.
func (p streamsPlan) post(ctx context.Context, _ *bed) (streamRow, error) {
	hook, err := hang(ctx)
	if err != nil {
		return streamRow{}, err
	}
	defer hook.close()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	bare := &http.Client{Transport: transport}
	send := func(ctx context.Context, number int) error { return ringAt(ctx, bare, hook.url, number) }
	return pace{p.wakes, p.settles}.oneByOne(ctx, send, hook.arrivals)
}

// ringAt sends a request of a notice's size.
func ringAt(ctx context.Context, bare *http.Client, url string, number int) error {
	const notice = 600 // bytes
	data, err := json.Marshal(map[string]any{"primary_stream": crowded(number), "epoch": 1, "pad": string(bytes.Repeat([]byte("x"), notice))})
	if err != nil {
		return err
	}
	return post(ctx, bare, url, data)
}

func crowded(number int) sluice.Path { return sluice.Path(fmt.Sprintf("/crowd/p%d", number)) }

// wakeCrowd measures from the start of a burst of events, one on each of many paths, to the notices
// of their consumers, which were woken once before.
func (p streamsPlan) wakeCrowd(ctx context.Context, b *bed) (row streamRow, err error) {
	hook, err := hang(ctx)
	if err != nil {
		return streamRow{}, err
	}
	defer hook.close()
	if err := wakes(ctx, b.api, "crowd", hook.url); err != nil {
		return streamRow{}, err
	}
	const times = 2
	for epoch := 1; epoch <= times; epoch++ {
		row, err = p.burst(ctx, hook, epoch, func(number int) error { return b.publishAt(ctx, crowded(number), number) })
		if err != nil {
			return streamRow{}, err
		}
	}
	return row, nil
}

// postCrowd measures from the start of as many requests to their arrival.
func (p streamsPlan) postCrowd(ctx context.Context, _ *bed) (streamRow, error) {
	hook, err := hang(ctx)
	if err != nil {
		return streamRow{}, err
	}
	defer hook.close()
	transport := &http.Transport{MaxIdleConnsPerHost: p.clients}
	defer transport.CloseIdleConnections()
	bare := &http.Client{Transport: transport}
	return p.burst(ctx, hook, 1, func(number int) error { return ringAt(ctx, bare, hook.url, number) })
}

// burst sends one of each number at the clients' full speed, and waits until each has rung in the
// epoch.
func (p streamsPlan) burst(ctx context.Context, hook *bell, epoch int, send func(number int) error) (streamRow, error) {
	begun, sent := time.Now(), make(chan error, 1)
	go func() { // ends with the last send
		sent <- together(p.clients, func(c int) error {
			for number := c; number < p.crowd; number += p.clients {
				if err := send(number); err != nil {
					return err
				}
			}
			return nil
		})
	}()
	var all []time.Duration
	had := map[sluice.Path]bool{}
	var failed error
	hook.each(ctx, func(r ring, err error) bool {
		if err == nil && r.Epoch == epoch && !had[r.Path] {
			had[r.Path] = true
			all = append(all, r.at.Sub(begun))
		}
		failed = err
		return err == nil && len(all) < p.crowd
	})
	if failed != nil {
		failed = fmt.Errorf("%d of %d came: %w", len(all), p.crowd, failed)
	}
	return rowOf(all), errors.Join(failed, <-sent)
}
