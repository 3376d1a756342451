package streams

import (
	"encoding/hex"
	"strings"

	"github.com/sluice-io/sluice/pkg/sluice"
)

const upperHex = "0123456789ABCDEF"

// Subject returns the subject of a path: "/" becomes ".", safe bytes are kept, every other byte is
// "=XX" in upper-case hex, and an empty segment is "=". It is the inverse of ParseSubject.
func (n Names) Subject(namespace string, path sluice.Path) string {
	return encode(n.dot+eventsPrefix+namespace, path.Segments(), harmless)
}

// ParseSubject returns the namespace and path of an event's subject. Code InvalidRequest if the
// subject is not the canonical subject of a valid path; an event with such a subject has no path.
func (n Names) ParseSubject(subject string) (namespace string, path sluice.Path, err error) {
	rest, ok := strings.CutPrefix(subject, n.dot+eventsPrefix)
	if !ok {
		return "", "", sluice.Errorf(sluice.InvalidRequest, "subject %q is not the subject of an event", subject)
	}
	namespace, rest, ok = strings.Cut(rest, ".")
	if !ok {
		return "", "", sluice.Errorf(sluice.InvalidRequest, "subject %q has no path", subject)
	}
	if err = sluice.CheckNamespaceName(namespace); err != nil {
		return "", "", err
	}
	var b strings.Builder
	for token := range strings.SplitSeq(rest, ".") {
		b.WriteByte('/')
		if !decode(&b, token) {
			return "", "", sluice.Errorf(sluice.InvalidRequest, "subject %q: token %q is not a path segment", subject, token)
		}
	}
	if path, err = sluice.StoredPath(b.String()); err != nil {
		return "", "", err
	}
	return namespace, path, nil
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

// decode appends the segment for a token. It returns false for a token that encode does not
// produce, so that every segment has exactly one token.
func decode(b *strings.Builder, token string) bool {
	if token == "=" {
		return true
	}
	for i := 0; i < len(token); i++ {
		c, escaped := token[i], token[i] == '='
		if escaped {
			var ok bool
			if c, ok = unhex(token[i+1:]); !ok {
				return false
			}
			i += 2
		}
		if c == '/' || escaped == harmless(c) {
			return false
		}
		b.WriteByte(c)
	}
	return token != ""
}

// unhex returns the byte that the first two characters of s denote in upper-case hex.
func unhex(s string) (byte, bool) {
	if len(s) < 2 || s[:2] != strings.ToUpper(s[:2]) {
		return 0, false
	}
	var c [1]byte
	_, err := hex.Decode(c[:], []byte(s[:2]))
	return c[0], err == nil
}

// harmless reports whether a byte is kept unchanged in a subject token.
func harmless(c byte) bool {
	return c > ' ' && c != 0x7f && c != '.' && c != '*' && c != '>' && c != '='
}

// keyable reports whether a byte is kept unchanged in a bucket's key.
func keyable(c byte) bool {
	return c == '_' || c == '-' || c-'0' < 10 || c-'a' < 26 || c-'A' < 26
}
