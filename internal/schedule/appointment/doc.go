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
// the step. Then the engine publishes that event and removes it from the record. So each event is
// published after the state that it reports, and a crash loses none: the next replica continues
// from the record, under the same IDs. The ID of an action's event is in the record before the
// event is published, so the log stores the event once. The ID is random, so no publisher can use
// it first and suppress the action.
package appointment
