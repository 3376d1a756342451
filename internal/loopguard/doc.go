// Package loopguard follows the causation chains of events and detects loops.
//
// An event may name its cause, which may name its own, and so on: a chain. Two properties of a
// chain indicate a loop without further lookups: an event of the same type on the same path occurs
// again, or the chain has more than 32 hops.
//
//	order.paid /orders/7 ← invoice.made /invoices/7 ← order.paid /orders/7   a loop
//
// A cause is always earlier in the log than its effect. Later causes are not followed, so that a
// chain ends, and is the same whenever it is followed. A chain starts at a cause that is unknown,
// because it is older than the namespace's dedup window or not an event at all.
package loopguard
