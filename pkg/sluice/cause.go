package sluice

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Extension attributes with the cause and the producer of an event.
const (
	CausationID   = "causationid"   // ID of the event in the same namespace that caused it
	CorrelationID = "correlationid" // common ID of all events of one workflow; copied, never followed
	AuthID        = "authid"        // the principal that published it; set by the server
	AuthType      = "authtype"      // kind of the principal; set by the server
	AuthClaims    = "authclaims"    // the server removes it, because it makes no claims
)

// Values of authtype.
const (
	AuthSystem  = "system"
	AuthUser    = "user"
	AuthService = "service_account"
	AuthAgent   = "ai_agent"
	AuthUnknown = "unknown"
)

// MaxHops is the maximum length of a causation chain.
const MaxHops = 32

// Link is an event in a causation chain.
type Link struct {
	ID    string `json:"id"`
	Type  string `json:"type"`
	Path  Path   `json:"path"`
	Cause string `json:"-"` // ID of the event that caused it; empty: none
	Seq   uint64 `json:"-"` // 0: not stored
}

// Link returns the event as a link of a causation chain.
func (e *Event) Link() Link {
	return Link{ID: e.ID, Type: e.Type, Path: e.Path, Cause: e.Extensions[CausationID], Seq: e.Seq}
}

// Unsafe is the record of a producer whose event was part of a causation loop. While it exists, the
// server refuses events of the producer that name a cause.
type Unsafe struct {
	Producer  string    `json:"producer"` // a principal, or the result of SourceProducer
	Since     time.Time `json:"since"`
	LastAt    time.Time `json:"last_at"`
	Count     uint64    `json:"count"` // number of loops detected since then
	Namespace string    `json:"namespace"`
	Event     Link      `json:"event"` // the last refused event
	Chain     []Link    `json:"chain"` // its causes, nearest first
	Hops      int       `json:"hops"`

	Told *UnsafeTold `json:"-"` // the last system event about the record
}

// UnsafeTold is a system event about an unsafe producer.
type UnsafeTold struct {
	At        time.Time `json:"at"`
	Count     uint64    `json:"count"`
	Namespace string    `json:"namespace"`
	Event     Link      `json:"event"`
	Hops      int       `json:"hops"`
}

const maxSource = 256 // maximum size of a source in a producer's name, in bytes

// SourceProducer returns the name of a producer that is known only by the source in its events,
// because it publishes through NATS. No principal has such a name. If the source is long or is not
// clean text, the name contains its hash.
func SourceProducer(namespace, source string) string {
	if len(source) > maxSource || !utf8.ValidString(source) || strings.ContainsFunc(source, unicode.IsControl) {
		source = fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(source)))
	}
	return "source:" + namespace + ":" + source
}

// ProducedBy sets the event's producer and its kind (authtype), overriding the publisher's own
// attributes (S4-80).
func (e *Event) ProducedBy(principal Principal, authType string) {
	if e.Extensions == nil {
		e.Extensions = map[string]string{}
	}
	delete(e.Extensions, AuthClaims)
	e.Extensions[AuthID] = string(principal)
	e.Extensions[AuthType] = authType
}

// AuthTypeOf returns the kind of a principal in the terms of the CloudEvents auth context, or
// ai_agent, which the auth context does not define. For the holder of a grant, use
// authz.Index.AuthType instead.
func AuthTypeOf(principal Principal) string {
	kind, _, named := strings.Cut(string(principal), ":")
	switch {
	case principal == Root, kind == "system":
		return AuthSystem
	case named && kind == "user":
		return AuthUser
	case named && (kind == "service" || kind == "module"):
		return AuthService
	case named && kind == "ai_agent":
		return AuthAgent
	}
	return AuthUnknown
}
