package sluice

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// Mirroring is the mode of a subscription that copies a namespace into another one (S3).
const Mirroring Mode = "mirror"

// Mirror is a subscription of mode mirror: a standing copy of a source namespace, which is pulled
// into the subscriber's namespace and kept apart from its own events (S3-31).
type Mirror struct {
	ID        string `json:"id"`
	Mode      Mode   `json:"mode"`
	Namespace string `json:"namespace"` // namespace of the subscriber (S3-02)
	// Source is a namespace of this server, or https://host/v1/namespaces/<ns> for one of another
	// server (S3-03).
	Source       string            `json:"source"`
	Depth        Depth             `json:"depth"`                 // S3-04
	PathPrefix   string            `json:"path_prefix,omitempty"` // prefix of the mirrored paths; "": all (S3-05)
	PollInterval Duration          `json:"poll_interval"`         // S3-13
	Weight       float64           `json:"weight"`                // 0 < w ≤ 1, stamped on mirrored items (S3-12)
	Description  string            `json:"description"`
	Metadata     map[string]string `json:"metadata,omitempty"` // "embedding_model": S3-14

	// Credential is a token for the source that may only read. It is accepted in requests, and
	// never returned.
	Credential string `json:"credential,omitempty"`

	// Set by the server.
	State         State      `json:"state"` // active or suspended
	Reason        string     `json:"reason,omitempty"`
	Revision      uint64     `json:"revision"`
	CreatedAt     time.Time  `json:"created_at"`
	CreatedBy     string     `json:"created_by"`
	ApprovedBy    string     `json:"approved_by"` // S3-06: the creator, or who validated it again
	Grant         string     `json:"grant,omitempty"`
	UpdatedAt     time.Time  `json:"updated_at"`
	CredentialAt  *time.Time `json:"credential_at,omitempty"` // when the credential was set
	SuspendedAt   *time.Time `json:"suspended_at,omitempty"`
	SuspendDetail string     `json:"suspend_detail,omitempty"` // a sentence about the reason
	BegunAt       *time.Time `json:"begun_at,omitempty"`       // when it started over with another log; nil: it did not
}

// Begun returns when the mirror was created or started over. A copy that was begun earlier does not
// belong to it.
func (m *Mirror) Begun() time.Time {
	if m.BegunAt != nil {
		return *m.BegunAt
	}
	return m.CreatedAt
}

// Limits and defaults of a mirror.
const (
	MinPollInterval = Duration(10 * time.Second) // S3-53
	MaxPollInterval = Duration(24 * time.Hour)
	DefaultWeight   = 0.3

	// MaxBundleInterval is the longest interval in which bundles or heartbeats are expected.
	MaxBundleInterval = Duration(31 * 24 * time.Hour)

	defaultPollInterval   = Duration(time.Minute)
	defaultBundleInterval = MaxPollInterval
)

// The reasons of suspended mirrors.
const (
	MirrorSuspendedByOperator = "operator"
	MirrorLabelRaised         = "label_raised"    // the subscriber's label no longer dominates the source's (S3-124)
	MirrorOriginReplaced      = "origin_replaced" // the source's log was recreated, or lost its end
	MirrorInCycle             = "mirror_cycle"    // the source mirrors the subscriber, directly or through others
	MirrorAccessLost          = ReasonAccessRevoked
)

// SetDefaults sets the defaults of zero fields.
func (m *Mirror) SetDefaults() {
	m.Mode = Mirroring
	m.Namespace = cmp.Or(m.Namespace, DefaultNamespace)
	m.Depth = cmp.Or(m.Depth, DepthCatalog)
	if m.PollInterval == 0 {
		m.PollInterval = defaultPollInterval
		if m.Imported() {
			m.PollInterval = defaultBundleInterval
		}
	}
	m.Weight = cmp.Or(m.Weight, DefaultWeight)
}

// Validate checks all rules that need only the mirror, with its defaults set. Codes InvalidRequest;
// Unprocessable for an interval or a weight that is out of range.
func (m *Mirror) Validate() error {
	if err := CheckNamespaceName(m.Namespace); err != nil {
		return err
	}
	if err := m.checkSource(); err != nil {
		return err
	}
	if _, err := ParseDepth(string(m.Depth)); err != nil {
		return err
	}
	if m.PathPrefix != "" && !strings.HasPrefix(m.PathPrefix, "/") {
		return Errorf(InvalidRequest, "path_prefix %q: begin it with /", clip(m.PathPrefix)).With("field", "path_prefix")
	}
	longest := MaxPollInterval
	if m.Imported() {
		longest = MaxBundleInterval
	}
	if m.PollInterval < MinPollInterval || m.PollInterval > longest {
		return Errorf(Unprocessable, "poll_interval %s: use %s to %s", m.PollInterval, MinPollInterval, longest).With("field", "poll_interval")
	}
	if !(m.Weight > 0 && m.Weight <= 1) { // also refuses NaN
		return Errorf(Unprocessable, "weight %v: use a number above 0, up to 1", m.Weight).With("field", "weight")
	}
	return cmp.Or(
		text("path_prefix", m.PathPrefix, MaxMetadataValue),
		text("description", m.Description, MaxDescription),
		text("credential", m.Credential, maxCredential),
		checkMetadata(m.Metadata),
	)
}

const maxCredential = 8 << 10 // bytes

// checkSource returns an error unless the source is the name or the URL of a namespace.
func (m *Mirror) checkSource() error {
	if m.Source == "" {
		return Errorf(InvalidRequest, "source is missing: write a namespace, or https://host/v1/namespaces/<namespace>").With("field", "source")
	}
	if !m.Remote() {
		return CheckNamespaceName(m.Source)
	}
	u, err := url.Parse(m.Source)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return Errorf(InvalidRequest, "source: write https://host/v1/namespaces/<namespace>, without a login, a query or a fragment").With("field", "source")
	}
	prefix, name := path(u.Path)
	if !strings.HasSuffix(prefix, "/v1/namespaces") || CheckNamespaceName(name) != nil {
		return Errorf(InvalidRequest, "source: the path of the URL must end in /v1/namespaces/<namespace>").With("field", "source")
	}
	return nil
}

// path returns the parts of a path before and after its last slash.
func path(p string) (before, last string) {
	at := strings.LastIndexByte(p, '/')
	return p[:max(at, 0)], p[at+1:]
}

// MirrorEdit is a change of a mirror; nil leaves a field unchanged (C08). The source of a mirror
// and the selection of its entries never change.
type MirrorEdit struct {
	PollInterval *Duration         `json:"poll_interval,omitempty"`
	Weight       *float64          `json:"weight,omitempty"`
	Description  *string           `json:"description,omitempty"`
	Metadata     map[string]string `json:"metadata,omitempty"`
}

// Apply makes the change. Codes InvalidRequest; Unprocessable.
func (e MirrorEdit) Apply(m *Mirror) error {
	if e.PollInterval != nil {
		m.PollInterval = *e.PollInterval
	}
	if e.Weight != nil {
		m.Weight = *e.Weight
	}
	if e.Description != nil {
		m.Description = *e.Description
	}
	if e.Metadata != nil {
		m.Metadata = e.Metadata
	}
	return m.Validate()
}

// Remote reports whether the source is a namespace of another server.
func (m *Mirror) Remote() bool { return strings.Contains(m.Source, "://") }

// Imported reports whether the mirror gets only bundles: its source is on another server, and the
// mirror has no token for pulling it.
func (m *Mirror) Imported() bool { return m.Remote() && m.CredentialAt == nil && m.Credential == "" }

// SourceName returns the name of the source's namespace.
func (m *Mirror) SourceName() string {
	if !m.Remote() {
		return m.Source
	}
	_, name := path(m.Source)
	return name
}

// Wants reports whether entries on a path are mirrored (S3-60).
func (m *Mirror) Wants(p Path) bool { return strings.HasPrefix(string(p), m.PathPrefix) }

// SyncState is the state of a mirror's synchronization (S3-09).
type SyncState string

// The sync states.
const (
	SyncIdle      SyncState = "idle"      // waiting for the next poll
	SyncSyncing   SyncState = "syncing"   // reading or storing pages
	SyncError     SyncState = "error"     // the last sync failed, and will be retried
	SyncSuspended SyncState = "suspended" // it does not sync until it is resumed
)

// MirrorGap is a range of the source's log that a mirror lacks.
type MirrorGap struct {
	From  uint64    `json:"from"` // first sequence
	To    uint64    `json:"to"`   // last sequence
	Cause string    `json:"cause"`
	At    time.Time `json:"at"` // when the gap was found
}

// The causes of gaps.
const (
	GapRetention = "retention" // the source removed the range before it was read
	GapDamage    = "damage"    // the source lost the range to damage
	GapLabel     = "label"     // an entry of the source has a label that the subscriber does not dominate
	GapSize      = "size"      // an entry of the source is too large for the subscriber's store
	GapBundle    = "bundle"    // a bundle with the range never arrived, and the gap was accepted
	GapOrigin    = "origin"    // the source's log was recreated, and that was accepted
)

// MirrorStatus is the state of a mirror (S3-101).
type MirrorStatus struct {
	State    SyncState `json:"state"`
	Reason   string    `json:"reason,omitempty"`
	Sentence string    `json:"explanation"` // the state in a sentence

	Watermark     uint64       `json:"watermark"`  // last sequence of the source that is mirrored (S3-07)
	SourceSeq     uint64       `json:"source_seq"` // last sequence of the source, as of the last sync
	Incarnation   string       `json:"incarnation,omitempty"`
	LagItems      uint64       `json:"lag_items"`    // SourceSeq - Watermark
	LagSeconds    float64      `json:"lag_seconds"`  // time since the mirror was complete
	LastSyncAt    *time.Time   `json:"last_sync_at"` // last successful sync (S3-08)
	NextSyncAt    *time.Time   `json:"next_sync_at,omitempty"`
	MirroredCount int          `json:"mirrored_count"`     // without tombstones (S3-11)
	DeletedCount  int          `json:"deleted_count"`      // entries that became tombstones
	GapCount      int          `json:"gap_count"`          // number of all gaps
	Gaps          []MirrorGap  `json:"gaps"`               // the last 100, ascending
	HeardAt       *time.Time   `json:"heard_at,omitempty"` // when the source exported the newest bundle
	Forks         []MirrorFork `json:"forks,omitempty"`    // the last 16 bundles that contradict imported ones
	Error         string       `json:"error,omitempty"`
	Failures      int          `json:"failures"` // since the last success
	Stale         bool         `json:"stale"`    // nothing came from the source for more than twice the interval
}

// MirrorFork is a bundle that a trusted key signed and that contradicts an imported bundle. None of
// its content was applied.
type MirrorFork struct {
	Digest     string    `json:"digest"`
	Against    string    `json:"imported_digest"` // the bundle that was imported
	Since      uint64    `json:"since_sequence"`
	Through    uint64    `json:"through_sequence"`
	Entries    string    `json:"entries_sha256"`
	KeyID      string    `json:"kid"`
	ExportedAt time.Time `json:"exported_at"`
	At         time.Time `json:"at"` // when it was first refused
}

// MirrorSynced is the progress of a mirror after a step.
type MirrorSynced struct {
	Incarnation string `json:"incarnation"` // of the copy, opaque; if it changes, everything read before is outdated
	Watermark   uint64 `json:"watermark"`
	SourceSeq   uint64 `json:"source_seq"`
}

// BundleImport is the result of an import (S3-72, S3-73).
type BundleImport struct {
	Applied   int             `json:"applied"`           // entries that were new to the mirror
	Watermark uint64          `json:"watermark"`         // of the mirror
	Receipt   json.RawMessage `json:"receipt,omitempty"` // signed, for the source; absent if no imported bundle had a range
}

// Topic is a path of a namespace.
type Topic struct {
	Topic          Path   `json:"topic"`
	LatestSequence uint64 `json:"latest_sequence"` // sequence of its last event
}

// MirroredTopic is a path of entries in a mirror (S3-114).
type MirroredTopic struct {
	Topic          Path   `json:"topic"`
	Source         string `json:"source_notebook_id"` // source of the mirror
	Subscription   string `json:"subscription_id"`
	EntryCount     int    `json:"entry_count"`     // without tombstones
	LatestSequence uint64 `json:"latest_sequence"` // sequence of the last one at the source
}

// MirroredItem is an entry of a namespace, its own or a mirrored one.
type MirroredItem struct {
	Source       string     `json:"source"` // "local" or "mirrored" (S3-116)
	Subscription string     `json:"subscription_id,omitempty"`
	Origin       string     `json:"origin,omitempty"` // the mirror's source
	Weight       float64    `json:"weight,omitempty"` // S3-12
	Label        *Label     `json:"label,omitempty"`  // label of the namespace in which it is read
	Tombstoned   bool       `json:"tombstoned"`
	MirroredAt   *time.Time `json:"mirrored_at,omitempty"`
	Cursor       uint64     `json:"cursor,omitempty"` // its position in the mirror's own order
	Change       Change     `json:"-"`                // the change at the source; in JSON, its members are among the others
}

// MarshalJSON returns the members of the item and of the change, whose source is "event_source".
func (i MirroredItem) MarshalJSON() ([]byte, error) {
	type bare MirroredItem
	item, err := json.Marshal(bare(i))
	if err != nil {
		return nil, fmt.Errorf("mirrored item: %w", err)
	}
	return append(append(item[:len(item)-1], ','), i.Change.appendObject(nil, "event_source")[1:]...), nil
}

// UnmarshalJSON parses the form that MarshalJSON returns. Members that it does not know are ignored.
func (i *MirroredItem) UnmarshalJSON(text []byte) error {
	type bare MirroredItem
	var in struct {
		bare

		EventSource string `json:"event_source"`
	}
	if err := json.Unmarshal(text, &in); err != nil {
		return fmt.Errorf("mirrored item: %w", err)
	}
	if err := json.Unmarshal(text, &in.Change); err != nil {
		return err
	}
	in.Change.Event.Source = in.EventSource
	*i = MirroredItem(in.bare)
	return nil
}

// Types of the system events about mirrors, on SubscriptionPath.
const (
	TypeMirrorCreated   = "mirror.created"
	TypeMirrorUpdated   = "mirror.updated"
	TypeMirrorDeleted   = "mirror.deleted"
	TypeMirrorSuspended = "mirror.suspended" // S3-127
	TypeMirrorResumed   = "mirror.resumed"
	TypeMirrorGap       = "mirror.gap"
	TypeMirrorFailing   = "mirror.failing"
	TypeMirrorRecovered = "mirror.recovered"
	TypeMirrorStale     = "mirror.stale"
)
