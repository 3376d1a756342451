package grants

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// Authenticate returns the caller of a token. Code Unauthenticated, with the reason in the details,
// for an invalid token. It checks the signature, the key, the expiry, the nonce and revocation, in
// this order (S0-55). Code Unavailable, after startLimit, while a new server has not loaded the
// permissions, or while its replica must not decide. A token of a known key and grant costs no
// request to the store, and after the first time no check of the signature.
func (a *Authority) Authenticate(ctx context.Context, token string) (sluice.Caller, error) {
	c, err := a.claims(ctx, token)
	if err != nil {
		return sluice.Caller{}, err
	}
	return a.bearer(ctx, &c)
}

// bearer returns the caller of verified claims.
func (a *Authority) bearer(ctx context.Context, c *authz.Claims) (sluice.Caller, error) {
	return a.holder(ctx, c.Grant, func(now time.Time) (sluice.Caller, bool, error) { return a.needs.Index.Check(c, now) })
}

// holder returns the holder of a grant that check finds. It looks up an unknown grant in the store,
// because another replica may have just created it.
func (a *Authority) holder(ctx context.Context, grant string, check func(now time.Time) (sluice.Caller, bool, error)) (sluice.Caller, error) {
	if err := a.knowing(ctx); err != nil {
		return sluice.Caller{}, err
	}
	now := a.needs.Now()
	caller, known, err := check(now)
	if known {
		return caller, err
	}
	if found, missing := a.lookUp(ctx, grant); missing != nil || !found {
		return caller, cmp.Or(missing, err)
	}
	caller, _, err = check(now)
	return caller, err
}

// lookUp reports whether a grant is stored. If it is, lookUp waits until this replica knows it.
// Code Unavailable if the store does not respond.
func (a *Authority) lookUp(ctx context.Context, grant string) (found bool, err error) {
	_, revision, err := a.needs.Records.Get(ctx, streams.GrantKey(grant))
	switch sluice.CodeOf(err) { //nolint:exhaustive // the other codes mean that the store does not respond
	case "":
		return true, a.await(ctx, revision, true)
	case sluice.NotFound:
		return false, nil
	}
	return false, sluice.Errorf(sluice.Unavailable, "the token cannot be verified yet, because permissions have not loaded; retry")
}

// startLimit is how long a request waits for a server that has just started to load permissions.
const startLimit = 5 * time.Second

// knowing waits up to startLimit until permissions have loaded. Code Unavailable.
func (a *Authority) knowing(ctx context.Context) error {
	limit, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		_, changed := a.needs.Index.Applied()
		err := a.needs.Index.Ready(a.needs.Now())
		if err == nil {
			return nil
		}
		select {
		case <-changed:
		case <-limit.Done():
			return err
		}
	}
}

// claims returns a token's claims if this server signed it.
func (a *Authority) claims(ctx context.Context, token string) (authz.Claims, error) {
	hash := sha256.Sum256([]byte(token))
	if c, ok := a.verified.get(hash); ok {
		return c, nil
	}
	c, err := authz.Verify(token, func(id string) (ed25519.PublicKey, bool) { return a.public(ctx, id) })
	if err == nil {
		a.verified.put(hash, c)
	}
	return c, err
}

// Verification is the result of a check of a token or a grant. Reason is one of the codes of
// authz.Reason. Grant is set for an ended grant, too. Allows and DeniedBy are set only for a valid
// token and a question with an object.
type Verification struct {
	Valid    bool          `json:"valid"`
	Reason   string        `json:"reason,omitempty"`    // why it is invalid
	Grant    *sluice.Grant `json:"grant,omitempty"`     // of a token that this server signed
	Allows   *bool         `json:"allows,omitempty"`    // whether its holder may do the requested action
	DeniedBy sluice.Denial `json:"denied_by,omitempty"` // what denies that, as far as the caller may know
}

// Question is what the caller of a check wants to know.
type Question struct {
	By     sluice.Caller  // the caller, who need not be the holder
	Verb   sluice.Verb    // with Object: an action of the holder
	Object *sluice.Object // nil: only whether the token or grant is valid
}

// Verify checks a token and, with an object, whether its holder may do the action. DeniedBy is
// empty if the access list or the label hides the namespace from the caller, too. An invalid token
// is no error, but a result with Valid false. Code Unavailable, as for Authenticate.
func (a *Authority) Verify(ctx context.Context, token string, q Question) (Verification, error) {
	c, err := a.claims(ctx, token)
	var who sluice.Caller
	if err == nil {
		who, err = a.bearer(ctx, &c)
	}
	return a.verification(who, c.Grant, err, q)
}

// VerifyGrant is Verify for the last token of a grant that the caller may see. Code NotFound.
func (a *Authority) VerifyGrant(ctx context.Context, id string, q Question) (Verification, error) {
	g, err := a.Grant(q.By, id)
	if err != nil {
		return Verification{}, err
	}
	who := sluice.Caller{Principal: g.Principal, Grant: g.ID}
	_, err = a.holder(ctx, g.ID, func(now time.Time) (sluice.Caller, bool, error) {
		known, err := a.needs.Index.Live(g.ID, now)
		return who, known, err
	})
	return a.verification(who, g.ID, err, q)
}

// verification answers a question about a grant whose check ended with err.
func (a *Authority) verification(who sluice.Caller, grant string, err error, q Question) (found Verification, _ error) {
	if code := sluice.CodeOf(err); err != nil && code != sluice.Unauthenticated {
		return found, err
	}
	if g, ok := a.needs.Index.Grant(grant); ok {
		found.Grant = &g.Grant
	}
	if err != nil {
		found.Reason = reasonOf(err)
		return found, nil
	}
	found.Valid = true
	if q.Object == nil {
		return found, nil
	}
	now := a.needs.Now()
	denial, err := a.needs.Index.Denial(who, q.Verb, authz.TargetOf(*q.Object), now)
	if err != nil {
		return found, err
	}
	allows := denial == ""
	found.Allows = &allows
	if denial == sluice.DeniedByGrant || a.needs.Index.Sees(q.By, q.Object.Namespace, now) == nil {
		found.DeniedBy = denial
	}
	return found, nil
}

// verified caches tokens with verified signatures, because verifying a signature takes a hundred
// times as long as the rest of the check. A revoked token stays in the cache: only the signature is
// cached, and the index is asked on every call. It is safe for concurrent use.
type verified struct {
	mu     sync.Mutex
	recent map[[sha256.Size]byte]authz.Claims
	former map[[sha256.Size]byte]authz.Claims
}

// maxVerified is the size of a generation of cached tokens; two generations are kept.
const maxVerified = 4096

func newVerified() *verified {
	return &verified{recent: map[[sha256.Size]byte]authz.Claims{}}
}

func (v *verified) get(hash [sha256.Size]byte) (authz.Claims, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	c, ok := v.recent[hash]
	if !ok {
		if c, ok = v.former[hash]; ok {
			v.keep(hash, c)
		}
	}
	return c, ok
}

func (v *verified) put(hash [sha256.Size]byte, c authz.Claims) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.keep(hash, c)
}

func (v *verified) keep(hash [sha256.Size]byte, c authz.Claims) {
	if len(v.recent) >= maxVerified {
		v.former, v.recent = v.recent, map[[sha256.Size]byte]authz.Claims{}
	}
	v.recent[hash] = c
}

func reasonOf(err error) string {
	e, ok := errors.AsType[*sluice.Error](err)
	if !ok {
		return ""
	}
	reason, _ := e.Details["reason"].(string)
	return reason
}
