// Package causes knows what an event came of, and what to do when it came of itself.
//
// An event may name its cause, which may name its own, and so on: a chain. Two things are known of
// a chain without looking anything up: that an event which is there again, of the same type on the
// same path, goes round in a circle, and that a chain of more than 32 hops is one that does not end.
//
//	order.paid /orders/7 ← invoice.made /invoices/7 ← order.paid /orders/7   a loop
//
// A cause is always earlier in the log than what it caused. What lies later is not followed, so that
// a chain ends, and is the same whenever it is walked. A cause that is not known, because it is older
// than the namespace's dedup window, or no event at all, is where a chain begins.
package causes
