package terminal

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Show prints a value in the format that was requested: by table, or as JSON, YAML or names. table
// is called only for the formats table and wide.
func (s *Session) Show(value any, table func() error) error {
	switch s.Output {
	case FormatJSON:
		return s.PrintText(EncodeJSON(value, "  "))
	case FormatLines:
		return s.printLines(value)
	case FormatYAML:
		return s.printYAML(value, "")
	case FormatName:
		return s.printNames(value)
	}
	return table()
}

// PrintLine prints one of a series of values, as one line or one YAML document. The formats table,
// wide and json give the same line.
func (s *Session) PrintLine(value any) error {
	switch s.Output {
	case FormatYAML:
		return s.printYAML(value, "---\n")
	case FormatName:
		if name := nameOf(value); name != "" {
			return s.Say("%s", name)
		}
		return nil
	}
	return s.PrintText(EncodeJSON(value, ""))
}

// printLines prints a list as one line for each element, and any other value as one line.
func (s *Session) printLines(value any) error {
	for _, one := range elements(value) {
		if err := s.PrintText(EncodeJSON(one, "")); err != nil {
			return err
		}
	}
	return nil
}

func (s *Session) printYAML(value any, before string) error {
	text, err := EncodeJSON(value, "")
	if err == nil {
		text, err = yaml.JSONToYAML(text)
	}
	return s.PrintText(append([]byte(before), text...), err)
}

// printNames prints the name of a value, or that of each element of a list.
func (s *Session) printNames(value any) error {
	for _, one := range elements(value) {
		name := nameOf(one)
		if name == "" {
			return Usagef("-o %s: the output has no names", FormatName)
		}
		if err := s.Say("%s", name); err != nil {
			return err
		}
	}
	return nil
}

// elements returns the elements of a list, or the value itself.
func elements(value any) []any {
	list := reflect.ValueOf(value)
	if list.Kind() != reflect.Slice {
		return []any{value}
	}
	all := make([]any, list.Len())
	for i := range all {
		all[i] = list.Index(i).Interface()
	}
	return all
}

// nameOf returns the field of a value that other commands take as an argument; empty if the value
// has none.
func nameOf(value any) string {
	text, err := EncodeJSON(value, "")
	var fields map[string]any
	if err != nil || json.Unmarshal(text, &fields) != nil {
		return ""
	}
	for _, name := range []string{"id", "name", "event_id", "path", "principal"} {
		if text, ok := fields[name].(string); ok && text != "" {
			return text
		}
	}
	if event, ok := fields["event"]; ok {
		return nameOf(event)
	}
	return ""
}

// PrintText prints encoded text; err is the error of its encoding.
func (s *Session) PrintText(text []byte, err error) error {
	if err != nil {
		return err
	}
	if _, err := s.Stdout.Write(text); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// Table prints rows under a heading in columns, each cell cleaned. On a terminal, times are
// relative, outcomes have a colour, and an empty list says so. The heading has the names of the
// columns, separated by " | "; "" for a table without one. A row may have fewer cells.
func (s *Session) Table(heading string, rows [][]string) error {
	names := strings.Split(heading, " | ")
	if heading == "" {
		names = nil
	}
	if len(rows) == 0 && names != nil && s.Watched {
		return s.Say("none")
	}
	var table grid
	if names != nil && !s.NoHeaders {
		table.add(names, nil)
	}
	now := time.Now()
	for _, cells := range rows {
		table.add(s.cells(names, cells, now))
	}
	if _, err := io.WriteString(s.Stdout, table.text(s.Painter("auto", s.Watched))); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// cells returns the cells of a row as they are shown, and their colours.
func (s *Session) cells(names, cells []string, now time.Time) (shown, colours []string) {
	shown, colours = make([]string, len(cells)), make([]string, len(cells))
	for i, cell := range cells {
		shown[i] = Harmless(cell)
		if s.Watched && s.Output != FormatWide {
			shown[i] = sinceOrUntil(shown[i], now)
		}
		if about := columnOf(names, cells, i); slices.Contains(outcomeColumns(), about) {
			colours[i] = colourOf(about, cell)
		}
	}
	return shown, colours
}

// columnOf returns the subject of a cell: the name of its column, or of its line in a table without
// a heading.
func columnOf(names, cells []string, i int) string {
	switch {
	case i < len(names):
		return names[i]
	case names == nil && i == 1:
		return strings.ToUpper(cells[0])
	}
	return ""
}

// Facts prints names and values, one pair a line. It omits empty values. An odd last name is
// ignored.
func (s *Session) Facts(pairs ...string) error {
	var rows [][]string
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			rows = append(rows, []string{pairs[i], pairs[i+1]})
		}
	}
	return s.Table("", rows)
}

// Say prints a line; its arguments are cleaned.
func (s *Session) Say(format string, args ...any) error {
	if _, err := fmt.Fprintf(s.Stdout, format+"\n", cleaned(args)...); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// FormatTime returns a time in RFC 3339, UTC; "-" for the zero time. It is cut to the second.
func FormatTime(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// By returns " by " and the actor; "" if the actor is unknown.
func By(who string) string {
	if who == "" {
		return ""
	}
	return " by " + who
}

// FormatTimePtr is FormatTime of a time that may be nil.
func FormatTimePtr(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return FormatTime(*t)
}

// OrDash returns the text, or "-" if it is empty.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// FormatDuration returns a duration in its short form: 168h rather than 168h0m0s.
func FormatDuration(d sluice.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
