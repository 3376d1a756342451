package cmdkit

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// PollInterval is the interval of requests for the state of work that a command waits for.
const PollInterval = 250 * time.Millisecond

// CheckSince returns an error for a negative number in --since, which other programs interpret as a
// count. -1 is valid: it is the cursor of the beginning.
func CheckSince(text string) error {
	if n, err := strconv.Atoi(text); err == nil && n < -1 {
		return terminal.Usagef("--since %d: for the last %d, use --last %d", n, -n, -n)
	}
	return nil
}

// TimeOrAgo returns the time in a flag; the zero time if the flag is empty. An age counts back from
// the time of the call.
func TimeOrAgo(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if err := CheckSince(text); err != nil {
		return time.Time{}, err
	}
	at, err := sluice.ParseTime(sluice.Ago(text, time.Now()))
	if err != nil {
		return at, terminal.Usagef("--%s: %q is not an RFC 3339 time such as 2026-01-31T00:00:00Z, nor an age such as 10m or 7d", flag, text)
	}
	return at, nil
}

// EventOf returns an event with the given data, or with the data from stdin if it is "-". The data
// may be JSON, other text, or neither. Invalid JSON on the command line that begins like an object
// or a list is refused, because it is most likely JSON that the shell has split; stdin may have
// anything.
func EventOf(s *terminal.Session, path, text string) (sluice.Event, error) {
	if err := CheckData(text); err != nil {
		return sluice.Event{}, err
	}
	data := []byte(text)
	if text == "-" {
		var err error
		if data, err = io.ReadAll(s.Stdin); err != nil {
			return sluice.Event{}, fmt.Errorf("read data: %w", err)
		}
	}
	ev := sluice.Event{Path: sluice.Path(path), Data: data}
	switch {
	case json.Valid(data): // JSON needs no content type
	case utf8.Valid(data):
		ev.ContentType = "text/plain; charset=utf-8"
	default:
		ev.ContentType = "application/octet-stream"
	}
	return ev, nil
}

// CheckData returns an error for invalid JSON that begins like an object or a list.
func CheckData(text string) error {
	begin := strings.TrimLeft(text, " \t\r\n")
	if !strings.HasPrefix(begin, "{") && !strings.HasPrefix(begin, "[") {
		return nil
	}
	if err := json.Unmarshal([]byte(text), new(any)); err != nil {
		return terminal.Usagef("the data looks like JSON but is invalid (%w); put it in single quotes, or send text from stdin with -", err)
	}
	return nil
}

// TokenOf returns the given token, or reads it from stdin. It reads at most 64 KiB of stdin, and
// removes white space around the token.
func TokenOf(s *terminal.Session, given string) (string, error) {
	if given != "-" {
		return given, nil
	}
	data, err := io.ReadAll(io.LimitReader(s.Stdin, 1<<16))
	if err != nil {
		return "", fmt.Errorf("read the token: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}
