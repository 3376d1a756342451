// Package delayed implements scheduled events: each is either stored once when it is due, or
// cancelled, never both.
//
// The record holds the whole state, and changes only by compare-and-set:
//
//	          cancelled: outcome is written ──▶ announced ──▶ removed
//	         ╱
//	waiting ── due: claimed ── published ──▶ removed
//	                  ╲
//	                   may not be published: outcome is written ──▶ announced ──▶ removed
//
// If a claim and a cancellation coincide, the second to be stored sees the first. After a crash the
// next replica continues from the record. It takes over a claim that is old, or that it made itself
// before its restart, and publishes the event under the same id, which the log accepts once. After
// the dedup window it checks the log first.
//
// Every replica knows all times. The replica with the lease of an event's path stores the event.
// The others wait two to three seconds longer, and store it if it is still waiting, so the death of
// a server delays due events by no more than that. While a replica leaves an event to another one,
// it holds back the later events on the same path. Otherwise it would store those first if it got
// the lease meanwhile.
package delayed
