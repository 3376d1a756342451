// Package delivery delivers events to webhooks: it turns due deliveries into attempts and attempts
// into verdicts.
//
// One runner serves one subscription. It manages lanes. A lane holds the ordered deliveries of one
// path, of one event or of the whole subscription; only its head is sent. The runner's dispatcher
// decides which tasks start, and when, from the lane table, the breaker, the rates and the free
// permits, without I/O and without a clock. The runner passes the tasks to workers that all runners
// share, and enters their results.
//
// The parts of a runner:
//
//	dispatcher    what is sent next: lanes, breaker, limits, permits
//	scope         what it delivers: the live deliveries, or a replay
//	intake        the source of deliveries, and its end when nothing comes
//	past          what was settled or parked before
//	evaluator     the filter and its verdicts (verdict.go)
//	executor      tasks and their results (workers.go)
//	egress        the way to the endpoint: gate, sender, lost access
//	lookout       scans for events that left the log
//	healthRecord  the stored health
//	gaugeBoard    gauges for other goroutines (gauges.go)
//	mailbox       what other goroutines ask
//
// The states of a lane:
//
//	         arrive              2xx, recorded
//	(none) ─────────► live ──────────────────────► (none)
//	                   │  ▲
//	 head failed, or   │  │ read back up to the last
//	 the lane hogs the │  │ event that was acknowledged
//	 window: record it │  │ unsent: record deleted
//	                   ▼  │
//	                 parked ──► due ──► head sent again ──► failed: parked
//
// To park a lane, the runner stores one record, "this lane, from that sequence on", and only then
// acknowledges the lane's deliveries. While the record exists, the runner acknowledges the lane's
// events on arrival, and reads them back from the log when the lane is due. So a retry holds no
// pending message, survives a restart and blocks only its lane.
//
// Guarantees across a crash at any point: nothing acknowledged is lost; at most the attempts in
// flight, one window, are sent twice; the first deliveries of a lane keep its order. The guarantees
// follow from the order of writes: first the dead letter, if there is one, then the attempt's
// record, then the lane's record, then the acknowledgement (register C01).
//
// A breaker holds back requests to an endpoint in trouble (package breaker, decision 0008). While it is
// not closed, failed attempts do not count for the retry policy.
//
// Every request leaves through outbound.go, which alone has the sender. It asks the gate
// immediately before sending, and can cancel requests in flight. blocked.go handles events that the
// gate keeps back.
//
// Events that leave the log before they are delivered also become dead letters (decision 0003).
package delivery
