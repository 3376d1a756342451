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
// Of a claim and a cancellation one comes first, and the other learns of it. After a crash whoever comes next goes on from what is
// stored: a claim that is old, or was this server's in a former life, is taken again, and the event is published under the
// same id, which the log takes once; behind its dedup window the log is asked before.
//
// Every replica knows all times. The one that holds the lease of an event's path stores it; the others wait two or three seconds more, and do it
// if nobody has, so that a server which dies delays what is due by no more than that. An event that is left to somebody else holds those
// that come after it on its path, or who is given the lease meanwhile would begin with them.
package delayed
