package streamsub

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Kind is how a subscription wakes.
type Kind string

// The kinds.
const (
	Webhook  Kind = "webhook"
	PullWake Kind = "pull-wake"
)

// Limits of a subscription.
const (
	MinLease       = time.Second
	MaxLease       = 10 * time.Minute
	DefaultLease   = 30 * time.Second
	MaxNamed       = 1000       // named streams
	MaxAcks        = mostListed // of one request of a worker
	maxID          = 256        // bytes
	maxDescription = 2048       // bytes
	maxWorker      = 256        // bytes
)

// Key identifies a subscription. Its ID is unique among the subscriptions with the same root in a
// namespace.
//
//	shop.9f86d081884c7d659a2feaa0c55ad015   the key of its record: the namespace, a hash of root and ID
type Key struct {
	Namespace string `json:"namespace"`
	Root      string `json:"root,omitempty"` // "" or a path; its streams are below it, and their paths are relative to it
	ID        string `json:"id"`
}

// String returns the key of the record in its bucket.
func (k Key) String() string {
	hash := sha256.Sum256([]byte(k.Root + "\x00" + k.ID))
	return k.Namespace + "." + hex.EncodeToString(hash[:16])
}

// Path returns the path in the namespace of a path relative to the root.
func (k Key) Path(relative string) sluice.Path { return sluice.Path(k.Root + "/" + relative) }

// Relative returns a path relative to the root, and false if the path is not below the root.
func (k Key) Relative(path sluice.Path) (string, bool) {
	return strings.CutPrefix(string(path), k.Root+"/")
}

// Config is a subscription's configuration. Paths and the pattern are relative to the root.
type Config struct {
	Kind        Kind          `json:"type"`
	Pattern     string        `json:"pattern,omitempty"`
	Streams     []string      `json:"streams,omitempty"` // sorted, each once
	URL         string        `json:"url,omitempty"`
	Handshake   bool          `json:"handshake,omitempty"` // the webhook has to agree first (CloudEvents, abuse protection)
	WakeStream  string        `json:"wake_stream,omitempty"`
	Lease       time.Duration `json:"lease"`
	Description string        `json:"description,omitempty"`
}

// Normal validates the configuration and returns it in canonical form. Code INVALID_REQUEST.
func (c Config) Normal(k Key) (Config, error) {
	switch {
	case k.ID == "" || len(k.ID) > maxID:
		return c, invalid("id: use 1 to %d bytes", maxID)
	case c.Kind != Webhook && c.Kind != PullWake:
		return c, invalid("type: use webhook or pull-wake")
	case c.Pattern == "" && len(c.Streams) == 0:
		return c, invalid("pattern or streams is required")
	case len(c.Streams) > MaxNamed:
		return c, invalid("streams: use at most %d; use a pattern for more", MaxNamed)
	case c.Lease < MinLease || c.Lease > MaxLease:
		return c, invalid("lease_ttl_ms: use %d to %d", MinLease.Milliseconds(), MaxLease.Milliseconds())
	case len(c.Description) > maxDescription:
		return c, invalid("description: use up to %d bytes", maxDescription)
	case c.Kind == Webhook && c.URL == "":
		return c, invalid("webhook.url is required for a webhook")
	case c.Kind == PullWake && c.WakeStream == "":
		return c, invalid("wake_stream is required for pull-wake")
	}
	return c.tidy(k)
}

// tidy makes paths canonical, and drops the fields that the kind does not use.
func (c Config) tidy(k Key) (_ Config, err error) {
	if c.Pattern != "" {
		pattern, err := sluice.ParsePattern(k.Root + "/" + bare(c.Pattern))
		if err != nil {
			return c, invalid("%s", err)
		}
		c.Pattern = strings.TrimPrefix(string(pattern), k.Root+"/")
	}
	if c.Streams, err = k.Normal(c.Streams); err != nil {
		return c, err
	}
	if c.Kind == Webhook {
		c.WakeStream = ""
		return c, nil
	}
	c.URL, c.Handshake = "", false
	stream, err := k.Normal([]string{c.WakeStream})
	if err == nil {
		c.WakeStream = stream[0]
	}
	return c, err
}

// Normal validates paths and returns them sorted, without duplicates and leading slashes. Code
// INVALID_REQUEST.
func (k Key) Normal(paths []string) ([]string, error) {
	var all []string
	text := 0
	for _, p := range paths {
		p = bare(p)
		if text += weight(p); text > mostText {
			return nil, invalid("streams: the names exceed %d KiB; use a pattern", mostText>>10)
		}
		if path, err := sluice.ParsePath(k.Root + "/" + p); err != nil || p == "" {
			return nil, invalid("%q is not the path of a stream", p)
		} else if path.Reserved() || Reserved(string(path)) {
			return nil, invalid("%q is reserved", p)
		}
		all = append(all, p)
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// bare removes the optional leading slash of a path.
func bare(path string) string { return strings.TrimPrefix(path, "/") }

// ControlSegment is the segment that marks the paths of control requests.
const ControlSegment = "__ds"

// Reserved reports whether a path belongs to control requests, so that no stream can be there.
func Reserved(path string) bool {
	return strings.Contains(path+"/", "/"+ControlSegment+"/")
}

// Subscription is the stored record. Floor and Base never move back, except if the log lost its end
// (restart).
type Subscription struct {
	Key

	Config      Config           `json:"config"`
	Incarnation string           `json:"incarnation"` // a later subscription of the same id has another one
	Principal   sluice.Principal `json:"principal"`   // the owner
	Grant       string           `json:"grant,omitempty"`
	CreatedAt   time.Time        `json:"created_at"`

	Agreed *sluice.Agreement `json:"agreed,omitempty"` // the webhook's agreement in its handshake

	Floor uint64          `json:"floor"` // a stream that ends here or before has no new messages
	Base  uint64          `json:"base"`  // a stream without a link is read from here on; at most Floor
	Links map[string]Link `json:"links,omitempty"`

	Generation uint64    `json:"generation"`
	Wake       *Wake     `json:"wake,omitempty"`
	Failures   int       `json:"failures,omitempty"` // consecutive failed attempts
	NotBefore  time.Time `json:"not_before,omitzero"`
}

// Link is the cursor of one stream.
type Link struct {
	Explicit bool   `json:"explicit,omitempty"`
	Acked    uint64 `json:"acked"`
}

// Wake is an active wake. Done in the response of a webhook acknowledges the streams up to
// Snapshot. A webhook has Until from the start, a pull-wake only from its claim.
type Wake struct {
	ID       string            `json:"id"`
	Trigger  string            `json:"trigger"`          // the stream that caused it
	Snapshot map[string]uint64 `json:"snapshot"`         // the ends of the pending streams
	Send     bool              `json:"send,omitempty"`   // the notice is still to be sent, at NotBefore
	Holder   string            `json:"holder,omitempty"` // the worker that claimed it
	Heard    bool              `json:"heard,omitempty"`  // the worker has called back
	Until    time.Time         `json:"until,omitzero"`   // when the lease ends; zero: there is none
	At       time.Time         `json:"issued_at,omitzero"`
}

// Owner returns the subscription's owner.
func (s *Subscription) Owner() sluice.Caller {
	return sluice.Caller{Principal: s.Principal, Grant: s.Grant}
}

// CountedID returns the id under which quotas count a subscription, from the key of its record. It
// begins with "/", so it differs from the ids of all push and wake subscriptions.
func CountedID(key string) string { return "/" + key }

// Sends returns the subscription in the form that senders and quotas need: its URL, owner and
// agreed rate. Its id is CountedID.
func (s *Subscription) Sends() *sluice.Subscription {
	return &sluice.Subscription{
		ID: CountedID(s.String()), Namespace: s.Namespace, Lifecycle: sluice.Lifecycle{CreatedBy: string(s.Principal), Grant: s.Grant}, Agreed: s.Agreed,
		Endpoint: sluice.Endpoint{URL: s.Config.URL, Handshake: s.Config.Handshake},
	}
}

// Wishes returns the subscription's pattern and named streams, each as a subscription with a
// pattern, in the form that access decisions need. It returns none for a subscription with neither
// a pattern nor a named stream.
func (s *Subscription) Wishes() []*sluice.Subscription {
	var all []*sluice.Subscription
	add := func(pattern string) {
		all = append(all, &sluice.Subscription{
			ID: s.String(), Namespace: s.Namespace, Pattern: sluice.Pattern(s.Path(pattern)), Lifecycle: sluice.Lifecycle{CreatedBy: string(s.Principal), Grant: s.Grant},
		})
	}
	if s.Config.Pattern != "" {
		add(s.Config.Pattern)
	}
	for _, path := range slices.Sorted(maps.Keys(s.Links)) {
		if s.Links[path].Explicit {
			add(path)
		}
	}
	return all
}

// Failed reports whether the last attempt to wake failed and another is due.
func (s *Subscription) Failed() bool { return s.Failures > 0 }

// Next returns when the subscription has to be processed next: its next attempt or the end of its
// lease; zero: never. A time in the past means at once.
func (s *Subscription) Next() time.Time {
	switch w := s.Wake; {
	case w == nil:
		return s.NotBefore
	case w.Send && (w.Until.IsZero() || s.NotBefore.Before(w.Until)):
		if s.NotBefore.IsZero() {
			return w.At
		}
		return s.NotBefore
	default:
		return w.Until
	}
}

// matches reports whether the pattern matches a stream.
func (s *Subscription) matches(relative string) bool {
	return s.Config.Pattern != "" && relative != s.Config.WakeStream && !Reserved("/"+relative) &&
		sluice.Pattern(s.Root+"/"+s.Config.Pattern).Match(s.Path(relative))
}

// Follows reports whether a stream belongs to the subscription: it is named or matches the pattern.
func (s *Subscription) Follows(relative string) bool {
	return s.Links[relative].Explicit || s.matches(relative)
}

// Refusal is one of the protocol's errors. Handlers write it in the protocol's own form, with the
// status that the protocol gives the code.
type Refusal struct {
	Code       string
	Message    string
	Holder     string // of ALREADY_CLAIMED
	Generation uint64 // of ALREADY_CLAIMED
}

// The codes of refusals.
const (
	InvalidRequest = "INVALID_REQUEST"
	NotFound       = "SUBSCRIPTION_NOT_FOUND"
	Exists         = "SUBSCRIPTION_ALREADY_EXISTS"
	URLRejected    = "WEBHOOK_URL_REJECTED"
	TokenInvalid   = "TOKEN_INVALID"
	TokenExpired   = "TOKEN_EXPIRED"
	Fenced         = "FENCED"
	AlreadyClaimed = "ALREADY_CLAIMED"
	NoPendingWork  = "NO_PENDING_WORK"
	InvalidOffset  = "INVALID_OFFSET"
)

// Error returns the message.
func (r *Refusal) Error() string { return r.Message }

// Public returns the error with the code that the API uses for it.
func (r *Refusal) Public() *sluice.Error {
	return sluice.Errorf(sluice.Code(strings.ToLower(r.Code)), "%s", r.Message)
}

func refuse(code, format string, args ...any) *Refusal {
	return &Refusal{Code: code, Message: fmt.Sprintf(format, args...)}
}

func invalid(format string, args ...any) *Refusal { return refuse(InvalidRequest, format, args...) }

// Missing returns the error for a subscription that does not exist or is hidden from the caller.
func Missing() *Refusal {
	return refuse(NotFound, "subscription not found, or not visible to you")
}
