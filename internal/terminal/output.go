package terminal

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Show prints a value: as JSON if that was requested, else by table.
func (s *Session) Show(value any, table func() error) error {
	if s.IsJSON() {
		return s.printJSON(value)
	}
	return table()
}

func (s *Session) printJSON(value any) error {
	return s.PrintText(EncodeJSON(value, "  "))
}

// PrintLine prints a value as one line of JSON.
func (s *Session) PrintLine(value any) error { return s.PrintText(EncodeJSON(value, "")) }

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

// Table prints rows under a heading in columns, each cell cleaned.
func (s *Session) Table(heading string, rows [][]string) error {
	var text strings.Builder
	if heading != "" {
		text.WriteString(strings.ReplaceAll(heading, " | ", "\t") + "\n")
	}
	for _, cells := range rows {
		for i, cell := range cells {
			if i > 0 {
				text.WriteByte('\t')
			}
			text.WriteString(Harmless(cell))
		}
		text.WriteByte('\n')
	}
	w := tabwriter.NewWriter(s.Stdout, 0, 0, 2, ' ', 0)
	_, err := io.WriteString(w, text.String())
	if err = errors.Join(err, w.Flush()); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// Facts prints names and values, one pair a line, without those that are empty.
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

// FormatTime returns a time in RFC 3339, UTC; "-" for the zero time.
func FormatTime(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// By names the actor, if known.
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

// FormatDuration is a duration in few characters: 168h rather than 168h0m0s.
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
