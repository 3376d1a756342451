package seal

import (
	"fmt"
	"strings"
)

// LockedError says that the store is sealed with keys that a server does not have.
type LockedError struct {
	Keys    []string // their ids
	Records int
}

// Error names the keys.
func (e *LockedError) Error() string {
	return fmt.Sprintf("%d records in NATS are sealed with %s, which this server does not have", e.Records, strings.Join(e.Keys, ", "))
}
