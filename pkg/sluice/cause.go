package sluice

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Extension attributes that say what an event came of and who produced it.
const (
	CausationID   = "causationid"   // id of the event in the same namespace that caused it
	CorrelationID = "correlationid" // what all events of one affair share; carried along, never followed
	AuthID        = "authid"        // the principal that published it; the server says so
	AuthType      = "authtype"      // of what kind it is; the server says so
	AuthClaims    = "authclaims"    // nothing that the server says
)

// Values of authtype.
const (
	AuthSystem  = "system"
	AuthUser    = "user"
	AuthService = "service_account"
	AuthAgent   = "ai_agent"
	AuthUnknown = "unknown"
)

// MaxHops is how long a chain of causes may be.
const MaxHops = 32

// Link is an event in a chain of causes.
type Link struct {
	ID    string `json:"id"`
	Type  string `json:"type"`
	Path  Path   `json:"path"`
	Cause string `json:"-"` // id of the event that caused it; empty: it names none
	Seq   uint64 `json:"-"` // 0: it is not stored
}

// Link returns what a chain of causes keeps of the event.
func (e *Event) Link() Link {
	return Link{ID: e.ID, Type: e.Type, Path: e.Path, Cause: e.Extensions[CausationID], Seq: e.Seq}
}

// Unsafe is the mark of a producer whose event came of itself. While it stands, events of the
// producer that name a cause are refused.
type Unsafe struct {
	Producer  string    `json:"producer"` // a principal, or what SourceProducer returns
	Since     time.Time `json:"since"`
	LastAt    time.Time `json:"last_at"`
	Count     uint64    `json:"count"` // loops that were found since
	Namespace string    `json:"namespace"`
	Event     Link      `json:"event"` // the last one that was refused
	Chain     []Link    `json:"chain"` // its causes, the nearest first
	Hops      int       `json:"hops"`

	Told *UnsafeTold `json:"-"` // what was, or is to be, told of it last
}

// UnsafeTold is what is told of a mark.
type UnsafeTold struct {
	At        time.Time `json:"at"`
	Count     uint64    `json:"count"`
	Namespace string    `json:"namespace"`
	Event     Link      `json:"event"`
	Hops      int       `json:"hops"`
}

const maxSource = 256 // bytes of a source in a producer's name

// SourceProducer returns the name of a producer that is known by the source that it writes into
// its events only: whoever publishes to NATS. No principal is called so. A source that is long or
// no clean text is represented by its hash.
func SourceProducer(namespace, source string) string {
	if len(source) > maxSource || !utf8.ValidString(source) || strings.ContainsFunc(source, unicode.IsControl) {
		source = fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(source)))
	}
	return "source:" + namespace + ":" + source
}

// ProducedBy says in the event who produced it and of which kind (authtype) that is, whatever the event said of that
// itself (S4-80).
func (e *Event) ProducedBy(principal Principal, authType string) {
	if e.Extensions == nil {
		e.Extensions = map[string]string{}
	}
	delete(e.Extensions, AuthClaims)
	e.Extensions[AuthID] = string(principal)
	e.Extensions[AuthType] = authType
}

// AuthTypeOf returns what kind of principal one is, in the words of CloudEvents' auth context, and
// ai_agent, for which it has none. Of the holder of a grant it is not the whole answer: access.Index.AuthType is.
func AuthTypeOf(principal Principal) string {
	kind, _, named := strings.Cut(string(principal), ":")
	switch {
	case principal == Root, kind == "system":
		return AuthSystem
	case named && kind == "user":
		return AuthUser
	case named && kind == "service":
		return AuthService
	case named && kind == "ai_agent":
		return AuthAgent
	}
	return AuthUnknown
}
