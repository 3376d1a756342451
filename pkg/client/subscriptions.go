package client

import (
	"context"
	"net/http"
	"strconv"
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
	req := call{method: http.MethodPatch, path: join(subscriptions, id), media: "application/merge-patch+json"}
	if revision > 0 {
		req.header = map[string]string{"If-Match": `"` + strconv.FormatUint(revision, 10) + `"`}
	}
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

// Delivery is one event on its way to one subscription, as the attempt log knows it.
type Delivery struct {
	EventID       string           `json:"event_id"`
	Seq           uint64           `json:"seq"`
	Path          sluice.Path      `json:"path"`
	Type          string           `json:"type"`
	State         string           `json:"state"`            // delivered, retrying or dead
	Reason        sluice.Reason    `json:"reason,omitempty"` // why it is dead
	AttemptCount  int              `json:"attempt_count"`
	LastStatus    int              `json:"last_status,omitempty"`
	LastError     string           `json:"last_error,omitempty"`
	LastAttemptAt time.Time        `json:"last_attempt_at,omitzero"`
	NextAttemptAt *time.Time       `json:"next_attempt_at,omitempty"`
	Attempts      []sluice.Attempt `json:"attempts,omitempty"` // of one delivery, oldest first; not in lists
}

// DeliveriesQuery says which deliveries are wanted; everything is optional.
type DeliveriesQuery struct {
	State  string // delivered, retrying or dead
	Since  string // those of events after this: a sequence, "-1" (the beginning) or an RFC 3339 time
	Limit  int
	Cursor string // Page.Next of the part before
}

// Deliveries returns a subscription's deliveries, newest first.
func (c *Client) Deliveries(ctx context.Context, id string, q DeliveriesQuery) (Page[Delivery], error) {
	query := params("state", q.State, "since", q.Since, "limit", number(q.Limit), "cursor", q.Cursor)
	return list[Delivery](ctx, c, join(subscriptions, id, "deliveries"), "deliveries", query)
}

// Delivery returns one delivery with its attempts. Code NotFound if there is none.
func (c *Client) Delivery(ctx context.Context, id, eventID string) (Delivery, error) {
	return send[Delivery](ctx, c, call{method: http.MethodGet, path: join(subscriptions, id, "deliveries", eventID)}, nil)
}
