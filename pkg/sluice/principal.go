package sluice

import (
	"cmp"
	"strings"
)

// Principal is the identity of an actor: "<kind>:<name>" such as "user:ann", or one of the reserved
// "root" and "system".
type Principal string

// The reserved principals. Root is the holder of the root token, and has all permissions. System is
// the server itself. Anonymous is a caller without credentials, where the server allows that.
const (
	Root      Principal = "root"
	System    Principal = ActorSystem
	Anonymous Principal = "anonymous:anybody"
)

// PrincipalKind is the kind of a principal.
type PrincipalKind string

// The kinds of principals.
const (
	UserPrincipal    PrincipalKind = "user"
	AgentPrincipal   PrincipalKind = "ai_agent"
	ServicePrincipal PrincipalKind = "service"
	SystemPrincipal  PrincipalKind = "system"
)

// maxPrincipal limits the size of a principal in bytes, because principals are part of keys.
const maxPrincipal = 128

// ParsePrincipal parses a principal that can hold grants. Code InvalidRequest unless it is a kind,
// ":" and 1 to 100 of A–Z, a–z, 0–9 and "_-.@+".
func ParsePrincipal(s string) (Principal, error) {
	kind, name, _ := strings.Cut(s, ":")
	switch PrincipalKind(kind) {
	case UserPrincipal, AgentPrincipal, ServicePrincipal, SystemPrincipal:
	default:
		return "", Errorf(InvalidRequest, "principal %q: write user:, ai_agent:, service: or system: and a name", clip(s)).With("field", "principal")
	}
	if name == "" || len(s) > maxPrincipal || strings.ContainsFunc(name, strangeInName) {
		return "", Errorf(InvalidRequest, "principal %q: use a name of up to 100 of A-Z, a-z, 0-9, _ - . @ and +", clip(s)).With("field", "principal")
	}
	return Principal(s), nil
}

func strangeInName(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("_-.@+", r)
}

// clip shortens a text for an error message.
func clip(s string) string {
	if len(s) > maxPrincipal {
		return s[:maxPrincipal] + "…"
	}
	return s
}

// Kind returns the principal's kind; root and system are of the kind system.
func (p Principal) Kind() PrincipalKind {
	kind, _, named := strings.Cut(string(p), ":")
	if !named {
		return SystemPrincipal
	}
	return PrincipalKind(kind)
}

// Caller is the principal and grant of a request. The zero Caller is unauthenticated.
type Caller struct {
	Principal Principal
	Grant     string // ID; "" for root and system
	// Lasting is the grant that a session of the portal derives from; "": Grant is not a session.
	Lasting string
}

// Binding returns the grant that the resources created by the caller depend on. They outlast a
// session.
func (c Caller) Binding() string { return cmp.Or(c.Lasting, c.Grant) }

// Unbounded reports whether the caller acts without a grant.
func (c Caller) Unbounded() bool {
	return c.Grant == "" && (c.Principal == Root || c.Principal == System)
}

// Unknown reports whether the caller is anonymous.
func (c Caller) Unknown() bool { return c.Grant == "" && c.Principal == Anonymous }

// Profile is the clearance and description of a principal.
type Profile struct {
	Principal   Principal `json:"principal"`
	Clearance   Label     `json:"clearance"`
	Description string    `json:"description,omitempty"`
}
