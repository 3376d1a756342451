package sluice

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits of a path, in bytes and segments (03-api, "Events in").
const (
	MaxPathBytes    = 512
	MaxPathSegments = 32
)

// Path says where an event lives: "/" and one to 32 segments divided by "/", at most 512
// bytes of UTF-8. Segments may be empty; they hold no "*" (S1-26) and no control bytes, and are neither "." nor "..".
type Path string

// ParsePath returns s as a path. Code InvalidRequest if s is none.
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

// StoredPath returns s as a path that an event may lie on, though it is none any more: it may have segments that are dots, which
// earlier releases took and publishers on NATS can write. Code InvalidRequest if s is none.
func StoredPath(s string) (Path, error) {
	if err := checkForm("path", s); err != nil {
		return "", err
	}
	if strings.Contains(s, "*") {
		return "", Errorf(InvalidRequest, "path %q: * belongs in patterns, not in paths", s)
	}
	return Path(s), nil
}

// Segments returns the path's segments, without the leading slash.
func (p Path) Segments() []string { return strings.Split(string(p[1:]), "/") }

// Reserved reports whether the first segment starts with "_sys" or "$": such paths are
// written by the server only.
func (p Path) Reserved() bool {
	return strings.HasPrefix(string(p), "/_sys") || strings.HasPrefix(string(p), "/$")
}

// Dotted reports whether a segment is "." or "..", as they are or as %2e: HTTP clients resolve them, and would ask for another
// path than the one that they were told of (WHATWG URL, 4.1).
func (p Path) Dotted() bool {
	if !strings.Contains(string(p), "/.") && !strings.Contains(string(p), "/%2") {
		return false
	}
	return slices.ContainsFunc(p.Segments(), func(segment string) bool {
		plain := strings.ReplaceAll(strings.ReplaceAll(segment, "%2e", "."), "%2E", ".")
		return plain == "." || plain == ".."
	})
}

// checkDots returns an error if s, which has the form of a path, has a segment that is dots; what says what it is called.
func checkDots(what, s string) error {
	if Path(s).Dotted() {
		return Errorf(InvalidRequest, "%s %q has the segment . or .., which HTTP clients resolve; choose another name", what, s)
	}
	return nil
}

func checkForm(what, s string) error {
	switch {
	case len(s) > MaxPathBytes:
		return Errorf(InvalidRequest, "%s is longer than %d bytes", what, MaxPathBytes)
	case !strings.HasPrefix(s, "/"):
		return Errorf(InvalidRequest, "%s %q does not start with /", what, s)
	case s == "/":
		return Errorf(InvalidRequest, "%s / has no segment", what)
	case strings.Count(s, "/") > MaxPathSegments:
		return Errorf(InvalidRequest, "%s has more than %d segments", what, MaxPathSegments)
	case !utf8.ValidString(s):
		return Errorf(InvalidRequest, "%s is not UTF-8", what)
	case strings.ContainsFunc(s, control):
		return Errorf(InvalidRequest, "%s %q has a control character", what, s)
	}
	return nil
}
