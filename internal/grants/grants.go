package grants

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// Wish is a request for a grant. Principal, Verbs, Object and ExpiresAt are required; ExpiresAt is
// cut to the second.
type Wish struct {
	Principal   sluice.Principal `json:"principal"`
	Verbs       []sluice.Verb    `json:"verbs"`
	Object      *sluice.Object   `json:"object"`
	ExpiresAt   time.Time        `json:"expires_at"`
	OnBehalfOf  sluice.Principal `json:"on_behalf_of"`
	Description string           `json:"description"`
}

// Minted is a grant with its token, which is shown once. The server stores only a hash of the
// token's nonce and cannot show the token again: Renew replaces a lost one.
type Minted struct {
	sluice.Grant

	Token string `json:"token"`
}

// Mint issues a grant. Root issues any grant. Other callers delegate a part of their own grant: the
// new one has no verb, path or day more, and ends when theirs does. Codes InvalidRequest;
// CapabilityRequired for more than the caller has. Code QuotaExceeded if too many grants derive
// from the same one; Unavailable while the caller's own grant has not loaded. It is not idempotent:
// a repeated call issues another grant. It returns once this replica knows the grant; another
// replica looks it up when it first sees the token.
func (a *Authority) Mint(ctx context.Context, by sluice.Caller, w Wish) (Minted, error) {
	now := a.needs.Now().UTC()
	if w.Object == nil {
		return Minted{}, sluice.Errorf(sluice.InvalidRequest, "object is missing: write scope:<namespace>, path:<namespace>/<pattern>, entity:<namespace>/<uri> or *").With("field", "object")
	}
	id, err := uuid.NewV7()
	if err != nil {
		return Minted{}, fmt.Errorf("generate an ID: %w", err)
	}
	g := sluice.Grant{
		ID: id.String(), Principal: w.Principal, Verbs: w.Verbs, Object: *w.Object, IssuedBy: by.Principal, Parent: by.Grant,
		OnBehalfOf: w.OnBehalfOf, IssuedAt: now.Truncate(time.Second), ExpiresAt: w.ExpiresAt.UTC().Truncate(time.Second), Description: w.Description,
	}
	if err := g.Check(now); err != nil {
		return Minted{}, err
	}
	if err := cmp.Or(mayName(by, &g), a.narrows(&g)); err != nil {
		return Minted{}, err
	}
	if err := a.bounded(g.Parent); err != nil {
		return Minted{}, err
	}
	return a.sign(ctx, by, sluice.ActionGrantIssue, g, func(r authz.Record) error {
		if r.Grant != nil {
			return sluice.Errorf(sluice.Conflict, "a grant with this ID exists")
		}
		return nil
	})
}

// Limits of grants delegated from one grant, directly or indirectly, and from root.
const (
	maxParts  = 1_000
	maxGrants = 100_000
)

// bounded returns an error (QuotaExceeded) if too many grants derive from parent or one of its
// ancestors, by any issuer: otherwise chains of delegation would have no end.
func (a *Authority) bounded(parent string) error {
	if parent == "" && a.needs.Index.Parts("", maxGrants) >= maxGrants {
		return sluice.Errorf(sluice.QuotaExceeded, "grant limit reached: %d grants exist; revoke unused grants (slots free up when those would have expired)", maxGrants)
	}
	for range sluice.MaxGrantDepth + 1 {
		if parent == "" {
			return nil
		}
		if a.needs.Index.Parts(parent, maxParts) >= maxParts {
			return sluice.Errorf(sluice.QuotaExceeded, "delegation limit reached: %d grants derive from this one or from its parent; revoke unused grants (slots free up when those would have expired)", maxParts)
		}
		up, _ := a.needs.Index.Grant(parent)
		parent = up.Parent
	}
	return nil
}

// narrows returns an error (CapabilityRequired) if a grant exceeds its parent.
func (a *Authority) narrows(g *sluice.Grant) error {
	if g.Parent == "" {
		return nil
	}
	parent, ok := a.needs.Index.Grant(g.Parent)
	if !ok {
		return sluice.Errorf(sluice.Unavailable, "your own grant has not loaded yet; retry")
	}
	for _, v := range g.Verbs {
		if !parent.Allows(v) {
			return sluice.Errorf(sluice.CapabilityRequired, "you cannot delegate the verb %s, which your own grant lacks", v)
		}
	}
	switch {
	case !parent.Object.Covers(g.Object):
		return sluice.Errorf(sluice.CapabilityRequired, "you cannot delegate %s, which is not part of your own grant's %s", g.Object, parent.Object)
	case g.ExpiresAt.After(parent.ExpiresAt):
		return sluice.Errorf(sluice.CapabilityRequired, "the grant cannot outlast your own, which expires at %s", parent.ExpiresAt.Format(time.RFC3339))
	case a.depth(parent.ID) >= sluice.MaxGrantDepth:
		return sluice.Errorf(sluice.CapabilityRequired, "delegation depth is limited to %d", sluice.MaxGrantDepth)
	}
	return nil
}

// mayName returns an error (CapabilityRequired) if only root may issue a grant to its principal:
// receivers trust principals of the kind system as they trust the operator (S4-13).
func mayName(by sluice.Caller, g *sluice.Grant) error {
	if g.Principal.Kind() == sluice.SystemPrincipal && !by.Unbounded() {
		return sluice.Errorf(sluice.CapabilityRequired, "principal %q: only root gives grants to system:; use user:, service: or ai_agent:", g.Principal).With("field", "principal")
	}
	return nil
}

// depth returns the number of a grant's ancestors.
func (a *Authority) depth(id string) int {
	n := 0
	for ; n <= sluice.MaxGrantDepth; n++ {
		g, ok := a.needs.Index.Grant(id)
		if !ok || g.Parent == "" {
			break
		}
		id = g.Parent
	}
	return n
}

// sign stores a grant under a new nonce and returns it with the token, which replaces earlier
// tokens of the grant.
func (a *Authority) sign(ctx context.Context, by sluice.Caller, action string, g sluice.Grant, check func(authz.Record) error) (Minted, error) {
	key, err := a.signer(ctx)
	if err != nil {
		return Minted{}, err
	}
	nonce, err := authz.NewNonce()
	if err != nil {
		return Minted{}, err
	}
	token, err := authz.Sign(&g, nonce, key.ID, key.Private)
	if err != nil {
		return Minted{}, err
	}
	_, revision, err := a.store(ctx, edit{
		key: streams.GrantKey(g.ID), change: changeOf(by, action, g.Object.Namespace, g.ID), show: showGrant, unnoticed: action != sluice.ActionGrantRenew,
		apply: func(r authz.Record) (authz.Record, bool, error) {
			return authz.Record{Grant: &authz.Granted{Grant: g, Nonce: authz.HashNonce(nonce)}}, true, check(r)
		},
	})
	g.Revision = revision
	return Minted{g, token}, err
}

func changeOf(by sluice.Caller, action, namespace, resource string) ledger.Change {
	return ledger.Change{Actor: string(by.Principal), Action: action, Namespace: namespace, Resource: resource}
}

func showGrant(r authz.Record) any {
	if r.Grant == nil {
		return nil
	}
	return r.Grant.Grant
}

// Renew issues a new token for a grant and invalidates the previous one. If until is not zero, it
// also sets a new end. Only root and the holders of the grant's ancestors may renew it, because the
// token makes its bearer the principal, with the clearance of that. Codes NotFound; Forbidden for
// other callers that may revoke it; Conflict if it was revoked; CapabilityRequired, also if the new
// end is after that of the parent. The other fields of the grant remain. When it returns, no
// replica accepts the previous token. It is not idempotent: each call invalidates the token of the
// one before.
func (a *Authority) Renew(ctx context.Context, by sluice.Caller, id string, until time.Time) (Minted, error) {
	g, err := a.ruled(by, id)
	if err != nil {
		return Minted{}, err
	}
	if !by.Unbounded() && !a.gave(by, &g) {
		return Minted{}, sluice.Errorf(sluice.Forbidden, "only root and the holders of the grants that it derives from can renew it, because the bearer of its token acts as %s", g.Principal)
	}
	if g.RevokedAt != nil {
		return Minted{}, sluice.Errorf(sluice.Conflict, "the grant was revoked permanently; issue a new one")
	}
	if !until.IsZero() {
		g.ExpiresAt = until.UTC().Truncate(time.Second)
	}
	if err := g.Check(a.needs.Now()); err != nil {
		return Minted{}, err
	}
	if err := cmp.Or(mayName(by, &g), a.narrows(&g)); err != nil {
		return Minted{}, err
	}
	return a.sign(ctx, by, sluice.ActionGrantRenew, g, func(r authz.Record) error {
		if r.Grant == nil || r.Grant.RevokedAt != nil {
			return sluice.Errorf(sluice.Conflict, "the grant was revoked concurrently")
		}
		return nil
	})
}

// Revoke ends a grant and all grants that derive from it, for good. When it returns, no replica
// accepts their tokens or sends anything under them (S0-57, S0-58). Root, the grant's issuer and
// holder, and admins of its namespace and paths may revoke it. Code NotFound. It is idempotent: the
// first revocation's time and principal remain, and a repeated call waits for all replicas again.
// It needs no ledger (see edit). If it returns a grant with code Unavailable, the grant is revoked,
// but not all replicas have confirmed that.
func (a *Authority) Revoke(ctx context.Context, by sluice.Caller, id string) (sluice.Grant, error) {
	g, err := a.ruled(by, id)
	if err != nil && by.Grant != id {
		return sluice.Grant{}, err
	}
	return a.revoke(ctx, by, id, g.Object.Namespace)
}

func (a *Authority) revoke(ctx context.Context, by sluice.Caller, id, namespace string) (sluice.Grant, error) {
	now := a.needs.Now().UTC()
	r, revision, err := a.store(ctx, edit{
		key: streams.GrantKey(id), change: changeOf(by, sluice.ActionGrantRevoke, namespace, id), show: showGrant, protects: true,
		apply: func(r authz.Record) (authz.Record, bool, error) {
			if r.Grant == nil {
				return r, false, authz.Concealed()
			}
			if r.Grant.RevokedAt != nil {
				return r, false, nil
			}
			g := *r.Grant
			g.RevokedAt, g.RevokedBy = &now, by.Principal
			return authz.Record{Grant: &g}, true, nil
		},
	})
	if r.Grant == nil {
		return sluice.Grant{}, err
	}
	r.Grant.Revision = revision
	return r.Grant.Grant, err
}

// Grant returns a grant that the caller may see: its own, those derived from it, and those within
// its rights as an admin. Code NotFound.
func (a *Authority) Grant(by sluice.Caller, id string) (sluice.Grant, error) {
	g, ok := a.needs.Index.Grant(id)
	if !ok || g.ID != by.Grant && !a.isHolder(by, &g.Grant) && !a.rules(by, &g.Grant) {
		return sluice.Grant{}, authz.Concealed()
	}
	return g.Grant, nil
}

// isHolder reports whether the caller holds a grant.
func (a *Authority) isHolder(by sluice.Caller, g *sluice.Grant) bool {
	return g.Principal == by.Principal && a.needs.Index.Same(by, g.ID, g.Object, a.needs.Now())
}

// ruled returns a grant that the caller may end (see rules). Code NotFound.
func (a *Authority) ruled(by sluice.Caller, id string) (sluice.Grant, error) {
	g, ok := a.needs.Index.Grant(id)
	if !ok || !a.rules(by, &g.Grant) {
		return g.Grant, authz.Concealed()
	}
	return g.Grant, nil
}

// rules reports whether the caller may end a grant: it derives from the caller's own, or lies
// within the caller's rights as an admin.
func (a *Authority) rules(by sluice.Caller, g *sluice.Grant) bool {
	if by.Unbounded() || a.gave(by, g) {
		return true
	}
	return g.ID != by.Grant && a.needs.Index.Require(by, sluice.VerbAdmin, authz.TargetOf(g.Object), a.needs.Now()) == nil
}

// gave reports whether a grant derives from the caller's own.
func (a *Authority) gave(by sluice.Caller, g *sluice.Grant) bool {
	parent := g.Parent
	for range sluice.MaxGrantDepth + 1 {
		if parent == "" {
			return false
		}
		if parent == by.Grant {
			return true
		}
		up, _ := a.needs.Index.Grant(parent)
		parent = up.Parent
	}
	return false
}

// GrantQuery selects grants; an empty field selects all.
type GrantQuery struct {
	Principal sluice.Principal
	Namespace string
	Active    bool // neither revoked nor expired
	After     string
	Limit     int
}

// Grants returns the grants that the caller may see, newest first, and the start of the next page;
// "" if there is none. It sorts all that match, on every call: the cost does not depend on the
// limit of the page. q.After is the ID of the last grant of the previous page.
func (a *Authority) Grants(by sluice.Caller, q GrantQuery) (page []sluice.Grant, next string) {
	now := a.needs.Now()
	for _, r := range a.needs.Index.Records(func(r authz.Record) bool { return r.Grant != nil && q.picks(&r.Grant.Grant, now) }) {
		if g, err := a.Grant(by, r.Grant.ID); err == nil {
			page = append(page, g)
		}
	}
	slices.SortFunc(page, func(a, b sluice.Grant) int { return strings.Compare(b.ID, a.ID) }) // ids ascend with time
	if i := slices.IndexFunc(page, func(g sluice.Grant) bool { return q.After == "" || g.ID < q.After }); i >= 0 {
		page = page[i:]
	} else {
		page = nil
	}
	return model.FirstPage(page, q.Limit, func(g *sluice.Grant) string { return g.ID })
}

func (q GrantQuery) picks(g *sluice.Grant, now time.Time) bool {
	return (q.Principal == "" || q.Principal == g.Principal) &&
		(q.Namespace == "" || q.Namespace == g.Object.Namespace) &&
		(!q.Active || g.RevokedAt == nil && now.Before(g.ExpiresAt))
}
