package durable

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"mime"
	"strings"
	"unicode/utf8"

	"github.com/sluice-io/sluice/internal/jsonarray"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Content types with a meaning in the protocol.
const (
	DefaultType = "application/octet-stream"
	JSONType    = "application/json"

	// wholeEvent is the type of messages that are events with their attributes. A read would not
	// return such a message as it was appended.
	wholeEvent = "application/cloudevents+json"
)

// MediaType returns the media type of a content type, in lower case and without parameters; "" for
// an invalid content type. Two content types count as equal if their media types are.
func MediaType(contentType string) string {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil || !strings.Contains(media, "/") {
		return ""
	}
	return media
}

// IsJSON reports whether a stream of the content type has JSON messages.
func IsJSON(contentType string) bool { return MediaType(contentType) == JSONType }

// IsText reports whether server-sent events carry a stream of the content type as text instead of
// base64.
func IsText(contentType string) bool {
	return IsJSON(contentType) || strings.HasPrefix(MediaType(contentType), "text/")
}

// Flatten returns the messages of a JSON body: the elements of an array, at most most of them, or
// the single value. They share the memory of body. Codes: InvalidRequest if the body is not JSON;
// TooLarge if there are more elements.
func Flatten(body []byte, most int) ([][]byte, error) {
	elements, err := jsonarray.Split(body, most)
	switch {
	case errors.Is(err, jsonarray.ErrNotArray):
		return [][]byte{bytes.TrimSpace(body)}, nil
	case errors.Is(err, jsonarray.ErrTooMany):
		return nil, sluice.Errorf(sluice.TooLarge, "the body has more than %d messages: append at most %d at once", most, most)
	case err != nil:
		return nil, sluice.Errorf(sluice.InvalidRequest, "the body is not JSON, as this stream requires")
	}
	messages := make([][]byte, len(elements))
	for i, e := range elements {
		messages[i] = e
	}
	return messages, nil
}

// message returns the data of an event as a stream of the content type shows it. In a JSON stream,
// data that is not JSON becomes a string, in base64 if it is not UTF-8, and missing data becomes
// null.
func message(ev *sluice.Event, contentType string) []byte {
	if !IsJSON(contentType) || json.Valid(ev.Data) {
		return ev.Data
	}
	if len(ev.Data) == 0 {
		return []byte("null")
	}
	text := string(ev.Data)
	if !utf8.ValidString(text) {
		text = base64.StdEncoding.EncodeToString(ev.Data)
	}
	encoded, err := json.Marshal(text)
	if err != nil {
		return []byte("null") // cannot happen: a string can always be encoded
	}
	return encoded
}

// Join returns messages as the body of a response: JSON messages as an array, others concatenated.
func Join(messages [][]byte, contentType string) []byte {
	if !IsJSON(contentType) {
		return bytes.Join(messages, nil)
	}
	b := append([]byte{'['}, bytes.Join(messages, []byte(","))...)
	return append(b, ']')
}

// split cuts data into pieces of at most most bytes. It cuts text only between characters.
func split(data []byte, most int, contentType string) [][]byte {
	var pieces [][]byte
	for len(data) > most {
		at := most
		for back := 0; IsText(contentType) && back < utf8.UTFMax && at > 1 && !utf8.RuneStart(data[at]); back++ {
			at--
		}
		pieces, data = append(pieces, data[:at]), data[at:]
	}
	return append(pieces, data)
}
