// Package records implements the ports of the engines over the store: the form of their records in
// JetStream, with compare-and-set, and their views of the logs. It converts and makes no decision.
package records
