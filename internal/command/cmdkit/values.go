package cmdkit

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Done confirms an action. In JSON it prints {"name": name, "ok": true}.
func Done(s *terminal.Session, format, name string) error {
	return s.Show(map[string]any{"ok": true, "name": name}, func() error { return s.Say(format, name) })
}

// Because returns a state with its reason, if it has one.
func Because(state, reason string) string {
	if reason == "" {
		return state
	}
	return state + ": " + reason
}

// Compact returns the JSON of the non-empty fields. The result is "" if no field is set, so that
// Session.Facts omits it.
func Compact(value any) string {
	var data strings.Builder
	encoder := json.NewEncoder(&data)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	if text := strings.TrimSpace(data.String()); err == nil && text != "{}" && text != "null" {
		return text
	}
	return ""
}

// HTTPStatus returns the status of a response, or "-" if there was none.
func HTTPStatus(status int) string {
	if status == 0 {
		return "-"
	}
	return strconv.Itoa(status)
}

// Excerpt returns the start of some data as one line. It has at most 60 characters, the last an
// ellipsis if data is cut; white space becomes one space.
func Excerpt(data []byte) string {
	const most = 60
	text := []rune(strings.Join(strings.Fields(strings.ToValidUTF8(string(data), "?")), " "))
	if len(text) > most {
		text = append(text[:most-1], '…')
	}
	return string(text)
}

// ComplainLost warns about the ranges of a log in which events may be lost.
func ComplainLost(s *terminal.Session, lost []sluice.Gap) {
	for _, g := range lost {
		s.Complain("sluice: events between %d and %d may be lost: the files of the log are damaged", g.From, g.To)
	}
}

// YesNo returns yes or no; empty for nil.
func YesNo(b *bool) string {
	switch {
	case b == nil:
		return ""
	case *b:
		return "yes"
	}
	return "no"
}

// FormatLabel returns a label in the form that ParseClassification parses. The text is
// "SECRET/finance,legal", or "SECRET" without compartments.
func FormatLabel(l sluice.Label) string {
	if len(l.Compartments) == 0 {
		return l.Level.String()
	}
	return l.Level.String() + "/" + strings.Join(l.Compartments, ",")
}

// OtherEvents says how many more events a batch has. batch is the number of events in the request;
// the text is "" for one event or none.
func OtherEvents(batch int) string {
	if batch < 2 {
		return ""
	}
	return " +" + strconv.Itoa(batch-1)
}

// AttemptNumber returns the number of an attempt that counts. Probes have no number, because their
// failures do not count; they are "probe".
func AttemptNumber(a sluice.Attempt) string {
	if a.Probe {
		return "probe"
	}
	return strconv.Itoa(a.Number)
}
