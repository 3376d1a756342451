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

// Identity is the caller that a token belongs to.
type Identity struct {
	Principal sluice.Principal `json:"principal"`
	Grant     *sluice.Grant    `json:"grant,omitempty"` // nil for root
}

// WhoAmI returns the caller that the client's token belongs to. Code Unauthenticated, with the
// "reason" in the details, if the token is invalid.
func (c *Client) WhoAmI(ctx context.Context) (Identity, error) {
	return send[Identity](ctx, c, call{method: http.MethodGet, path: "/v1/whoami"}, nil)
}

// GrantSpec describes the grant to issue.
type GrantSpec struct {
	Principal   sluice.Principal `json:"principal"`
	Verbs       []sluice.Verb    `json:"verbs"`
	Object      sluice.Object    `json:"object"`
	ExpiresAt   time.Time        `json:"expires_at"` // at most 90 days ahead
	OnBehalfOf  sluice.Principal `json:"on_behalf_of,omitempty"`
	Description string           `json:"description,omitempty"`
}

// Minted is a grant with its token, which no other response includes.
type Minted struct {
	sluice.Grant

	Token string `json:"token"`
}

// MintGrant issues a grant, derived from the caller's own grant unless the caller is root. Code
// CapabilityRequired if it exceeds the caller's permissions. The call is not retried: a retry could
// issue a second grant whose token is lost.
func (c *Client) MintGrant(ctx context.Context, spec GrantSpec) (Minted, error) {
	return send[Minted](ctx, c, call{method: http.MethodPost, path: grants, once: true}, spec)
}

// GrantsQuery filters the list of grants; all fields are optional.
type GrantsQuery struct {
	Principal sluice.Principal
	Namespace string // grants for this namespace or a part of it
	Active    bool   // only grants that are neither revoked nor expired
	Limit     int
	Cursor    string // Page.Next of the previous page
}

// Grants returns the grants visible to the caller, newest first.
func (c *Client) Grants(ctx context.Context, q GrantsQuery) (Page[sluice.Grant], error) {
	state := ""
	if q.Active {
		state = "active"
	}
	query := params("principal", string(q.Principal), "namespace", q.Namespace, "state", state, "limit", number(q.Limit), "cursor", q.Cursor)
	return list[sluice.Grant](ctx, c, grants, "grants", query)
}

// Grant returns a grant. Code NotFound if it does not exist or is not visible to the caller.
func (c *Client) Grant(ctx context.Context, id string) (sluice.Grant, error) {
	return send[sluice.Grant](ctx, c, call{method: http.MethodGet, path: join(grants, id)}, nil)
}

// RenewGrant issues a new token for a grant, invalidates the previous one and, unless until is
// zero, sets a new expiry. Codes NotFound; Conflict if the grant was revoked. The call is not
// retried.
func (c *Client) RenewGrant(ctx context.Context, id string, until time.Time) (Minted, error) {
	body := map[string]time.Time{}
	if !until.IsZero() {
		body["expires_at"] = until
	}
	return send[Minted](ctx, c, call{method: http.MethodPost, path: join(grants, id, "renew"), once: true}, body)
}

// RevokeGrant permanently revokes a grant and all grants derived from it, and returns it. When it
// returns without an error, nothing more is sent under them. Codes Unavailable if the server cannot
// confirm that; NotFound.
func (c *Client) RevokeGrant(ctx context.Context, id string) (sluice.Grant, error) {
	return send[sluice.Grant](ctx, c, call{method: http.MethodPost, path: join(grants, id, "revoke")}, nil)
}

// Verification is the result of VerifyToken and VerifyGrant.
type Verification struct {
	Valid  bool          `json:"valid"`
	Reason string        `json:"reason,omitempty"` // why the token is invalid
	Grant  *sluice.Grant `json:"grant,omitempty"`  // for a token signed by this server
	// Whether the token permits the requested verb and object, and what denies them.
	Allows   *bool         `json:"allows,omitempty"`
	DeniedBy sluice.Denial `json:"denied_by,omitempty"`
}

// VerifyToken reports whether a token is valid and, with a verb, whether it permits the verb on the
// object. An invalid token is not an error.
func (c *Client) VerifyToken(ctx context.Context, token string, v sluice.Verb, o sluice.Object) (Verification, error) {
	return c.verify(ctx, verifyBody{Token: token, Verb: v}, o)
}

// VerifyGrant is VerifyToken for the last token of a grant, given by its ID. Code NotFound.
func (c *Client) VerifyGrant(ctx context.Context, id string, v sluice.Verb, o sluice.Object) (Verification, error) {
	return c.verify(ctx, verifyBody{Grant: id, Verb: v}, o)
}

type verifyBody struct {
	Token  string         `json:"token,omitempty"`
	Grant  string         `json:"grant,omitempty"`
	Verb   sluice.Verb    `json:"verb,omitempty"`
	Object *sluice.Object `json:"object,omitempty"`
}

func (c *Client) verify(ctx context.Context, body verifyBody, o sluice.Object) (Verification, error) {
	if body.Verb != "" {
		body.Object = &o
	}
	return send[Verification](ctx, c, call{method: http.MethodPost, path: join(grants, "verify")}, body)
}

// ACLs returns the access list of a namespace, by principal. An empty list is not in force.
func (c *Client) ACLs(ctx context.Context, namespace string) ([]sluice.ACL, error) {
	page, err := list[sluice.ACL](ctx, c, join(namespaces, namespace, "acl"), "acl", nil)
	return page.Items, err
}

// ACL returns the entries of a principal in the access list of a namespace. Code NotFound if it has
// none.
func (c *Client) ACL(ctx context.Context, namespace string, p sluice.Principal) (sluice.ACL, error) {
	return send[sluice.ACL](ctx, c, call{method: http.MethodGet, path: join(namespaces, namespace, "acl", string(p))}, nil)
}

// PutACL sets the permissions of a principal in a namespace, replacing its entries. The first entry
// puts the namespace's list into force, permanently. Code Conflict if the change would remove the
// last admin.
func (c *Client) PutACL(ctx context.Context, namespace string, p sluice.Principal, entries ...sluice.Access) (sluice.ACL, error) {
	body := map[string][]sluice.Access{"entries": entries}
	return send[sluice.ACL](ctx, c, call{method: http.MethodPut, path: join(namespaces, namespace, "acl", string(p))}, body)
}

// DeleteACL removes all entries of a principal in a namespace. Codes NotFound; Conflict for the
// last admin.
func (c *Client) DeleteACL(ctx context.Context, namespace string, p sluice.Principal) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: join(namespaces, namespace, "acl", string(p))}, nil)
	return err
}

// Principals returns the principals that have a clearance, by name.
func (c *Client) Principals(ctx context.Context) ([]sluice.Profile, error) {
	page, err := list[sluice.Profile](ctx, c, principals, "principals", nil)
	return page.Items, err
}

// Principal returns the clearance of a principal. Code NotFound if it has none.
func (c *Client) Principal(ctx context.Context, p sluice.Principal) (sluice.Profile, error) {
	return send[sluice.Profile](ctx, c, call{method: http.MethodGet, path: join(principals, string(p))}, nil)
}

// PutPrincipal sets the clearance of a principal.
func (c *Client) PutPrincipal(ctx context.Context, p sluice.Profile) (sluice.Profile, error) {
	body := map[string]any{"clearance": p.Clearance, "description": p.Description}
	return send[sluice.Profile](ctx, c, call{method: http.MethodPut, path: join(principals, string(p.Principal))}, body)
}

// DeletePrincipal removes the clearance of a principal, which is PUBLIC afterwards. Code NotFound.
func (c *Client) DeletePrincipal(ctx context.Context, p sluice.Principal) error {
	_, err := c.do(ctx, call{method: http.MethodDelete, path: join(principals, string(p))}, nil)
	return err
}

// Erase permanently erases everything on a path from a namespace's log. When it returns, no erased
// event is sent any more. Code NotFound for the namespace.
func (c *Client) Erase(ctx context.Context, namespace string, path sluice.Path) (sluice.Tombstone, error) {
	return send[sluice.Tombstone](ctx, c, call{method: http.MethodPost, path: join(namespaces, namespace, "tombstones")}, map[string]sluice.Path{"path": path})
}

// Tombstones returns the erased paths of a namespace, by path.
func (c *Client) Tombstones(ctx context.Context, namespace string) ([]sluice.Tombstone, error) {
	page, err := list[sluice.Tombstone](ctx, c, join(namespaces, namespace, "tombstones"), "tombstones", nil)
	return page.Items, err
}
