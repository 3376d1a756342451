package sluice

import (
	"slices"
	"strings"
)

// Storage is what all logs and records take of what they may.
type Storage struct {
	UsedBytes  uint64       `json:"used_bytes"`
	LimitBytes uint64       `json:"limit_bytes"`          // 0: it is not known
	FreeBytes  *uint64      `json:"free_bytes,omitempty"` // of the disk; nil: it is not known
	Level      StorageLevel `json:"level"`
	Problem    string       `json:"problem,omitempty"` // what is refused at this level, and what to do

	Missing      []string     `json:"missing,omitempty"` // streams and buckets that were deleted in NATS and are not there again
	Damage       []Damage     `json:"damage,omitempty"`  // what was found damaged of what is stored, until an operator takes it for settled
	Verification Verification `json:"verification,omitzero"`
}

// StorageLevel says what a store still takes. A higher one takes less.
type StorageLevel int

// The levels of a store.
const (
	StorageAmple  StorageLevel = iota // all
	StorageTight                      // no events; everything else
	StorageScarce                     // nothing that adds to it; what frees room or takes rights, and deliveries
	StorageBroken                     // nothing: the disk takes no writes
)

func storageLevels() []string { return []string{"ample", "tight", "scarce", "broken"} }

// String returns the level's name in JSON.
func (l StorageLevel) String() string { return storageLevels()[l] }

// MarshalText returns the level's name.
func (l StorageLevel) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads a level's name. Code InvalidRequest.
func (l *StorageLevel) UnmarshalText(text []byte) error {
	i := slices.Index(storageLevels(), string(text))
	if i < 0 {
		return Errorf(InvalidRequest, "storage level %q: it is one of %s", text, strings.Join(storageLevels(), ", "))
	}
	*l = StorageLevel(i)
	return nil
}

// storageRetry is after how many seconds a full store may have room again.
const storageRetry = 30

// ReasonStorage is the detail "reason" of what is refused because the store is full or cannot write.
const ReasonStorage = "insufficient_storage"

// Problem returns what is refused at a level and what to do about it, nil at StorageAmple. Code Unavailable, with the details
// reason and retry_after.
func (l StorageLevel) Problem() *Error {
	const remedy = "make room on the disk, shorten retentions, delete what is not needed, or raise nats.max_store (max_file_store of a NATS server elsewhere)"
	text := ""
	switch l {
	case StorageAmple:
		return nil
	case StorageTight:
		text = "the store is full and takes no events; everything else goes on: " + remedy
	case StorageScarce:
		text = "the store is full and takes nothing that adds to it; deleting, pausing and revoking go on: " + remedy
	case StorageBroken:
		text = "the disk takes no writes, because it is full or fails: make room on it, and the server goes on by itself"
	}
	return Errorf(Unavailable, "%s", text).With("reason", ReasonStorage).With("retry_after", storageRetry)
}
