package sluice

import (
	"strings"
	"time"
)

// DefaultNamespace exists from the first start and cannot be deleted.
const DefaultNamespace = "default"

// Namespace is a boundary of tenancy, access and retention. Zero values mean the server's defaults.
type Namespace struct {
	Name        string    `json:"name"`
	Description string    `json:"description,omitempty"`
	Retention   Retention `json:"retention"`
	DedupWindow Duration  `json:"dedup_window"`
	Revision    uint64    `json:"revision"`
	CreatedAt   time.Time `json:"created_at"`
	Usage       *Usage    `json:"usage,omitempty"` // in answers only
}

// Retention bounds a namespace's log; the oldest events go first.
type Retention struct {
	MaxAge   Duration `json:"max_age"`   // 0: the default, a week; negative: for ever
	MaxBytes int64    `json:"max_bytes"` // 0: unlimited
}

// Usage is what a namespace's log holds now.
type Usage struct {
	Events   uint64 `json:"events"`
	Bytes    uint64 `json:"bytes"`
	FirstSeq uint64 `json:"first_seq"`
	LastSeq  uint64 `json:"last_seq"`
}

// CheckNamespaceName returns an error (InvalidRequest) unless name is 1 to 63 characters of
// a–z, 0–9, "_" and "-", starting with a letter or digit: it is one subject token and part of
// a stream's name.
func CheckNamespaceName(name string) error {
	ok := name != "" && len(name) <= 63 && name[0] != '-' && name[0] != '_' &&
		strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_-") == ""
	if !ok {
		return Errorf(InvalidRequest, "namespace %q: use 1 to 63 of a-z, 0-9, - and _, starting with a letter or digit", name)
	}
	return nil
}
