package subscription

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"github.com/sluice-io/sluice/internal/strictjson"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Request is a caller's request to create a subscription, either in Sluice's form or in that of
// S0-11…18.
type Request struct {
	ID             string            `json:"id"`
	ReplayWindow   sluice.Duration   `json:"replay_window"`
	Enabled        *bool             `json:"enabled"`
	Description    string            `json:"description"`
	Metadata       map[string]string `json:"metadata"`
	IdempotencyKey string            `json:"idempotency_key"`
	Module         string            `json:"-"` // the module whose program it runs; only the approval of a module sets it

	// Sluice's form.
	Namespace string          `json:"namespace"`
	Mode      sluice.Mode     `json:"mode"`
	Pattern   sluice.Pattern  `json:"pattern"`
	Filter    json.RawMessage `json:"filter"`
	Endpoint  sluice.Endpoint `json:"endpoint"`
	Start     Start           `json:"start"`
	Policy    *sluice.Policy  `json:"policy"`

	// S0's form.
	Target      string   `json:"target"`
	OnChange    string   `json:"on_change"`
	WebhookURL  string   `json:"webhook_url"`
	WakeAgentID string   `json:"wake_agent_id"`
	EventFilter []string `json:"event_filter"`
	Scope       string   `json:"scope"`
}

// Start is a start as the client wrote it. In JSON, a sequence may be a number.
type Start string

// UnmarshalJSON parses a string or a number.
func (s *Start) UnmarshalJSON(data []byte) error {
	var number json.Number
	if err := json.Unmarshal(data, &number); err == nil { // accepts a string with a number, too
		*s = Start(number)
		return nil
	}
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return sluice.Errorf(sluice.InvalidRequest, "start: write new, all, last_per_path, a sequence or an RFC 3339 time")
	}
	*s = Start(text)
	return nil
}

// ParseRequest parses a request. Code InvalidRequest if it is not JSON or has a field that is
// unknown or of another type.
func ParseRequest(body []byte) (*Request, error) {
	var req Request
	if err := strictjson.Decode(body, &req); err != nil {
		return nil, err
	}
	return &req, nil
}

// Within puts the request into the namespace of its URL; "": the URL has none. Code Ambiguous if
// the body names another namespace.
func (r *Request) Within(namespace string) error {
	field := &r.Namespace
	if r.inS0() {
		field = &r.Scope
	}
	if namespace != "" && *field != "" && *field != namespace {
		return OtherNamespace(*field, namespace)
	}
	*field = cmp.Or(namespace, *field)
	return nil
}

// OtherNamespace returns the error (Ambiguous) for a body whose namespace is not that of the URL.
func OtherNamespace(body, url string) error {
	return sluice.Errorf(sluice.Ambiguous, "the body's namespace %q is not that of the URL, %q; omit one of them", body, url).With("field", "namespace")
}

const (
	globalScope = "global" // S0's name for the global scope
	s0Timeout   = sluice.Duration(10 * time.Second)
)

// subscription returns the requested subscription, without defaults. Codes Ambiguous (S4-75),
// InvalidRequest (S0-19, S0-20), WakeNotSupported (S0-24), UnknownFilter.
func (r *Request) subscription() (*sluice.Subscription, error) {
	sub := &sluice.Subscription{
		ID:             r.ID,
		ReplayWindow:   r.ReplayWindow,
		Enabled:        r.Enabled == nil || *r.Enabled,
		Description:    r.Description,
		Metadata:       r.Metadata,
		IdempotencyKey: r.IdempotencyKey,
		Lifecycle:      sluice.Lifecycle{Module: r.Module},
	}
	if len(r.Endpoint.Exec) > 0 && r.Module == "" {
		return nil, notByHand("endpoint.exec")
	}
	var err error
	switch {
	case r.inS0() && r.inOurs():
		return nil, sluice.Errorf(sluice.Ambiguous, "the request mixes target, on_change, webhook_url, event_filter or scope with namespace, mode, pattern, filter, endpoint, start or policy; use one shape")
	case r.inS0():
		err = r.fillS0(sub)
	case r.Pattern == "":
		return nil, sluice.Errorf(sluice.Ambiguous, "the request has neither a pattern nor a target: name the events that are delivered by pattern, and where by endpoint.url: %s; the pattern of all events is /**", anExample).With("field", "pattern")
	default:
		err = r.fill(sub)
	}
	return sub, err
}

// notByHand returns the error for a field that only the approval of a module sets: a caller that
// may subscribe may not run programs on the server.
func notByHand(field string) error {
	return sluice.Errorf(sluice.Forbidden, "%s: programs run as modules, which an admin approves (sluice module approve)", field).With("field", field)
}

func (r *Request) inS0() bool {
	return r.Target != "" || r.OnChange != "" || r.WebhookURL != "" || r.WakeAgentID != "" || r.EventFilter != nil || r.Scope != ""
}

func (r *Request) inOurs() bool {
	endpoint := r.Endpoint.URL != "" || r.Endpoint.Secret != "" || r.Endpoint.Headers != nil || r.Endpoint.Handshake || r.Endpoint.Auth != nil || r.Endpoint.TLS != nil
	return r.Namespace != "" || r.Mode != "" || r.Pattern != "" || r.Filter != nil || endpoint || r.Start != "" || r.Policy != nil
}

func (r *Request) fill(sub *sluice.Subscription) error {
	filter, err := strictjson.DecodeFilter(r.Filter)
	if err != nil {
		return err
	}
	sub.Namespace, sub.Mode, sub.Pattern, sub.Filter = r.Namespace, r.Mode, r.Pattern, filter
	sub.Endpoint, sub.Start = r.Endpoint, string(r.Start)
	if r.Policy != nil {
		sub.Policy = *r.Policy
	}
	return nil
}

// fillS0 translates S0's form. It implies short retries (S0-42…44), the envelope fact (S0-29) and a
// timeout of ten seconds per attempt (S0-48).
func (r *Request) fillS0(sub *sluice.Subscription) error {
	switch r.OnChange {
	case "webhook":
		if r.WakeAgentID != "" {
			return sluice.Errorf(sluice.InvalidRequest, "wake_agent_id requires on_change \"wake\", not \"webhook\"; omit it").With("field", "wake_agent_id")
		}
	case "wake":
		return wakeNotSupported()
	case "":
		return sluice.Errorf(sluice.Ambiguous, "on_change is missing; use \"webhook\"").With("field", "on_change")
	default:
		return sluice.Errorf(sluice.InvalidRequest, "on_change %q: use \"webhook\"", r.OnChange).With("field", "on_change")
	}
	if err := r.fillTarget(sub); err != nil {
		return err
	}
	if r.WebhookURL == "" {
		return sluice.Errorf(sluice.InvalidRequest, "webhook_url is missing").With("field", "webhook_url")
	}
	if err := sluice.CheckURL("webhook_url", r.WebhookURL); err != nil {
		return err
	}
	sub.Mode, sub.Pattern, sub.Target = sluice.Push, "/**", r.Target
	sub.Filter.Types = r.EventFilter
	sub.Endpoint = sluice.Endpoint{URL: r.WebhookURL}
	sub.Policy.Retry.Preset = sluice.PresetShort
	sub.Policy.Envelope = sluice.EnvelopeFact
	sub.Policy.Timeout = s0Timeout
	return nil
}

// fillTarget sets the namespace and, for an entity, the filter. scope overrides the namespace of a
// global target. For any other target with a namespace, the two must agree.
func (r *Request) fillTarget(sub *sluice.Subscription) error {
	kind, name, _ := strings.Cut(r.Target, ":")
	scope := kind == "scope"
	switch {
	case r.Target == "":
		return sluice.Errorf(sluice.InvalidRequest, "target is missing; write scope:<namespace> or entity:<uri>").With("field", "target")
	case name == "" || !scope && kind != "entity":
		return sluice.Errorf(sluice.InvalidRequest, "target %q: write scope:<namespace> or entity:<uri>", r.Target).With("field", "target")
	case scope && r.Scope != "" && name != r.Scope && name != globalScope:
		return sluice.Errorf(sluice.Ambiguous, "target %q and scope %q name different namespaces", r.Target, r.Scope).With("field", "scope")
	case scope:
		sub.Namespace = cmp.Or(r.Scope, name)
	default:
		sub.Namespace = r.Scope
		sub.Filter.Subjects = []string{name}
	}
	if sub.Namespace == globalScope {
		sub.Namespace = sluice.DefaultNamespace
	}
	return nil
}
