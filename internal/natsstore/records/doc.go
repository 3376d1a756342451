// Package records implements the ports of the engines over the store: the form of their records in
// JetStream, with compare-and-set, and their views of the logs. It converts and makes no decision.
//
// Contracts of the methods are those of the ports that they implement; the comments here have only
// the additions of the store. All types are safe for concurrent use. Followers take the entries of
// a bucket in the order of the store, from one goroutine:
//
//	stored entries ──► set      each, in its last revision
//	                   caughtUp once the stored ones were passed
//	changes        ──► set, removed
//
// For failures, see natsstore.Bucket.Watch.
package records
