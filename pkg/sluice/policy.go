package sluice

// Ordering says what must not overtake what.
type Ordering string

// The orderings: a lane is a path, the whole subscription, or each event.
const (
	OrderByPath Ordering = "path"
	OrderAll    Ordering = "all"
	OrderNone   Ordering = "none"
)

// Envelope is the shape of a request's body.
type Envelope string

// The envelopes.
const (
	EnvelopeCloudEvents Envelope = "cloudevents"        // CloudEvents structured JSON
	EnvelopeBinary      Envelope = "cloudevents-binary" // attributes in ce-* headers, data in the body
	EnvelopeFact        Envelope = "fact"               // S0-30…38
	EnvelopeAttempt     Envelope = "attempt"            // S4-54…57
	EnvelopeRaw         Envelope = "raw"                // the data as it came
	EnvelopeNotice      Envelope = "notice"             // mode wake: S1\'s notice, without any data
)

// Scheme is a way to sign requests.
type Scheme string

// The schemes.
const (
	SchemeStandard Scheme = "standard" // Standard Webhooks, HMAC-SHA256 (v1)
	SchemeEd25519  Scheme = "ed25519"  // Standard Webhooks, Ed25519 (v1a)
	SchemeT        Scheme = "t-sha256" // S1-66: t=<unix>,sha256=<hex>
	SchemeHeader   Scheme = "header"   // S4-49: sha256=<hex> of the body in a header of one's choice
)

// OnGone says what a 410 does.
type OnGone string

// What a 410 can do.
const (
	GoneCancels OnGone = "cancel"
	GoneRetries OnGone = "retry"
)

// OnDead says what a dead letter does to its lane.
type OnDead string

// What a dead letter can do.
const (
	DeadContinues OnDead = "continue" // the lane goes on with its next event
	DeadHolds     OnDead = "hold"     // there is none: the lane waits until somebody retries or discards its head
)

// Preset names a retry timetable.
type Preset string

// The presets (03-api, "retry.preset").
const (
	PresetStandard   Preset = "standard"
	PresetShort      Preset = "short"      // S0
	PresetPersistent Preset = "persistent" // S1
	PresetStepped    Preset = "stepped"    // S4
	PresetCustom     Preset = "custom"
)

// Policy is how a subscription delivers. Everything has a default; see Subscription defaults.
type Policy struct {
	Retry        Retry     `json:"retry"`
	Timeout      Duration  `json:"timeout"` // of one attempt
	Window       int       `json:"window"`  // attempts in flight at most
	Rate         Rate      `json:"rate"`
	Ordering     Ordering  `json:"ordering"`
	Envelope     Envelope  `json:"envelope"`
	Projection   string    `json:"projection"` // how much of the data is sent
	Signature    Signature `json:"signature"`
	OnGone       OnGone    `json:"on_gone"`
	OnDead       OnDead    `json:"on_dead"`
	DisableAfter Duration  `json:"disable_after"` // of continuous failure
}

// Retry is a timetable: a preset, or steps of one's own.
type Retry struct {
	Preset      Preset     `json:"preset"`
	Steps       []Duration `json:"steps,omitempty"`        // custom: waits after attempt 1, 2, …; the last repeats
	MaxAttempts int        `json:"max_attempts,omitempty"` // custom: the first included
	Jitter      float64    `json:"jitter,omitempty"`       // custom: 0.2 means ±20 %
}

// Rate bounds the attempts of a subscription; zero means unbounded. Both hold, and each lets a
// tenth of its number come at once.
type Rate struct {
	PerSecond float64 `json:"per_second"`
	PerMinute float64 `json:"per_minute,omitempty"`
}

// Signature chooses the scheme; Name is the header's name for SchemeHeader.
type Signature struct {
	Scheme Scheme `json:"scheme"`
	Name   string `json:"name,omitempty"`
}
