package client

import (
	"context"
	"net/http"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// MirrorSpec describes a mirror; zero values mean the server's defaults.
type MirrorSpec struct {
	ID        string `json:"id,omitempty"`
	Namespace string `json:"namespace,omitempty"` // the subscriber: it gets the copy
	// A namespace of the server, or https://host/v1/namespaces/<namespace> of another one.
	Source       string            `json:"source"`
	Depth        sluice.Depth      `json:"depth,omitempty"`       // default catalog
	PathPrefix   string            `json:"path_prefix,omitempty"` // of the mirrored paths; "": all
	PollInterval sluice.Duration   `json:"poll_interval,omitzero"`
	Weight       float64           `json:"weight,omitzero"`      // above 0, up to 1
	Credential   string            `json:"credential,omitempty"` // token for a source on another server, of a grant that may only read
	Description  string            `json:"description,omitempty"`
	Metadata     map[string]string `json:"metadata,omitempty"`
}

// CreateMirror creates a mirror and returns it, without its credential. Codes Conflict, NotFound,
// Forbidden, SubscriptionExists, MirrorCycle and Unprocessable if the mirror is not permitted.
func (c *Client) CreateMirror(ctx context.Context, spec MirrorSpec) (sluice.Mirror, error) {
	return send[sluice.Mirror](ctx, c, call{method: http.MethodPost, path: subscriptions, once: true}, struct {
		MirrorSpec

		Mode sluice.Mode `json:"mode"`
	}{spec, sluice.Mirroring})
}

// Mirror returns one mirror. Code SubscriptionMissing if it does not exist, or is a subscription of
// another mode.
func (c *Client) Mirror(ctx context.Context, id string) (sluice.Mirror, error) {
	m, err := send[sluice.Mirror](ctx, c, call{method: http.MethodGet, path: join(subscriptions, id)}, nil)
	if err == nil && m.Mode != sluice.Mirroring {
		return sluice.Mirror{}, sluice.Errorf(sluice.SubscriptionMissing, "%s is no mirror: its mode is %s", id, m.Mode)
	}
	return m, err
}

// MirrorSummary is a mirror with its status.
type MirrorSummary struct {
	sluice.Mirror

	Status sluice.MirrorStatus `json:"status"`
}

// MirrorsQuery filters mirrors; all fields are optional.
type MirrorsQuery struct {
	Namespace string       // the subscriber
	Source    string       // as the mirror has it
	State     sluice.State // active or suspended
	Limit     int
	Cursor    string // Page.Next of the previous page
}

// Mirrors returns a page of the mirrors of the namespaces that the caller administers, by ID.
func (c *Client) Mirrors(ctx context.Context, q MirrorsQuery) (Page[MirrorSummary], error) {
	return list[MirrorSummary](ctx, c, subscriptions, "subscriptions", params("mode", string(sluice.Mirroring),
		"namespace", q.Namespace, "state", string(q.State), "source", q.Source, "limit", number(q.Limit), "cursor", q.Cursor))
}

// UpdateMirror changes the fields of an edit that are set, and returns the mirror. A revision above 0
// must be the current one, otherwise the code is RevisionMismatch.
func (c *Client) UpdateMirror(ctx context.Context, id string, edit sluice.MirrorEdit, revision uint64) (sluice.Mirror, error) {
	req := call{method: http.MethodPatch, path: join(subscriptions, id), media: "application/merge-patch+json", header: ifMatch(revision)}
	return send[sluice.Mirror](ctx, c, req, edit)
}

// DeleteMirror deletes a mirror with the whole copy. Code SubscriptionMissing if it does not exist.
func (c *Client) DeleteMirror(ctx context.Context, id string) error {
	return c.DeleteSubscription(ctx, id)
}

// MaxSyncWait is the longest time that SyncMirror may wait.
const MaxSyncWait = time.Minute

// SyncMirror syncs a mirror now. With a wait above 0, it returns the status and true when the mirror
// has come to the end of its source, or is suspended; false if the time is over before, or with a wait
// of 0. What was copied until then stays. Codes those of the source; MirrorSuspended. The call is not
// retried, because the server records each failure.
func (c *Client) SyncMirror(ctx context.Context, id string, wait time.Duration) (st sluice.MirrorStatus, done bool, err error) {
	req := call{method: http.MethodPost, path: join(subscriptions, id, "sync"), once: true}
	if wait > 0 {
		req.query = params("wait", wait.String())
	}
	got, err := c.do(ctx, req, &st)
	return st, got.status == http.StatusOK, err
}

// MirrorStatus returns the state of a mirror.
func (c *Client) MirrorStatus(ctx context.Context, id string) (sluice.MirrorStatus, error) {
	return send[sluice.MirrorStatus](ctx, c, call{method: http.MethodGet, path: join(subscriptions, id, "status")}, nil)
}

// SuspendMirror stops a mirror until it is resumed, and returns it. The copy stays readable.
func (c *Client) SuspendMirror(ctx context.Context, id string) (sluice.Mirror, error) {
	return send[sluice.Mirror](ctx, c, call{method: http.MethodPost, path: join(subscriptions, id, "suspend")}, nil)
}

// ResumeMirror validates a suspended mirror again, as its creation does, and returns it; the caller
// answers for it from then on. If the log of the source was replaced, accept removes the copy and begins
// anew; without it, the code is Conflict.
func (c *Client) ResumeMirror(ctx context.Context, id string, accept bool) (sluice.Mirror, error) {
	return send[sluice.Mirror](ctx, c, call{method: http.MethodPost, path: join(subscriptions, id, "resume")},
		map[string]bool{"accept_origin": accept})
}

// PutMirrorCredential replaces the token with which a mirror reads its source. Codes Conflict for a
// source on the same server; Forbidden if the token may do more than read.
func (c *Client) PutMirrorCredential(ctx context.Context, id, token string) (sluice.Mirror, error) {
	return send[sluice.Mirror](ctx, c, call{method: http.MethodPut, path: join(subscriptions, id, "credential")},
		map[string]string{"credential": token})
}

// The sources of items.
const (
	ItemsLocal    = "local"    // the namespace's own entries
	ItemsMirrored = "mirrored" // those of its mirrors
	ItemsAll      = "all"      // the namespace's own, then those of its mirrors
)

// ItemsQuery selects entries of a namespace; all fields are optional.
type ItemsQuery struct {
	Source     string // default ItemsLocal, or ItemsMirrored with a mirror
	Mirror     string // only its entries
	PathPrefix string
	Limit      int
	After      string // Page.Next of the previous page
}

// Items returns a page of the entries of a namespace: its own in the order of its log, then those of each
// mirror in the order of their last change.
func (c *Client) Items(ctx context.Context, namespace string, q ItemsQuery) (Page[sluice.MirroredItem], error) {
	return list[sluice.MirroredItem](ctx, c, join(namespaces, namespace, "items"), "items", params("source", q.Source,
		"subscription", q.Mirror, "path_prefix", q.PathPrefix, "limit", number(q.Limit), "after", q.After))
}
