package sluice

import (
	"fmt"
	"strings"
	"time"
)

// DamageKind says what is wrong with what is stored.
type DamageKind string

// Kinds of damage.
const (
	DamageShorter    DamageKind = "shorter"    // a stream ends before a sequence that it had; what lay behind its end is lost
	DamageFewer      DamageKind = "fewer"      // a stream has fewer messages between its ends than it had
	DamageMissing    DamageKind = "missing"    // a stream was deleted in NATS, or its files were
	DamageUnreadable DamageKind = "unreadable" // a message or record is there and cannot be read
	DamageStale      DamageKind = "stale"      // a record is an older one than was stored last
	DamageLost       DamageKind = "lost"       // a record is not there any more, and nobody deleted it
)

// Damage is something that is stored, or was, and is not as it should be.
type Damage struct {
	Kind      DamageKind `json:"kind"`
	Stream    string     `json:"stream"`
	Namespace string     `json:"namespace,omitempty"` // of the log
	Key       string     `json:"key,omitempty"`       // of the record, if the stream is a bucket's
	From      uint64     `json:"from,omitempty"`      // first sequence
	To        uint64     `json:"to,omitempty"`        // last sequence
	Messages  uint64     `json:"messages,omitempty"`  // how many are concerned, if not all from From to To
	FoundAt   time.Time  `json:"found_at"`
}

// Same reports whether both are the same damage, whenever it was found.
func (d Damage) Same(other Damage) bool {
	if d.Kind == DamageUnreadable && d.Key != "" { // found again, its revision is not known any more
		return other.Kind == d.Kind && other.Stream == d.Stream && other.Key == d.Key
	}
	other.FoundAt = d.FoundAt
	return d == other
}

// String describes the damage for people.
func (d Damage) String() string {
	switch d.Kind {
	case DamageShorter:
		return fmt.Sprintf("%s: sequences %d to %d are lost", d.Stream, d.From, d.To)
	case DamageFewer:
		return fmt.Sprintf("%s: %d messages between %d and %d are lost", d.Stream, d.Messages, d.From, d.To)
	case DamageMissing:
		return fmt.Sprintf("%s was deleted, or its files were: what it held up to sequence %d is lost", d.Stream, d.To)
	case DamageStale:
		return fmt.Sprintf("%s: the last change of %s is lost", d.Stream, d.Key)
	case DamageLost:
		return fmt.Sprintf("%s: the record of %s is lost", d.Stream, d.Key)
	case DamageUnreadable:
		if d.Key != "" {
			return fmt.Sprintf("%s: the record of %s cannot be read", d.Stream, d.Key)
		}
	}
	return fmt.Sprintf("%s: messages %d to %d cannot be read", d.Stream, d.From, d.To)
}

// Verification is how far a reading of everything that is stored has come.
type Verification struct {
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at,omitzero"` // zero: it goes on
	Stream    string    `json:"stream,omitempty"`  // that is read
	Read      uint64    `json:"read"`              // messages
	Total     uint64    `json:"total"`
	Error     string    `json:"error,omitempty"` // why it ended before everything was read
}

// MissingProblem says which streams were deleted behind the server's back and what to do; nil if none was. Code Unavailable.
func MissingProblem(streams []string) *Error {
	if len(streams) == 0 {
		return nil
	}
	return Errorf(Unavailable, "missing in NATS, because it was deleted there: %s. Stop the server and restore a backup (sluice restore), "+
		"or give up what it held with sluice doctor --forget, which makes it anew, empty", strings.Join(streams, ", ")).With("missing", streams)
}
