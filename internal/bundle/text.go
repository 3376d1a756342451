package bundle

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// The characters with a short escape in RFC 8785, and the letters of these escapes.
const (
	escaped = "\"\\\b\f\n\r\t"
	escapes = `"\bfnrt`
)

// wordSize is the number of bytes that are examined at once. Speed matters here: content is most of
// a bundle, and JSON in it has an escape every few bytes.
const wordSize = 8

// escapedIn returns a word whose lowest set bit is in the byte of the first character that must be
// escaped; 0 if there is none. The word is little-endian.
func escapedIn(word uint64) uint64 {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	control := word - ones*' '
	quote := word ^ ones*'"'
	backslash := word ^ ones*'\\'
	return (control&^word | (quote-ones)&^quote | (backslash-ones)&^backslash) & tops
}

// appendString appends s, which is valid UTF-8, as a string of RFC 8785.
func appendString[T string | []byte](b []byte, s T) []byte {
	b = append(slices.Grow(b, len(s)+2*wordSize), '"')
	at := 0
	for len(s)-at >= wordSize {
		word := uint64(s[at]) | uint64(s[at+1])<<8 | uint64(s[at+2])<<16 | uint64(s[at+3])<<24 |
			uint64(s[at+4])<<32 | uint64(s[at+5])<<40 | uint64(s[at+6])<<48 | uint64(s[at+7])<<56
		b = binary.LittleEndian.AppendUint64(b, word)
		special := escapedIn(word)
		if special == 0 {
			at += wordSize
			continue
		}
		plain := bits.TrailingZeros64(special) / 8
		b = appendEscape(b[:len(b)-wordSize+plain], s[at+plain])
		at += plain + 1
	}
	for ; at < len(s); at++ {
		if c := s[at]; ordinary(c) {
			b = append(b, c)
		} else {
			b = appendEscape(b, c)
		}
	}
	return append(b, '"')
}

func appendEscape(b []byte, c byte) []byte {
	const hex = "0123456789abcdef"
	if c == '"' || c == '\\' { // most of them
		return append(b, '\\', c)
	}
	if short := strings.IndexByte(escaped, c); short >= 0 {
		return append(b, '\\', escapes[short])
	}
	return append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
}

// ordinary reports whether a byte needs no escape in a string.
func ordinary(b byte) bool { return b >= ' ' && b != '"' && b != '\\' }

// endOfPlain returns the position of the first byte, from a position on, that is not ordinary.
func endOfPlain(b []byte, at int) int {
	for ; len(b)-at >= wordSize; at += wordSize {
		if special := escapedIn(binary.LittleEndian.Uint64(b[at:])); special != 0 {
			return at + bits.TrailingZeros64(special)/8
		}
	}
	for at < len(b) && ordinary(b[at]) {
		at++
	}
	return at
}

// decode decodes the rest of a string from an escape on, up to its closing quote or an invalid
// byte. It returns the end of the decoded string and the position after the encoded one. Both may
// share memory, because a decoded string is never longer than its encoded form.
func decode(to []byte, n int, from []byte, at int) (end, next int) {
	for at < len(from) && n < len(to) {
		b := from[at]
		if ordinary(b) {
			to[n] = b
			n++
			at++
			continue
		}
		if b != '\\' {
			return n, at
		}
		if rest := from[at+1:]; len(rest) > 0 && (rest[0] == '"' || rest[0] == '\\') { // most of them: a quote or a backslash
			to[n] = rest[0]
			n++
			at += 2
			continue
		}
		value, size := unescape(from[at+1:])
		if size == 0 {
			return n, at
		}
		to[n] = value
		n++
		at += 1 + size
	}
	return n, at
}

// unescape returns the character of an escape and the size of the escape after its backslash; 0
// unless RFC 8785 has this escape.
func unescape(b []byte) (value byte, size int) {
	if len(b) == 0 {
		return 0, 0
	}
	if i := strings.IndexByte(escapes, b[0]); i >= 0 {
		return escaped[i], 1
	}
	if len(b) < 5 || b[0] != 'u' {
		return 0, 0
	}
	v, err := strconv.ParseUint(string(b[1:5]), 16, 16)
	if err != nil || v >= ' ' || string(appendString(nil, string(rune(v)))) != `"\`+string(b[:5])+`"` {
		return 0, 0
	}
	return byte(v), 5
}
