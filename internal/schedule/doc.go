// Package schedule runs records with a due time: each is inspected when it is due, and advanced step by
// step until it is complete. A Kind defines the records and their steps.
//
// Every replica watches all records and tracks their times. The stored state decides, and changes
// only by compare-and-set: a step that loses reads the winner's result, and decides again. Replicas
// other than the responsible one wait a few seconds longer before they act, so the death of a
// server delays due work by no more than that. A failed step is retried with backoff.
package schedule
