// Package wake is the life of wake consumers (S1): one for each stream that a subscription of
// mode wake matches, woken by a signed notice, read with the Durable Streams protocol, and told
// how far it came by callbacks that are fenced by an epoch.
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
// Step is all the rules: pure, with the time and what is known of the streams as arguments. What
// it decides is stored by compare-and-set before anything of it is done, so any replica may take
// any callback, and one that dies loses nothing. The replica that has the subscription's lease
// runs its clocks and sends its notices (runner.go). Clocks are dates in the record.
//
// A notice has no content of events: where they are, and how far they were acknowledged.
package wake
