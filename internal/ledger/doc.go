// Package ledger knows how a change is accounted for: who did what to what is written before
// it is done, with what changes and without what is secret.
//
//	Intend ──► the entry is stored, outcome "done" ──► the change is made
//	                                                      │ it is not:
//	                                                      ▼
//	                                        Fail: a second entry, outcome "failed"
//
// So nothing is changed that the ledger does not know of. The other way round, an entry whose
// change a crash cut off has no second one: what the resource is now decides.
package ledger
