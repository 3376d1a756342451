package sluice

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Verb is an operation that a grant allows.
type Verb string

// The verbs. Admin includes the others.
const (
	VerbRead      Verb = "read"
	VerbPublish   Verb = "publish"
	VerbSubscribe Verb = "subscribe"
	VerbMirror    Verb = "mirror"
	VerbAdmin     Verb = "admin"
)

// Verbs returns all verbs.
func Verbs() []Verb { return []Verb{VerbRead, VerbPublish, VerbSubscribe, VerbMirror, VerbAdmin} }

// Denial is what denies the holder of a grant a verb for an object.
type Denial string

// The denials.
const (
	// DeniedByGrant: the grant, or one that it derives from, lacks the verb or does not cover the object.
	DeniedByGrant Denial = "grant"
	// DeniedByList: the access list of the namespace does not give the verb to a principal of the grants.
	DeniedByList Denial = "access_list"
	// DeniedByLabel: a principal of the grants is not cleared for the label of the namespace.
	DeniedByLabel Denial = "label"
)

// Object is the scope of a grant: "*", everything; "scope:<ns>", a namespace;
// "path:<ns>/<pattern>", some of its paths; "entity:<ns>/<entity>", its events about one entity
// (S0-54). The zero Object is everything.
type Object struct {
	Namespace string  // "": everything
	Pattern   Pattern // "": the whole namespace, including system paths
	Entity    string  // "": any entity; otherwise only events with this Event.Entity
}

// ParseObject parses an object. Code InvalidRequest if s is not one.
func ParseObject(s string) (Object, error) {
	if s == "*" {
		return Object{}, nil
	}
	kind, rest, _ := strings.Cut(s, ":")
	o := Object{Namespace: rest}
	switch kind {
	case "scope":
	case "path":
		ns, pattern, _ := strings.Cut(rest, "/")
		o.Namespace = ns
		var err error
		if o.Pattern, err = storedPattern("/" + pattern); err != nil {
			return Object{}, err
		}
	case "entity":
		o.Namespace, o.Entity, _ = strings.Cut(rest, "/")
		if err := checkEntity(o.Entity); err != nil {
			return Object{}, err
		}
	default:
		return Object{}, Errorf(InvalidRequest, "object %q: write scope:<namespace>, path:<namespace>/<pattern>, entity:<namespace>/<uri> or *", clip(s)).With("field", "object")
	}
	return o, CheckNamespaceName(o.Namespace)
}

// checkEntity returns an error unless an entity is a valid subject in a filter.
func checkEntity(entity string) error {
	if entity == "" || strings.ContainsFunc(entity, control) {
		return Errorf(InvalidRequest, "object: write entity:<namespace>/<uri>, with a URI that has no control characters").With("field", "object")
	}
	return text("object", entity, MaxMetadataValue)
}

// String returns the form that ParseObject parses.
func (o Object) String() string {
	switch {
	case o.Namespace == "":
		return "*"
	case o.Entity != "" && (o.Pattern == "" || o.Pattern == "/**"):
		return "entity:" + o.Namespace + "/" + o.Entity
	case o.Pattern == "":
		return "scope:" + o.Namespace
	}
	return "path:" + o.Namespace + string(o.Pattern)
}

// MarshalText returns String.
func (o Object) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText is ParseObject.
func (o *Object) UnmarshalText(text []byte) (err error) {
	*o, err = ParseObject(string(text))
	return err
}

// Has reports whether a path of a namespace, with all its events, is part of the object.
func (o Object) Has(namespace string, path Path) bool {
	return o.Namespace == "" || o.Namespace == namespace && o.Entity == "" && (o.Pattern == "" || o.Pattern.Match(path))
}

// Covers reports whether o includes all of p.
func (o Object) Covers(p Object) bool {
	switch {
	case o.Namespace == "":
		return true
	case o.Namespace != p.Namespace:
		return false
	case o.Entity != "" && o.Entity != p.Entity:
		return false
	case o.Pattern == "":
		return true
	}
	return o.Pattern.Covers(p.Pattern)
}

// Touches reports whether o and p overlap.
func (o Object) Touches(p Object) bool {
	if o.Namespace == "" || p.Namespace == "" {
		return true
	}
	if o.Entity != "" && p.Entity != "" && o.Entity != p.Entity {
		return false
	}
	return o.Namespace == p.Namespace && (o.Pattern == "" || p.Pattern == "" || o.Pattern.Overlaps(p.Pattern))
}

// MaxGrantAge is the maximum lifetime of a grant from its issue or renewal.
const MaxGrantAge = 90 * 24 * time.Hour

// MaxGrantDepth is the maximum length of a chain of derived grants.
const MaxGrantDepth = 8

// Grant is a capability: the permissions of a principal and their expiry. It does not contain the
// token.
type Grant struct {
	ID        string    `json:"id"`
	Principal Principal `json:"principal"`
	Verbs     []Verb    `json:"verbs"`
	Object    Object    `json:"object"`
	IssuedBy  Principal `json:"issued_by"`
	// Parent is the grant that it derives from; "": root issued it.
	Parent string `json:"parent,omitempty"`
	// OnBehalfOf is the principal whose permissions also apply (S4-60).
	OnBehalfOf  Principal  `json:"on_behalf_of,omitempty"`
	IssuedAt    time.Time  `json:"issued_at"`
	ExpiresAt   time.Time  `json:"expires_at"`
	RevokedAt   *time.Time `json:"revoked_at,omitempty"`
	RevokedBy   Principal  `json:"revoked_by,omitempty"`
	Description string     `json:"description,omitempty"`
	// Session marks a session of the portal. What the session creates depends on its parent.
	Session  bool   `json:"session,omitempty"`
	Revision uint64 `json:"revision"`
}

// Allows reports whether the grant has the verb or admin.
func (g *Grant) Allows(v Verb) bool {
	return slices.Contains(g.Verbs, v) || slices.Contains(g.Verbs, VerbAdmin)
}

// Check returns an error (InvalidRequest) unless the grant can be issued at the given time.
func (g *Grant) Check(now time.Time) error {
	if _, err := ParsePrincipal(string(g.Principal)); err != nil {
		return err
	}
	if g.OnBehalfOf != "" {
		if _, err := ParsePrincipal(string(g.OnBehalfOf)); err != nil {
			return err
		}
	}
	if err := checkVerbs(g.Verbs); err != nil {
		return err
	}
	switch {
	case g.Object.Entity != "" && !slices.Equal(g.Verbs, []Verb{VerbSubscribe}):
		return Errorf(InvalidRequest, "a grant for an entity can only have the verb subscribe; for other verbs, use paths or the namespace").With("field", "verbs")
	case Path(g.Object.Pattern).Dotted():
		return Errorf(InvalidRequest, "object %s has the segment . or .., which is not allowed in a path", g.Object).With("field", "object")
	case g.ExpiresAt.IsZero():
		return Errorf(InvalidRequest, "expires_at is missing: a grant lasts at most %d days", MaxGrantAge/(24*time.Hour)).With("field", "expires_at")
	case !g.ExpiresAt.After(now):
		return Errorf(InvalidRequest, "expires_at %s is not in the future", g.ExpiresAt.Format(time.RFC3339)).With("field", "expires_at")
	case g.ExpiresAt.After(now.Add(MaxGrantAge)):
		return Errorf(InvalidRequest, "expires_at is more than %d days ahead", MaxGrantAge/(24*time.Hour)).With("field", "expires_at")
	case len(g.Description) > 1024:
		return Errorf(InvalidRequest, "description: use up to 1024 bytes").With("field", "description")
	}
	return nil
}

func checkVerbs(verbs []Verb) error {
	if len(verbs) == 0 {
		return Errorf(InvalidRequest, "verbs is missing: use some of %s", verbList()).With("field", "verbs")
	}
	for i, v := range verbs {
		if !slices.Contains(Verbs(), v) || slices.Contains(verbs[:i], v) {
			return Errorf(InvalidRequest, "verb %q: use each of %s at most once", clip(string(v)), verbList()).With("field", "verbs")
		}
	}
	return nil
}

func verbList() string { return strings.Trim(fmt.Sprint(Verbs()), "[]") }

// Tier is a principal's level of access in a namespace with an access list.
type Tier uint8

// The tiers; each includes the previous ones. Without a tier, the namespace is not even visible.
const (
	TierNone Tier = iota
	TierExistence
	TierRead
	TierWrite
	TierAdmin
)

func tierNames() [5]string { return [...]string{"none", "existence", "read", "write", "admin"} }

// String returns the tier's name.
func (t Tier) String() string { return tierNames()[min(t, TierAdmin)] }

// MarshalText returns the tier's name.
func (t Tier) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText parses a tier's name. Code InvalidRequest if there is no such tier.
func (t *Tier) UnmarshalText(text []byte) error {
	names := tierNames()
	i := slices.Index(names[1:], string(text))
	if i < 0 {
		return Errorf(InvalidRequest, "tier %q: use one of %s", clip(string(text)), strings.Join(names[1:], ", ")).With("field", "tier")
	}
	*t = Tier(i + 1) //nolint:gosec // one of five
	return nil
}

// Tier returns the tier that a verb requires.
func (v Verb) Tier() Tier {
	switch v {
	case VerbRead, VerbSubscribe, VerbMirror:
		return TierRead
	case VerbPublish:
		return TierWrite
	case VerbAdmin:
	}
	return TierAdmin
}

// Access is one entry of an access list.
type Access struct {
	Tier    Tier    `json:"tier"`
	Pattern Pattern `json:"pattern"` // "/**" includes system paths if the tier is admin
}

// ACL is the set of a principal's entries in a namespace.
type ACL struct {
	Namespace string    `json:"namespace"`
	Principal Principal `json:"principal"`
	Entries   []Access  `json:"entries"`
}

// Everything reports whether the entry covers the whole namespace.
func (a Access) Everything() bool { return a.Pattern == "/**" }

// Tombstone records that all events on a path up to a sequence are erased and never sent again.
type Tombstone struct {
	Namespace string    `json:"namespace"`
	Path      Path      `json:"path"`
	UpTo      uint64    `json:"up_to_seq"`
	By        Principal `json:"by"`
	At        time.Time `json:"at"`
}
