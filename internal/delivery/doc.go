// Package delivery delivers events to webhooks: it turns due deliveries into attempts and attempts
// into verdicts.
//
// One runner serves one subscription. It manages lanes: the ordered deliveries of one path (or of
// the whole subscription, or single ones), of which only the head is sent. Its dispatcher decides
// which tasks start, and when, from the lane table, the breaker, the rates and the free permits,
// without I/O and without a clock. The runner owns it, passes the tasks to workers that all runners
// share, and enters their results.
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
// acknowledges the lane's deliveries. While the record exists, the lane's events are acknowledged
// on arrival; they are read back from the log when the lane is due. So a retry holds no pending
// message, survives a restart and blocks nothing but its lane.
//
// Guarantees across a crash at any point: nothing acknowledged is lost; at most the window's
// attempts in flight are sent twice; first deliveries of a lane keep its order. They rest on the
// order of writes: the dead letter, if there is one, then the attempt's record, then the lane's,
// then the acknowledgement (register C01).
//
// A breaker holds requests back from an endpoint in trouble (breaker.go, decision 0008). While it
// is not closed, attempts do not use up the retry policy.
//
// Every request leaves through outbound.go, which asks the gate right before sending and
// can cut off requests in flight: nothing else has the sender. blocked.go handles events that the
// gate keeps back.
//
// Events that leave the log before they were handed out become dead letters too (decision 0003).
package delivery
