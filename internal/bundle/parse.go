package bundle

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"github.com/sluice-io/sluice/internal/strictjson"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// parseEntry parses an entry, and accepts only the form that wire.append returns: canonical JSON
// with the known members. The entry refers to the text. Code Unprocessable.
func parseEntry(text []byte, depth sluice.Depth) (*wire, error) {
	return (&cursor{b: text}).entry(depth)
}

// consumeEntry is parseEntry, but overwrites the text: it decodes strings with escapes in place.
func consumeEntry(text []byte, depth sluice.Depth) (*wire, error) {
	return (&cursor{b: text, consumes: true}).entry(depth)
}

func (c *cursor) entry(depth sluice.Depth) (*wire, error) {
	text := c.b
	c.bad = !utf8.Valid(text)
	w := &wire{}
	c.literal(`{"claims":`)
	w.claims = c.claims()
	c.content(w)
	w.contentType = c.stringOrNull(`,"content_type":`)
	w.dataSchema = c.optional(`,"dataschema":`)
	c.literal(`,"entry_id":`)
	w.id = c.attribute()
	if c.skip(`,"erased_sequence":`) {
		w.erased = c.number()
	}
	w.extensions = c.extensions()
	c.literal(`,"op":`)
	w.op = sluice.ChangeOp(c.attribute())
	w.revisionOf = c.optional(`,"revision_of":`)
	c.literal(`,"sequence":`)
	w.seq = c.number()
	w.source = c.optional(`,"source":`)
	w.subject = c.optional(`,"subject":`)
	w.time = c.optional(`,"time":`)
	w.topic = c.stringOrNull(`,"topic":`)
	w.kind = c.optional(`,"type":`)
	c.literal(`}`)
	if c.bad || c.at != len(text) {
		return nil, invalid("an entry has another form than Sluice writes at byte %d of %.80q", c.at, text)
	}
	return w, w.check(depth)
}

// cursor is a position in canonical JSON. Bad is set when the text turns out to be invalid. After
// an error the methods do not panic, and their results mean nothing, so callers check bad only
// once, at the end.
type cursor struct {
	b        []byte
	at       int
	bad      bool
	consumes bool // it may overwrite the text
}

func (c *cursor) require(good bool) { c.bad = c.bad || !good }

// skip moves past a literal if it is next.
func (c *cursor) skip(literal string) bool {
	if !bytes.HasPrefix(c.b[c.at:], []byte(literal)) {
		return false
	}
	c.at += len(literal)
	return true
}

func (c *cursor) literal(literal string) { c.require(c.skip(literal)) }

// text returns a string; nil if it is invalid. The result shares memory with the text if the string
// has no escapes, or the text is consumed.
func (c *cursor) text() []byte {
	c.literal(`"`)
	if c.bad {
		return nil
	}
	start := c.at
	at := endOfPlain(c.b, start)
	plain := c.b[start:at:at]
	if at < len(c.b) && c.b[at] == '\\' {
		room := c.b[start:]
		if !c.consumes {
			room = make([]byte, endOfString(c.b, start-1)-start)
			copy(room, plain)
		}
		var n int
		n, at = decode(room, len(plain), c.b, at)
		plain = room[:n:n]
	}
	if at >= len(c.b) || c.b[at] != '"' {
		c.bad = true
		return nil
	}
	c.at = at + 1
	return plain
}

// attribute returns a string without NUL.
func (c *cursor) attribute() string {
	text := c.text()
	c.require(bytes.IndexByte(text, 0) < 0)
	return string(text)
}

// optional returns the value of a member, which must not be empty; "" if the member is missing.
func (c *cursor) optional(member string) string {
	if !c.skip(member) {
		return ""
	}
	s := c.attribute()
	c.require(s != "")
	return s
}

// stringOrNull returns the value of a member; "" for null.
func (c *cursor) stringOrNull(member string) string {
	if c.skip(member + "null") {
		return ""
	}
	s := c.optional(member)
	c.require(s != "")
	return s
}

// number returns a positive integer without leading zeros; zero is invalid, because no sequence is
// 0.
func (c *cursor) number() uint64 {
	rest := c.b[c.at:]
	digits := string(rest[:len(rest)-len(bytes.TrimLeft(rest, "0123456789"))])
	c.at += len(digits)
	n, err := strconv.ParseUint(digits, 10, 64)
	c.require(err == nil && digits[0] != '0')
	return n
}

// claims returns a JSON array.
func (c *cursor) claims() []byte {
	if c.skip("[]") {
		return c.b[c.at-len("[]") : c.at : c.at]
	}
	end := endOfValue(c.b, c.at)
	claims := c.b[c.at:end]
	if !bytes.HasPrefix(claims, []byte("[")) || !json.Valid(claims) || strictjson.Check(claims) != nil || !shapeOf(claims).exact {
		c.bad = true
		return []byte("[]")
	}
	c.at = end
	return claims
}

// content reads the members content, content_encoding and content_file.
func (c *cursor) content(w *wire) {
	if c.skip(`,"content":null`) {
		w.file = c.optional(`,"content_file":`)
		return
	}
	c.literal(`,"content":`)
	w.content = c.text()
	c.require(len(w.content) > 0)
	if !c.skip(`,"content_encoding":"base64"`) {
		w.text = true
		c.require(isText(w.content))
		return
	}
	w.base64 = true
	text := w.content
	data := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Strict().Decode(data, text)
	w.content = data[:n]
	c.require(err == nil && !isText(w.content) && !bytes.ContainsAny(text, "\r\n")) // which the decoder ignores
}

// extensions returns names and values in turn, names ascending.
func (c *cursor) extensions() (list []string) {
	if !c.skip(`,"extensions":{`) {
		return nil
	}
	for last := ""; ; {
		name := c.attribute()
		c.require(isExtension(name) && name != sluice.RevisionOf && name > last)
		c.literal(`:`)
		list, last = append(list, name, c.attribute()), name
		if !c.skip(`,`) || c.bad {
			break
		}
	}
	c.literal(`}`)
	return list
}

// isText reports whether content is text in an entry: UTF-8 without NUL.
func isText(content []byte) bool {
	return utf8.Valid(content) && bytes.IndexByte(content, 0) < 0
}
