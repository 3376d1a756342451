package sluice

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Duration is a time.Duration that is a Go duration string ("10s") in JSON and text.
type Duration time.Duration

// Std returns d as the standard library's type.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String returns the Go duration string.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText returns the Go duration string.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads a Go duration string.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return Errorf(InvalidRequest, "%q is not a duration such as 10s, 5m or 72h", text)
	}
	*d = Duration(v)
	return nil
}

// UnmarshalJSON parses a JSON string. Numbers are refused because their unit would be ambiguous;
// null leaves the value unchanged.
func (d *Duration) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return Errorf(InvalidRequest, "%s is not a duration; write a string such as %q", data, "10s")
	}
	if err := d.UnmarshalText([]byte(s)); err != nil {
		return fmt.Errorf("duration: %w", err)
	}
	return nil
}

// maxDays is 100 years, longer than any retention or grant.
const maxDays = 36_500

// ParseSpan parses a Go duration string or whole days, such as 90s, 10m or 7d. Code InvalidRequest
// for anything else.
func ParseSpan(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil && n <= maxDays {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, Errorf(InvalidRequest, "%q is not a duration such as 10s, 5m, 72h or 30d", text)
	}
	return d, nil
}
