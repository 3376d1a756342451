// Package delivery delivers events to webhooks: it turns due deliveries into attempts and attempts into
// verdicts.
//
// One runner serves one subscription. It manages lanes: the deliveries of one path (or of the whole
// subscription, or single ones) in order, of which only the head is sent. The lane table makes
// decisions without I/O and without a clock; the runner owns it, passes tasks to a few workers and
// applies their results.
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
// A lane is parked by storing one record, "this lane, from that sequence on", and only then
// acknowledging what it holds. While the record exists its events are acknowledged as they
// come; they are read back from the log when the lane is due. So a retry holds no pending
// message, survives a restart and blocks nothing but its lane.
//
// What is promised across a crash at any point: nothing acknowledged is lost; at most the
// window's attempts in flight are sent twice; first deliveries of a lane keep its order. It
// rests on the order of writes: the dead letter, if there is one, then the attempt's record,
// then the lane's, then the acknowledgement (register C01).
//
// An endpoint in trouble is kept from being asked by a breaker (breaker.go, decision 0008). While
// it is not closed nothing is used up.
//
// Whatever is sent goes through one exit (exit.go), which asks the gate right before and can cut
// off what is under way: nothing else has the sender. What the gate keeps back is in kept.go.
//
// What leaves the log before it was handed out becomes a dead letter too (decision 0003).
package delivery
