package sluice

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// CursorKind is the kind of a cursor.
type CursorKind string

// The kinds of cursors (C11).
const (
	CursorBeginning CursorKind = "beginning" // "-1": before the first stored event
	CursorNow       CursorKind = "now"       // "now": after the last event
	CursorSeq       CursorKind = "seq"       // digits: a sequence
	CursorTime      CursorKind = "time"      // RFC 3339
	CursorEvent     CursorKind = "event"     // anything else: an event ID
)

// MaxIDBytes is the maximum size of an event ID and similar external names.
const MaxIDBytes = 256

// Cursor is a position in a namespace's log, in the form in which a caller gave it.
type Cursor struct {
	Kind CursorKind
	Seq  uint64    // CursorSeq
	Time time.Time // CursorTime
	ID   string    // CursorEvent
}

// ParseCursor parses a cursor. Code InvalidRequest if s is empty, or has no other form and is not a
// valid event ID.
func ParseCursor(s string) (Cursor, error) {
	switch s {
	case "-1":
		return Cursor{Kind: CursorBeginning}, nil
	case "now":
		return Cursor{Kind: CursorNow}, nil
	}
	if seq, ok := parseSeq(s); ok {
		return Cursor{Kind: CursorSeq, Seq: seq}, nil
	}
	if at, err := ParseTime(s); err == nil {
		return Cursor{Kind: CursorTime, Time: at}, nil
	}
	if err := CheckEventID(s); err != nil {
		return Cursor{}, Errorf(InvalidRequest, "cursor: use -1, now, a sequence, an RFC 3339 time or an event id")
	}
	return Cursor{Kind: CursorEvent, ID: s}, nil
}

// Ago returns the time that is the given duration before now, if text is a positive duration such
// as 10m or 7d. Otherwise it returns text unchanged, so that ParseCursor, ParseStart or ParseTime
// can parse it. To name an event whose ID looks like a duration, use its sequence.
func Ago(text string, now time.Time) string {
	if ago, _ := ParseSpan(text); ago > 0 { // 0 if it is not a duration
		return now.Add(-ago).UTC().Format(time.RFC3339Nano)
	}
	return text
}

// String returns the form that ParseCursor parses.
func (c Cursor) String() string {
	switch c.Kind {
	case CursorBeginning:
		return "-1"
	case CursorSeq:
		return strconv.FormatUint(c.Seq, 10)
	case CursorTime:
		return c.Time.Format(time.RFC3339Nano)
	case CursorEvent:
		return c.ID
	case CursorNow:
	}
	return "now"
}

// CheckEventID returns an error (InvalidRequest) unless id is 1 to 256 bytes of UTF-8 without
// control characters.
func CheckEventID(id string) error {
	if id == "" || len(id) > MaxIDBytes || !utf8.ValidString(id) || strings.ContainsFunc(id, control) {
		return Errorf(InvalidRequest, "event id: use 1 to %d bytes of UTF-8 without control characters", MaxIDBytes).With("field", "id")
	}
	return nil
}

// Names for a subscription's start; StartLastPerPath is the third.
const (
	StartNew = "new"
	StartAll = "all"
)

// ParseStart resolves a subscription's start, given the sequence of the log's next event. Code
// InvalidRequest for an invalid start.
func ParseStart(start string, next uint64) (StartAt, error) {
	switch start {
	case StartNew:
		return StartAt{Kind: StartSeq, Seq: max(next, 1)}, nil
	case StartAll:
		return StartAt{Kind: StartSeq, Seq: 1}, nil
	case string(StartLastPerPath):
		return StartAt{Kind: StartLastPerPath, Seq: max(next, 1)}, nil
	}
	if seq, ok := parseSeq(start); ok {
		return StartAt{Kind: StartSeq, Seq: max(seq, 1)}, nil
	}
	if at, err := ParseTime(start); err == nil {
		return StartAt{Kind: StartTime, Time: at}, nil
	}
	return StartAt{}, Errorf(InvalidRequest, "start %q: use new, all, last_per_path, a sequence or an RFC 3339 time", start).With("field", "start")
}

// ParseTime returns an RFC 3339 time in UTC. Code InvalidRequest if s is malformed, or if its year
// in UTC does not have four digits, because it could not be formatted again.
func ParseTime(s string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339Nano, s)
	if at = at.UTC(); err != nil || at.Year() < 0 || at.Year() > 9999 {
		return time.Time{}, Errorf(InvalidRequest, "time %q is not RFC 3339, such as 2006-01-02T15:04:05Z", s)
	}
	return at, nil
}

// parseSeq parses decimal digits, including leading zeros (S1-20), and nothing else.
func parseSeq(s string) (uint64, bool) {
	seq, err := strconv.ParseUint(s, 10, 64)
	return seq, err == nil
}
