package client

import (
	"context"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// AuditQuery says which entries of the ledger are wanted; everything is optional.
type AuditQuery struct {
	Namespace string
	Resource  string // id or name of what was changed
	Action    string // such as "subscription.pause", or "subscription.*"
	Actor     string
	Since     time.Time // those of then or later
	Until     time.Time // those of then or earlier
	Limit     int       // at most 1000; the server's default is 100
	Cursor    string    // Page.Next of the part before
}

// Audit returns who changed what, newest first. A part may be short though another follows.
func (c *Client) Audit(ctx context.Context, q AuditQuery) (Page[sluice.LedgerEntry], error) {
	query := params("namespace", q.Namespace, "resource", q.Resource, "action", q.Action, "actor", q.Actor,
		"since", moment(q.Since), "until", moment(q.Until), "limit", number(q.Limit), "cursor", q.Cursor)
	return list[sluice.LedgerEntry](ctx, c, "/v1/audit", "entries", query)
}

func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
