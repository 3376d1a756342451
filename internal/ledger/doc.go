// Package ledger records changes. Before a change is made, it writes an entry with the actor, the
// action, the resource and the changed fields, without secrets.
//
//	Intend ──► the entry is stored, outcome "done" ──► the change is made
//	                                                      │ it is not:
//	                                                      ▼
//	                                        Fail: a second entry, outcome "failed"
//
// So no change is made without an entry. After a crash between the two steps there is no second
// entry; the current state of the resource then shows the outcome.
package ledger
