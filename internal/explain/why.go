package explain

import (
	"fmt"
	"strings"
	"time"

	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// State is the state of an event for a subscription.
type State string

// The states. Lists have the first four.
const (
	Delivered   State = "delivered"    // settled by a 2xx
	Retrying    State = "retrying"     // failed, with another attempt scheduled
	Held        State = "held"         // given up; its lane waits for a retry or discard by an operator
	Dead        State = "dead"         // given up
	Waiting     State = "waiting"      // behind others of its parked lane
	Backlog     State = "backlog"      // the subscription has not reached it yet
	InFlight    State = "in_flight"    // handed out and not settled
	NotWanted   State = "not_wanted"   // pattern, filter or start exclude it
	Ended       State = "ended"        // the subscription was cancelled before it was sent
	NotKept     State = "not_kept"     // it is no longer in the log, and there is no record of it
	Superseded  State = "superseded"   // a later event on its path was sent in its place
	NotRecorded State = "not_recorded" // the subscription has passed it, without a record of an attempt
)

// Reasons of states other than dead and held, which have the reasons of dead letters.
const (
	reasonPattern = "pattern"
	reasonFilter  = "filter"
	reasonStart   = "before_start"
)

// Delivery is the state of one event for one subscription. In lists, the state is one of the first
// four.
type Delivery struct {
	EventID       string           `json:"event_id"` // empty for a range that was lost unseen
	Seq           uint64           `json:"seq"`
	LastSeq       uint64           `json:"last_seq,omitempty"` // of a range that was given up
	Batch         int              `json:"batch,omitempty"`    // number of events in its request; lists show one of them
	Path          sluice.Path      `json:"path"`
	Type          string           `json:"type"`
	State         State            `json:"state"`
	Reason        string           `json:"reason,omitempty"`
	Explanation   string           `json:"explanation,omitempty"` // of one delivery; not in lists
	Behind        *Head            `json:"behind,omitempty"`      // the head that it waits for
	AttemptCount  int              `json:"attempt_count"`
	LastStatus    int              `json:"last_status,omitempty"`
	LastError     string           `json:"last_error,omitempty"`
	LastAttemptAt time.Time        `json:"last_attempt_at,omitzero"`
	NextAttemptAt *time.Time       `json:"next_attempt_at,omitempty"`
	Attempts      []sluice.Attempt `json:"attempts,omitempty"` // of one delivery, oldest first; not in lists
}

// Head is the first event of a parked lane.
type Head struct {
	EventID       string        `json:"event_id,omitempty"`
	Seq           uint64        `json:"seq"`
	Attempts      int           `json:"attempts"`
	LastError     string        `json:"last_error,omitempty"`
	NextAttemptAt time.Time     `json:"next_attempt_at,omitzero"`
	Held          sluice.Reason `json:"held,omitempty"` // why it holds its lane; then there is no next attempt
}

// question is an answer under construction.
type question struct {
	sub *sluice.Subscription
	t   *model.Trail
	now time.Time
	d   *Delivery

	lane *sluice.Parked // parked lane of the event; nil: none

	labels filter.Labels
	judge  judge
	err    error // set if the filter was not evaluated in time
}

// judge evaluates a filter with an expression on an event. An error with the code QuotaExceeded
// means that it was not evaluated in time; any other that the expression fails on the event.
type judge func(m *filter.Matcher, ev *sluice.Event) (bool, error)

// Why explains an event's state from its trail. The first certain fact is the answer: records take
// precedence over conclusions from the event's position. The order of the questions is the
// contract:
//
//	records:     held, delivered, dead, retrying
//	position:    not_kept, not_wanted, ended, waiting, backlog, in_flight
//	otherwise:   superseded, not_recorded
//
// The filter is evaluated as it is now, so an event that only an earlier filter excluded is
// not_recorded.
func Why(sub *sluice.Subscription, t *model.Trail, now time.Time) Delivery {
	d, _ := why(sub, t, now, nil, (*filter.Matcher).Match) // which takes no time
	return d
}

// why is Why with labels and a judge. Code QuotaExceeded if the filter was not evaluated in time.
// The cost is that of the filter.
func why(sub *sluice.Subscription, t *model.Trail, now time.Time, labels filter.Labels, evaluate judge) (Delivery, error) {
	d := Delivery{EventID: t.EventID, Seq: t.Seq, Path: t.Path, Type: t.Type, Attempts: t.Attempts}
	if n := len(t.Attempts); n > 0 {
		d.attempted(&t.Attempts[n-1])
		d.NextAttemptAt = nil
	}
	q := question{sub: sub, t: t, now: now, d: &d, labels: labels, judge: evaluate}
	if sub.State != sluice.Cancelled { // no lane is sent any more, though records may be left
		q.lane = t.Lane
	}
	for _, known := range []func() bool{
		q.held, q.delivered, q.dead, q.retrying, q.notKept, q.notWanted, q.ended, q.behind, q.notReached, q.inFlight,
	} {
		if known() || q.err != nil {
			return d, q.err
		}
	}
	if by := t.SupersededBy; by != nil {
		return q.say(Superseded, "", "Event %s (sequence %d), the latest on its path, was sent in its place (policy.debounce).", by.EventID, by.Seq), nil
	}
	return q.say(NotRecorded, "", "It was processed without a recorded attempt: the filter did not match at that time, or its attempts are no longer in the log."), nil
}

// say sets the answer. The explanation is a sentence for operators; programs use state and reason.
func (q *question) say(state State, reason, format string, args ...any) Delivery {
	q.d.State, q.d.Reason, q.d.Explanation = state, reason, fmt.Sprintf(format, args...)
	return *q.d
}

// attempted sets the fields from the last attempt.
func (d *Delivery) attempted(a *sluice.Attempt) {
	d.AttemptCount, d.LastStatus, d.LastError, d.LastAttemptAt, d.Batch = a.Number, a.Status, a.Error, a.StartedAt, len(a.Batch)
	if a.Probe {
		d.AttemptCount-- // a probe is not counted (decision 0008)
	}
	switch v := a.Verdict; {
	case v.Dead != "":
		d.State, d.Reason = Dead, string(v.Dead)
	case v.Held != "":
		d.State, d.Reason = Held, string(v.Held)
	case v.Settled:
		d.State = Delivered
	case v.Cancel:
		d.State, d.Reason = Dead, string(sluice.EndpointGone)
	default:
		d.State = Retrying
		if !v.Again.IsZero() {
			d.NextAttemptAt = &v.Again
		}
	}
}

// heads reports whether the event is the head of its lane, or in the batch at the head.
func (q *question) heads() bool {
	return q.lane != nil && (q.lane.FromSeq == q.d.Seq || len(q.t.Attempts) > 0 && q.lane.FromSeq < q.d.Seq && q.d.Seq <= q.lane.BatchTo)
}

// held answers if the event is the head of a held lane, and reports whether it is.
func (q *question) held() bool {
	lane := q.lane
	if !q.heads() || lane.Held == "" {
		return false
	}
	q.d.AttemptCount, q.d.LastError = lane.Attempts, lane.LastError
	q.say(Held, string(lane.Held), "Held since %s: %s. Its lane waits: retry or discard it.%s", moment(lane.HeldAt), q.obituary(lane.Held, lane.LastError), q.stopped())
	return true
}

// delivered answers with the first attempt that settled the event, even if a later replay failed.
func (q *question) delivered() bool {
	for i := range q.t.Attempts {
		if a := &q.t.Attempts[i]; a.Verdict.Settled {
			q.d.attempted(a)
			if len(q.sub.Endpoint.Exec) > 0 {
				q.say(Delivered, "", "The program handled it in attempt %d at %s.", a.Number, moment(a.StartedAt))
			} else {
				q.say(Delivered, "", "Attempt %d at %s got status %d%s.", a.Number, moment(a.StartedAt), a.Status, inBatch(a))
			}
			return true
		}
	}
	return false
}

// batch describes the batch of the last attempt, if it had one.
func (q *question) batch() string {
	if n := len(q.t.Attempts); n > 0 {
		return inBatch(&q.t.Attempts[n-1])
	}
	return ""
}

// inBatch describes the batch of an attempt, if it had one.
func inBatch(a *sluice.Attempt) string {
	if len(a.Batch) == 0 {
		return ""
	}
	return fmt.Sprintf(", for a batch of %d events", len(a.Batch))
}

// dead answers if there is a dead letter without a later attempt, or an attempt that was the last
// one, and reports whether there is.
func (q *question) dead() bool {
	letter := q.t.Dead
	if letter != nil && q.d.State == Retrying && q.d.LastAttemptAt.After(letter.At) {
		return false
	}
	if letter == nil && q.d.State != Dead {
		return false
	}
	reason, cause, at := sluice.Reason(q.d.Reason), q.d.LastError, q.d.LastAttemptAt
	if letter != nil {
		reason, cause, at = letter.Reason, letter.LastError, letter.At
		q.d.LastSeq, q.d.AttemptCount = letter.LastSeq, max(q.d.AttemptCount, letter.Attempts)
		q.d.LastError = cause
	}
	q.say(Dead, string(reason), "Failed for good at %s: %s.", moment(at), q.obituary(reason, cause))
	return true
}

// obituary describes why a delivery was given up.
func (q *question) obituary(reason sluice.Reason, cause string) string {
	var said string
	switch reason {
	case sluice.Exhausted:
		said = fmt.Sprintf("none of its %d attempts succeeded", q.d.AttemptCount)
	case sluice.Expired:
		said = "it left the log before it could be sent; the namespace's retention is shorter than its waiting time"
	case sluice.Unreadable:
		said = "the files of the log are damaged, and the event cannot be read any more"
	case sluice.NotSendable:
		said = "the request cannot be created"
	case sluice.EndpointGone:
		said = "the endpoint returned 410, which ended the subscription"
	case sluice.EventTooLarge:
		said = "the request would be larger than this server sends"
	case sluice.FilterError:
		said = "the filter cannot be evaluated"
	case sluice.Malformed:
		said = "the published event is unreadable, or violates the namespace's catalogue"
	case sluice.Loop:
		said = "it is part of an event loop, or its producer is marked unsafe because of one"
	case sluice.HandlerRefused:
		said = "the module's program refused it for good"
	case sluice.OutputRefused:
		said = "an event that the module's program published for it was refused for good"
	case sluice.HandlerCrashed:
		said = "the module's worker crashes at it, and handles other events"
	default:
		said = "the reason is " + string(reason)
	}
	if cause == "" {
		return said
	}
	return said + " (" + strings.TrimSuffix(cause, ".") + ")"
}

// retrying answers from the parked lane of the event. The lane is more current than the log of
// attempts, because an operator may have made it due.
func (q *question) retrying() bool {
	lane := q.lane
	if q.d.State == Held && q.heads() && lane.Attempts == 0 {
		q.d.NextAttemptAt = &lane.NextAt
		q.say(Retrying, "", "It was held after attempt %d%s, and is retried starting at attempt 1; %s.%s", q.d.AttemptCount, because(q.d.LastError), q.due(lane), q.stopped())
		return true
	}
	if q.heads() && lane.Attempts > 0 {
		q.d.AttemptCount, q.d.LastError, q.d.NextAttemptAt = lane.Attempts, lane.LastError, &lane.NextAt
		q.say(Retrying, "", "Attempt %d failed%s%s; %s.%s", lane.Attempts, because(lane.LastError), q.batch(), q.due(lane), q.stopped())
		return true
	}
	if q.d.State != Retrying && q.d.State != Held {
		return false
	}
	if q.sub.State == sluice.Cancelled {
		q.say(Ended, q.sub.Reason, "Attempt %d failed%s; then the subscription was cancelled, and no more attempts are made.", q.d.AttemptCount, because(q.d.LastError))
		return true
	}
	if q.t.Attempts[len(q.t.Attempts)-1].Probe {
		q.say(Retrying, "", "It was sent as a probe of the endpoint, which failed%s and does not count; it will be sent again in its lane's order.%s", because(q.d.LastError), q.stopped())
		return true
	}
	q.say(Retrying, "", "Attempt %d failed%s; its lane is about to be parked or is being sent.%s", q.d.AttemptCount, because(q.d.LastError), q.stopped())
	return true
}

// notKept answers if the event is not in the log. Answers after it may use the event.
func (q *question) notKept() bool {
	if q.t.Event != nil {
		return false
	}
	q.say(NotKept, "", "The log no longer has it (it starts at sequence %d), and no record of its delivery exists.", q.t.FirstSeq)
	return true
}

// notWanted answers with the first of pattern, start and filter that excludes the event.
func (q *question) notWanted() bool {
	switch start := q.sub.From; {
	case !q.sub.Pattern.Match(q.t.Path): // no pattern matches the empty path
		q.say(NotWanted, reasonPattern, "The pattern %s does not match its path.", q.sub.Pattern)
	case start.Kind == sluice.StartTime && q.t.Event.Stored.Before(start.Time):
		q.say(NotWanted, reasonStart, "It was published at %s; the subscription starts with events from %s on.", moment(q.t.Event.Stored), moment(start.Time))
	case start.Kind == sluice.StartSeq && q.d.Seq < start.Seq:
		q.say(NotWanted, reasonStart, "It was published before the start of the subscription, sequence %d.", start.Seq)
	case start.Kind == sluice.StartLastPerPath && q.t.Later > 0 && q.t.Later < start.Seq:
		q.say(NotWanted, reasonStart, "It was not the latest event on its path when the subscription started; that one is at sequence %d or later.", q.t.Later)
	default:
		return q.filtered()
	}
	return true
}

// related describes the event's related entities, if it names any.
func related(e *sluice.Event) string {
	if others := e.Extensions[sluice.RelatedSubjects]; others != "" {
		return fmt.Sprintf(", related to %.200q", others)
	}
	return ""
}

// filtered answers with the dimension of the filter that excludes the event, and reports whether
// there is one.
func (q *question) filtered() bool {
	f, e := q.sub.Filter, q.t.Event
	for _, dimension := range []struct {
		filter sluice.Filter
		said   string
	}{
		{sluice.Filter{Types: f.Types}, fmt.Sprintf("its type is %q, but the filter requires %s", e.Type, strings.Join(f.Types, ", "))},
		{sluice.Filter{Sources: f.Sources}, fmt.Sprintf("its source is %q, but the filter requires %s", e.Source, strings.Join(f.Sources, ", "))},
		{sluice.Filter{Subjects: f.Subjects}, fmt.Sprintf("its subject is %q%s, but the filter requires %s", e.Subject, related(e), strings.Join(f.Subjects, ", "))},
		{sluice.Filter{Labels: f.Labels}, "its labels do not match the filter"},
		{sluice.Filter{CEL: f.CEL}, "the expression " + f.CEL + " is not true for it"},
	} {
		matches, err := filter.CompileWith(dimension.filter, q.labels)
		if err != nil {
			return false // the subscription does not run
		}
		ok, err := q.judge(matches, e)
		if sluice.CodeOf(err) == sluice.QuotaExceeded {
			q.err = err
			return false
		}
		if err == nil && !ok {
			q.say(NotWanted, reasonFilter, "The filter does not match: %s.", dimension.said)
			return true
		}
	}
	return false
}

// ended answers for a cancelled subscription: the event was not sent before.
func (q *question) ended() bool {
	if q.sub.State != sluice.Cancelled {
		return false
	}
	q.say(Ended, q.sub.Reason, "The subscription was cancelled%s before it was sent.", because(q.sub.Reason))
	return true
}

// behind answers if the event waits in a parked lane, with the head that it waits for.
func (q *question) behind() bool {
	lane := q.lane
	if lane == nil || lane.FromSeq > q.d.Seq {
		return false
	}
	if lane.Held == "" {
		q.d.NextAttemptAt = &lane.NextAt
	}
	if q.sub.Policy.Debounce.Quiet > 0 && lane.Attempts == 0 && lane.Held == "" {
		q.say(Waiting, "", "Its path is not quiet yet: the latest event of the path is sent at %s or later (policy.debounce).%s", moment(lane.NextAt), q.stopped())
		return true
	}
	if lane.FromSeq == q.d.Seq {
		q.say(Waiting, "", "It is the next event of its lane, which was set aside in favour of other lanes; %s.%s", q.due(lane), q.stopped())
		return true
	}
	q.d.Behind = &Head{EventID: lane.EventID, Seq: lane.FromSeq, Attempts: lane.Attempts, LastError: lane.LastError, NextAttemptAt: lane.NextAt, Held: lane.Held}
	head := fmt.Sprintf("event %s (sequence %d)", lane.EventID, lane.FromSeq)
	if lane.EventID == "" {
		head = fmt.Sprintf("sequence %d", lane.FromSeq)
	}
	if lane.Held != "" {
		q.say(Waiting, "", "It waits behind %s, which has held the lane since %s%s: retry or discard that event.%s", head, moment(lane.HeldAt), because(lane.LastError), q.stopped())
		return true
	}
	if lane.Attempts == 0 {
		q.say(Waiting, "", "It waits for its turn: its lane was parked and is being sent again, from %s on.%s", head, q.stopped())
		return true
	}
	q.say(Waiting, "", "It waits behind %s, whose attempt %d failed%s; %s.%s", head, lane.Attempts, because(lane.LastError), q.due(lane), q.stopped())
	return true
}

// notReached answers if the consumer has not handed the event out yet. A subscription that is not
// active has its state as the reason.
func (q *question) notReached() bool {
	if q.d.Seq <= q.t.Handed {
		return false
	}
	if q.sub.State == sluice.Active {
		q.say(Backlog, "", "The subscription has not reached it yet: its consumer is at sequence %d.%s", q.t.Handed, q.stopped())
		return true
	}
	q.say(Backlog, string(q.sub.State), "It waits in the log.%s", q.stopped())
	return true
}

// inFlight answers for an event that was handed out and is above the floor of acknowledgements. The
// floor does not say which of the events above it were settled.
func (q *question) inFlight() bool {
	if q.d.Seq <= q.t.Settled {
		return false
	}
	if q.sub.State != sluice.Active {
		q.say(Backlog, string(q.sub.State), "It was fetched but not completed, and will be fetched again.%s", q.stopped())
		return true
	}
	if held := q.stopped(); held != "" {
		q.say(Backlog, "endpoint", "It was fetched and waits in its lane.%s", held)
		return true
	}
	rate := ""
	if q.sub.Policy.Rate != (sluice.Rate{}) {
		rate = ", or they wait for the subscription's rate"
	}
	if q.sub.Policy.Batch.Wait > 0 {
		rate += ", or it waits for more events of its batch"
	}
	q.say(InFlight, "", "It was fetched and is not completed: an attempt is in flight, for it or for an earlier event%s.", rate)
	return true
}

// due says when the next attempt of a lane is due. It has no full stop.
func (q *question) due(lane *sluice.Parked) string {
	if !lane.NextAt.After(q.now) {
		return "the next attempt is due now"
	}
	return "the next attempt is due at " + moment(lane.NextAt)
}

// stopped returns a sentence that says why nothing is sent now; "" if events are sent.
func (q *question) stopped() string {
	h := &q.t.Health
	switch {
	case q.sub.State == sluice.Active && h.Breaker == sluice.BreakerOpen:
		return fmt.Sprintf(" The endpoint is down (the breaker is open): only probes are sent, the next at %s.", moment(latest(h.ProbeAt, h.HeldUntil)))
	case q.sub.State == sluice.Active && h.HeldUntil.After(q.now):
		return fmt.Sprintf(" The endpoint requested a pause until %s.", moment(h.HeldUntil))
	case q.sub.State == sluice.Active:
		return ""
	}
	return fmt.Sprintf(" The subscription is %s%s: deliveries stop until it is resumed.", q.sub.State, because(q.sub.Reason))
}

// latest returns the later of two times; either may be zero.
func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// because returns the cause in parentheses after a space; "" without a cause.
func because(cause string) string {
	if cause == "" {
		return ""
	}
	return " (" + cause + ")"
}

func moment(t time.Time) string { return t.UTC().Format(time.RFC3339) }
