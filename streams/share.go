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
