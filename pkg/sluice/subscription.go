package sluice

import "time"

// Mode is the delivery mode of a subscription.
type Mode string

// The modes.
const (
	Push Mode = "push" // every event is POSTed to an endpoint
	Wake Mode = "wake" // the endpoint is notified of each stream with new events (S1)
)

// State is the state of a subscription.
type State string

// The states. Only an active subscription delivers; cancelled is final.
const (
	Active    State = "active"
	Paused    State = "paused"
	Disabled  State = "disabled"
	Suspended State = "suspended" // its filter costs too much
	Cancelled State = "cancelled"
)

// Subscription is a standing selection of events, with an endpoint and a delivery policy. Its
// identity (namespace, mode, pattern, start) never changes (register C08).
type Subscription struct {
	ID             string            `json:"id"`
	Namespace      string            `json:"namespace"`
	Mode           Mode              `json:"mode"`
	Pattern        Pattern           `json:"pattern"`
	Target         string            `json:"target,omitempty"` // S0's target, as given
	Filter         Filter            `json:"filter,omitzero"`
	Endpoint       Endpoint          `json:"endpoint"`
	Start          string            `json:"start"`
	Policy         Policy            `json:"policy"`
	ReplayWindow   Duration          `json:"replay_window"`
	Enabled        bool              `json:"enabled"`
	Description    string            `json:"description"`
	Metadata       map[string]string `json:"metadata,omitempty"`
	IdempotencyKey string            `json:"idempotency_key,omitempty"`

	Lifecycle // set by the server, as all that follows

	Agreed        *Agreement `json:"agreed,omitempty"`      // result of the endpoint's handshake
	SecretHint    string     `json:"secret_hint,omitempty"` // the secret's last four characters
	ReplayWindowS int64      `json:"replay_window_s"`       // S0-53

	From    StartAt  `json:"-"` // Start, resolved at creation or at the last seek
	Secrets []Secret `json:"-"` // newest first
	// Credentials are the credentials of the endpoint's auth and tls.
	Credentials Credentials `json:"-"`
	// Untold holds the system events of recent changes, oldest first. They may already be
	// published.
	Untold []Announcement `json:"-"`
}

// Lifecycle is the part of a subscription that records how it began, changed and ended.
type Lifecycle struct {
	State     State     `json:"state"`
	Reason    string    `json:"reason,omitempty"` // why it is disabled, suspended or cancelled
	Revision  uint64    `json:"revision"`
	CreatedAt time.Time `json:"created_at"`
	CreatedBy string    `json:"created_by"`
	// Grant is the grant that it was created under; it ends with the grant. "": root created it.
	Grant string `json:"grant,omitempty"`
	// Module is the module whose program handles the events; "": the events go to an endpoint.
	Module      string     `json:"module,omitempty"`
	UpdatedAt   time.Time  `json:"updated_at"`
	SoughtAt    *time.Time `json:"sought_at,omitempty"` // when it was last moved by a seek
	CancelledAt *time.Time `json:"cancelled_at,omitempty"`
	LastEventAt *time.Time `json:"last_event_at"`
}

// Began returns when the subscription started reading at its current position: its creation, or the
// last seek. Earlier records are obsolete.
func (s *Subscription) Began() time.Time {
	if s.SoughtAt != nil {
		return *s.SoughtAt
	}
	return s.CreatedAt
}

// Object returns the object that the subscription's grant must cover: its paths or, if its mode is
// push and its filter has a single subject, the entity.
func (s *Subscription) Object() Object {
	o := Object{Namespace: s.Namespace, Pattern: s.Pattern}
	if s.Mode == Push && len(s.Filter.Subjects) == 1 {
		o.Entity = s.Filter.Subjects[0]
	}
	return o
}

// Filter is a conjunction: every dimension that is set must match (S2-140). A dimension matches if
// one of its values does.
type Filter struct {
	Types   []string `json:"types,omitempty"`   // exact, or a prefix followed by ".*"
	Sources []string `json:"sources,omitempty"` // exact
	// Subjects are exact. One of them must be the event's Entity, or one of its RelatedSubjects.
	Subjects []string            `json:"subjects,omitempty"`
	Labels   map[string][]string `json:"labels,omitempty"` // extension attributes and top-level scalars of the data
	CEL      string              `json:"cel,omitempty"`    // an expression over "event" that yields a bool
}

// Empty reports whether every event matches.
func (f Filter) Empty() bool {
	return len(f.Types)+len(f.Sources)+len(f.Subjects)+len(f.Labels) == 0 && f.CEL == ""
}

// IsZero reports whether the filter is omitted from JSON, because it is empty.
func (f Filter) IsZero() bool { return f.Empty() }

// Endpoint is the target of a subscription's requests.
type Endpoint struct {
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers,omitempty"`
	// Secret is accepted in requests, and returned only on creation and rotation.
	Secret string `json:"secret,omitempty"`

	// Handshake: nothing is sent until the endpoint has agreed (CloudEvents, abuse protection).
	Handshake bool `json:"handshake,omitempty"`

	// Exec is a program of the subscription's module and its arguments. It replaces the URL
	// (S4-29).
	Exec []string `json:"exec,omitempty"`

	Auth *EndpointAuth `json:"auth,omitempty"`
	TLS  *EndpointTLS  `json:"tls,omitempty"`
}

// Agreement is an endpoint's response to a handshake (CloudEvents, abuse protection for webhooks).
type Agreement struct {
	At time.Time `json:"at"`
	// RatePerMinute is the number of allowed requests per minute; 0: unlimited.
	RatePerMinute int `json:"rate_per_minute,omitempty"`
}

// Secret is one signing secret; during a rotation two are valid.
type Secret struct {
	Value     string    `json:"value"`
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at,omitzero"` // zero: does not expire
}

// LiveSecrets returns the values of the secrets that have not expired, newest first.
func (s *Subscription) LiveSecrets(now time.Time) []string {
	var live []string
	for _, secret := range s.Secrets {
		if secret.ExpiresAt.IsZero() || now.Before(secret.ExpiresAt) {
			live = append(live, secret.Value)
		}
	}
	return live
}

// StartKind is the form of a start.
type StartKind string

// The forms of a start, resolved.
const (
	StartSeq         StartKind = "seq"           // the first event with sequence ≥ Seq
	StartTime        StartKind = "time"          // the first event stored at or after Time
	StartLastPerPath StartKind = "last_per_path" // the latest event on each path, then new events
)

// StartAt is the position of a subscription's first event. For StartLastPerPath, Seq is the
// sequence from which on the subscription gets every event.
type StartAt struct {
	Kind StartKind `json:"kind"`
	Seq  uint64    `json:"seq,omitempty"`
	Time time.Time `json:"time,omitzero"`
}
