package sluice

import (
	"fmt"
	"time"
)

// DamageKind is a kind of damage to the store.
type DamageKind string

// Kinds of damage.
const (
	DamageShorter    DamageKind = "shorter"    // a stream ends before its last known end; later messages are lost
	DamageFewer      DamageKind = "fewer"      // a stream has fewer messages between its ends than before
	DamageMissing    DamageKind = "missing"    // a stream or its files were deleted in NATS
	DamageUnreadable DamageKind = "unreadable" // a message or record exists and cannot be read
	DamageStale      DamageKind = "stale"      // a record is older than the last stored one
	DamageLost       DamageKind = "lost"       // a record is missing and was not deleted
)

// Damage is stored data that is damaged or missing.
type Damage struct {
	Kind      DamageKind `json:"kind"`
	Stream    string     `json:"stream"`
	Namespace string     `json:"namespace,omitempty"` // namespace of the log
	// Key is the key of the record, if the stream stores a bucket.
	Key  string `json:"key,omitempty"`
	Path Path   `json:"path,omitempty"` // path of the events, if they share one and NATS still knows it
	From uint64 `json:"from,omitempty"` // first sequence
	To   uint64 `json:"to,omitempty"`   // last sequence
	// Messages is the number of affected messages, if not all from From to To are affected.
	Messages uint64    `json:"messages,omitempty"`
	FoundAt  time.Time `json:"found_at"`
}

// Same reports whether both are the same damage, regardless of when it was found.
func (d Damage) Same(other Damage) bool {
	if d.Kind == DamageUnreadable && d.Key != "" { // the revision is unknown when the damage is found again
		return other.Kind == d.Kind && other.Stream == d.Stream && other.Key == d.Key
	}
	other.FoundAt, other.Path = d.FoundAt, d.Path // the path may be known at one time and not at another
	return d == other
}

// String returns a sentence that describes the damage.
func (d Damage) String() string {
	switch d.Kind {
	case DamageShorter:
		return fmt.Sprintf("%s: sequences %d to %d are lost", d.Stream, d.From, d.To)
	case DamageFewer:
		return fmt.Sprintf("%s: %d messages between %d and %d are lost", d.Stream, d.Messages, d.From, d.To)
	case DamageMissing:
		return fmt.Sprintf("%s was deleted, or its files were: its content up to sequence %d is lost", d.Stream, d.To)
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

// Gap is a range of a log with events that are lost to damage.
type Gap struct {
	From uint64 `json:"from"` // first sequence
	To   uint64 `json:"to"`   // last sequence

	Path   Path   `json:"-"` // path of the events, if they share one and it is known
	Events uint64 `json:"-"` // maximum number of lost events
}

// GapsWithin returns the parts of the gaps that lie after one sequence and up to another and whose
// events the reader may have wanted.
func GapsWithin(gaps []Gap, after, upTo uint64, wants func(Path) bool) (within []Gap) {
	for _, g := range gaps {
		g.From, g.To = max(g.From, after+1), min(g.To, upTo)
		if g.From <= g.To && (g.Path == "" || wants(g.Path)) {
			g.Events = min(g.Events, g.To-g.From+1)
			within = append(within, g)
		}
	}
	return within
}

// Ranges returns the ranges of the gaps without overlaps. The gaps must be in ascending order.
func Ranges(gaps []Gap) (ranges []Gap) {
	for _, g := range gaps {
		if last := len(ranges) - 1; last >= 0 && g.From <= ranges[last].To {
			ranges[last].To = max(ranges[last].To, g.To)
			continue
		}
		ranges = append(ranges, Gap{From: g.From, To: g.To})
	}
	return ranges
}

// Verification is the progress of a verification of the whole store.
type Verification struct {
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at,omitzero"` // zero: running
	Stream    string    `json:"stream,omitempty"`  // the stream being read
	Read      uint64    `json:"read"`              // number of messages read
	Total     uint64    `json:"total"`
	Error     string    `json:"error,omitempty"` // why the verification ended early
}
