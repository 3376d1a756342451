package streams

import (
	"slices"
	"strings"
)

// Share says with what a stream grows, and so what becomes of it when the store is nearly full.
type Share int

// The shares, in the order in which they are stopped.
const (
	Published  Share = iota // grows with what is published: takes nothing more first
	Delivered               // grows with what is delivered: takes nothing more next
	Remembered              // grows with what is delivered: forgets its oldest then
	Recorded                // what there is and how far it has come, who may do what, who changed it: always stored
	Foreign                 // none of ours: left alone
)

const bucketPrefix = "KV_"

// ShareOf returns the share of a stream, by its name in JetStream.
func ShareOf(stream string) Share {
	bucket, isBucket := strings.CutPrefix(stream, bucketPrefix)
	switch {
	case strings.HasPrefix(stream, EventsStream("")), isBucket && bucket == Scheduled:
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

// MadeAgain reports whether a running server makes a stream again, by its name in JetStream, after it was deleted.
func MadeAgain(stream string) bool {
	bucket, isBucket := strings.CutPrefix(stream, bucketPrefix)
	return slices.ContainsFunc(Singles(), func(d Stream) bool { return d.Name == stream && d.Again }) ||
		isBucket && slices.ContainsFunc(Buckets(), func(b Bucket) bool { return b.Name == bucket && b.Again })
}

// Lasting returns the names in JetStream of the streams and buckets that there always are: all but the logs of namespaces.
func Lasting() (names []string) {
	for _, d := range Singles() {
		names = append(names, d.Name)
	}
	for _, b := range Buckets() {
		names = append(names, BucketStream(b.Name))
	}
	return names
}
