package terminal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"
)

// All output is cleaned in one of these ways. Other parties choose the answers of receivers, the
// types and ids of events, descriptions and the messages of servers, and a terminal interprets some
// characters as commands.

// Clean is text that was cleaned. Say and Complain print it unchanged. Convert only text that
// Harmless or HarmlessLines returned.
type Clean string

// obeyed reports whether a terminal interprets the rune as a command or reorders text because of
// it: C0 and C1 controls, DEL, and the controls of bidirectional text.
func obeyed(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }

// Harmless returns text as one line without control characters. White space becomes a space; other
// control characters and invalid UTF-8 become question marks. It keeps the number of characters.
func Harmless(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\u2028' || r == '\u2029' || unicode.IsControl(r) && unicode.IsSpace(r):
			return ' '
		case obeyed(r) || r == unicode.ReplacementChar:
			return '?'
		}
		return r
	}, text)
}

// HarmlessLines is Harmless for text of several lines.
func HarmlessLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = Harmless(line)
	}
	return strings.Join(lines, "\n")
}

// cleaned returns a format's arguments with all texts among them cleaned.
func cleaned(args []any) []any {
	all := make([]any, len(args))
	for i, arg := range args {
		all[i] = cleanedOne(arg)
	}
	return all
}

func cleanedOne(arg any) any {
	switch v := arg.(type) {
	case Clean:
		return string(v)
	case string:
		return Harmless(v)
	case error:
		return Harmless(v.Error())
	}
	if kind := reflect.ValueOf(arg).Kind(); kind == reflect.String || kind >= reflect.Array && kind <= reflect.Struct {
		return Harmless(fmt.Sprint(arg))
	}
	return arg // numbers and their named types
}

// EncodeJSON returns a value as JSON followed by a line feed. It escapes control characters, which
// does not change the value.
func EncodeJSON(value any, indent string) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetIndent("", indent)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, fmt.Errorf("print: %w", err)
	}
	return EscapedJSON(text.Bytes()), nil
}

// EscapedJSON returns JSON with escapes for control characters. It keeps line feeds between tokens.
// Invalid UTF-8 becomes the replacement character.
func EscapedJSON(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && size == 1 || r != '\n' && obeyed(r):
			out = fmt.Appendf(out, "\\u%04x", r)
		default:
			out = append(out, text[:size]...)
		}
		text = text[size:]
	}
	return out
}
