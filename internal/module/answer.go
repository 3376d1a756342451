package module

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// MaxAnswer is the maximum size of a line that a worker writes to its standard output, in bytes.
const MaxAnswer = 1 << 20

// maxText is the maximum number of bytes that are kept of a worker's reason.
const maxText = 1 << 10

// Answer is a worker's answer to an event. Events are not checked yet: the host parses each, and
// compares it with the handler's declaration.
type Answer struct {
	ID      string // id of the event's line
	Outcome sluice.Outcome
	Dead    sluice.Reason // with Refused
	After   time.Duration // with Failed: minimum delay of the next attempt
	Text    string        // why it failed or was refused
	Events  [][]byte      // with Delivered: to be published, each in JSON
}

type encodedAnswer struct {
	ID     string            `json:"id"`
	OK     bool              `json:"ok"`
	Events []json.RawMessage `json:"events"`
	Retry  *string           `json:"retry"`
	After  json.RawMessage   `json:"after"`
	Dead   *string           `json:"dead"`
}

// ParseAnswer returns the answer in a line: {"id":…,"ok":true},
// {"id":…,"retry":"why","after":"10s"} or {"id":…,"dead":"why"}; the first may have events. Unknown
// members are ignored. If a line has an id but is otherwise unclear, the answer fails the attempt
// of that event. An error means that the line names no event, which violates the protocol. It says
// why the line is no answer.
func ParseAnswer(line []byte) (Answer, error) {
	var in encodedAnswer
	err := json.Unmarshal(line, &in)
	if in.ID == "" {
		return Answer{}, notAnAnswer(line, err)
	}
	return answerOf(in, err), nil
}

func notAnAnswer(line []byte, err error) error {
	if json.Valid(line) && err == nil {
		err = errors.New("it has no id")
	}
	return fmt.Errorf("%q on standard output is no answer to an event (%w); log to standard error", clip(string(bytes.TrimSpace(line)), 200), err)
}

func answerOf(in encodedAnswer, err error) Answer {
	var after sluice.Duration
	if len(in.After) > 0 && err == nil {
		err = json.Unmarshal(in.After, &after)
	}
	verbs := 0
	for _, given := range []bool{in.OK, in.Retry != nil, in.Dead != nil} {
		if given {
			verbs++
		}
	}
	const unclear = "the worker's answer is unclear: "
	a := Answer{ID: in.ID, Outcome: sluice.Failed}
	switch {
	case err != nil:
		a.Text = unclear + err.Error()
	case verbs != 1 || len(in.After) > 0 && in.Retry == nil || len(in.Events) > 0 && !in.OK || after < 0:
		a.Text = unclear + `write one of "ok": true (with "events" or without), "retry": "why" (with "after": "10s" or without), "dead": "why"`
	case in.OK:
		a.Outcome = sluice.Delivered
		for _, event := range in.Events {
			a.Events = append(a.Events, event)
		}
	case in.Dead != nil:
		a.Outcome, a.Dead, a.Text = sluice.Refused, sluice.HandlerRefused, said("the worker refused the event", *in.Dead)
	default:
		a.After, a.Text = after.Std(), said("the worker asked for another attempt", *in.Retry)
	}
	return a
}

func said(what, why string) string {
	if why = strings.TrimSpace(why); why == "" {
		return what
	}
	return what + ": " + clip(why, maxText)
}

// clip returns at most n bytes of a text, valid as UTF-8.
func clip(text string, n int) string {
	return strings.ToValidUTF8(text[:min(len(text), n)], "")
}

// CheckReady returns an error unless a line is {"ready":true}, the first line that a worker must
// write. Other members are ignored.
func CheckReady(line []byte) error {
	var in struct {
		Ready bool `json:"ready"`
	}
	if err := json.Unmarshal(line, &in); err != nil || !in.Ready {
		return fmt.Errorf(`the first line on standard output is %q, not {"ready":true}; log to standard error`, clip(string(bytes.TrimSpace(line)), 200))
	}
	return nil
}

// AppendEventLine appends the line that sends an event to a worker. The body is the event in the
// subscription's envelope, in JSON. The body must be valid JSON; its line breaks become spaces, and
// U+2028 and U+2029 escapes, because some readers end lines there, such as readline of Node 24.
// That changes the line but not its meaning. AppendEventLine does not change body.
func AppendEventLine(line []byte, head EventHead, body []byte) ([]byte, error) {
	text, err := json.Marshal(head)
	if err != nil {
		return nil, fmt.Errorf("line of an event: %w", err)
	}
	line = append(append(line, text[:len(text)-1]...), `,"event":`...)
	for separator, escaped := range map[string]string{"\u2028": `\u2028`, "\u2029": `\u2029`} { // they occur only within JSON strings
		if bytes.Contains(body, []byte(separator)) {
			body = bytes.ReplaceAll(body, []byte(separator), []byte(escaped))
		}
	}
	from := len(line)
	line = append(line, body...)
	for i, c := range line[from:] {
		if c == '\n' || c == '\r' { // white space: within JSON strings these characters are escaped
			line[from+i] = ' '
		}
	}
	return append(line, "}\n"...), nil
}

// EventHead is the beginning of an event's line.
type EventHead struct {
	ID          string    `json:"id"` // of this line, for its answer
	Attempt     int       `json:"attempt"`
	Deadline    time.Time `json:"deadline"`
	TraceParent string    `json:"traceparent,omitempty"`
	Token       string    `json:"token,omitempty"` // for requests to the API
}
