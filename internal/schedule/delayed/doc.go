// Package delayed implements scheduled events: each is either stored once when it is due, or
// cancelled, never both.
//
// The record holds the whole state, and changes only by compare-and-set:
//
//	          cancelled: outcome is written ──▶ told ──▶ removed
//	         ╱
//	waiting ── due: claimed ── published ──▶ removed
//	                  ╲
//	                   may not be published: outcome is written ──▶ told ──▶ removed
//
// If a claim and a cancellation coincide, the second to be stored sees the first. After a crash the
// next replica continues from the record: it takes over a claim that is old, or was this server's
// before its restart, and publishes the event under the same id, which the log accepts once; after
// the dedup window it checks the log first.
//
// Every replica knows all times. The one with the lease of an event's path stores it. The others
// wait two or three seconds longer and store it if it is still waiting, so the death of a server
// delays due events by no more than that. An event that is left to another replica holds the later
// ones on its path. Otherwise a replica that gets the lease meanwhile would store those first.
package delayed
