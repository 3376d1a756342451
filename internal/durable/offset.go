package durable

import (
	"strconv"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Special positions of readers.
const (
	FromBeginning = "-1"
	FromNow       = "now"
)

const (
	offsetDigits = 16
	zeros        = "0000000000000000"
)

// FormatOffset formats the place behind the message with a sequence: 16 digits, an underscore and
// 16 digits, so that offsets are ordered as texts. The second number is always zero, because
// readers get only whole messages.
func FormatOffset(seq uint64) string {
	digits := strconv.FormatUint(seq, 10)
	return zeros[min(len(digits), offsetDigits):] + digits + "_" + zeros
}

// ParseOffset is the inverse of FormatOffset. Code InvalidRequest for any other text. It ignores a
// second number other than zero. There is nothing between the place behind a message and the next
// message, and some clients increment that number to say "behind this"
// (@durable-streams/y-durable-streams 0.2.7).
func ParseOffset(text string) (uint64, error) {
	wrong := sluice.Errorf(sluice.InvalidRequest, "offset: use one from a response of this server, or -1, or now")
	if len(text) != 2*offsetDigits+1 || text[offsetDigits] != '_' {
		return 0, wrong
	}
	for i := range len(text) {
		if i != offsetDigits && (text[i] < '0' || text[i] > '9') {
			return 0, wrong
		}
	}
	seq, err := strconv.ParseUint(text[:offsetDigits], 10, 64)
	if err != nil {
		return 0, wrong
	}
	return seq, nil
}
