package seal

import (
	"fmt"
	"strings"
)

// LockedError is the error for records that are sealed with keys that the server does not have.
type LockedError struct {
	Keys    []string // their ids
	Records int
}

// Error returns the message, with the IDs of the keys.
func (e *LockedError) Error() string {
	return fmt.Sprintf("%d records in NATS are sealed with %s, which this server does not have", e.Records, strings.Join(e.Keys, ", "))
}
