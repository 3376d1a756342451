package client

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

const subscriptions = "/v1/subscriptions"

// SubscriptionSpec is what can be said about a subscription; zero values mean the server's
// defaults.
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

// CreateSubscription makes a subscription and returns it with its secret, or the one that is
// its like, without. Spec is a SubscriptionSpec or anything else that is one in JSON. The
// server knows which requests are alike, so a repeated one makes no second subscription, but
// its answer would lack the secret: it is not repeated.
func (c *Client) CreateSubscription(ctx context.Context, spec any) (sub sluice.Subscription, created bool, err error) {
	return c.make(ctx, call{method: http.MethodPost, path: subscriptions, once: true}, spec)
}

// PutSubscription is CreateSubscription with the caller's id. Code SubscriptionDiffers if there is
// one with that id and another configuration.
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

// withSecret is a subscription whose secret lies beside it.
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

// SubscriptionsQuery says which subscriptions are wanted; everything is optional.
type SubscriptionsQuery struct {
	Namespace string
	Mode      sluice.Mode
	State     sluice.State
	Limit     int
	Cursor    string // Page.Next of the part before
}

// Subscriptions returns subscriptions, newest first.
func (c *Client) Subscriptions(ctx context.Context, q SubscriptionsQuery) (Page[sluice.Subscription], error) {
	query := params("namespace", q.Namespace, "mode", string(q.Mode), "state", string(q.State),
		"limit", number(q.Limit), "cursor", q.Cursor)
	return list[sluice.Subscription](ctx, c, subscriptions, "subscriptions", query)
}

// Subscription returns one subscription. Code SubscriptionMissing if there is none.
func (c *Client) Subscription(ctx context.Context, id string) (sluice.Subscription, error) {
	return send[sluice.Subscription](ctx, c, call{method: http.MethodGet, path: join(subscriptions, id)}, nil)
}

// PatchSubscription changes what the JSON merge patch names and returns the subscription. With
// a revision above 0, code RevisionMismatch if it is not the stored one.
func (c *Client) PatchSubscription(ctx context.Context, id string, patch any, revision uint64) (sluice.Subscription, error) {
	req := call{method: http.MethodPatch, path: join(subscriptions, id), media: "application/merge-patch+json", header: ifMatch(revision)}
	return send[sluice.Subscription](ctx, c, req, patch)
}

// DeleteSubscription deletes a subscription. Code SubscriptionMissing if there is none.
func (c *Client) DeleteSubscription(ctx context.Context, id string) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: join(subscriptions, id)}, nil)
	return err
}

// PauseSubscription stops a subscription's deliveries until it is resumed and returns it.
func (c *Client) PauseSubscription(ctx context.Context, id string) (sluice.Subscription, error) {
	return send[sluice.Subscription](ctx, c, call{method: http.MethodPost, path: join(subscriptions, id, "pause")}, nil)
}

// ResumeSubscription lets a paused or disabled subscription go on where it stopped and returns it.
func (c *Client) ResumeSubscription(ctx context.Context, id string) (sluice.Subscription, error) {
	return send[sluice.Subscription](ctx, c, call{method: http.MethodPost, path: join(subscriptions, id, "resume")}, nil)
}

// RotateSecret gives a subscription a new secret, which is in the answer, and lets the old one
// sign along for the overlap (0: the server's default).
func (c *Client) RotateSecret(ctx context.Context, id string, overlap time.Duration) (sluice.Subscription, error) {
	req := call{method: http.MethodPost, path: join(subscriptions, id, "secret", "rotate"), once: true}
	body := map[string]sluice.Duration{}
	if overlap > 0 {
		body["overlap"] = sluice.Duration(overlap)
	}
	reply, err := send[withSecret](ctx, c, req, body)
	return reply.subscription(), err
}

// TestSubscription sends a signed sample event to the endpoint and returns what came of it.
func (c *Client) TestSubscription(ctx context.Context, id string) (sluice.Attempt, error) {
	return send[sluice.Attempt](ctx, c, call{method: http.MethodPost, path: join(subscriptions, id, "test"), once: true}, nil)
}

// Status returns how a subscription is doing.
func (c *Client) Status(ctx context.Context, id string) (sluice.Status, error) {
	return send[sluice.Status](ctx, c, call{method: http.MethodGet, path: join(subscriptions, id, "status")}, nil)
}

// Delivery is one event on its way to one subscription. Its State is delivered, retrying,
// held or dead; of one that was asked for by its event also waiting, backlog, in_flight, not_wanted,
// ended, not_kept or not_recorded.
type Delivery struct {
	EventID       string           `json:"event_id"`
	Seq           uint64           `json:"seq"`
	LastSeq       uint64           `json:"last_seq,omitempty"` // of a range that was lost together
	Path          sluice.Path      `json:"path"`
	Type          string           `json:"type"`
	State         string           `json:"state"`
	Reason        sluice.Reason    `json:"reason,omitempty"`      // why it is dead or held, or not wanted
	Explanation   string           `json:"explanation,omitempty"` // of one delivery; not in lists
	Behind        *Head            `json:"behind,omitempty"`      // whom it waits for
	AttemptCount  int              `json:"attempt_count"`
	LastStatus    int              `json:"last_status,omitempty"`
	LastError     string           `json:"last_error,omitempty"`
	LastAttemptAt time.Time        `json:"last_attempt_at,omitzero"`
	NextAttemptAt *time.Time       `json:"next_attempt_at,omitempty"`
	Attempts      []sluice.Attempt `json:"attempts,omitempty"` // of one delivery, oldest first; not in lists
}

// Head is the first event of a parked lane, for which the others wait.
type Head struct {
	EventID       string        `json:"event_id,omitempty"`
	Seq           uint64        `json:"seq"`
	Attempts      int           `json:"attempts"`
	LastError     string        `json:"last_error,omitempty"`
	NextAttemptAt time.Time     `json:"next_attempt_at,omitzero"`
	Held          sluice.Reason `json:"held,omitempty"` // why it holds its lane; there is no next attempt then
}

// DeliveriesQuery says which deliveries are wanted; everything is optional.
type DeliveriesQuery struct {
	State  string         // delivered, retrying, held, dead, parked (retrying or held), or failed (all but delivered)
	Since  string         // those of events after this: a sequence, "-1" (the beginning) or an RFC 3339 time
	Until  time.Time      // attempts up to this time
	Path   sluice.Pattern // of events of these paths
	Types  []string       // of events of these types
	Limit  int
	Cursor string // Page.Next of the part before
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

// Delivery says what became of an event, named by its id or its sequence, with its attempts.
// Code NotFound if nothing is known of it.
func (c *Client) Delivery(ctx context.Context, id, event string) (Delivery, error) {
	return send[Delivery](ctx, c, call{method: http.MethodGet, path: join(subscriptions, id, "deliveries", event)}, nil)
}

// RetryDelivery has an event sent again: at once if it is the head of a parked lane, else as a
// replay of its own.
func (c *Client) RetryDelivery(ctx context.Context, id, event string) (sluice.Replay, error) {
	return send[sluice.Replay](ctx, c, call{method: http.MethodPost, path: join(subscriptions, id, "deliveries", event, "retry"), once: true}, nil)
}

// DiscardDelivery has an event that holds its lane become a dead letter, so that the lane goes on. It
// returns how that goes; code Conflict if the event holds no lane.
func (c *Client) DiscardDelivery(ctx context.Context, id, event string) (sluice.Replay, error) {
	return send[sluice.Replay](ctx, c, call{method: http.MethodPost, path: join(subscriptions, id, "deliveries", event, "discard"), once: true}, nil)
}

// WindowQuery says which events of a replay window are wanted; everything is optional.
type WindowQuery struct {
	After string // those after this: a sequence, an event's id, "-1" (the window's beginning), "now" or an RFC 3339 time
	Types []string
	Limit int           // at most 1000; the server's default is 100
	Wait  time.Duration // where there is none, for one to come; at most 30 s
}

// Window is a part of a subscription's replay window.
type Window struct {
	Events        []sluice.Event `json:"events"`
	NextAfter     string         `json:"next_after"` // for WindowQuery.After
	ReplayWindowS int64          `json:"replay_window_s"`
}

// SubscriptionEvents returns the events that a subscription gets, in the order of the log, as
// far as its replay window goes back. Code WindowExceeded if events after After are outside it.
func (c *Client) SubscriptionEvents(ctx context.Context, id string, q WindowQuery) (Window, error) {
	wait := ""
	if q.Wait > 0 {
		wait = q.Wait.String()
	}
	query := params("after", q.After, "types", strings.Join(q.Types, ","), "limit", number(q.Limit), "wait", wait, "envelope", "cloudevents")
	return send[Window](ctx, c, call{method: http.MethodGet, path: join(subscriptions, id, "events"), query: query}, nil)
}
