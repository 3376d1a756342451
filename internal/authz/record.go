package authz

import (
	"encoding/json"
	"strings"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Record is a stored access record with exactly one field set. Records are changed and emptied, so
// that every change has a revision to wait for. Only records of grants that expired long ago are
// deleted.
type Record struct {
	Grant     *Granted          `json:"grant,omitempty"`
	ACL       *sluice.ACL       `json:"acl,omitempty"`
	Admins    *Admins           `json:"admins,omitempty"`
	Profile   *sluice.Profile   `json:"profile,omitempty"`
	Label     *Label            `json:"label,omitempty"`
	Tombstone *sluice.Tombstone `json:"tombstone,omitempty"`
	Replica   *Presence         `json:"replica,omitempty"`

	// Unreadable marks a record that cannot be parsed: it is damaged, or was written by a later
	// version.
	Unreadable bool `json:"-"`
}

// UnmarshalJSON parses a record. Invalid data becomes an unreadable record: an access list, a label
// or a tombstone must not count as absent.
func (r *Record) UnmarshalJSON(data []byte) error {
	type bare Record
	var read bare
	if err := json.Unmarshal(data, &read); err != nil {
		read = bare{Unreadable: true}
	}
	*r = Record(read)
	return nil
}

// bounds returns the namespace that a record restricts, from its key: a list head, a label or a
// tombstone. It returns "" for other records, without which there are only fewer permissions.
func bounds(key string) string {
	parts := strings.Split(key, ".")
	switch {
	case len(parts) == 2 && (parts[0] == "acl" || parts[0] == "label"), len(parts) > 2 && parts[0] == "tombstone":
		return parts[1]
	}
	return ""
}

// Presence announces a replica and the revision that it enforces. It expires unless it is renewed.
type Presence struct {
	ID      string `json:"id"`
	Settled uint64 `json:"settled"`
}

// Granted is a grant with the hash that identifies its valid token.
type Granted struct {
	sluice.Grant

	Nonce string `json:"nonce"` // hash of the token's nonce
}

// Admins is the head of a namespace's access list. It is written before an admin is removed and
// after one is added, so that the last one cannot be removed.
type Admins struct {
	Namespace  string             `json:"namespace"`
	Closed     bool               `json:"closed"` // the list is in force, because it has had an entry
	Principals []sluice.Principal `json:"principals"`
}

// Label is a namespace's label.
type Label struct {
	Namespace string       `json:"namespace"`
	Label     sluice.Label `json:"label"`
}
