package export

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// maxName is the maximum length of a name in bytes. File systems allow 255; endings are added.
const maxName = 180

// harmless returns a file name, without ending, for any id: letters, digits, "_", "-" and, except
// for the first byte, "." stand for themselves, every other byte is "%XX". A name that is too long
// ends in a hash. Different ids have different names.
func harmless(id string) string {
	var b strings.Builder
	for i := range len(id) {
		if c := id[i]; isPlain(c) || c == '.' && i > 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	if b.Len() == 0 {
		return "%"
	}
	if b.Len() <= maxName {
		return b.String()
	}
	return fmt.Sprintf("%s%%-%x", b.String()[:maxName-66], sha256.Sum256([]byte(id)))
}

func isPlain(c byte) bool {
	return c == '_' || c == '-' || c-'0' < 10 || c-'a' < 26 || c-'A' < 26
}
