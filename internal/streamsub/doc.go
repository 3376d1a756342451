// Package streamsub implements the subscriptions of the Durable Streams protocol: durable cursors
// over streams that wake a worker, by a webhook or by a message in a stream, whenever new messages
// follow them.
//
//	         pending            sent, claimed            done, released, lease over
//	idle ───────────────▶ woken ───────────────▶ leased ───────────────────────────▶ idle
//	  ▲                     │ not sent: again, 1 s to 60 s later, as long as the
//	  └─────────────────────┘ lease lasts, then with another generation
//
// All decisions are made by Step, which is pure: it takes a subscription, an event, the state of
// the log and the time, and returns the new subscription. The result is stored (compare-and-set)
// before any action. All due work is therefore in the record, and the replica that serves the
// subscription after a crash does the same. Every process may decide; only the owner of a
// subscription runs its clocks and sends.
//
// Not every stream has a cursor of its own. Streams that end at or before Floor have no new
// messages; a stream without a link that ends after Floor is read from Base on. Links exist for
// explicit streams and for streams ahead of that, and are removed when Floor overtakes them (fold).
//
// A lease starts when a webhook's wake is issued, or when a worker claims, and is extended by the
// worker's requests. Generations never restart during the life of a subscription; a token is valid
// for one generation of one incarnation.
package streamsub
