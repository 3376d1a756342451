package terminal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// maxLine limits one line of a file of events.
const maxLine = 16 << 20

// line is one event of a file.
type line struct {
	ID      string          `json:"id"`
	Type    string          `json:"type"`
	Path    sluice.Path     `json:"path"`
	Source  string          `json:"source"`
	Subject string          `json:"subject"`
	Time    time.Time       `json:"time"`
	Data    json.RawMessage `json:"data"`
}

// EventReader reads events from a file, one JSON object a line. Empty lines are skipped. Ended is
// true once Next has found the end. Read counts a line feed for each line, and so can differ a
// little from Size. It is not safe for concurrent use.
type EventReader struct {
	name    string
	Close   func()
	scanner *bufio.Scanner
	Size    int64 // in bytes; -1: unknown
	Read    int64 // bytes
	number  int   // of the last line that was read
	Ended   bool
}

// OpenEvents opens a file of events, a JSON object a line; "-" is stdin. Close it after use.
func OpenEvents(file string, stdin io.Reader) (*EventReader, error) {
	l := &EventReader{name: file, Size: -1, Close: func() {}}
	in := stdin
	if file != "-" {
		f, err := os.Open(filepath.Clean(file))
		if err != nil {
			return nil, fmt.Errorf("read events: %w", err)
		}
		if info, err := f.Stat(); err == nil {
			l.Size = info.Size()
		}
		in, l.Close = f, func() { _ = f.Close() } // it was only read
	}
	l.scanner = bufio.NewScanner(in)
	l.scanner.Buffer(nil, maxLine)
	return l, nil
}

// Next returns up to n events. Otherwise provides the attributes that a line lacks. It returns
// fewer only at the end, and then none. After an error, the events that it has read before are
// lost. It does not check IDs.
func (l *EventReader) Next(n int, otherwise sluice.Event) ([]sluice.Event, error) {
	var events []sluice.Event
	for len(events) < n {
		if !l.scanner.Scan() {
			l.Ended = true
			break
		}
		l.number++
		text := l.scanner.Bytes()
		l.Read += int64(len(text)) + 1
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		ev, err := parseLine(text, otherwise)
		if err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", l.name, l.number, err)
		}
		events = append(events, ev)
	}
	if err := l.scanner.Err(); err != nil {
		return nil, fmt.Errorf("%s, line %d: %w", l.name, l.number+1, err)
	}
	return events, nil
}

func parseLine(text []byte, otherwise sluice.Event) (sluice.Event, error) {
	var one line
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&one); err != nil {
		return sluice.Event{}, fmt.Errorf("write {\"id\",\"type\",\"path\",\"data\"}: %w", plain(err))
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) { // More reports nothing before a stray } or ]
		return sluice.Event{}, errors.New("unexpected data after the event; write one JSON object per line")
	}
	ev := otherwise
	ev.ID, ev.Source, ev.Subject, ev.Time = one.ID, one.Source, one.Subject, one.Time
	ev.Data = bytes.Clone(one.Data)
	if one.Path != "" {
		ev.Path = one.Path
	}
	if one.Type != "" {
		ev.Type = one.Type
	}
	if ev.Path == "" {
		return sluice.Event{}, errors.New("the event has no path; add one to the line or to the command")
	}
	if _, err := sluice.ParsePath(string(ev.Path)); err != nil {
		return sluice.Event{}, err
	}
	return ev, nil
}

// plain describes a JSON error without the names of Go's types.
func plain(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if wrong.Field == "" {
			return fmt.Errorf("a JSON %s is not an event", wrong.Value)
		}
		return fmt.Errorf("%q must not be a JSON %s", wrong.Field, wrong.Value)
	}
	if _, ok := errors.AsType[*time.ParseError](err); ok {
		return errors.New("\"time\" is not an RFC 3339 time such as 2026-01-31T12:00:00Z")
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the JSON is incomplete")
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: "))
}
