package terminal

import "strconv"

// DeadLetterCount returns "one dead letter", or the number with the plural.
func DeadLetterCount(n uint64) string {
	if n == 1 {
		return "one dead letter"
	}
	return strconv.FormatUint(n, 10) + " dead letters"
}
