// Package wake implements wake consumers (S1): one for each stream that matches a subscription of
// mode wake. A signed notice wakes the consumer's worker. The worker reads the stream with the
// Durable Streams protocol, and reports progress by callbacks that are fenced by an epoch.
//
//	        pending work: epoch+1, new wake id
//	IDLE ─────────────────────────────────────► WAKING ──┐ no 2xx and no claim within
//	 ▲                                            │  ▲    │ 10 s, or a failure: the same
//	 │                                            │  └────┘ notice again, later
//	 │                         2xx, or a callback │
//	 │                                            ▼
//	 └───────────────────────────────────────── LIVE
//	  done and nothing pending, or 45 s of        │
//	  silence                                     └──► WAKING: done, and there is more
//
// Step contains all the rules. It is pure: the time and the state of the streams are arguments. The
// engine stores the result by compare-and-set before any action, so any replica may handle any
// callback, and the death of a replica loses nothing. The replica with the subscription's lease
// watches the deadlines and sends the notices (runner.go). Deadlines are times in the record.
//
// A notice contains no event data, only the offsets and the acknowledged positions of streams.
package wake
