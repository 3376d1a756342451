package catalogue

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// A refusal quotes no more than 100 bytes of the data: names of members in the pointer, and one
// value or name in the reason.
const (
	maxPointer = 64
	maxQuoted  = 32
	maxReason  = 240
)

// fault is the place and the reason of a violation of a schema.
type fault struct {
	pointer string // RFC 6901; "": the whole
	reason  string
}

// faultOf returns the first violation in the data, and of nested violations the innermost one. Only
// one violation is reported, the same for the same data.
func faultOf(err error) *fault {
	e, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return &fault{reason: "it does not match"}
	}
	for len(e.Causes) > 0 && goesOn(e.ErrorKind) {
		first := e.Causes[0]
		for _, other := range e.Causes[1:] {
			if before(other, first) {
				first = other
			}
		}
		e = first
	}
	return &fault{pointer: pointer(e.InstanceLocation), reason: say(e.ErrorKind)}
}

// before orders faults, so that the same data always gets the same refusal.
func before(a, b *jsonschema.ValidationError) bool {
	return pointer(a.InstanceLocation) < pointer(b.InstanceLocation)
}

// goesOn reports whether the causes of a violation describe it better than the violation itself,
// which is not so for alternatives.
func goesOn(k jsonschema.ErrorKind) bool {
	switch k.(type) {
	case *kind.AnyOf, *kind.OneOf, *kind.Contains, *kind.PropertyNames:
		return false
	}
	return true
}

func pointer(tokens []string) string {
	var b strings.Builder
	for _, token := range tokens {
		b.WriteByte('/')
		b.WriteString(strings.ReplaceAll(strings.ReplaceAll(token, "~", "~0"), "/", "~1"))
	}
	return cut(b.String(), maxPointer)
}

// say describes the violation, without the data where the library would repeat it.
func say(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Pattern:
		return cut(fmt.Sprintf("does not match the pattern %q", k.Want), maxReason)
	case *kind.Format: // of a schema only: formats do not apply to data
		return cut(fmt.Sprintf("not a %s: %v", k.Want, k.Err), maxReason)
	case *kind.RefCycle:
		return "the schema is recursive: a $ref refers to itself"
	case *kind.AdditionalProperties:
		return fmt.Sprintf("%d members unknown to the schema, such as %q", len(k.Properties), cut(least(k.Properties), maxQuoted))
	case *kind.PropertyNames:
		return fmt.Sprintf("the schema does not allow the name %q", cut(k.Property, maxQuoted))
	case *kind.AnyOf:
		return "matches none of the alternatives"
	case *kind.OneOf:
		if len(k.Subschemas) > 0 {
			return "matches more than one of the alternatives"
		}
		return "matches none of the alternatives"
	case *kind.FalseSchema:
		return "no value is allowed"
	case *kind.Minimum, *kind.Maximum, *kind.ExclusiveMinimum, *kind.ExclusiveMaximum, *kind.MultipleOf:
		return cut(english(k), 2*maxQuoted)
	}
	return cut(english(k), maxReason) // these contain names and counts of the schema
}

func english(k jsonschema.ErrorKind) string {
	return k.LocalizedString(message.NewPrinter(language.English))
}

func least(names []string) string {
	first := names[0]
	for _, name := range names[1:] {
		first = min(first, name)
	}
	return first
}

// reasonOf describes why a schema is invalid.
func reasonOf(err error) string {
	if e, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		f := faultOf(e.Err)
		return strings.TrimSpace(f.reason + " at " + f.pointer)
	}
	return strings.ReplaceAll(err.Error(), itself, "")
}

// cut shortens a text to at most most bytes of valid UTF-8.
func cut(s string, most int) string {
	if len(s) <= most {
		return strings.ToValidUTF8(s, "\ufffd")
	}
	s = s[:most]
	for len(s) > 0 && !utf8.RuneStart(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	if r, size := utf8.DecodeLastRuneInString(s); r == utf8.RuneError {
		s = s[:len(s)-size]
	}
	return strings.ToValidUTF8(s, "\ufffd") + "…"
}
