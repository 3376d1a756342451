package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// DeadLetter is a delivery that failed for good.
type DeadLetter struct {
	sluice.DeadLetter

	Redrivable bool `json:"redrivable"` // the event is known and can be redriven
	// Only for a single dead letter, oldest first; not in lists.
	History []sluice.Attempt `json:"history,omitempty"`
}

// DeadLettersQuery filters dead letters; all fields are optional.
type DeadLettersQuery struct {
	Reason sluice.Reason
	Path   sluice.Pattern // pattern that the event's path must match
	Since  string         // earliest time of failure: RFC 3339, or an age such as "10m"
	Limit  int
	Cursor string // Page.Next of the previous page
}

// DeadLetters returns a subscription's dead letters without their events, newest first.
func (c *Client) DeadLetters(ctx context.Context, id string, q DeadLettersQuery) (Page[DeadLetter], error) {
	query := params("reason", string(q.Reason), "path", string(q.Path), "since", q.Since, "limit", number(q.Limit), "cursor", q.Cursor)
	return list[DeadLetter](ctx, c, join(subscriptions, id, deadLetters), "dead_letters", query)
}

const deadLetters = "dead-letters"

// DeadLetter returns a dead letter with its event and its attempts. Event is the event's ID, or the
// dead letter's sequence if its event was never read. Code NotFound if it does not exist.
func (c *Client) DeadLetter(ctx context.Context, id, event string) (DeadLetter, error) {
	return send[DeadLetter](ctx, c, call{method: http.MethodGet, path: join(subscriptions, id, deadLetters, event)}, nil)
}

// DiscardDeadLetter deletes a dead letter, named as for DeadLetter. Code NotFound if it does not
// exist, which is also the result of a repeated call.
func (c *Client) DiscardDeadLetter(ctx context.Context, id, event string) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: join(subscriptions, id, deadLetters, event)}, nil)
	return err
}

// DiscardDeadLetters deletes all dead letters of a subscription.
func (c *Client) DiscardDeadLetters(ctx context.Context, id string) error {
	req := call{method: http.MethodDelete, path: join(subscriptions, id, deadLetters), query: url.Values{"all": {"true"}}}
	_, err := c.do(ctx, req, nil)
	return err
}

// Redrive is the replay of dead letters as it starts.
type Redrive struct {
	sluice.Replay

	Skipped int    `json:"skipped"`           // number of dead letters that cannot be redriven
	Message string `json:"message,omitempty"` // explains Skipped
}

// RedriveSpec selects the dead letters to redrive: those of the given events, or all.
type RedriveSpec struct {
	IDs  []string    `json:"ids,omitempty"`
	All  bool        `json:"all,omitempty"`
	Rate sluice.Rate `json:"rate,omitzero"` // default: the subscription's rate
}

// Redrive starts a replay of dead letters and returns it. Codes NotFound if one of the events has
// no dead letter; Conflict if no dead letter can be redriven.
func (c *Client) Redrive(ctx context.Context, id string, spec RedriveSpec) (Redrive, error) {
	return send[Redrive](ctx, c, call{method: http.MethodPost, path: join(subscriptions, id, deadLetters, "redrive"), once: true}, spec)
}
