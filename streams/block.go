package streams

import (
	"bytes"
	"iter"
)

// JoinBlock returns the message that holds attempts, each of which is one line of JSON: the lines one below the other.
// The message of one attempt is that attempt.
func JoinBlock(attempts [][]byte) []byte { return bytes.Join(attempts, []byte{'\n'}) }

// SplitBlock returns the attempts that a message of Attempts holds, each in JSON, in the order of their recording.
func SplitBlock(message []byte) iter.Seq[[]byte] { return bytes.SplitSeq(message, []byte{'\n'}) }
