package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// receiver is the endpoint of both systems. It answers 200 and notes the time of each event. It is
// safe for concurrent use, except for expect: call that before the first event of the phase is
// published.
type receiver struct {
	url    string
	server *http.Server
	ended  chan struct{}

	now      atomic.Pointer[arrivals]
	repeated atomic.Int64
}

// arrivals is the arrivals of one phase. Read last only after all is closed, or when no more events
// arrive.
type arrivals struct {
	phase string
	begun time.Time
	took  []atomic.Int64 // nanoseconds from publish to arrival, by number; 0: not yet
	count atomic.Int64
	last  time.Time     // set before all is closed
	all   chan struct{} // closed when every event has arrived
}

// listen opens a receiver on a free port of the loopback address. Close it after use.
func listen(ctx context.Context) (*receiver, error) {
	var config net.ListenConfig
	at, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &receiver{url: "http://" + at.Addr().String() + "/hook", ended: make(chan struct{})}
	r.server = &http.Server{
		Handler: r, ReadHeaderTimeout: time.Minute,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
	}
	go func() { // ends with close
		defer close(r.ended)
		_ = r.server.Serve(at) // ErrServerClosed; any other error shows as missing events
	}()
	return r, nil
}

func (r *receiver) close() {
	_ = r.server.Close() // there is no remedy
	<-r.ended
}

// expect begins a phase. Requests of earlier phases count as repetitions from then on.
func (r *receiver) expect(phase, n int) *arrivals {
	a := &arrivals{phase: strconv.Itoa(phase), begun: time.Now(), took: make([]atomic.Int64, n), all: make(chan struct{})}
	r.now.Store(a)
	return a
}

// again returns the number of requests beyond one for each event.
func (r *receiver) again() int { return int(r.repeated.Load()) }

// ServeHTTP handles a request of either system: it finds the mark in any envelope.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	data, err := io.ReadAll(req.Body)
	arrived := time.Now()
	if err != nil {
		http.Error(w, "unreadable", http.StatusBadRequest)
		return
	}
	_, rest, _ := bytes.Cut(data, []byte(`"mark":"`))
	mark, _, ok := bytes.Cut(rest, []byte(`"`))
	part, _ := strconv.Atoi(req.URL.RawQuery) // without a query: 0
	if !ok || !r.now.Load().note(strings.Fields(string(mark)), part, arrived) {
		r.repeated.Add(1)
	}
}

// note enters an arrival of an event, or of a part of it, and reports whether it is the first.
func (a *arrivals) note(mark []string, part int, arrived time.Time) bool {
	if a == nil || len(mark) != 3 || mark[0] != a.phase {
		return false
	}
	number, err := strconv.Atoi(mark[1])
	number += part
	if err != nil || number < 0 || number >= len(a.took) {
		return false
	}
	sent, err := strconv.ParseInt(mark[2], 10, 64)
	if err != nil || !a.took[number].CompareAndSwap(0, max(1, arrived.UnixNano()-sent)) {
		return false
	}
	if a.count.Add(1) == int64(len(a.took)) {
		a.last = arrived
		close(a.all)
	}
	return true
}

// rate returns the deliveries a second, from the beginning of the phase to the last arrival.
func (a *arrivals) rate() float64 { return float64(len(a.took)) / a.last.Sub(a.begun).Seconds() }

// percentile returns the given percentile of the events' times.
func (a *arrivals) percentile(percent int) time.Duration {
	return percentile(a.times(), percent)
}

// times returns the time from publish to arrival of each.
func (a *arrivals) times() []time.Duration {
	all := make([]time.Duration, len(a.took))
	for i := range a.took {
		all[i] = time.Duration(a.took[i].Load())
	}
	return all
}
