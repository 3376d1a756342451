package terminal

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// grid aligns cells in columns. Colours do not count as width. Every character counts as one
// column, even a wide one.
type grid struct {
	rows    [][]string
	colours [][]string
}

func (g *grid) add(cells, colours []string) {
	g.rows, g.colours = append(g.rows, cells), append(g.colours, colours)
}

// text returns the rows, two spaces between their columns.
func (g *grid) text(paint Painter) string {
	widths := g.widths()
	var text strings.Builder
	for n, cells := range g.rows {
		for i, cell := range cells {
			padding := ""
			if i < len(cells)-1 {
				padding = strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2)
			}
			if colours := g.colours[n]; colours != nil && colours[i] != "" {
				cell = string(paint.Paint(colours[i], cell))
			}
			text.WriteString(cell + padding)
		}
		text.WriteByte('\n')
	}
	return text.String()
}

// widths returns the width of each column.
func (g *grid) widths() (widths []int) {
	for _, cells := range g.rows {
		for i, cell := range cells {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

// outcomeColumns are the columns whose cells are good or bad news.
func outcomeColumns() []string {
	return []string{"STATE", "STATUS", "OUTCOME", "HEALTH", "BREAKER", "RESULT", "CHECK"}
}

// colourOf returns the colour of an outcome in a column, which is an HTTP status or a word; empty
// for other text.
func colourOf(column, cell string) string {
	word, _, _ := strings.Cut(strings.TrimSpace(cell), " ")
	word = strings.TrimRight(word, ":,")
	if status, err := strconv.Atoi(word); err == nil {
		switch {
		case status >= 200 && status < 300:
			return Green
		case status >= 300 && status < 400:
			return Yellow
		case status >= 400 && status < 600:
			return Red
		}
		return ""
	}
	switch word {
	case "ok", "active", "delivered", "done", "live", "closed", "fired":
		return Green
	case "retrying", "parked", "paused", "waking", "warn", "half-open", "running", "approaching":
		return Yellow
	case "dead", "failed", "failing", "fail", "held", "refused", "forbidden", "disabled", "suspended", "cancelled", "open", "down", "missed":
		return Red
	}
	if column == "HEALTH" && cell != "-" {
		return Yellow
	}
	return ""
}

// sinceOrUntil converts a time in the form of FormatTime to a relative one, "12s ago" or "in 5m".
// It returns other text unchanged.
func sinceOrUntil(cell string, now time.Time) string {
	at, err := time.Parse(time.RFC3339, cell)
	if err != nil || !strings.HasSuffix(cell, "Z") {
		return cell
	}
	ago := now.Sub(at)
	if ago < 0 {
		return "in " + about(-ago+time.Second-1) // FormatTime cuts off parts of a second
	}
	return about(ago) + " ago"
}

// about returns a duration in its largest unit. It is rounded down.
func about(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Minute:
		return strconv.Itoa(int(d/time.Second)) + "s"
	case d < time.Hour:
		return strconv.Itoa(int(d/time.Minute)) + "m"
	case d < 2*day:
		return strconv.Itoa(int(d/time.Hour)) + "h"
	}
	return strconv.Itoa(int(d/day)) + "d"
}
