package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// show prints a value: as JSON if that was asked for, else by table.
func (s *session) show(value any, table func() error) error {
	if s.json() {
		return s.printJSON(value)
	}
	return table()
}

func (s *session) printJSON(value any) error {
	return s.printText(jsonText(value, "  "))
}

// printLine prints a value as one line of JSON.
func (s *session) printLine(value any) error { return s.printText(jsonText(value, "")) }

func (s *session) printText(text []byte, err error) error {
	if err != nil {
		return err
	}
	if _, err := s.stdout.Write(text); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// table prints rows under a heading in columns, each cell cleaned.
func (s *session) table(heading string, rows [][]string) error {
	var text strings.Builder
	if heading != "" {
		text.WriteString(strings.ReplaceAll(heading, " | ", "\t") + "\n")
	}
	for _, cells := range rows {
		for i, cell := range cells {
			if i > 0 {
				text.WriteByte('\t')
			}
			text.WriteString(harmless(cell))
		}
		text.WriteByte('\n')
	}
	w := tabwriter.NewWriter(s.stdout, 0, 0, 2, ' ', 0)
	_, err := io.WriteString(w, text.String())
	if err = errors.Join(err, w.Flush()); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// facts prints names and values, one pair a line, without those that are empty.
func (s *session) facts(pairs ...string) error {
	var rows [][]string
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			rows = append(rows, []string{pairs[i], pairs[i+1]})
		}
	}
	return s.table("", rows)
}

// say prints a line; its arguments are cleaned.
func (s *session) say(format string, args ...any) error {
	if _, err := fmt.Fprintf(s.stdout, format+"\n", cleaned(args)...); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

func when(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// by says who did it, where that is known.
func by(who string) string {
	if who == "" {
		return ""
	}
	return " by " + who
}

func maybeWhen(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return when(*t)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// span is a duration in few characters: 168h rather than 168h0m0s.
func span(d sluice.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
