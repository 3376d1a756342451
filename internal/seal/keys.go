package seal

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"
)

// NewKey returns a random key.
func NewKey() ([]byte, error) {
	raw := make([]byte, KeyBytes)
	if _, err := rand.Read(raw); err != nil {
		return nil, fmt.Errorf("generate a key: %w", err)
	}
	return raw, nil
}

// ParseList returns the keys of a text, as in an environment variable: base64 of KeyBytes each, the
// newest first, separated by commas. An error gives the position of the invalid key, and none of
// its content.
func ParseList(text string) ([][]byte, error) {
	var keys [][]byte
	for one := range strings.SplitSeq(text, ",") {
		raw, err := parse(strings.TrimSpace(one))
		if err != nil {
			return nil, fmt.Errorf("key %d of the list: %w", len(keys)+1, err)
		}
		keys = append(keys, raw)
	}
	return keys, nil
}

// ParseFile returns the keys of a file, which has one key per line, the newest first. Empty lines
// and lines that begin with "#" are skipped.
func ParseFile(content string) ([][]byte, error) {
	var keys [][]byte
	number := 0
	for line := range strings.Lines(content) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		raw, err := parse(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		keys = append(keys, raw)
	}
	if len(keys) == 0 {
		return nil, errors.New("no key in the file")
	}
	return keys, nil
}

// Line returns a key as a line of a file, after a comment line with the key's ID.
func Line(raw []byte, made time.Time) string {
	return fmt.Sprintf("# key %s, made %s\n%s\n", ID(raw), made.UTC().Format(time.RFC3339), base64.StdEncoding.EncodeToString(raw))
}

// parse decodes base64 of the standard or the URL alphabet, with or without padding.
func parse(text string) ([]byte, error) {
	text = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(text, "="))
	raw, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil || len(raw) != KeyBytes {
		return nil, fmt.Errorf("not base64 of %d bytes; generate one with: openssl rand -base64 %d", KeyBytes, KeyBytes)
	}
	return raw, nil
}
