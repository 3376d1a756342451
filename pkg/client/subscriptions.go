package client

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

const subscriptions = "/v1/subscriptions"

// SubscriptionSpec describes a subscription; zero values mean the server's defaults.
type SubscriptionSpec struct {
	ID             string            `json:"id,omitempty"`
	Namespace      string            `json:"namespace,omitempty"`
	Mode           sluice.Mode       `json:"mode,omitempty"`
	Pattern        sluice.Pattern    `json:"pattern,omitempty"`
	Filter         sluice.Filter     `json:"filter,omitzero"`
	Endpoint       sluice.Endpoint   `json:"endpoint,omitzero"`
	Start          string            `json:"start,omitempty"`
	Policy         *sluice.Policy    `json:"policy,omitempty"`
	ReplayWindow   sluice.Duration   `json:"replay_window,omitzero"`
	Enabled        *bool             `json:"enabled,omitempty"`
	Description    string            `json:"description,omitempty"`
	Metadata       map[string]string `json:"metadata,omitempty"`
	IdempotencyKey string            `json:"idempotency_key,omitempty"`
}

// CreateSubscription creates a subscription and returns it with its secret, or returns the existing
// duplicate without one. Spec is a SubscriptionSpec or any value with the same JSON. The server
// detects duplicates, so a retry creates no second subscription; but its response would lack the
// secret, so the call is not retried.
func (c *Client) CreateSubscription(ctx context.Context, spec any) (sub sluice.Subscription, created bool, err error) {
	return c.make(ctx, call{method: http.MethodPost, path: subscriptions, once: true}, spec)
}

// PutSubscription is CreateSubscription with an ID chosen by the caller. Code SubscriptionDiffers
// if a subscription with that ID has a different configuration.
func (c *Client) PutSubscription(ctx context.Context, id string, spec any) (sub sluice.Subscription, created bool, err error) {
	return c.make(ctx, call{method: http.MethodPut, path: join(subscriptions, id), once: true}, spec)
}

func (c *Client) make(ctx context.Context, req call, spec any) (sluice.Subscription, bool, error) {
	req, err := encode(req, spec)
	if err != nil {
		return sluice.Subscription{}, false, err
	}
	var reply withSecret
	got, err := c.do(ctx, req, &reply)
	return reply.subscription(), got.status == http.StatusCreated, err
}

// Statuses of a BatchResult.
const (
	BatchCreated = "created"
	BatchExists  = "exists"
	BatchFailed  = "error"
)

// BatchResult is the result of one subscription of a batch.
type BatchResult struct {
	Status string        `json:"status"`
	ID     string        `json:"id,omitempty"`     // in a dry run only if it is known
	Secret string        `json:"secret,omitempty"` // only of a subscription that was just created
	Error  *sluice.Error `json:"error,omitempty"`  // as CreateSubscription would return it
}

// CreateSubscriptions creates up to 1,000 subscriptions, each by itself, and returns their results in
// order. Specs is a slice of SubscriptionSpec or of values with the same JSON. A retry returns the
// results of the first try, with the secrets.
func (c *Client) CreateSubscriptions(ctx context.Context, specs any) ([]BatchResult, error) {
	return c.batch(ctx, call{header: map[string]string{"Idempotency-Key": newID(time.Now())}}, specs)
}

// CheckSubscriptions returns the results that CreateSubscriptions would have, and creates nothing.
func (c *Client) CheckSubscriptions(ctx context.Context, specs any) ([]BatchResult, error) {
	return c.batch(ctx, call{query: params("dry_run", "true")}, specs)
}

func (c *Client) batch(ctx context.Context, req call, specs any) ([]BatchResult, error) {
	req.method, req.path = http.MethodPost, subscriptions+"/batch"
	reply, err := send[struct {
		Results []BatchResult `json:"results"`
	}](ctx, c, req, specs)
	return reply.Results, err
}

// withSecret is a subscription with its secret next to it.
type withSecret struct {
	sluice.Subscription

	Secret string `json:"secret"`
}

func (w *withSecret) subscription() sluice.Subscription {
	if w.Secret != "" {
		w.Endpoint.Secret = w.Secret
	}
	return w.Subscription
}

// SubscriptionsQuery filters subscriptions; all fields are optional.
type SubscriptionsQuery struct {
	Namespace string
	Mode      sluice.Mode
	State     sluice.State
	ByID      bool // in the order of the IDs, instead of newest first
	Limit     int
	Cursor    string // Page.Next of the previous page
}

// Subscriptions returns subscriptions, newest first unless the query says otherwise.
func (c *Client) Subscriptions(ctx context.Context, q SubscriptionsQuery) (Page[sluice.Subscription], error) {
	order := ""
	if q.ByID {
		order = "id"
	}
	query := params("namespace", q.Namespace, "mode", string(q.Mode), "state", string(q.State), "order", order,
		"limit", number(q.Limit), "cursor", q.Cursor)
	return list[sluice.Subscription](ctx, c, subscriptions, "subscriptions", query)
}

// Subscription returns one subscription. Code SubscriptionMissing if it does not exist.
func (c *Client) Subscription(ctx context.Context, id string) (sluice.Subscription, error) {
	return send[sluice.Subscription](ctx, c, call{method: http.MethodGet, path: join(subscriptions, id)}, nil)
}

// PatchSubscription applies a JSON merge patch and returns the subscription. A revision above 0
// must be the current one, otherwise the code is RevisionMismatch.
func (c *Client) PatchSubscription(ctx context.Context, id string, patch any, revision uint64) (sluice.Subscription, error) {
	req := call{method: http.MethodPatch, path: join(subscriptions, id), media: "application/merge-patch+json", header: ifMatch(revision)}
	return send[sluice.Subscription](ctx, c, req, patch)
}

// DeleteSubscription deletes a subscription. Code SubscriptionMissing if it does not exist.
func (c *Client) DeleteSubscription(ctx context.Context, id string) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: join(subscriptions, id)}, nil)
	return err
}

// PauseSubscription pauses the deliveries of a subscription and returns it.
func (c *Client) PauseSubscription(ctx context.Context, id string) (sluice.Subscription, error) {
	return send[sluice.Subscription](ctx, c, call{method: http.MethodPost, path: join(subscriptions, id, "pause")}, nil)
}

// ResumeSubscription resumes a paused, disabled or suspended subscription where it stopped and
// returns it.
func (c *Client) ResumeSubscription(ctx context.Context, id string) (sluice.Subscription, error) {
	return send[sluice.Subscription](ctx, c, call{method: http.MethodPost, path: join(subscriptions, id, "resume")}, nil)
}

// RotateSecret issues a new secret for a subscription, which is in the result. The previous secret
// also signs during the overlap ([DefaultOverlap] is the server's default); with 0, all earlier secrets
// are removed immediately.
func (c *Client) RotateSecret(ctx context.Context, id string, overlap time.Duration) (sluice.Subscription, error) {
	req := call{method: http.MethodPost, path: join(subscriptions, id, "secret", "rotate"), once: true}
	body := map[string]sluice.Duration{"overlap": sluice.Duration(overlap)}
	reply, err := send[withSecret](ctx, c, req, body)
	return reply.subscription(), err
}

// TestSubscription sends a signed test event to the endpoint and returns the attempt.
func (c *Client) TestSubscription(ctx context.Context, id string) (sluice.Attempt, error) {
	return send[sluice.Attempt](ctx, c, call{method: http.MethodPost, path: join(subscriptions, id, "test"), once: true}, nil)
}

// TestSubscriptionWith is TestSubscription with the first example of an event type in the catalogue. Codes NotFound;
// Unprocessable if its schema has no examples.
func (c *Client) TestSubscriptionWith(ctx context.Context, id, eventType string) (sluice.Attempt, error) {
	return send[sluice.Attempt](ctx, c, call{method: http.MethodPost, path: join(subscriptions, id, "test"), once: true}, map[string]string{"type": eventType})
}

// MatchRequest is an event on which a subscription's filter is tried: a stored one, or Event, a CloudEvent or
// {"path", "type", "data"}. Without one, only the names in the filter are checked.
type MatchRequest struct {
	EventID string          `json:"event_id,omitempty"` // or its sequence
	Event   json.RawMessage `json:"event,omitempty"`
}

// Match is whether a subscription's pattern and filter match an event.
type Match struct {
	Matches     *bool    `json:"matches,omitempty"` // nil without an event
	Reason      string   `json:"reason,omitempty"`  // why not: pattern, filter or filter_error
	Explanation string   `json:"explanation,omitempty"`
	Body        string   `json:"body,omitempty"` // the result of the template of the policy for the event
	ContentType string   `json:"content_type,omitempty"`
	Examined    int      `json:"examined"` // events among the namespace's latest 1,000 that are on the pattern's paths
	Warnings    []string `json:"warnings"` // about names in the filter that none of them has, nor the catalogue
}

// MatchSubscription tries a subscription's pattern and filter on an event. Nothing is sent.
func (c *Client) MatchSubscription(ctx context.Context, id string, req MatchRequest) (Match, error) {
	return send[Match](ctx, c, call{method: http.MethodPost, path: join(subscriptions, id, "match")}, req)
}

// Status returns the status of a subscription.
func (c *Client) Status(ctx context.Context, id string) (sluice.Status, error) {
	return send[sluice.Status](ctx, c, call{method: http.MethodGet, path: join(subscriptions, id, "status")}, nil)
}

// Delivery is the delivery of one event to one subscription. In lists, its State is delivered,
// retrying, held or dead. For a single event, it may also be waiting, backlog, in_flight,
// not_wanted, ended, not_kept or not_recorded.
type Delivery struct {
	EventID string `json:"event_id"`
	Seq     uint64 `json:"seq"`
	// Last sequence, for a range that was lost together.
	LastSeq uint64 `json:"last_seq,omitempty"`
	// Number of events in its request, if there were several; in lists the first of them stands for all.
	Batch int         `json:"batch,omitempty"`
	Path  sluice.Path `json:"path"`
	Type  string      `json:"type"`
	State string      `json:"state"`
	// Why the delivery is dead, held, not wanted or in the backlog.
	Reason sluice.Reason `json:"reason,omitempty"`
	// Only for a single delivery; not in lists.
	Explanation   string     `json:"explanation,omitempty"`
	Behind        *Head      `json:"behind,omitempty"` // the event that this one waits for
	AttemptCount  int        `json:"attempt_count"`
	LastStatus    int        `json:"last_status,omitempty"`
	LastError     string     `json:"last_error,omitempty"`
	LastAttemptAt time.Time  `json:"last_attempt_at,omitzero"`
	NextAttemptAt *time.Time `json:"next_attempt_at,omitempty"`
	// Only for a single delivery, oldest first; not in lists.
	Attempts []sluice.Attempt `json:"attempts,omitempty"`
}

// Head is the first event of a parked lane; the other events of the lane wait for it.
type Head struct {
	EventID       string    `json:"event_id,omitempty"`
	Seq           uint64    `json:"seq"`
	Attempts      int       `json:"attempts"`
	LastError     string    `json:"last_error,omitempty"`
	NextAttemptAt time.Time `json:"next_attempt_at,omitzero"`
	// Why it holds its lane; without a next attempt.
	Held sluice.Reason `json:"held,omitempty"`
}

// DeliveriesQuery filters deliveries; all fields are optional.
type DeliveriesQuery struct {
	// Delivered, retrying, held, dead, parked (retrying or held), or failed (all except delivered).
	State  string
	Since  string         // events after a sequence, "-1" (the start) or an RFC 3339 time
	Until  time.Time      // latest attempt
	Path   sluice.Pattern // pattern that the event's path must match
	Types  []string       // event types
	Limit  int
	Cursor string // Page.Next of the previous page
}

// Deliveries returns a subscription's deliveries, newest first.
func (c *Client) Deliveries(ctx context.Context, id string, q DeliveriesQuery) (Page[Delivery], error) {
	until := ""
	if !q.Until.IsZero() {
		until = q.Until.UTC().Format(time.RFC3339Nano)
	}
	query := params("state", q.State, "since", q.Since, "until", until, "path", string(q.Path),
		"event_type", strings.Join(q.Types, ","), "limit", number(q.Limit), "cursor", q.Cursor)
	return list[Delivery](ctx, c, join(subscriptions, id, "deliveries"), "deliveries", query)
}

// AttemptsQuery selects attempts as they happen.
type AttemptsQuery struct {
	Subscription string        // empty: all of the namespace that the caller manages
	After        string        // Next of the previous page; empty: no attempts, only the present place
	Wait         time.Duration // if there is none; up to 30 s
	Limit        int
}

// Attempts returns attempts in the order of their recording, without the responses of endpoints; Next is the After of the next call,
// also if there are none.
func (c *Client) Attempts(ctx context.Context, namespace string, q AttemptsQuery) (Page[sluice.Attempt], error) {
	wait := ""
	if q.Wait > 0 {
		wait = q.Wait.String()
	}
	page, err := send[struct {
		Attempts []sluice.Attempt `json:"attempts"`
		Next     string           `json:"next_after"`
	}](ctx, c, call{
		method: http.MethodGet, path: join(namespaces, namespace, "attempts"),
		query: params("subscription", q.Subscription, "after", q.After, "wait", wait, "limit", number(q.Limit)),
	}, nil)
	return Page[sluice.Attempt]{Items: page.Attempts, Next: page.Next}, err
}

// Delivery explains the delivery of an event, given by its ID or sequence, with its attempts. Code
// NotFound if the event is unknown.
func (c *Client) Delivery(ctx context.Context, id, event string) (Delivery, error) {
	return send[Delivery](ctx, c, call{method: http.MethodGet, path: join(subscriptions, id, "deliveries", event)}, nil)
}

// RetryDelivery retries the delivery of an event: immediately if it is the head of a parked lane,
// otherwise as a replay of its own.
func (c *Client) RetryDelivery(ctx context.Context, id, event string) (sluice.Replay, error) {
	return send[sluice.Replay](ctx, c, call{method: http.MethodPost, path: join(subscriptions, id, "deliveries", event, "retry"), once: true}, nil)
}

// DiscardDelivery turns an event that holds its lane into a dead letter, so that the lane
// continues. It returns the replay that does so; code Conflict if the event holds no lane.
func (c *Client) DiscardDelivery(ctx context.Context, id, event string) (sluice.Replay, error) {
	return send[sluice.Replay](ctx, c, call{method: http.MethodPost, path: join(subscriptions, id, "deliveries", event, "discard"), once: true}, nil)
}

// WindowQuery selects events of a replay window; all fields are optional.
type WindowQuery struct {
	// Exclusive: a sequence, an event ID, "-1" (the start of the window) or "now". Inclusive: an
	// RFC 3339 time, or an age such as "10m".
	After string
	Types []string
	Limit int           // at most 1000; default 100
	Wait  time.Duration // how long to wait for an event if there are none; at most 30 s
}

// Window is a part of a subscription's replay window.
type Window struct {
	Events        []sluice.Event `json:"events"`
	NextAfter     string         `json:"next_after"` // value for WindowQuery.After
	ReplayWindowS int64          `json:"replay_window_s"`
}

// SubscriptionEvents returns the events of a subscription within its replay window, in log order.
// Code WindowExceeded if After is before the window.
func (c *Client) SubscriptionEvents(ctx context.Context, id string, q WindowQuery) (Window, error) {
	wait := ""
	if q.Wait > 0 {
		wait = q.Wait.String()
	}
	query := params("after", q.After, "types", strings.Join(q.Types, ","), "limit", number(q.Limit), "wait", wait, "envelope", "cloudevents")
	return send[Window](ctx, c, call{method: http.MethodGet, path: join(subscriptions, id, "events"), query: query}, nil)
}
