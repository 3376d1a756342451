package streams

import (
	"strings"

	"github.com/sluice-io/sluice/pkg/sluice"
)

const upperHex = "0123456789ABCDEF"

// Subject returns the subject of a path: "/" becomes ".", harmless bytes stand for
// themselves, every other byte is "=XX" in upper-case hex, and an empty segment is "=".
// It is the inverse of ParseSubject.
func Subject(namespace string, path sluice.Path) string {
	return encode(eventsPrefix+namespace, path.Segments(), harmless)
}

// ParseSubject returns the namespace and path of an event's subject. Code InvalidRequest if
// the subject is not the canonical one of a valid path; such an event has no path.
func ParseSubject(subject string) (namespace string, path sluice.Path, err error) {
	rest, ok := strings.CutPrefix(subject, eventsPrefix)
	if !ok {
		return "", "", sluice.Errorf(sluice.InvalidRequest, "subject %q is no event's", subject)
	}
	tokens := strings.Split(rest, ".")
	var b strings.Builder
	for _, token := range tokens[1:] {
		b.WriteByte('/')
		if !decode(&b, token) {
			return "", "", sluice.Errorf(sluice.InvalidRequest, "subject %q: token %q is not a path segment", subject, token)
		}
	}
	path, err = sluice.ParsePath(b.String())
	if err != nil {
		return "", "", err
	}
	if Subject(tokens[0], path) != subject {
		return "", "", sluice.Errorf(sluice.InvalidRequest, "subject %q is not the canonical one of path %q", subject, path)
	}
	return tokens[0], path, nil
}

func encode(prefix string, segments []string, plain func(byte) bool) string {
	var b strings.Builder
	b.WriteString(prefix)
	for _, s := range segments {
		b.WriteByte('.')
		if s == "" {
			b.WriteByte('=')
		}
		for i := range len(s) {
			if c := s[i]; plain(c) {
				b.WriteByte(c)
			} else {
				b.Write([]byte{'=', upperHex[c>>4], upperHex[c&15]})
			}
		}
	}
	return b.String()
}

func decode(b *strings.Builder, token string) bool {
	if token == "=" {
		return true
	}
	for i := 0; i < len(token); i++ {
		if token[i] != '=' {
			b.WriteByte(token[i])
			continue
		}
		if i+2 >= len(token) {
			return false
		}
		hi, lo := strings.IndexByte(upperHex, token[i+1]), strings.IndexByte(upperHex, token[i+2])
		if hi < 0 || lo < 0 {
			return false
		}
		b.WriteByte(byte(hi<<4 | lo))
		i += 2
	}
	return token != ""
}

// harmless says which bytes stand for themselves in a subject token.
func harmless(c byte) bool {
	return c > ' ' && c != 0x7f && c != '.' && c != '*' && c != '>' && c != '='
}

// keyable says which bytes stand for themselves in a bucket's key.
func keyable(c byte) bool {
	return c == '_' || c == '-' || c-'0' < 10 || c-'a' < 26 || c-'A' < 26
}

// Filter is one consumer's filter subject. What an inexact one lets through beyond the
// pattern has to be matched again.
type Filter struct {
	Subject string
	Exact   bool
}

// Filters returns the filter subjects of a pattern, one for each consumer: two when the
// pattern ends in "**" after a segment, because "a.>" does not hold "a" itself and two
// filters on one consumer slow catching up by a factor of fifty.
func Filters(namespace string, pattern sluice.Pattern) []Filter {
	segs := pattern.Segments()
	at := indexStars(segs)
	if at < 0 {
		return []Filter{{Subject: wild(namespace, segs), Exact: true}}
	}
	exact := at == len(segs)-1
	filters := []Filter{{Subject: wild(namespace, segs[:at]) + ".>", Exact: exact}}
	if exact && at > 0 {
		filters = append(filters, Filter{Subject: wild(namespace, segs[:at]), Exact: true})
	}
	return filters
}

// Superset returns one filter that covers the pattern, for a subscription whose lane is all
// of its events and which therefore needs them from one consumer.
func Superset(namespace string, pattern sluice.Pattern) Filter {
	filters := Filters(namespace, pattern)
	if len(filters) == 1 {
		return filters[0]
	}
	segs := pattern.Segments()
	return Filter{Subject: wild(namespace, segs[:len(segs)-2]) + ".>"}
}

func indexStars(segs []string) int {
	for i, s := range segs {
		if s == "**" {
			return i
		}
	}
	return -1
}

func wild(namespace string, segs []string) string {
	var b strings.Builder
	b.WriteString(eventsPrefix + namespace)
	for _, s := range segs {
		if s == "*" {
			b.WriteString(".*")
		} else {
			b.WriteString(encode("", []string{s}, harmless))
		}
	}
	return b.String()
}
