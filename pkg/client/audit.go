package client

import (
	"context"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// AuditQuery filters the ledger; all fields are optional.
type AuditQuery struct {
	Namespace string
	Resource  string // ID or name of the changed resource
	Action    string // such as "subscription.pause" or "subscription.*"
	Actor     string
	Since     time.Time // earliest entry
	Until     time.Time // latest entry
	Limit     int       // at most 1000; default 100
	Cursor    string    // Page.Next of the previous page
}

// Audit returns ledger entries, newest first. A page may hold fewer entries than the limit even if
// another follows.
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
