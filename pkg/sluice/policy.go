package sluice

// Ordering is the delivery order of a subscription.
type Ordering string

// The orderings: a lane is a path, the whole subscription, or each event.
const (
	OrderByPath Ordering = "path"
	OrderAll    Ordering = "all"
	OrderNone   Ordering = "none"
)

// Envelope is the format of a request's body.
type Envelope string

// The envelopes.
const (
	EnvelopeCloudEvents Envelope = "cloudevents"        // CloudEvents structured JSON
	EnvelopeBinary      Envelope = "cloudevents-binary" // attributes in ce-* headers, data in the body
	EnvelopeFact        Envelope = "fact"               // S0-30…38
	EnvelopeAttempt     Envelope = "attempt"            // S4-54…57
	EnvelopeRaw         Envelope = "raw"                // the data as published
	EnvelopeTemplate    Envelope = "template"           // the result of policy.body
	EnvelopeNotice      Envelope = "notice"             // mode wake: S1's notice, without data
)

// Scheme is a signature scheme.
type Scheme string

// The schemes.
const (
	SchemeStandard Scheme = "standard" // Standard Webhooks, HMAC-SHA256 (v1)
	SchemeEd25519  Scheme = "ed25519"  // Standard Webhooks, Ed25519 (v1a)
	SchemeT        Scheme = "t-sha256" // S1-66: t=<unix>,sha256=<hex>
	SchemeHeader   Scheme = "header"   // S4-49: sha256=<hex> of the body in a configurable header
	SchemeMessage  Scheme = "rfc9421"  // HTTP Message Signatures, Ed25519
)

// OnGone determines the effect of a 410 response.
type OnGone string

// The effects of a 410.
const (
	GoneCancels OnGone = "cancel"
	GoneRetries OnGone = "retry"
)

// OnDead determines what a delivery that failed for good does to its lane.
type OnDead string

// The effects of a failed delivery.
const (
	DeadContinues OnDead = "continue" // the lane continues with its next event
	DeadHolds     OnDead = "hold"     // no dead letter: the lane waits until its head is retried or discarded
)

// Preset names a retry schedule.
type Preset string

// The presets.
const (
	PresetStandard   Preset = "standard"
	PresetShort      Preset = "short"      // S0
	PresetPersistent Preset = "persistent" // S1
	PresetStepped    Preset = "stepped"    // S4
	PresetCustom     Preset = "custom"
)

// Policy is the delivery policy of a subscription. Every field has a default; see SetDefaults.
type Policy struct {
	Retry        Retry     `json:"retry"`
	Timeout      Duration  `json:"timeout"` // timeout of one attempt
	Window       int       `json:"window"`  // maximum number of attempts in flight
	Rate         Rate      `json:"rate"`
	Ordering     Ordering  `json:"ordering"`
	Envelope     Envelope  `json:"envelope"`
	Projection   string    `json:"projection"` // part of the data that is sent
	Signature    Signature `json:"signature"`
	OnGone       OnGone    `json:"on_gone"`
	OnDead       OnDead    `json:"on_dead"`
	DisableAfter Duration  `json:"disable_after"` // duration of continuous failure
	// Dedicated gives the subscription its own durable consumer, even if other subscriptions of its
	// namespace share one reader of the log.
	Dedicated bool `json:"dedicated"`
	// Batch sends several events in one request; zero: each has its own.
	Batch Batch `json:"batch,omitzero"`
	// Debounce sends the latest event of a path once the path is quiet; zero: each event is sent.
	Debounce Debounce `json:"debounce,omitzero"`

	Body *Body `json:"body,omitempty"` // for the envelope template
}

// Debounce sends only the latest of the waiting events of a path, once no event has arrived for a
// time. The ordering must be OrderByPath. Replays send each event.
type Debounce struct {
	Quiet Duration `json:"quiet"`         // time without an event on the path
	Max   Duration `json:"max,omitempty"` // maximum time since the first waiting event; 0: no limit
}

// Batch sends up to Max events in one request, as a CloudEvents batch. The ordering must be
// OrderAll: a batch has the next events of the subscription, in the order of the log.
type Batch struct {
	Max int `json:"max"` // events
	// Wait is how long an event waits for more events at most; 0: a batch has the events that are
	// available.
	Wait Duration `json:"wait,omitempty"`
}

// MaxPending returns the maximum number of events that are fetched and not acknowledged. It is
// twice the size of a batch, because one batch is collected while another is sent.
func (p *Policy) MaxPending() int { return max(p.Window, 2*p.Batch.Max) }

// Retry is a retry schedule: a preset, or custom steps.
type Retry struct {
	Preset Preset `json:"preset"`
	// Steps, for custom, are the delays after attempts 1, 2, …; the last one repeats.
	Steps       []Duration `json:"steps,omitempty"`
	MaxAttempts int        `json:"max_attempts,omitempty"` // custom: including the first
	Jitter      float64    `json:"jitter,omitempty"`       // custom: 0.2 means ±20 %
}

// Rate limits the attempts of a subscription; zero means unlimited. Both limits apply, and each
// allows bursts of a tenth of its number.
type Rate struct {
	PerSecond float64 `json:"per_second"`
	PerMinute float64 `json:"per_minute,omitempty"`
	// Key makes subscriptions with the same key, principal, namespace and limits share one rate on
	// each replica.
	Key string `json:"key,omitempty"`
}

// Signature selects the scheme; Name is the header name for SchemeHeader.
type Signature struct {
	Scheme Scheme `json:"scheme"`
	Name   string `json:"name,omitempty"`
}
