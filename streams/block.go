package streams

import (
	"bytes"
	"iter"
)

// JoinBlock returns the message that holds the attempts, each of which is one line of JSON. The
// lines are separated by newlines; the message of a single attempt is its line.
func JoinBlock(attempts [][]byte) []byte { return bytes.Join(attempts, []byte{'\n'}) }

// SplitBlock returns the attempts that a message of the stream Attempts holds, each in JSON, in the
// order in which they were recorded.
func SplitBlock(message []byte) iter.Seq[[]byte] { return bytes.SplitSeq(message, []byte{'\n'}) }
