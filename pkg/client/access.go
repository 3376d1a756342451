package client

import (
	"context"
	"net/http"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	grants     = "/v1/grants"
	principals = "/v1/principals"
)

// Identity is who a token speaks for.
type Identity struct {
	Principal sluice.Principal `json:"principal"`
	Grant     *sluice.Grant    `json:"grant,omitempty"` // nil of root
}

// WhoAmI returns whom the client's token speaks for. Code Unauthenticated, with the "reason" in
// the details, if it does not count.
func (c *Client) WhoAmI(ctx context.Context) (Identity, error) {
	return send[Identity](ctx, c, call{method: http.MethodGet, path: "/v1/whoami"}, nil)
}

// GrantSpec is what a grant shall be.
type GrantSpec struct {
	Principal   sluice.Principal `json:"principal"`
	Verbs       []sluice.Verb    `json:"verbs"`
	Object      sluice.Object    `json:"object"`
	ExpiresAt   time.Time        `json:"expires_at"` // at most 90 days away
	OnBehalfOf  sluice.Principal `json:"on_behalf_of,omitempty"`
	Description string           `json:"description,omitempty"`
}

// Minted is a grant with its token, which no other answer has.
type Minted struct {
	sluice.Grant

	Token string `json:"token"`
}

// MintGrant issues a grant, which is a part of the caller's own unless that is root. Code
// CapabilityRequired for more than the caller has. It is not repeated: of two grants, one would have a token
// that nobody knows.
func (c *Client) MintGrant(ctx context.Context, spec GrantSpec) (Minted, error) {
	return send[Minted](ctx, c, call{method: http.MethodPost, path: grants, once: true}, spec)
}

// GrantsQuery says which grants are wanted; everything is optional.
type GrantsQuery struct {
	Principal sluice.Principal
	Namespace string // those about it, or some of it
	Active    bool   // neither revoked nor expired
	Limit     int
	Cursor    string // Page.Next of the part before
}

// Grants returns the grants that the caller may see, newest first.
func (c *Client) Grants(ctx context.Context, q GrantsQuery) (Page[sluice.Grant], error) {
	state := ""
	if q.Active {
		state = "active"
	}
	query := params("principal", string(q.Principal), "namespace", q.Namespace, "state", state, "limit", number(q.Limit), "cursor", q.Cursor)
	return list[sluice.Grant](ctx, c, grants, "grants", query)
}

// Grant returns a grant. Code NotFound if there is none, or the caller may not know of it.
func (c *Client) Grant(ctx context.Context, id string) (sluice.Grant, error) {
	return send[sluice.Grant](ctx, c, call{method: http.MethodGet, path: join(grants, id)}, nil)
}

// RenewGrant gives a grant another token, the one before it counts no more, and, unless until is zero,
// another end. Codes NotFound; Conflict if it was revoked. It is not repeated.
func (c *Client) RenewGrant(ctx context.Context, id string, until time.Time) (Minted, error) {
	body := map[string]time.Time{}
	if !until.IsZero() {
		body["expires_at"] = until
	}
	return send[Minted](ctx, c, call{method: http.MethodPost, path: join(grants, id, "renew"), once: true}, body)
}

// RevokeGrant ends a grant and all that are a part of it, for good, and returns it. When it has
// returned nothing leaves under them any more; code Unavailable if that is not sure. Code NotFound.
func (c *Client) RevokeGrant(ctx context.Context, id string) (sluice.Grant, error) {
	return send[sluice.Grant](ctx, c, call{method: http.MethodPost, path: join(grants, id, "revoke")}, nil)
}

// Verification is what the server knows of a token.
type Verification struct {
	Valid  bool          `json:"valid"`
	Reason string        `json:"reason,omitempty"` // why it does not count
	Grant  *sluice.Grant `json:"grant,omitempty"`  // of a token that the server signed
	Allows *bool         `json:"allows,omitempty"` // whether it lets its holder do what was asked about
}

// VerifyToken says whether a token counts and, with a verb, whether it lets its holder do that with
// the object. A token that does not count is no error.
func (c *Client) VerifyToken(ctx context.Context, token string, v sluice.Verb, o sluice.Object) (Verification, error) {
	body := struct {
		Token  string         `json:"token"`
		Verb   sluice.Verb    `json:"verb,omitempty"`
		Object *sluice.Object `json:"object,omitempty"`
	}{Token: token, Verb: v}
	if v != "" {
		body.Object = &o
	}
	return send[Verification](ctx, c, call{method: http.MethodPost, path: join(grants, "verify")}, body)
}

// ACLs returns the access list of a namespace, by principal. Without a line it is not in force.
func (c *Client) ACLs(ctx context.Context, namespace string) ([]sluice.ACL, error) {
	page, err := list[sluice.ACL](ctx, c, join(namespaces, namespace, "acl"), "acl", nil)
	return page.Items, err
}

// ACL returns what the access list of a namespace says of a principal. Code NotFound if it says nothing.
func (c *Client) ACL(ctx context.Context, namespace string, p sluice.Principal) (sluice.ACL, error) {
	return send[sluice.ACL](ctx, c, call{method: http.MethodGet, path: join(namespaces, namespace, "acl", string(p))}, nil)
}

// PutACL says what a principal may do in a namespace, in place of what was said before. With its
// first line the namespace's list is in force, for good. Code Conflict if it would take the last admin away.
func (c *Client) PutACL(ctx context.Context, namespace string, p sluice.Principal, entries ...sluice.Access) (sluice.ACL, error) {
	body := map[string][]sluice.Access{"entries": entries}
	return send[sluice.ACL](ctx, c, call{method: http.MethodPut, path: join(namespaces, namespace, "acl", string(p))}, body)
}

// DeleteACL takes all that a principal may do in a namespace. Codes NotFound; Conflict for the last admin.
func (c *Client) DeleteACL(ctx context.Context, namespace string, p sluice.Principal) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: join(namespaces, namespace, "acl", string(p))}, nil)
	return err
}

// Principals returns what principals are cleared for, by name: those of whom something is said.
func (c *Client) Principals(ctx context.Context) ([]sluice.Profile, error) {
	page, err := list[sluice.Profile](ctx, c, principals, "principals", nil)
	return page.Items, err
}

// Principal returns what a principal is cleared for. Code NotFound if nothing is said of it.
func (c *Client) Principal(ctx context.Context, p sluice.Principal) (sluice.Profile, error) {
	return send[sluice.Profile](ctx, c, call{method: http.MethodGet, path: join(principals, string(p))}, nil)
}

// PutPrincipal says what a principal is cleared for.
func (c *Client) PutPrincipal(ctx context.Context, p sluice.Profile) (sluice.Profile, error) {
	body := map[string]any{"clearance": p.Clearance, "description": p.Description}
	return send[sluice.Profile](ctx, c, call{method: http.MethodPut, path: join(principals, string(p.Principal))}, body)
}

// DeletePrincipal takes a principal's clearance: it is PUBLIC then. Code NotFound.
func (c *Client) DeletePrincipal(ctx context.Context, p sluice.Principal) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: join(principals, string(p))}, nil)
	return err
}

// Entomb takes everything that lies on a path now out of a namespace's log, for good. When it has
// returned, none of it leaves any more. Code NotFound for the namespace.
func (c *Client) Entomb(ctx context.Context, namespace string, path sluice.Path) (sluice.Tombstone, error) {
	return send[sluice.Tombstone](ctx, c, call{method: http.MethodPost, path: join(namespaces, namespace, "tombstones")}, map[string]sluice.Path{"path": path})
}

// Tombstones returns what was taken out of a namespace's log, by path.
func (c *Client) Tombstones(ctx context.Context, namespace string) ([]sluice.Tombstone, error) {
	page, err := list[sluice.Tombstone](ctx, c, join(namespaces, namespace, "tombstones"), "tombstones", nil)
	return page.Items, err
}
