package sluice

import (
	"errors"
	"slices"
	"strings"
)

// Storage is the space used by all logs and records, and its limit.
type Storage struct {
	UsedBytes  uint64       `json:"used_bytes"`
	LimitBytes uint64       `json:"limit_bytes"`          // 0: unknown
	FreeBytes  *uint64      `json:"free_bytes,omitempty"` // free space on the disk; nil: unknown
	Level      StorageLevel `json:"level"`
	// Problem says what the server refuses at this level, and the remedy.
	Problem string `json:"problem,omitempty"`

	// Missing lists the streams and buckets that were deleted in NATS and not recreated.
	Missing []string `json:"missing,omitempty"`
	// Damage lists the damage that was found and that no operator has acknowledged yet.
	Damage       []Damage     `json:"damage,omitempty"`
	Verification Verification `json:"verification,omitzero"`
}

// StorageLevel is the fill level of a store. At a higher level, the server accepts less.
type StorageLevel int

// The levels of a store.
const (
	StorageAmple  StorageLevel = iota // everything is accepted
	StorageTight                      // events are refused
	StorageScarce                     // all additions are refused, except deliveries; deletes and revocations continue
	StorageBroken                     // all writes are refused: the disk rejects writes, or an external NATS is full
)

func storageLevels() []string { return []string{"ample", "tight", "scarce", "broken"} }

// String returns the level's name in JSON.
func (l StorageLevel) String() string { return storageLevels()[l] }

// MarshalText returns the level's name.
func (l StorageLevel) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText parses a level's name. Code InvalidRequest if there is no such level.
func (l *StorageLevel) UnmarshalText(text []byte) error {
	i := slices.Index(storageLevels(), string(text))
	if i < 0 {
		return Errorf(InvalidRequest, "storage level %q: use one of %s", text, strings.Join(storageLevels(), ", "))
	}
	*l = StorageLevel(i)
	return nil
}

// storageRetry is the Retry-After of a full store, in seconds.
const storageRetry = 30

// ReasonStorage is the detail "reason" of requests refused because the store is full or not
// writable.
const ReasonStorage = "insufficient_storage"

// IsFull reports whether an error says that the store is full or not writable.
func IsFull(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Details["reason"] == ReasonStorage
}

// Problem returns the error (Unavailable) that says what the server refuses at a level, and the
// remedy, with the details reason and retry_after; nil at StorageAmple.
func (l StorageLevel) Problem() *Error {
	const remedy = "free disk space, shorten retentions, delete unused data, or raise nats.max_store (max_file_store of an external NATS server)"
	text := ""
	switch l {
	case StorageAmple:
		return nil
	case StorageTight:
		text = "the store is full and refuses events; everything else continues: " + remedy
	case StorageScarce:
		text = "the store is full and refuses all additions; deleting, pausing and revoking continue: " + remedy
	case StorageBroken:
		text = "the store rejects all writes, because its disk is full or failing, or NATS has no room: free disk space, or raise max_file_store " +
			"of an external NATS server or max_file of the account, and the server resumes automatically"
	}
	return Errorf(Unavailable, "%s", text).With("reason", ReasonStorage).With("retry_after", storageRetry)
}
