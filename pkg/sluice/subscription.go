package sluice

import "time"

// Mode is how a subscription hands its events over.
type Mode string

// The modes.
const (
	Push Mode = "push" // every event is POSTed to an endpoint
	Wake Mode = "wake" // of each stream with news the endpoint is told that it has some (S1)
)

// State is where a subscription is in its life.
type State string

// The states. Only an active subscription delivers; cancelled is final.
const (
	Active    State = "active"
	Paused    State = "paused"
	Disabled  State = "disabled"
	Suspended State = "suspended" // its filter costs too much
	Cancelled State = "cancelled"
)

// Subscription is a standing wish: which events, to whom, how. Identity fields (namespace,
// mode, pattern, start) never change (register C08).
type Subscription struct {
	ID             string            `json:"id"`
	Namespace      string            `json:"namespace"`
	Mode           Mode              `json:"mode"`
	Pattern        Pattern           `json:"pattern"`
	Target         string            `json:"target,omitempty"` // S0's target, as it was given
	Filter         Filter            `json:"filter"`
	Endpoint       Endpoint          `json:"endpoint"`
	Start          string            `json:"start"`
	Policy         Policy            `json:"policy"`
	ReplayWindow   Duration          `json:"replay_window"`
	Enabled        bool              `json:"enabled"`
	Description    string            `json:"description"`
	Metadata       map[string]string `json:"metadata"`
	IdempotencyKey string            `json:"idempotency_key"`

	// Set by the server.
	State         State      `json:"state"`
	Reason        string     `json:"reason,omitempty"` // why it is disabled, suspended or cancelled
	Revision      uint64     `json:"revision"`
	CreatedAt     time.Time  `json:"created_at"`
	CreatedBy     string     `json:"created_by"`
	Grant         string     `json:"grant,omitempty"` // under which it was made and without which it ends; "": root made it
	UpdatedAt     time.Time  `json:"updated_at"`
	SoughtAt      *time.Time `json:"sought_at,omitempty"` // when it was moved to another place of the log
	CancelledAt   *time.Time `json:"cancelled_at,omitempty"`
	LastEventAt   *time.Time `json:"last_event_at"`
	Agreed        *Agreement `json:"agreed,omitempty"`      // what the endpoint agreed to in its handshake
	SecretHint    string     `json:"secret_hint,omitempty"` // the secret's last four characters
	ReplayWindowS int64      `json:"replay_window_s"`       // S0-53

	From    StartAt        `json:"-"` // Start, resolved when the subscription was made, or where it was moved to
	Secrets []Secret       `json:"-"` // newest first
	Untold  []Announcement `json:"-"` // what was stored with the last changes to be told, oldest first; it may have been
}

// Began returns when the subscription began to read its log where it does: when it was made, or
// moved to another place. What was noted of it before is of no use to it.
func (s *Subscription) Began() time.Time {
	if s.SoughtAt != nil {
		return *s.SoughtAt
	}
	return s.CreatedAt
}

// Object returns what the subscription asks for, as grants name it: its paths and, if it is pushed and its filter
// names one subject alone, the entity.
func (s *Subscription) Object() Object {
	o := Object{Namespace: s.Namespace, Pattern: s.Pattern}
	if s.Mode == Push && len(s.Filter.Subjects) == 1 {
		o.Entity = s.Filter.Subjects[0]
	}
	return o
}

// Filter is a conjunction: every dimension that is set must match (S2-140); within one, any value.
type Filter struct {
	Types    []string            `json:"types,omitempty"`    // exact, or a prefix that ends in ".*"
	Sources  []string            `json:"sources,omitempty"`  // exact
	Subjects []string            `json:"subjects,omitempty"` // exact; that of an event, or one of its RelatedSubjects
	Labels   map[string][]string `json:"labels,omitempty"`   // extension attributes and top-level scalars of the data
	CEL      string              `json:"cel,omitempty"`      // an expression over "event" that yields a bool
}

// Empty reports whether every event matches.
func (f Filter) Empty() bool {
	return len(f.Types)+len(f.Sources)+len(f.Subjects)+len(f.Labels) == 0 && f.CEL == ""
}

// Endpoint is where a subscription's requests go.
type Endpoint struct {
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers,omitempty"`
	Secret  string            `json:"secret,omitempty"` // in requests; in answers to creation and rotation only

	Handshake bool `json:"handshake,omitempty"` // nothing is sent before the endpoint has agreed (CloudEvents, abuse protection)
}

// Agreement is what an endpoint answered to a handshake (CloudEvents, abuse protection for webhooks).
type Agreement struct {
	At            time.Time `json:"at"`
	RatePerMinute int       `json:"rate_per_minute,omitempty"` // requests that it takes; 0: any number
}

// Secret is one signing secret; during a rotation two are live.
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

// StartKind tells the forms of a start apart.
type StartKind string

// The forms of a start, resolved.
const (
	StartSeq         StartKind = "seq"           // the first event with sequence ≥ Seq
	StartTime        StartKind = "time"          // the first event stored at or after Time
	StartLastPerPath StartKind = "last_per_path" // the last event of every path, then what comes
)

// StartAt is where a subscription's first event lies. With the last of every path, Seq is the
// first sequence from which on it gets every event.
type StartAt struct {
	Kind StartKind `json:"kind"`
	Seq  uint64    `json:"seq,omitempty"`
	Time time.Time `json:"time,omitzero"`
}
