// Package natsstore stores the types of package sluice in JetStream: events as messages,
// subscriptions and other state as records that are written with compare-and-set. It retries
// operations without a response. The packages below it use its connection and its JetStream
// context.
//
// Every operation is idempotent. Therefore a caller without a response may retry: an event is
// published with its ID as Nats-Msg-Id, a record is written with the revision that was read, and
// Provision changes only the settings that differ from the layout in package streams.
//
// The kinds of requests, by the number of times that they are sent:
//
//	Asked             reads: again for askPatience while there is no answer, each try longer
//	AskedFor          the same, with one timeout for each try
//	told              compare-and-set writes: again while no server receives them
//	Once, bounded     other writes: once; the caller knows whether it may repeat them
//	Retryable         a caller's own loop: transient errors are repeated, others are permanent
//
// The times of a lease with the default of 15 s (Options.LeaseTTL); a round begins every third of
// it:
//
//	0 s           5 s           10 s          13 s      15 s
//	├─ renewed ───┼─ round ─────┼─ round ─────┤         │
//	│             │             │             │         └ NATS deletes the key: free for others
//	│             │             │             └ Owns is false here: 13/15, from before the request
//	│             └ fails: again after 1 s; a round ends after 4 s at the latest
//	└ the request was sent
//
// So the rounds at 5 s and at 10 s may both fail. Between the last use by the old holder and the
// first by the next one there are two seconds, for a request in flight and for clocks of different
// speed.
//
// The states of a unit (a shard of subscriptions, or a module) at one replica:
//
//	               take: free, or held before a restart
//	(not held) ──────────────────────────────────────────► held
//	    ▲  ▲                                              │    ▲
//	    │  └──── expired, or a conflict ──────────────────┤    │
//	    │                        another is preferred     │    │ preferred again
//	    │                                                 ▼    │
//	    └──── settled: release ───────────────────────── leaving
//
// A leaving unit is still renewed, but Owns is false for it: this replica sends nothing new, and no
// other replica may begin before the deliveries in flight have ended.
package natsstore
