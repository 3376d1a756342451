package sluice

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Limits of an event type in a catalogue.
const (
	MaxEventTypes    = 1000     // per namespace
	MaxTypeName      = 256      // bytes
	MaxSchema        = 64 << 10 // bytes
	MaxSummaryFields = 64
	MaxStaticLabels  = 32
	maxLabelValue    = 256 // bytes
)

// EventType is an entry of a namespace's catalogue.
type EventType struct {
	Namespace   string `json:"namespace"`
	Type        string `json:"type"`
	Description string `json:"description,omitempty"`
	// Schema is the JSON Schema (2020-12) of the data; absent: any data.
	Schema        json.RawMessage `json:"schema,omitempty"`
	SummaryFields []string        `json:"summary_fields,omitempty"` // top-level members of the data that the projection summary sends
	// StaticLabels are labels of every event of the type. The event's own labels take precedence.
	StaticLabels map[string]string `json:"static_labels,omitempty"`
	Revision     uint64            `json:"revision"`
	CreatedAt    time.Time         `json:"created_at"`
	UpdatedAt    time.Time         `json:"updated_at"`
}

// OrphanedType is a type that subscriptions name but that the namespace's strict catalogue no
// longer has. It is the data of TypeEventTypeOrphaned.
type OrphanedType struct {
	Namespace       string    `json:"-"`
	Type            string    `json:"type"`
	Count           int       `json:"count"` // number of subscriptions that name it
	FirstObservedAt time.Time `json:"first_observed_at"`
}

// Catalogue is the mode of a namespace's catalogue of event types.
type Catalogue string

// The modes of a catalogue.
const (
	CatalogueOpen   Catalogue = "open"   // documentation, summaries and labels
	CatalogueStrict Catalogue = "strict" // also refuses events that are not in the catalogue or violate their schema
)

// SystemTypes returns the types of the events that the server publishes, which are part of every
// catalogue.
func SystemTypes() []string {
	return []string{
		TypeServerStarted, TypeServerStopping, TypeStorageDamaged, TypeNamespaceCreated, TypeNamespaceUpdated, TypeNamespaceDeleted,
		TypeSubscriptionCreated, TypeSubscriptionUpdated, TypeSubscriptionPaused, TypeSubscriptionResumed, TypeSubscriptionDisabled, TypeSubscriptionSuspended,
		TypeSubscriptionCancelled, TypeAccessRevoked, TypeSubscriptionDeleted, TypeSecretRotated, TypeSubscriptionThrottled, TypeSubscriptionFailing,
		TypeBreakerOpened, TypeBreakerClosed,
		TypeDeliveryDead, TypeDeliveryHeld, TypeProducerUnsafe, TypeScheduledFailed, TypeScheduledCancelled, TypeEventTypeOrphaned,
		TypeAppointmentApproaching, TypeAppointmentFired, TypeAppointmentMissed, TypeAppointmentCancelled,
		TypeWatchFired, TypeWatchMissed, TypeWatchCancelled, TypeWatchThrottled,
		TypeMirrorCreated, TypeMirrorUpdated, TypeMirrorDeleted, TypeMirrorSuspended, TypeMirrorResumed, TypeMirrorGap,
		TypeMirrorFailing, TypeMirrorRecovered, TypeMirrorStale,
		TypeModuleEnabled, TypeModuleDisabled, TypeModuleChanged, TypeModuleUnsafe,
	}
}

// systemPrefix is the prefix of types that only the server publishes.
const systemPrefix = "sys."

// IsSystemType reports whether only the server publishes events of the type (S4-33).
func IsSystemType(eventType string) bool { return strings.HasPrefix(eventType, systemPrefix) }

// Validate checks all rules that need only the entry. Codes InvalidRequest; TooLarge for the
// schema; Forbidden for a reserved type. It does not check the schema itself: the package that
// compiles it does.
func (t *EventType) Validate() error {
	return cmp.Or(
		CheckNamespaceName(t.Namespace),
		CheckTypeName(t.Type),
		text("description", t.Description, MaxDescription),
		t.checkSchema(),
		t.checkSummary(),
		t.checkLabels(),
	)
}

// CheckTypeName returns an error unless the name is valid for a type in a catalogue: 1 to 256 bytes
// of UTF-8 without control characters, as in CloudEvents, and without "*", which is a wildcard in
// filters. Codes InvalidRequest; Forbidden for a reserved type.
func CheckTypeName(name string) error {
	strange := func(r rune) bool { return r < 0x20 || r >= 0x7f && r <= 0x9f || r == '*' }
	switch {
	case name == "" || len(name) > MaxTypeName || !utf8.ValidString(name) || strings.ContainsFunc(name, strange):
		return Errorf(InvalidRequest, "type: use 1 to %d bytes of UTF-8 without * and control characters, such as order.placed", MaxTypeName).With("field", "type")
	case IsSystemType(name):
		return Errorf(Forbidden, "type %q: types that start with sys. are reserved, and part of every catalogue", name)
	}
	return nil
}

func (t *EventType) checkSchema() error {
	if len(t.Schema) > MaxSchema {
		return Errorf(TooLarge, "schema has %d bytes; use at most %d", len(t.Schema), MaxSchema).With("limit", MaxSchema)
	}
	return nil
}

func (t *EventType) checkSummary() error {
	if err := count("summary_fields", len(t.SummaryFields), MaxSummaryFields); err != nil {
		return err
	}
	for i, name := range t.SummaryFields {
		if name == "" || len(name) > MaxTypeName || !utf8.ValidString(name) {
			return Errorf(InvalidRequest, "summary_fields: use names of 1 to %d bytes of UTF-8, of top-level members of the data", MaxTypeName).With("field", "summary_fields")
		}
		if slices.Contains(t.SummaryFields[:i], name) {
			return Errorf(InvalidRequest, "summary_fields: %q is repeated", name).With("field", "summary_fields")
		}
	}
	return nil
}

func (t *EventType) checkLabels() error {
	if err := count("static_labels", len(t.StaticLabels), MaxStaticLabels); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(t.StaticLabels)) {
		if name == "" || len(name) > maxKey {
			return Errorf(InvalidRequest, "static_labels: use keys of 1 to %d bytes", maxKey).With("field", "static_labels")
		}
		if err := text("static_labels."+name, t.StaticLabels[name], maxLabelValue); err != nil {
			return err
		}
	}
	return nil
}
