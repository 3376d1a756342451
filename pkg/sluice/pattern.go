package sluice

import (
	"slices"
	"strings"
)

// Pattern is a glob over paths (S1-21…26): "*" matches exactly one segment, "**" matches zero or
// more, and every other segment matches itself. A wildcard as the first segment matches no system
// path (decision 0007); a pattern for system paths must spell out the first segment.
type Pattern string

// ParsePattern parses a pattern. It replaces "%2A" by "*" (S1-25), and "**/**" by the equivalent
// "**". Code InvalidRequest if s breaks a rule of paths or has "*" as part of a segment.
func ParsePattern(s string) (Pattern, error) {
	p, err := storedPattern(s)
	if err == nil {
		err = checkDots("pattern", string(p))
	}
	if err != nil {
		return "", err
	}
	return p, nil
}

// storedPattern is ParsePattern for patterns that an earlier release may have accepted (see
// StoredPath).
func storedPattern(s string) (Pattern, error) {
	s = strings.ReplaceAll(strings.ReplaceAll(s, "%2A", "*"), "%2a", "*")
	if err := checkForm("pattern", s); err != nil {
		return "", err
	}
	segs := Pattern(s).Segments()
	for _, seg := range segs {
		if strings.Contains(seg, "*") && seg != "*" && seg != "**" {
			return "", Errorf(InvalidRequest, "pattern %q: %q mixes * with other characters; use * or ** as a whole segment", s, seg).With("field", "pattern")
		}
	}
	last := ""
	segs = slices.DeleteFunc(segs, func(seg string) bool {
		again := seg == "**" && last == "**"
		last = seg
		return again
	})
	return Pattern("/" + strings.Join(segs, "/")), nil
}

// Segments returns the pattern's segments, without the leading slash.
func (p Pattern) Segments() []string { return strings.Split(string(p[1:]), "/") }

// WildFirst reports whether the first segment is a wildcard.
func (p Pattern) WildFirst() bool { return strings.HasPrefix(string(p), "/*") }

// Match reports whether the pattern matches the path. It does not allocate, and takes at most
// len(pattern) × len(path) steps for any number of "**".
func (p Pattern) Match(path Path) bool {
	if path == "" || p.WildFirst() && path.Reserved() {
		return false
	}
	glob, text := string(p), string(path)
	i, j, star, mark := 1, 1, 0, 0
	for j <= len(text) {
		want, globNext := segment(glob, i)
		got, textNext := segment(text, j)
		switch {
		case want == "**":
			if globNext > len(glob) {
				return true
			}
			i, star, mark = globNext, globNext, j
		case i <= len(glob) && (want == "*" || want == got):
			i, j = globNext, textNext
		case star > 0:
			_, mark = segment(text, mark)
			i, j = star, mark
		default:
			return false
		}
	}
	for i <= len(glob) {
		var rest string
		if rest, i = segment(glob, i); rest != "**" {
			return false
		}
	}
	return true
}

// segment returns the segment of s at a byte offset, and the offset of the next segment, which is
// beyond the end of s after the last one.
func segment(s string, at int) (string, int) {
	for i := at; i < len(s); i++ {
		if s[i] == '/' {
			return s[at:i], i + 1
		}
	}
	return s[min(at, len(s)):], max(at, len(s)+1)
}
