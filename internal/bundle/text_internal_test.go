package bundle

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// S3-67: strings have the form of RFC 8785, wherever in a word the character is that has an escape.
func TestText_IsCanonicalAtEveryPosition(t *testing.T) {
	t.Parallel()
	for c := range rune(0x100) {
		for before := range 2*wordSize + 1 {
			s := strings.Repeat("é", before/2) + strings.Repeat("x", before%2) + string(c) + strings.Repeat("y", 2*wordSize-before) + `\"`
			text := appendString(nil, s)
			want, err := canonical(append(append([]byte{'['}, text...), ']'))
			require.NoError(t, err)
			require.Equal(t, string(want), "["+string(text)+"]")
			require.Equal(t, text, appendString(nil, []byte(s)))

			in := &cursor{b: text}
			require.Equal(t, s, string(in.text()))
			require.False(t, in.bad)
			require.Equal(t, len(text), in.at)
			in = &cursor{b: text, consumes: true}
			require.Equal(t, s, string(in.text()))
		}
	}
}
