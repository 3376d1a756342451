// Package appointment implements appointments: when their actions are performed, and when they end
// (S2-37…41).
//
// The record of an appointment and the time determine the next step:
//
//	waiting ──▶ noticed ──▶ firing ──▶ fired ──▶ removed, a day later
//	   │           │           (the action is done)    or waiting, if it repeats
//	   │           ├──▶ missed ──▶ the same
//	   └───────────┴──▶ cancelled ──▶ removed
//
// Every step is a compare-and-set of the record, which also stores the system event that reports
// it; then that event is published, and then removed from the record. Each event is therefore
// published after the state that it reports, and a crash loses none: the next replica continues
// from the record, under the same IDs. The ID of an action's event is in the record before it is
// published, so the event is stored once; it is random, so no publisher can use it first and
// suppress the action.
package appointment
