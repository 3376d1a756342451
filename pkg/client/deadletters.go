package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// DeadLetter is a delivery that was given up.
type DeadLetter struct {
	sluice.DeadLetter

	Redrivable bool             `json:"redrivable"`        // its event is known and can be sent again
	History    []sluice.Attempt `json:"history,omitempty"` // of one dead letter, oldest first; not in lists
}

// DeadLettersQuery says which dead letters are wanted; everything is optional.
type DeadLettersQuery struct {
	Reason sluice.Reason
	Path   sluice.Pattern // that the event's path matches
	Since  string         // given up then or later, RFC 3339
	Limit  int
	Cursor string // Page.Next of the part before
}

// DeadLetters returns a subscription's dead letters without their events, newest first.
func (c *Client) DeadLetters(ctx context.Context, id string, q DeadLettersQuery) (Page[DeadLetter], error) {
	query := params("reason", string(q.Reason), "path", string(q.Path), "since", q.Since, "limit", number(q.Limit), "cursor", q.Cursor)
	return list[DeadLetter](ctx, c, join(subscriptions, id, deadLetters), "dead_letters", query)
}

const deadLetters = "dead-letters"

// DeadLetter returns a dead letter with its event and its attempts. Event is the event's id, or the
// letter's sequence if its event was never seen. Code NotFound if there is none.
func (c *Client) DeadLetter(ctx context.Context, id, event string) (DeadLetter, error) {
	return send[DeadLetter](ctx, c, call{method: http.MethodGet, path: join(subscriptions, id, deadLetters, event)}, nil)
}

// DiscardDeadLetter deletes the one that DeadLetter returns. Code NotFound if there is none, which
// is also the answer to a repeated call.
func (c *Client) DiscardDeadLetter(ctx context.Context, id, event string) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: join(subscriptions, id, deadLetters, event)}, nil)
	return err
}

// DiscardDeadLetters deletes all of a subscription's.
func (c *Client) DiscardDeadLetters(ctx context.Context, id string) error {
	req := call{method: http.MethodDelete, path: join(subscriptions, id, deadLetters), query: url.Values{"all": {"true"}}}
	_, err := c.do(ctx, req, nil)
	return err
}

// Redrive is a replay of dead letters as it begins.
type Redrive struct {
	sluice.Replay

	Skipped int    `json:"skipped"`           // dead letters that cannot be redriven
	Message string `json:"message,omitempty"` // says so
}

// RedriveSpec says which dead letters are to be delivered again: those of some events, or all.
type RedriveSpec struct {
	IDs  []string    `json:"ids,omitempty"`
	All  bool        `json:"all,omitempty"`
	Rate sluice.Rate `json:"rate,omitzero"` // zero: the subscription's own
}

// Redrive starts a replay of dead letters and returns it. Codes NotFound if there is no dead letter of one of
// the events; Conflict if none can be delivered again.
func (c *Client) Redrive(ctx context.Context, id string, spec RedriveSpec) (Redrive, error) {
	return send[Redrive](ctx, c, call{method: http.MethodPost, path: join(subscriptions, id, deadLetters, "redrive"), once: true}, spec)
}
