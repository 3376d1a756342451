// Package schedule runs records with a due time. It inspects each record when it is due, and
// advances it step by step until it is complete. A Kind defines the records and their steps.
//
// Every replica watches all records and tracks their times. The stored record decides, and changes
// only by compare-and-set. A step that loses a race reads the winner's record, and decides again.
// Replicas other than the responsible one wait a few seconds longer before they act, so the death
// of a server delays due work by no more than that. A failed step is retried with backoff.
package schedule
