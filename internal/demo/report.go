package demo

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/terminal"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/pkg/webhook"
)

// arrival is one request at a receiver.
type arrival struct {
	receiver string
	at       time.Time
	delivery *webhook.Delivery // nil: not genuine
	err      error
	status   int
	refuse   func(*webhook.Delivery) bool
}

// tally counts one receiver's requests.
type tally struct {
	Receiver   string  `json:"receiver"`
	Delivered  int     `json:"delivered"` // accepted events
	Attempts   int     `json:"attempts"`
	Retried    int     `json:"retried"` // events that took more than one attempt
	Unverified int     `json:"unverified"`
	OutOfOrder int     `json:"out_of_order"` // events that overtook an earlier one of their path
	P50        float64 `json:"p50_ms"`       // from publishing to acceptance
	P99        float64 `json:"p99_ms"`

	latencies []time.Duration
	taken     map[string]bool
	tried     map[string]bool
	lanes     map[string]*laneView // by path
}

// laneView is the progress of one path at one receiver.
type laneView struct {
	seq  uint64 // highest that has arrived
	open string // id of the event that has arrived and was not accepted yet
}

// summary is the outcome of the demonstration.
type summary struct {
	Published int      `json:"published"`
	Expected  int      `json:"expected"` // deliveries
	Delivered int      `json:"delivered"`
	Receivers []*tally `json:"receivers"`
}

// report prints arrivals as they come, and counts them.
type report struct {
	session  *terminal.Session
	complete chan struct{} // closed when everything has arrived

	mu      sync.Mutex
	started map[string]time.Time // when publishing an event began, by its id
	wanted  int                  // events
	known   int                  // events that are published, duplicates aside
	tallies []*tally
}

func newReport(s *terminal.Session, events []sluice.Event) *report {
	ids := map[string]bool{}
	for _, ev := range events {
		ids[ev.ID] = true
	}
	return &report{session: s, complete: make(chan struct{}), started: map[string]time.Time{}, wanted: len(ids)}
}

const row = "%-12s  %-8s  %-20s  %-16s  %-10s  %7s  %-6s  %s"

func (r *report) heading() error {
	if r.session.IsJSON() {
		return nil
	}
	return r.session.Say(row, "TIME", "RECEIVER", "PATH", "TYPE", "EVENT", "ATTEMPT", "SIGNED", "ANSWER")
}

// publishing notes when an event was first about to be published.
func (r *report) publishing(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.started[id]; !ok {
		r.started[id] = time.Now()
	}
}

func (r *report) published(one sluice.Stored) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !one.Duplicate {
		r.known++
	}
}

// arrived adds one request, prints it and returns the status of its answer.
func (r *report) arrived(a arrival) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.tally(a.receiver)
	switch {
	case a.err != nil:
		t.Attempts++
		t.Unverified++
	case r.started[a.delivery.ID].IsZero(): // another publisher's event: it is shown, and not counted
	default:
		if a.refuse(a.delivery) {
			a.status = http.StatusServiceUnavailable
		}
		t.add(a, r.started[a.delivery.ID])
	}
	r.print(a)
	if r.done() == r.expected() {
		r.closeOnce()
	}
	return a.status
}

func (r *report) closeOnce() {
	select {
	case <-r.complete:
	default:
		close(r.complete)
	}
}

func (r *report) tally(name string) *tally {
	for _, t := range r.tallies {
		if t.Receiver == name {
			return t
		}
	}
	t := &tally{Receiver: name, taken: map[string]bool{}, tried: map[string]bool{}, lanes: map[string]*laneView{}}
	r.tallies = append(r.tallies, t)
	return t
}

// receivers is their number: each gets every event.
const receivers = 2

func (r *report) expected() int { return receivers * r.wanted }

func (r *report) done() int {
	n := 0
	for _, t := range r.tallies {
		n += t.Delivered
	}
	return n
}

// add enters a genuine request.
func (t *tally) add(a arrival, published time.Time) {
	d := a.delivery
	t.Attempts++
	lane := t.lanes[d.Path]
	if lane == nil {
		lane = &laneView{}
		t.lanes[d.Path] = lane
	}
	first := !t.tried[d.ID]
	t.tried[d.ID] = true
	if first && (d.Seq < lane.seq || lane.open != "") {
		t.OutOfOrder++
	}
	if !first && d.Attempt == 2 {
		t.Retried++
	}
	lane.seq = max(lane.seq, d.Seq)
	if a.status >= http.StatusMultipleChoices {
		lane.open = d.ID
		return
	}
	if lane.open == d.ID {
		lane.open = ""
	}
	if !t.taken[d.ID] {
		t.taken[d.ID] = true
		t.Delivered++
		t.latencies = append(t.latencies, a.at.Sub(published))
	}
}

func (r *report) print(a arrival) {
	if r.session.IsJSON() {
		return
	}
	path, typ, id, attempt, ok := "-", "-", "-", "-", "✓"
	if a.delivery != nil {
		path, typ, id, attempt = a.delivery.Path, a.delivery.Type, a.delivery.ID, strconv.Itoa(a.delivery.Attempt)
	}
	answer := strconv.Itoa(a.status)
	if a.err != nil {
		ok, answer = "✗", answer+" "+a.err.Error()
	}
	// A line that cannot be printed is no reason to change the answer to the sender.
	_ = r.session.Say(row, a.at.Format("15:04:05.000"), a.receiver, path, typ, id, attempt, ok, answer)
}

// conclude prints the summary. It returns an error unless everything arrived as it should.
func (r *report) conclude() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	sum := summary{Published: r.known, Expected: r.expected(), Delivered: r.done(), Receivers: r.tallies}
	var problems []error
	if sum.Delivered != sum.Expected {
		problems = append(problems, fmt.Errorf("%d of %d deliveries did not arrive in time", sum.Expected-sum.Delivered, sum.Expected))
	}
	for _, t := range sum.Receivers {
		t.P50, t.P99 = quantile(t.latencies, 50), quantile(t.latencies, 99)
		if t.Unverified > 0 {
			problems = append(problems, fmt.Errorf("%s: %d requests failed verification", t.Receiver, t.Unverified))
		}
		if t.OutOfOrder > 0 {
			problems = append(problems, fmt.Errorf("%s: %d events arrived out of order on their path", t.Receiver, t.OutOfOrder))
		}
	}
	err := r.session.Show(sum, func() error { return r.summaryTable(sum) })
	return errors.Join(append(problems, err)...)
}

func (r *report) summaryTable(sum summary) error {
	if err := r.session.Say("\n%d events published, %d of %d deliveries arrived.\n", sum.Published, sum.Delivered, sum.Expected); err != nil {
		return err
	}
	rows := make([][]string, len(sum.Receivers))
	for i, t := range sum.Receivers {
		rows[i] = []string{
			t.Receiver, strconv.Itoa(t.Delivered), strconv.Itoa(t.Attempts), strconv.Itoa(t.Retried),
			strconv.Itoa(t.Unverified), strconv.Itoa(t.OutOfOrder), ms(t.P50), ms(t.P99),
		}
	}
	return r.session.Table("RECEIVER | DELIVERED | ATTEMPTS | RETRIED | UNVERIFIED | OUT OF ORDER | P50 | P99", rows)
}

func ms(n float64) string { return fmt.Sprintf("%.1f ms", n) }

// quantile returns a percentile in milliseconds, 0 of nothing.
func quantile(durations []time.Duration, percent int) float64 {
	if len(durations) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(durations))
	at := min(len(sorted)*percent/100, len(sorted)-1)
	return float64(sorted[at]) / float64(time.Millisecond)
}
