// Package ledger records changes: the actor, the action and the resource are written before the
// change is made, with the changed fields and without secrets.
//
//	Intend ──► the entry is stored, outcome "done" ──► the change is made
//	                                                      │ it is not:
//	                                                      ▼
//	                                        Fail: a second entry, outcome "failed"
//
// So no change is made without an entry. Conversely, after a crash between the two steps there is
// no second entry: the current state of the resource shows the outcome.
package ledger
