package access

import (
	"encoding/json"
	"strings"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Record is what is stored of access; one field is set. Records are changed, and emptied, but not deleted,
// except grants that expired long ago, so that every change has a revision that can be waited for.
type Record struct {
	Grant     *Granted          `json:"grant,omitempty"`
	ACL       *sluice.ACL       `json:"acl,omitempty"`
	Admins    *Admins           `json:"admins,omitempty"`
	Profile   *sluice.Profile   `json:"profile,omitempty"`
	Label     *Label            `json:"label,omitempty"`
	Tombstone *sluice.Tombstone `json:"tombstone,omitempty"`
	Replica   *Presence         `json:"replica,omitempty"`

	// Unreadable says that what is stored cannot be read: it is damaged, or a later version wrote it.
	Unreadable bool `json:"-"`
}

// UnmarshalJSON reads a record. What is none becomes one that is unreadable: an access list, a label or a tombstone
// must not count as one that is not there.
func (r *Record) UnmarshalJSON(data []byte) error {
	type bare Record
	var read bare
	if err := json.Unmarshal(data, &read); err != nil {
		read = bare{Unreadable: true}
	}
	*r = Record(read)
	return nil
}

// bounds returns the namespace whose list's head, label or tombstone lies under a key; "" for other records, without
// which less is allowed and not more.
func bounds(key string) string {
	parts := strings.Split(key, ".")
	switch {
	case len(parts) == 2 && (parts[0] == "acl" || parts[0] == "label"), len(parts) > 2 && parts[0] == "tombstone":
		return parts[1]
	}
	return ""
}

// Presence says that a replica is there, and up to which revision it acts on what is stored. It
// expires unless it is renewed.
type Presence struct {
	ID      string `json:"id"`
	Settled uint64 `json:"settled"`
}

// Granted is a grant with what makes its token the one that counts.
type Granted struct {
	sluice.Grant

	Nonce string `json:"nonce"` // a hash of the token's
}

// Admins is the head of a namespace's access list. It is written before an admin goes and after
// one came, so that the last one cannot go.
type Admins struct {
	Namespace  string             `json:"namespace"`
	Closed     bool               `json:"closed"` // the list is in force: it has had an entry
	Principals []sluice.Principal `json:"principals"`
}

// Label is a namespace's label.
type Label struct {
	Namespace string       `json:"namespace"`
	Label     sluice.Label `json:"label"`
}
