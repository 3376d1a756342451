package grants

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// Lifetimes of links to the portal and of the sessions that they open.
const (
	MinLink        = time.Second
	MaxLink        = 10 * time.Minute
	DefaultLink    = 5 * time.Minute
	MinSession     = time.Minute
	MaxSession     = 24 * time.Hour
	DefaultSession = time.Hour
)

// maxOpenLinks limits the links of a principal that can still be used.
const maxOpenLinks = 20

// PortalLink is a stored link to the portal. It does not contain the code.
type PortalLink struct {
	Grant        string           `json:"grant"` // that the session derives from
	Principal    sluice.Principal `json:"principal"`
	Namespace    string           `json:"namespace"`
	Next         string           `json:"next,omitempty"`
	MadeBy       sluice.Principal `json:"made_by"`
	ExpiresAt    time.Time        `json:"expires_at"`
	SessionUntil time.Time        `json:"session_expires_at"`
	UsedAt       *time.Time       `json:"used_at,omitempty"`
	RefusedAt    *time.Time       `json:"refused_at,omitempty"` // the first time
}

// open reports whether the link can still be used.
func (l *PortalLink) open(now time.Time) bool { return l.UsedAt == nil && now.Before(l.ExpiresAt) }

// Links stores the links for an hour. Revision 0 stands for "nothing is stored". Implementations
// are safe for concurrent use. Put with revision 0 creates a link.
type Links interface {
	// Get returns a link and its revision. Code NotFound if there is none.
	Get(ctx context.Context, key string) (PortalLink, uint64, error)
	// Put stores a link and returns its revision. Codes Conflict unless the stored revision is the
	// given one; QuotaExceeded.
	Put(ctx context.Context, key string, link PortalLink, revision uint64) (uint64, error)
	// All returns the links whose keys match a filter.
	All(ctx context.Context, filter string) ([]PortalLink, error)
}

// LinkWish is a request for a link to the portal: for an existing grant, or for a principal and an
// object, whose grant is found or issued. TTL and LinkTTL must be within their limits: zero is no
// default here. Next is stored as it is; the caller checks it.
type LinkWish struct {
	Grant     string
	Principal sluice.Principal
	Object    *sluice.Object
	TTL       time.Duration // of the session
	LinkTTL   time.Duration
	Next      string // page of the portal that the link opens
}

// check returns an error (InvalidRequest) unless a wish names a grant, or a principal and an
// object, and its lifetimes are within the limits.
func (w *LinkWish) check() error {
	switch {
	case w.Grant == "" && (w.Principal == "" || w.Object == nil), w.Grant != "" && (w.Principal != "" || w.Object != nil):
		return sluice.Errorf(sluice.InvalidRequest, "send either grant, or principal and object").With("field", "grant")
	case w.TTL < MinSession || w.TTL > MaxSession:
		return sluice.Errorf(sluice.InvalidRequest, "ttl %s: a session lasts %s to %s", w.TTL, MinSession, MaxSession).With("field", "ttl")
	case w.LinkTTL < MinLink || w.LinkTTL > MaxLink:
		return sluice.Errorf(sluice.InvalidRequest, "link_ttl %s: a link can be used for %s to %s", w.LinkTTL, MinLink, MaxLink).With("field", "link_ttl")
	}
	return nil
}

// MadeLink is a new link with its code, which is shown once. A code is text of this form, 79
// characters long, and only its hash is stored:
//
//	plk_ 5d41402abc4b2a76b9719d911017c592 mFqk…  43 characters
//	│    │                                └ 32 random bytes, base64url without padding
//	│    └ the first 16 bytes of the SHA-256 of the principal, in hexadecimal
//	└ codePrefix
type MadeLink struct {
	PortalLink

	Code  string
	Verbs []sluice.Verb // of the session
}

// Link makes a link that opens one session of the portal with a part of a grant. Root, the holder
// of the grant, and the holders of its ancestors may make links. Codes InvalidRequest; NotFound;
// Forbidden for other callers that see the grant; Conflict if it has ended; CapabilityRequired;
// QuotaExceeded. Code Unavailable on a server without a portal. The times are cut to the second,
// and no session outlasts its grant. It is not idempotent: every call makes a link, and all open
// ones count towards maxOpenLinks. The count is not exact for concurrent calls.
func (a *Authority) Link(ctx context.Context, by sluice.Caller, w LinkWish) (MadeLink, error) {
	switch err := w.check(); {
	case err != nil:
		return MadeLink{}, err
	case a.needs.Links == nil:
		return MadeLink{}, sluice.Errorf(sluice.Unavailable, "this server has no portal")
	case by.Lasting != "":
		return MadeLink{}, sluice.Errorf(sluice.Forbidden, "a session of the portal makes no links; use the token of a grant")
	}
	g, err := a.linked(ctx, by, w)
	if err != nil {
		return MadeLink{}, err
	}
	now := a.needs.Now().UTC().Truncate(time.Second)
	l := PortalLink{
		Grant: g.ID, Principal: g.Principal, Namespace: g.Object.Namespace, Next: w.Next, MadeBy: by.Principal,
		SessionUntil: earlier(now.Add(w.TTL), g.ExpiresAt),
	}
	l.ExpiresAt = earlier(now.Add(w.LinkTTL), l.SessionUntil)
	session, err := a.sessionOf(&g, &l)
	if err != nil {
		return MadeLink{}, err
	}
	code, err := a.keepLink(ctx, by, l)
	return MadeLink{l, code, session.Verbs}, err
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// linked returns the grant that a link is for.
func (a *Authority) linked(ctx context.Context, by sluice.Caller, w LinkWish) (sluice.Grant, error) {
	if w.Grant == "" {
		return a.standing(ctx, by, w)
	}
	g, known := a.needs.Index.Grant(w.Grant)
	if !known {
		if _, err := a.lookUp(ctx, w.Grant); err != nil {
			return g.Grant, err
		}
		g, known = a.needs.Index.Grant(w.Grant)
	}
	switch {
	case known && (by.Unbounded() || g.ID == by.Grant || a.gave(by, &g.Grant)):
	case known && (a.isHolder(by, &g.Grant) || a.rules(by, &g.Grant)):
		return g.Grant, sluice.Errorf(sluice.Forbidden, "only root, its holder with its token, and the holders of the grants that it derives from can link to the portal of a grant, because the session acts as %s", g.Principal)
	default:
		return g.Grant, authz.Concealed()
	}
	if g.Session {
		return g.Grant, sluice.Errorf(sluice.InvalidRequest, "grant %s is a session of the portal; use the grant that it derives from, %s", g.ID, g.Parent).With("field", "grant")
	}
	_, err := a.needs.Index.Live(g.ID, a.needs.Now())
	if sluice.CodeOf(err) == sluice.Unauthenticated {
		err = sluice.Errorf(sluice.Conflict, "the grant, or a grant that it derives from, was revoked or has expired; issue a new one")
	}
	return g.Grant, err
}

// standing returns the longest-lasting grant for the principal and the object of a wish, or issues
// a new one. Subscriptions that are created in a session depend on this grant. A grant serves only
// if it was issued with the caller's own grant, without on_behalf_of, and lasts as long as the
// session.
func (a *Authority) standing(ctx context.Context, by sluice.Caller, w LinkWish) (best sluice.Grant, err error) {
	now := a.needs.Now().UTC()
	verbs := []sluice.Verb{sluice.VerbRead, sluice.VerbSubscribe}
	if w.Object.Entity != "" {
		verbs = []sluice.Verb{sluice.VerbSubscribe}
	}
	for _, r := range a.needs.Index.Records(func(r authz.Record) bool { return r.Grant != nil && r.Grant.Principal == w.Principal }) {
		g := r.Grant
		if g.Parent == by.Grant && g.Object == *w.Object && g.OnBehalfOf == "" && g.RevokedAt == nil && !g.Session && len(portalVerbs(&g.Grant)) == len(verbs) && g.ExpiresAt.After(best.ExpiresAt) {
			best = g.Grant
		}
	}
	until := now.Add(sluice.MaxGrantAge)
	if parent, ok := a.needs.Index.Grant(by.Grant); ok {
		until = earlier(until, parent.ExpiresAt)
	}
	if enough := earlier(now.Add(w.TTL), until).Truncate(time.Second); !best.ExpiresAt.Before(enough) {
		return best, nil
	}
	m, err := a.Mint(ctx, by, Wish{Principal: w.Principal, Verbs: verbs, Object: w.Object, ExpiresAt: until, Description: "portal"})
	return m.Grant, err
}

// portalVerbs returns the verbs of a grant that the portal uses.
func portalVerbs(g *sluice.Grant) (verbs []sluice.Verb) {
	for _, v := range []sluice.Verb{sluice.VerbRead, sluice.VerbSubscribe} {
		if g.Allows(v) && (v != sluice.VerbRead || g.Object.Entity == "") {
			verbs = append(verbs, v)
		}
	}
	return verbs
}

// sessionOf returns the session that a link opens, a part of its grant.
func (a *Authority) sessionOf(g *sluice.Grant, l *PortalLink) (sluice.Grant, error) {
	now := a.needs.Now().UTC()
	id, err := uuid.NewV7()
	if err != nil {
		return sluice.Grant{}, fmt.Errorf("generate an ID: %w", err)
	}
	session := sluice.Grant{
		ID: id.String(), Principal: g.Principal, Verbs: portalVerbs(g), Object: g.Object, IssuedBy: l.MadeBy, Parent: g.ID,
		IssuedAt: now.Truncate(time.Second), ExpiresAt: l.SessionUntil, Description: "session of the portal", Session: true,
	}
	switch {
	case g.Object.Namespace == "":
		return session, sluice.Errorf(sluice.InvalidRequest, "the grant is for everything; the portal shows one namespace").With("field", "grant")
	case len(session.Verbs) == 0:
		return session, sluice.Errorf(sluice.CapabilityRequired, "the portal needs a grant with the verb read or subscribe")
	}
	return session, cmp.Or(session.Check(now), a.narrows(&session), a.bounded(session.Parent))
}

// keepLink stores a link, with an entry in the ledger, and returns its code. The ledger has the
// entry before the store has the link; an entry without a link is marked as failed.
func (a *Authority) keepLink(ctx context.Context, by sluice.Caller, l PortalLink) (code string, err error) {
	others, err := a.needs.Links.All(ctx, streams.PortalLinkKey(hashOf(string(l.Principal)), "*"))
	if err != nil {
		return "", fmt.Errorf("links: %w", err)
	}
	open := 0
	for i := range others {
		if others[i].open(a.needs.Now()) {
			open++
		}
	}
	if open >= maxOpenLinks {
		return "", sluice.Errorf(sluice.QuotaExceeded, "%d links for %s are open, the limit; use one, or wait until one expires", maxOpenLinks, l.Principal).With("retry_after", int(MaxLink.Seconds()))
	}
	if code, err = newCode(l.Principal); err != nil {
		return "", err
	}
	change := changeOf(by, sluice.ActionPortalLink, l.Namespace, l.Grant)
	change.New = l
	intent, err := a.needs.Ledger.Intend(ctx, nil, change)
	if err != nil {
		return "", err
	}
	if _, err = a.needs.Links.Put(ctx, keyOf(code), l, 0); err != nil {
		intent.Fail(ctx, err)
		return "", fmt.Errorf("store the link: %w", err)
	}
	return code, nil
}

const (
	codePrefix = "plk_" // recognizable by secret scanners
	codeBytes  = 32     // random
	hashChars  = 32     // length of the hash of the principal, with which a code begins
)

// hashOf returns a hash for a part of a key.
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:hashChars/2])
}

func newCode(p sluice.Principal) (string, error) {
	random := make([]byte, codeBytes)
	if _, err := rand.Read(random); err != nil {
		return "", fmt.Errorf("generate a code: %w", err)
	}
	return codePrefix + hashOf(string(p)) + base64.RawURLEncoding.EncodeToString(random), nil
}

// keyOf returns the key of a code's link, "" if the text is not a code. The key is a hash, so that
// the duration of a lookup reveals nothing about the stored codes.
func keyOf(code string) string {
	rest, ok := strings.CutPrefix(code, codePrefix)
	if !ok || len(rest) != hashChars+base64.RawURLEncoding.EncodedLen(codeBytes) {
		return ""
	}
	principal, random := rest[:hashChars], rest[hashChars:]
	if _, err := hex.DecodeString(principal); err != nil || strings.ToLower(principal) != principal {
		return ""
	}
	if _, err := base64.RawURLEncoding.DecodeString(random); err != nil {
		return ""
	}
	sum := sha256.Sum256([]byte(code))
	return streams.PortalLinkKey(principal, hex.EncodeToString(sum[:]))
}

// Session is an opened session of the portal. Next is the page of the link's wish.
type Session struct {
	Minted

	Next string
}

// Open opens the session of a link, once. Code Unauthenticated, with the reason in the details, if
// the code is unknown, was used or has expired, or if the link's grant has ended. The link is used
// up before the session is stored: if storing that fails, the person needs a new link. The session
// is a grant of its own, derived from the link's, and ends with it. Other codes: those with which
// the session can no longer be derived from the grant, as in Link, and Unavailable; the link then
// usually remains open.
func (a *Authority) Open(ctx context.Context, code string) (Session, error) {
	key := keyOf(code)
	if key == "" || a.needs.Links == nil {
		return Session{}, linkRefused(authz.Malformed, "the code was not issued by this server")
	}
	l, revision, err := a.needs.Links.Get(ctx, key)
	if sluice.CodeOf(err) == sluice.NotFound {
		return Session{}, linkRefused(authz.Expired, "the link is unknown or has expired; ask for a new one")
	}
	if err != nil {
		return Session{}, fmt.Errorf("read the link: %w", err)
	}
	session, who, err := a.opens(ctx, &l)
	if err == nil {
		err = a.use(ctx, key, l, revision)
	}
	if err != nil {
		a.noteRefusal(ctx, key, err)
		return Session{}, err
	}
	m, err := a.sign(model.WithCaller(ctx, who), who, sluice.ActionPortalSession, session, func(authz.Record) error { return nil })
	return Session{m, l.Next}, err
}

// opens returns the session that a link opens now, and the holder of its grant.
func (a *Authority) opens(ctx context.Context, l *PortalLink) (session sluice.Grant, who sluice.Caller, err error) {
	switch now := a.needs.Now(); {
	case l.UsedAt != nil:
		return session, who, errUsed()
	case !l.open(now):
		return session, who, linkRefused(authz.Expired, "the link has expired; ask for a new one")
	}
	who = sluice.Caller{Principal: l.Principal, Grant: l.Grant}
	if _, err = a.holder(ctx, l.Grant, func(now time.Time) (sluice.Caller, bool, error) {
		known, err := a.needs.Index.Live(l.Grant, now)
		return who, known, err
	}); err != nil {
		return session, who, err
	}
	g, _ := a.needs.Index.Grant(l.Grant)
	session, err = a.sessionOf(&g.Grant, l)
	return session, who, err
}

// use marks a link as used. Of several concurrent uses, even on different replicas, only one
// succeeds.
func (a *Authority) use(ctx context.Context, key string, l PortalLink, revision uint64) error {
	now := a.needs.Now().UTC()
	l.UsedAt = &now
	_, err := a.needs.Links.Put(ctx, key, l, revision)
	if sluice.CodeOf(err) == sluice.Conflict {
		return errUsed()
	}
	if err != nil {
		return fmt.Errorf("use the link: %w", err)
	}
	return nil
}

// noteRefusal writes the first refused use of a link to the ledger: either another person has the
// code, or the request was sent twice. Later refusals are only in the request log, because they
// could fill the ledger.
func (a *Authority) noteRefusal(ctx context.Context, key string, why error) {
	l, revision, err := a.needs.Links.Get(ctx, key)
	if sluice.CodeOf(why) != sluice.Unauthenticated || err != nil || l.RefusedAt != nil {
		return
	}
	now := a.needs.Now().UTC()
	l.RefusedAt = &now
	if _, err := a.needs.Links.Put(ctx, key, l, revision); err != nil {
		return // another refusal is noted
	}
	a.needs.Ledger.Note(ctx, nil, ledger.Change{
		Actor: string(sluice.Anonymous), Action: sluice.ActionPortalSession, Namespace: l.Namespace, Resource: l.Grant, New: l,
	}).Fail(ctx, why)
}

func errUsed() error {
	return linkRefused(authz.Replayed, "the link has been used; it works once. Ask for a new one")
}

func linkRefused(why authz.Reason, message string) *sluice.Error {
	return sluice.Errorf(sluice.Unauthenticated, "%s", message).With("reason", string(why))
}
