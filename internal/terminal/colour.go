package terminal

import (
	"hash/fnv"
	"slices"
	"strings"
)

// Painter colours text for a terminal. The zero value leaves it unchanged.
type Painter struct{ On bool }

// Painter returns the painter for --color: with "auto", it colours if the output is a terminal,
// NO_COLOR is not set (no-color.org) and the terminal is not a dumb one. watched says whether the
// output is a terminal.
func (s *Session) Painter(when string, watched bool) Painter {
	plain := slices.ContainsFunc(s.Environ, func(entry string) bool {
		name, value, _ := strings.Cut(entry, "=")
		return name == "NO_COLOR" && value != "" || name == "TERM" && value == "dumb"
	})
	return Painter{On: when == "always" || when == "auto" && watched && !plain}
}

// Codes of colours (ECMA-48, 8.3.117).
const (
	Faint  = "2"
	Red    = "31"
	Green  = "32"
	Yellow = "33"
)

// Paint returns the text, cleaned, in a colour.
func (p Painter) Paint(code, text string) Clean {
	text = Harmless(text)
	if !p.On || text == "" {
		return Clean(text)
	}
	return Clean("\x1b[" + code + "m" + text + "\x1b[0m")
}

// Named paints a name in a colour that depends only on the name. Red and yellow are reserved for
// failures. Two names can have the same colour.
func (p Painter) Named(name string) Clean {
	codes := [...]string{"32", "34", "35", "36", "92", "94", "95", "96", "1;32", "1;34", "1;35", "1;36"}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(name)) // it never fails
	sum := hash.Sum32()
	sum ^= sum >> 15 // the low bits of similar names are too alike
	return p.Paint(codes[sum%uint32(len(codes))], name)
}
