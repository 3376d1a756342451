package sluice

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits of a path, in bytes and segments.
const (
	MaxPathBytes    = 512
	MaxPathSegments = 32
)

// Path is the location of an event: "/" and one to 32 segments separated by "/", at most 512 bytes
// of UTF-8. Segments may be empty; they contain no "*" (S1-26) and no control bytes, and are
// neither "." nor "..".
type Path string

// ParsePath parses a path. Code InvalidRequest if s is not valid.
func ParsePath(s string) (Path, error) {
	p, err := StoredPath(s)
	if err == nil {
		err = checkDots("path", s)
	}
	if err != nil {
		return "", err
	}
	return p, nil
}

// StoredPath parses a path of a stored event, which may have dot segments: earlier releases
// accepted them, and publishers on NATS can write them. Code InvalidRequest if s is not valid.
func StoredPath(s string) (Path, error) {
	if err := checkForm("path", s); err != nil {
		return "", err
	}
	if strings.Contains(s, "*") {
		return "", Errorf(InvalidRequest, "path %q: * is allowed in patterns, not in paths", s).With("field", "path")
	}
	return Path(s), nil
}

// Segments returns the path's segments, without the leading slash.
func (p Path) Segments() []string { return strings.Split(string(p[1:]), "/") }

// Reserved reports whether the first segment starts with "_sys" or "$". Only the server writes such
// paths.
func (p Path) Reserved() bool {
	return strings.HasPrefix(string(p), "/_sys") || strings.HasPrefix(string(p), "/$")
}

// CheckReserved returns an error (Forbidden) if only the server writes the path.
func (p Path) CheckReserved() error {
	if p.Reserved() {
		return Errorf(Forbidden, "path %q: paths that start with /_sys or /$ are reserved", p).With("field", "path")
	}
	return nil
}

// Dotted reports whether a segment is "." or "..", literally or as %2e. HTTP clients resolve such
// segments and would request a different path (WHATWG URL, 4.1).
func (p Path) Dotted() bool {
	if !strings.Contains(string(p), "/.") && !strings.Contains(string(p), "/%2") {
		return false
	}
	return slices.ContainsFunc(p.Segments(), func(segment string) bool {
		plain := strings.ReplaceAll(strings.ReplaceAll(segment, "%2e", "."), "%2E", ".")
		return plain == "." || plain == ".."
	})
}

// checkDots returns an error if s has a dot segment; what is its name in the message.
func checkDots(what, s string) error {
	if Path(s).Dotted() {
		return Errorf(InvalidRequest, "%s %q has the segment . or .., which HTTP clients resolve; choose another name", what, s).With("field", what)
	}
	return nil
}

func checkForm(what, s string) error {
	switch {
	case len(s) > MaxPathBytes:
		return Errorf(InvalidRequest, "%s is longer than %d bytes", what, MaxPathBytes).With("field", what)
	case !strings.HasPrefix(s, "/"):
		return Errorf(InvalidRequest, "%s %q does not start with /%s", what, s, instead(what, s)).With("field", what)
	case s == "/":
		return Errorf(InvalidRequest, "%s / has no segments%s", what, instead(what, s)).With("field", what)
	case strings.Count(s, "/") > MaxPathSegments:
		return Errorf(InvalidRequest, "%s has more than %d segments", what, MaxPathSegments).With("field", what)
	case !utf8.ValidString(s):
		return Errorf(InvalidRequest, "%s is not UTF-8", what).With("field", what)
	case strings.ContainsFunc(s, control):
		return Errorf(InvalidRequest, "%s %q has a control character", what, s).With("field", what)
	}
	return nil
}

// instead returns advice on a path or pattern without a leading slash, for the end of a message. If
// the text is in the form of NATS, the advice has it in Sluice's form.
func instead(what, s string) string {
	slashed := "/" + strings.TrimPrefix(s, "/")
	switch {
	case what == "path" && s != "" && s != "/":
		if _, err := ParsePath(slashed); err != nil {
			return ""
		}
	case what != "pattern":
		return ""
	case s == "*" || s == ">" || s == "" || s == "/":
		return `; write "/**" for all events, or "/*" for those on paths of one segment`
	default:
		if !strings.Contains(s, "/") {
			slashed = "/" + strings.ReplaceAll(strings.ReplaceAll(s, ".", "/"), ">", "**")
		}
		if _, err := ParsePattern(slashed); err != nil {
			return ""
		}
	}
	return fmt.Sprintf("; write %q", slashed)
}
