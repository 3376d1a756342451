// Package dsub knows the subscriptions of the Durable Streams protocol: durable cursors over streams
// that wake somebody, by a webhook or by a line in a stream, whenever there is something behind them.
//
//	         pending            sent, claimed            done, released, lease over
//	idle ───────────────▶ woken ───────────────▶ leased ───────────────────────────▶ idle
//	  ▲                     │ not sent: again, 1 s to 60 s later, as long as the
//	  └─────────────────────┘ lease lasts, then with another generation
//
// What is decided is decided by Step, which is pure: a subscription, what happened, what is in the
// log and the time come in, the subscription as it is from now on comes out. It is stored
// (compare-and-set) before anything is done. Whatever is due then stands in the record, so that
// whoever serves the subscription after a crash does the same. Every process may decide; only the one
// that owns a subscription runs its clocks and sends.
//
// A cursor is not kept for every stream. Streams that end at or before Floor have nothing new; a stream
// without a link that ends behind it is read from Base on. Links are kept for the explicit streams and
// for those that are ahead of that, and forgotten when Floor overtakes them (fold).
//
// A lease begins when a webhook's wake is issued, or when a worker claims, and is made longer by what
// the worker says. Generations never restart while a subscription lives; a token is for one
// generation of one incarnation of it.
package dsub
