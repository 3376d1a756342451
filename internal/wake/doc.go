// Package wake implements wake consumers (S1): one for each stream that matches a subscription of
// mode wake. A consumer is woken by a signed notice, its worker reads the stream with the Durable
// Streams protocol, and reports progress by callbacks that are fenced by an epoch.
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
// Step contains all the rules: it is pure, with the time and the state of the streams as arguments.
// Its result is stored by compare-and-set before any action, so any replica may handle any
// callback, and the death of a replica loses nothing. The replica with the subscription's lease
// runs its clocks and sends its notices (runner.go). Clocks are dates in the record.
//
// A notice contains no event data, only the offsets and the acknowledged positions of streams.
package wake
