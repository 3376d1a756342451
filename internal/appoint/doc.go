// Package appoint knows the appointments: when what they are about is done, and when it is not any more (S2-37…41).
//
// What an appointment's record says and the time decide what comes next:
//
//	waiting ──▶ noticed ──▶ firing ──▶ fired ──▶ removed, a day later
//	   │           │           (the action is done)    or waiting, if it repeats
//	   │           ├──▶ missed ──▶ the same
//	   └───────────┴──▶ cancelled ──▶ removed
//
// Every step is a compare-and-set of the record, which takes along the system event that tells of it; then that is published, and
// then taken out of the record. So each is told after the state that it tells of, and a crash loses none: whoever comes next goes on from
// the record, under ids that are the same. The id of an action's event is in the record before it is published, so it is stored
// once; it is random, so nobody can take it first and keep the action from being done.
package appoint
