package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// arrival is one request, as seen by the receiver.
type arrival struct {
	mark

	at       time.Time // when it was complete
	answered time.Time
	status   int
}

// mark identifies an event: body writes it, and any envelope contains it.
type mark struct {
	group, number int
	sent          time.Time
}

// answer returns a witness's answer to a request: before is the number of earlier ones for the
// event. It is called by many goroutines at once.
type answer func(m mark, before int) (status int, wait time.Duration)

// witness is an endpoint that remembers every request. It can be closed and opened again at the
// same address. It is safe for concurrent use, except for open and close.
type witness struct {
	url    string
	at     string
	answer answer
	server *http.Server
	ended  chan struct{}

	mu    sync.Mutex
	seen  []arrival
	tries map[[2]int]int
	taken map[int]int // events that were answered 200, by group
}

// station opens a witness. Its port is below those of outgoing connections, so that it is still
// free when the witness opens again. It tries one port after another, from a random one on.
func station(ctx context.Context, a answer) (*witness, error) {
	const first, last = 20_000, 30_000
	w := &witness{answer: a, tries: map[[2]int]int{}, taken: map[int]int{}}
	var err error
	for port := first + int(time.Now().UnixNano()%(last-first)); port < last; port++ {
		w.at = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		if err = w.open(ctx); err == nil {
			break
		}
	}
	w.url = "http://" + w.at + "/hook"
	return w, err
}

// open listens at the witness's address. The requests that it has seen remain.
func (w *witness) open(ctx context.Context) error {
	var config net.ListenConfig
	at, err := config.Listen(ctx, "tcp", w.at)
	if err != nil {
		return err
	}
	server, ended := &http.Server{
		Handler: w, ReadHeaderTimeout: time.Minute,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
	}, make(chan struct{})
	w.server, w.ended = server, ended
	go func() { // ends with close
		defer close(ended)
		_ = server.Serve(at) // ErrServerClosed; any other error shows as missing events
	}()
	return nil
}

// close refuses new connections and cuts existing ones.
func (w *witness) close() {
	_ = w.server.Close() // there is no remedy
	<-w.ended
}

// ServeHTTP handles a request.
func (w *witness) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	data, err := io.ReadAll(req.Body)
	a := arrival{at: time.Now()}
	var ok bool
	if a.mark, ok = markOf(data); err != nil || !ok {
		http.Error(rw, "no mark", http.StatusBadRequest)
		return
	}
	key := [2]int{a.group, a.number}
	w.mu.Lock()
	before := w.tries[key]
	w.tries[key]++
	w.mu.Unlock()
	var wait time.Duration
	if a.status, wait = w.answer(a.mark, before); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-req.Context().Done():
		}
	}
	w.note(a)
	rw.WriteHeader(a.status)
}

func (w *witness) note(a arrival) {
	a.answered = time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, a)
	if a.status == http.StatusOK {
		w.taken[a.group]++
	}
}

// count returns the number of requests of the group that were answered 200.
func (w *witness) count(group int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.taken[group]
}

// of returns the requests of a group, in order of arrival. It includes requests that were not
// answered 200.
func (w *witness) of(group int) []arrival {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []arrival
	for _, a := range w.seen {
		if a.group == group {
			all = append(all, a)
		}
	}
	slices.SortFunc(all, func(a, b arrival) int { return a.at.Compare(b.at) })
	return all
}

// wait returns when n requests of the group were answered 200, or after the limit, which is no
// error: missing ones are counted.
func (w *witness) wait(ctx context.Context, group, n int, limit time.Duration) error {
	until := time.Now().Add(limit)
	return poll(ctx, func() (bool, error) { return w.count(group) >= n || time.Now().After(until), nil })
}

// markOf returns the mark in a request's body, in any envelope; false if there is none.
func markOf(data []byte) (mark, bool) {
	_, rest, _ := bytes.Cut(data, []byte(`"mark":"`))
	text, _, _ := bytes.Cut(rest, []byte(`"`))
	fields := strings.Fields(string(text))
	if len(fields) != 3 {
		return mark{}, false
	}
	group, err1 := strconv.Atoi(fields[0])
	number, err2 := strconv.Atoi(fields[1])
	sent, err3 := strconv.ParseInt(fields[2], 10, 64)
	return mark{group: group, number: number, sent: time.Unix(0, sent)}, err1 == nil && err2 == nil && err3 == nil
}

// deliveries returns the first request of each event that was answered 200, in order of arrival,
// and the number of further ones.
func deliveries(all []arrival) (first []arrival, again int) {
	had := map[int]bool{}
	for _, a := range all {
		switch {
		case a.status != http.StatusOK:
		case had[a.number]:
			again++
		default:
			had[a.number] = true
			first = append(first, a)
		}
	}
	return first, again
}

// disorder returns how many deliveries came after a later one of their path: the events were spread
// over that many paths in turn. first is in order of arrival.
func disorder(first []arrival, paths int) (n int) {
	last := map[int]int{}
	for _, a := range first {
		path := a.number % paths
		if before, ok := last[path]; ok && a.number < before {
			n++
		}
		last[path] = max(last[path], a.number)
	}
	return n
}

// busiest returns the maximum of requests within a second, from a time on.
func busiest(all []arrival, from time.Time) (most int) {
	begin := 0
	for end, a := range all {
		for all[begin].at.Before(from) && begin < end || a.at.Sub(all[begin].at) >= time.Second {
			begin++
		}
		if !a.at.Before(from) {
			most = max(most, end-begin+1)
		}
	}
	return most
}

// took returns each delivery's time from publish to arrival.
func took(first []arrival) []time.Duration {
	all := make([]time.Duration, len(first))
	for i, a := range first {
		all[i] = a.at.Sub(a.sent)
	}
	return all
}

// percentile sorts the durations and returns the smallest that is at least as long as that share of
// them; 0 if there are none.
func percentile(all []time.Duration, percent int) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[max(0, (len(all)*percent+99)/100-1)]
}
