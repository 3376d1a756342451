package streams

import (
	"slices"
	"strings"
)

// Share is the cause of a stream's growth, which determines how it is limited when the store is
// nearly full.
type Share int

// The shares, in the order in which they are stopped.
const (
	Published  Share = iota // grows with published events: refuses writes first
	Delivered               // grows with deliveries: refuses writes next
	Remembered              // grows with deliveries: then discards its oldest messages
	Recorded                // definitions, progress, permissions and the ledger: always stored
	Foreign                 // not a stream of Sluice: left alone
)

const bucketPrefix = "KV_"

// ShareOf returns the share of a stream, given its name in JetStream.
func ShareOf(stream string) Share {
	bucket, isBucket := strings.CutPrefix(stream, bucketPrefix)
	switch {
	case strings.HasPrefix(stream, EventsStream("")), stream == Mirror, stream == Knowledge, isBucket && bucket == Scheduled:
		return Published
	case stream == Attempts:
		return Remembered
	case stream == DeadLetters:
		return Delivered
	case stream == Ledger, isBucket && slices.ContainsFunc(Buckets(), func(b Bucket) bool { return b.Name == bucket }):
		return Recorded
	}
	return Foreign
}

// MadeAgain reports whether a running server recreates a stream, given its name in JetStream, after
// it was deleted.
func MadeAgain(stream string) bool {
	bucket, isBucket := strings.CutPrefix(stream, bucketPrefix)
	return slices.ContainsFunc(Singles(), func(d Stream) bool { return d.Name == stream && d.Again }) ||
		isBucket && slices.ContainsFunc(Buckets(), func(b Bucket) bool { return b.Name == bucket && b.Again })
}

// Lasting returns the names in JetStream of the permanent streams and buckets: all except the logs
// of namespaces.
func Lasting() (names []string) {
	for _, d := range Singles() {
		names = append(names, d.Name)
	}
	for _, b := range Buckets() {
		names = append(names, BucketStream(b.Name))
	}
	return names
}
