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

// Content types that mean something to the protocol.
const (
	DefaultType = "application/octet-stream"
	JSONType    = "application/json"

	// wholeEvent is the type of messages whose body is an event with its attributes: what is read of
	// such a message is not what was appended.
	wholeEvent = "application/cloudevents+json"
)

// MediaType returns the media type of a content type in lower case, without parameters: two
// content types are the same if this is. It is empty for what is no content type.
func MediaType(contentType string) string {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil || !strings.Contains(media, "/") {
		return ""
	}
	return media
}

// IsJSON reports whether a stream of the content type has JSON messages.
func IsJSON(contentType string) bool { return MediaType(contentType) == JSONType }

// IsText reports whether a stream of the content type is sent as text, not base64, in server-sent events.
func IsText(contentType string) bool {
	return IsJSON(contentType) || strings.HasPrefix(MediaType(contentType), "text/")
}

// Flatten returns the messages of a JSON body as parts of it: the elements of an array, at most so many, or the one
// value that it is. Codes: InvalidRequest if it is not JSON; TooLarge if there are more.
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

// message returns the data of an event as a stream of the content type shows it. What others published
// as something else than JSON is a string in a stream of JSON, in base64 if it is no text; no data is null.
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
		return []byte("null") // a string can always be encoded
	}
	return encoded
}

// Join returns messages as the body of an answer: JSON as an array, anything else one after another.
func Join(messages [][]byte, contentType string) []byte {
	if !IsJSON(contentType) {
		return bytes.Join(messages, nil)
	}
	b := append([]byte{'['}, bytes.Join(messages, []byte(","))...)
	return append(b, ']')
}

// split cuts data into pieces of at most that many bytes; text between its characters.
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
