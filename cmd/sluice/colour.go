package main

import (
	"hash/fnv"
	"slices"
	"strings"
)

// painter colours text for a terminal. The zero value leaves it as it is.
type painter struct{ on bool }

// painter returns what colours text as --color says: if it is left to us, where somebody is watching, and neither
// NO_COLOR is set (no-color.org) nor the terminal a dumb one.
func (s *session) painter(when string, watched bool) painter {
	plain := slices.ContainsFunc(s.environ, func(entry string) bool {
		name, value, _ := strings.Cut(entry, "=")
		return name == "NO_COLOR" && value != "" || name == "TERM" && value == "dumb"
	})
	return painter{when == "always" || when == "auto" && watched && !plain}
}

// Codes of colours (ECMA-48, 8.3.117).
const (
	faint  = "2"
	yellow = "33"
)

// paint returns the text, cleaned, in a colour.
func (p painter) paint(code, text string) clean {
	text = harmless(text)
	if !p.on || text == "" {
		return clean(text)
	}
	return clean("\x1b[" + code + "m" + text + "\x1b[0m")
}

// named paints a name in its own colour, which is the same every time and everywhere. Red and yellow are kept for
// what went wrong.
func (p painter) named(name string) clean {
	codes := [...]string{"32", "34", "35", "36", "92", "94", "95", "96", "1;32", "1;34", "1;35", "1;36"}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(name)) // it never fails
	sum := hash.Sum32()
	sum ^= sum >> 15 // the low bits alone are too alike for names that are
	return p.paint(codes[sum%uint32(len(codes))], name)
}
