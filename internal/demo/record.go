package demo

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/pkg/webhook"
)

// arrival is one request at the receiver.
type arrival struct {
	at       time.Time
	delivery *webhook.Delivery // nil: not genuine
	err      error
	status   int
}

// tally counts the receiver's requests. Twice is no fault: delivery is at least once, and the
// receiver may have answered a server that was killed before it recorded the answer (S0-41).
type tally struct {
	Receiver   string  `json:"receiver"`
	Delivered  int     `json:"delivered"` // accepted events
	Attempts   int     `json:"attempts"`
	Retried    int     `json:"retried"` // events that took more than one attempt
	Twice      int     `json:"twice"`   // events that were accepted, and sent again
	Unverified int     `json:"unverified"`
	OutOfOrder int     `json:"out_of_order"` // events that arrived before an earlier one of their path
	P50        float64 `json:"p50_ms"`       // from publishing to acceptance
	P99        float64 `json:"p99_ms"`
}

// laneView is the progress of one path. An event that arrives for the first time while another of
// its path is open is out of order.
type laneView struct {
	seq  uint64 // highest that has arrived
	open string // ID of an event that has arrived but is not accepted yet
}

// sent is an event that is published.
type sent struct {
	path         sluice.Path
	began        time.Time // publishing
	acknowledged bool
	attempts     int // requests
	number       int // of the last attempt
	accepted     bool
	again        bool // accepted more than once
}

// summary is the outcome of the demonstration.
type summary struct {
	Published  int         `json:"published"`
	Expected   int         `json:"expected"` // deliveries
	Delivered  int         `json:"delivered"`
	Receivers  []*tally    `json:"receivers"`
	Statements []statement `json:"statements"`
}

// record has the published events and their arrivals. mu guards all fields. Publishing and arrivals
// come from different goroutines.
type record struct {
	mu        sync.Mutex
	changed   chan struct{}        // closed with each change
	events    map[string]*sent     // by ID, once publishing began
	expected  int                  // events
	lanes     map[string]*laneView // by path
	repeated  int                  // requests to publish that had no response
	latencies []time.Duration
	tally     tally
}

// newRecord returns the record of events that will be published, some perhaps twice.
func newRecord(events []sluice.Event) *record {
	ids := map[string]bool{}
	for _, ev := range events {
		ids[ev.ID] = true
	}
	return &record{expected: len(ids), changed: make(chan struct{}), events: map[string]*sent{}, lanes: map[string]*laneView{}, tally: tally{Receiver: "receiver"}}
}

// change wakes the goroutines that wait for a change. The caller holds r.mu.
func (r *record) change() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// publishing notes that an event is about to be published.
func (r *record) publishing(ev sluice.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.events[ev.ID] == nil {
		r.events[ev.ID] = &sent{path: ev.Path, began: time.Now()}
	}
}

// acknowledged notes that the server has stored an event.
func (r *record) acknowledged(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events[id].acknowledged = true
	r.change()
}

// repeat notes that a request to publish had no response.
func (r *record) repeat() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.repeated++
}

// arrived adds one request. Another publisher's event is not counted.
func (r *record) arrived(a arrival) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.change()
	if a.err != nil {
		r.tally.Attempts++
		r.tally.Unverified++
		return
	}
	if ev := r.events[a.delivery.ID]; ev != nil {
		r.add(ev, a)
	}
}

// add records a genuine request.
func (r *record) add(ev *sent, a arrival) {
	d := a.delivery
	r.tally.Attempts++
	lane := r.lanes[d.Path]
	if lane == nil {
		lane = &laneView{}
		r.lanes[d.Path] = lane
	}
	ev.attempts++
	ev.number = d.Attempt
	if ev.attempts == 1 && (d.Seq < lane.seq || lane.open != "") {
		r.tally.OutOfOrder++
	}
	if ev.attempts == 2 && !ev.accepted {
		r.tally.Retried++
	}
	lane.seq = max(lane.seq, d.Seq)
	if a.status >= failing {
		lane.open = d.ID
		return
	}
	if lane.open == d.ID {
		lane.open = ""
	}
	switch {
	case !ev.accepted:
		ev.accepted = true
		r.tally.Delivered++
		r.latencies = append(r.latencies, a.at.Sub(ev.began))
	case !ev.again:
		ev.again = true
		r.tally.Twice++
	}
}

// count returns the number of published events for which is returns true. The caller holds r.mu.
func (r *record) count(is func(*sent) bool) int {
	n := 0
	for _, ev := range r.events {
		if is(ev) {
			n++
		}
	}
	return n
}

// elsewhere is true of the events of all paths but one.
func elsewhere(ev *sent) bool { return ev.path != troubled }

func missing(ev *sent) bool { return !ev.accepted }

// read calls a function while it holds the lock.
func (r *record) read(look func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	look()
}

// until waits until the record meets a condition, at most for limit. met is called under the lock,
// at once and after each change. The error is that of ctx, or names the limit.
func (r *record) until(ctx context.Context, limit time.Duration, met func() bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not within %s", limit))
	defer cancel()
	for {
		r.mu.Lock()
		ok, changed := met(), r.changed
		r.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// faults returns an error if deliveries so far were unverified, lost or out of order.
func (r *record) faults() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.tally.Unverified > 0:
		return fmt.Errorf("%d requests failed verification", r.tally.Unverified)
	case r.tally.OutOfOrder > 0:
		return fmt.Errorf("%d events arrived out of order on their path", r.tally.OutOfOrder)
	}
	return nil
}

// conclude prints the summary. It returns an error unless everything arrived as it should.
func (r *record) conclude(s *terminal.Session, statements []statement) error {
	r.mu.Lock()
	sum := summary{
		Published: r.count(func(ev *sent) bool { return ev.acknowledged }), Expected: r.expected, Delivered: r.tally.Delivered, Statements: statements,
	}
	one := r.tally
	one.P50, one.P99 = quantile(r.latencies, 50), quantile(r.latencies, 99)
	r.mu.Unlock()
	sum.Receivers = []*tally{&one}
	if err := s.Show(sum, func() error {
		return s.Say("\n%d events published, %d of %d delivered with %d attempts: %d verified, %d out of order, %d twice, half of them within %.1f ms.",
			sum.Published, sum.Delivered, sum.Expected, one.Attempts, one.Attempts-one.Unverified, one.OutOfOrder, one.Twice, one.P50)
	}); err != nil {
		return err
	}
	if sum.Delivered != sum.Expected {
		return fmt.Errorf("%d of %d deliveries did not arrive in time", sum.Expected-sum.Delivered, sum.Expected)
	}
	return r.faults()
}

// quantile returns a percentile in milliseconds, 0 if there are no durations. The cost is O(n log
// n). percent is 0 to 100.
func quantile(durations []time.Duration, percent int) float64 {
	if len(durations) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(durations))
	at := min(len(sorted)*percent/100, len(sorted)-1)
	return float64(sorted[at]) / float64(time.Millisecond)
}
