package sluice

import (
	"context"
	"strings"
)

// Principal is who does something: "<kind>:<name>" such as "user:ann", or one of the server's own, "root" and "system".
type Principal string

// The server's own principals. Root is whoever has the root token; it may do everything. System
// is the server itself. Anonymous is everybody of whom nothing is known, where that is enough.
const (
	Root      Principal = "root"
	System    Principal = ActorSystem
	Anonymous Principal = "anonymous:anybody"
)

// PrincipalKind is what a principal is.
type PrincipalKind string

// The kinds of principals.
const (
	UserPrincipal    PrincipalKind = "user"
	AgentPrincipal   PrincipalKind = "ai_agent"
	ServicePrincipal PrincipalKind = "service"
	SystemPrincipal  PrincipalKind = "system"
)

// maxPrincipal bounds a principal, in bytes: it is part of keys.
const maxPrincipal = 128

// ParsePrincipal returns s as a principal that grants can be given to. Code InvalidRequest unless
// it is a kind, ":" and 1 to 100 of A–Z, a–z, 0–9 and "_-.@+".
func ParsePrincipal(s string) (Principal, error) {
	kind, name, _ := strings.Cut(s, ":")
	switch PrincipalKind(kind) {
	case UserPrincipal, AgentPrincipal, ServicePrincipal, SystemPrincipal:
	default:
		return "", Errorf(InvalidRequest, "principal %q: write user:, ai_agent:, service: or system: and a name", clip(s)).With("field", "principal")
	}
	if name == "" || len(s) > maxPrincipal || strings.ContainsFunc(name, strangeInName) {
		return "", Errorf(InvalidRequest, "principal %q: the name has up to 100 of A-Z, a-z, 0-9, _ - . @ and +", clip(s)).With("field", "principal")
	}
	return Principal(s), nil
}

func strangeInName(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("_-.@+", r)
}

// clip returns the beginning of a text that is shown to whoever sent it.
func clip(s string) string {
	if len(s) > maxPrincipal {
		return s[:maxPrincipal] + "…"
	}
	return s
}

// Kind returns what the principal is; root and system are of the kind system.
func (p Principal) Kind() PrincipalKind {
	kind, _, named := strings.Cut(string(p), ":")
	if !named {
		return SystemPrincipal
	}
	return PrincipalKind(kind)
}

// Caller is who asks for something, and under which grant. The zero Caller is nobody.
type Caller struct {
	Principal Principal
	Grant     string // id; "" of root and system
}

// Unbounded reports whether no grant bounds the caller.
func (c Caller) Unbounded() bool {
	return c.Grant == "" && (c.Principal == Root || c.Principal == System)
}

// Unknown reports whether the caller is somebody of whom nothing is known.
func (c Caller) Unknown() bool { return c.Grant == "" && c.Principal == Anonymous }

type callerKey struct{}

// WithCaller returns a context that carries who asks for what it serves.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerFrom returns who asks for what the context serves: nobody if it does not say.
func CallerFrom(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}

// Profile is what is known of a principal besides its grants.
type Profile struct {
	Principal   Principal `json:"principal"`
	Clearance   Label     `json:"clearance"`
	Description string    `json:"description,omitempty"`
}
