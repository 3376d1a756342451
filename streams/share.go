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

// ShareOf returns the share of a stream, given its name in JetStream.
func (n Names) ShareOf(stream string) Share {
	bucket, isBucket := n.bucketOf(stream)
	switch {
	case strings.HasPrefix(stream, n.EventsStream("")), stream == n.Mirror(), stream == n.Knowledge():
		return Published
	case stream == n.Attempts():
		return Remembered
	case stream == n.DeadLetters():
		return Delivered
	case stream == n.Ledger(), isBucket && slices.ContainsFunc(Buckets(), func(b Bucket) bool { return b.Name == bucket }):
		return Recorded
	}
	return Foreign
}

// bucketOf returns the name, without the prefix, of the bucket that a stream stores; false if the
// stream stores no bucket with this prefix.
func (n Names) bucketOf(stream string) (string, bool) {
	return strings.CutPrefix(stream, n.BucketStream(""))
}

// MadeAgain reports whether a running server recreates a stream, given its name in JetStream, after
// it was deleted.
func (n Names) MadeAgain(stream string) bool {
	bucket, isBucket := n.bucketOf(stream)
	return slices.ContainsFunc(n.Singles(), func(d Stream) bool { return d.Name == stream && d.Again }) ||
		isBucket && slices.ContainsFunc(Buckets(), func(b Bucket) bool { return b.Name == bucket && b.Again })
}

// Lasting returns the names in JetStream of the permanent streams and buckets: all except the logs
// of namespaces.
func (n Names) Lasting() (names []string) {
	for _, d := range n.Singles() {
		names = append(names, d.Name)
	}
	for _, b := range Buckets() {
		names = append(names, n.BucketStream(b.Name))
	}
	return names
}
