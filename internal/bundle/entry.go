package bundle

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// MaxContent limits the data of an event in a bundle, in bytes.
const MaxContent = 64 << 20

// Limits of a summary that is written as JSON. A larger one is written as a string that contains
// its text.
const (
	maxSummaryDepth  = 64
	maxSummaryValues = 10_000
	maxSummaryBytes  = 1 << 20
)

// Entry is one change in a bundle (S3-64), in the same form as in a page of changes at the depth of
// the bundle. Event.Data is empty at catalog, the summary at summary, and all data at full. Of a
// deletion, only Seq, ID, RevisionOf and ErasedSeq are set (S3-64, S3-65).
type Entry struct {
	sluice.Change
	// Summary is present only at full, and only if the event has one.
	Summary json.RawMessage
}

// wire is an entry in the form in which it is written.
type wire struct {
	claims      []byte // JSON array: empty, or with the summary, or with the summary's text as a string
	text        bool   // the content is in the entry as text
	base64      bool   // the content is in the entry in base64
	file        string // the content is in this file
	content     []byte
	sum         []byte // SHA-256 of the content; nil: it is not known yet
	contentType string // "": null
	dataSchema  string
	id          string
	extensions  []string // name, value, name, value …; names ascending
	op          sluice.ChangeOp
	revisionOf  string
	seq         uint64
	erased      uint64 // of a deletion: the sequence of the erased event; 0: unknown
	source      string
	subject     string
	time        string
	topic       string // the path; "": null
	kind        string // the event's type
}

// toWire converts an entry to its form in a bundle of a depth. Code Unprocessable if that is
// impossible. At full it does not copy the data: do not change the event before the entry is
// appended. It replaces NUL and invalid UTF-8 in attributes (clean), and leaves out extensions
// whose names are no CloudEvents names. A missing time becomes the time of storage, a missing
// source "/<namespace>".
func toWire(e *Entry, depth sluice.Depth) (*wire, error) {
	ev := &e.Event
	w := &wire{op: e.Op, seq: ev.Seq, id: clean(ev.ID), claims: []byte("[]")}
	w.revisionOf = clean(ev.Extensions[sluice.RevisionOf])
	if e.Op == sluice.OpDelete {
		w.erased = e.ErasedSeq
		return w, w.check(depth)
	}
	w.topic, w.kind = clean(string(ev.Path)), clean(cmp.Or(ev.Type, sluice.DefaultType))
	w.subject, w.dataSchema, w.source = clean(ev.Subject), clean(ev.DataSchema), clean(ev.Source)
	if w.source == "" && ev.Namespace != "" {
		w.source = "/" + ev.Namespace
	}
	if at := cmp.Or(ev.Time, ev.Stored); !at.IsZero() {
		w.time = at.UTC().Format(time.RFC3339Nano)
	}
	for _, name := range slices.Sorted(maps.Keys(ev.Extensions)) {
		if name != sluice.RevisionOf && isExtension(name) {
			w.extensions = append(w.extensions, name, clean(ev.Extensions[name]))
		}
	}
	summary := e.Summary
	switch depth {
	case sluice.DepthCatalog:
		summary = nil
	case sluice.DepthSummary:
		summary = ev.Data
	case sluice.DepthFull:
		w.setContent(ev.Data)
	}
	w.claims = claimsOf(summary)
	if w.contentType = clean(ev.ContentType); w.contentType == "" && (len(ev.Data) > 0 || len(summary) > 0) {
		w.contentType = "application/json"
	}
	return w, w.check(depth)
}

// setContent puts the data into the entry: as text, if it is text without NUL, else in base64.
func (w *wire) setContent(data []byte) {
	w.content = data
	w.text = len(data) > 0 && isText(data)
	w.base64 = len(data) > 0 && !w.text
}

// CleanAttributes changes the attributes of an event to those that it has in a bundle: U+FFFD
// replaces NUL and each invalid byte of UTF-8. A mirror that follows over a network calls it, too,
// so that both ways give equal copies. It replaces the map of extensions instead of changing it,
// because others may share the map.
func CleanAttributes(ev *sluice.Event) {
	for _, s := range [...]*string{&ev.ID, (*string)(&ev.Path), &ev.Type, &ev.Source, &ev.Subject, &ev.DataSchema, &ev.ContentType} {
		*s = clean(*s)
	}
	for name, value := range ev.Extensions {
		if is := clean(value); is != value {
			ev.Extensions = maps.Clone(ev.Extensions)
			ev.Extensions[name] = is
		}
	}
}

// clean returns an attribute without NUL and invalid UTF-8.
func clean(s string) string {
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 {
		return s
	}
	return strings.Map(func(r rune) rune { // Map passes U+FFFD for each invalid byte
		if r == 0 {
			return utf8.RuneError
		}
		return r
	}, s)
}

// CanonicalSummary returns a summary in the form in which it is read from a bundle: that of RFC
// 8785 if it preserves all values, otherwise unchanged. Code Unprocessable if it is not JSON.
func CanonicalSummary(summary []byte) ([]byte, error) {
	w := wire{claims: claimsOf(summary)}
	return w.summary()
}

func isExtension(name string) bool {
	for _, c := range []byte(name) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// claimsOf returns the member claims for a summary: an array with the summary, or, if RFC 8785
// would change or refuse a value, with the summary's text as a string.
func claimsOf(summary []byte) []byte {
	if len(summary) == 0 {
		return []byte("[]")
	}
	s := shapeOf(summary)
	if len(summary) <= maxSummaryBytes && s.exact && s.depth <= maxSummaryDepth && s.values <= maxSummaryValues {
		if text, err := canonical(summary); err == nil && text[0] != '"' {
			return slices.Concat([]byte{'['}, text, []byte{']'})
		}
	}
	return append(appendString([]byte{'['}, clean(string(summary))), ']')
}

// summary returns the summary in claims; nil if there is none. Code Unprocessable. The result may
// share memory with w.
func (w *wire) summary() ([]byte, error) {
	inner := w.claims[1 : len(w.claims)-1]
	switch {
	case len(inner) == 0:
		return nil, nil
	case endOfValue(w.claims, 1) != len(w.claims)-1:
		return nil, invalid("entry %d: claims have more than one element", w.seq)
	case inner[0] != '"':
		return bytes.Clone(inner), nil
	}
	c := cursor{b: inner}
	text := c.text()
	if !json.Valid(text) {
		return nil, invalid("entry %d: a string in claims is not the text of a JSON value", w.seq)
	}
	return text, nil
}

// check returns an error (Unprocessable) unless the entry is valid by itself.
func (w *wire) check(depth sluice.Depth) error {
	switch {
	case w.seq == 0 || w.seq > maxSequence:
		return invalid("entry %d: sequences are 1 to 2^53-1, which RFC 8785 can represent", w.seq)
	case w.id == "":
		return invalid("entry %d has no id", w.seq)
	case len(w.content) > MaxContent:
		return sluice.Errorf(sluice.TooLarge, "bundle: entry %d has more than %d bytes of content", w.seq, MaxContent)
	case depth != sluice.DepthFull && w.hasContent(), depth == sluice.DepthCatalog && len(w.claims) > len("[]"):
		return invalid("entry %d has more than scope %s includes", w.seq, depth.Scope())
	}
	switch w.op {
	case sluice.OpDelete:
		if w.topic+w.kind+w.time+w.source+w.subject+w.dataSchema+w.contentType != "" || len(w.extensions) > 0 || w.hasContent() || len(w.claims) > len("[]") {
			return invalid("entry %d: a deletion has only entry_id, sequence, revision_of and erased_sequence", w.seq)
		}
		if w.erased >= w.seq {
			return invalid("entry %d: a deletion of sequence %d, which is not before it", w.seq, w.erased)
		}
		return nil
	case sluice.OpWrite, sluice.OpRevise:
		return w.checkEvent()
	}
	return invalid("entry %d: op %.100q is unknown", w.seq, w.op)
}

func (w *wire) checkEvent() error {
	if (w.op == sluice.OpRevise) != (w.revisionOf != "") {
		return invalid("entry %d: op is %s with revision_of %.100q", w.seq, w.op, w.revisionOf)
	}
	if w.erased > 0 {
		return invalid("entry %d has erased_sequence, and is no deletion", w.seq)
	}
	if _, err := sluice.StoredPath(w.topic); err != nil {
		return invalid("entry %d: %v", w.seq, err)
	}
	if w.kind == "" {
		return invalid("entry %d has no type", w.seq)
	}
	return nil
}

func (w *wire) hasContent() bool { return w.text || w.base64 || w.file != "" }

// entry converts w to an entry with the given content. The content may share memory with w. Code
// Unprocessable for a time or a summary in another form.
func (w *wire) entry(depth sluice.Depth, content []byte) (Entry, error) {
	e := Entry{Change: sluice.Change{Op: w.op, ErasedSeq: w.erased, Event: sluice.Event{
		Seq: w.seq, ID: w.id, Path: sluice.Path(w.topic), Type: w.kind, Source: w.source, Subject: w.subject,
		ContentType: w.contentType, DataSchema: w.dataSchema, Data: content,
	}}}
	if w.time != "" {
		at, err := time.Parse(time.RFC3339Nano, w.time)
		if err != nil || at.UTC().Format(time.RFC3339Nano) != w.time {
			return Entry{}, invalid("entry %d: time %.100q is not RFC 3339 in UTC", w.seq, w.time)
		}
		e.Event.Time = at.UTC()
	}
	if len(w.extensions) > 0 || w.revisionOf != "" {
		e.Event.Extensions = map[string]string{}
	}
	for i := 0; i < len(w.extensions); i += 2 {
		e.Event.Extensions[w.extensions[i]] = w.extensions[i+1]
	}
	if w.revisionOf != "" {
		e.Event.Extensions[sluice.RevisionOf] = w.revisionOf
	}
	summary, err := w.summary()
	if err != nil {
		return Entry{}, err
	}
	if depth == sluice.DepthSummary {
		e.Event.Data = summary
	} else {
		e.Summary = summary
	}
	return e, nil
}

// append appends the entry as canonical JSON. The order of members is that of RFC 8785, by name.
// parseEntry is the inverse; change both together.
func (w *wire) append(b []byte) []byte {
	b = append(append(b, `{"claims":`...), w.claims...)
	switch {
	case w.text:
		b = appendString(append(b, `,"content":`...), w.content)
	case w.base64:
		b = append(b, `,"content":"`...)
		b = append(base64.StdEncoding.AppendEncode(b, w.content), `","content_encoding":"base64"`...)
	case w.file != "":
		b = appendString(append(b, `,"content":null,"content_file":`...), w.file)
	default:
		b = append(b, `,"content":null`...)
	}
	b = appendOrNull(b, `,"content_type":`, w.contentType)
	b = appendIf(b, `,"dataschema":`, w.dataSchema)
	b = appendString(append(b, `,"entry_id":`...), w.id)
	if w.erased > 0 {
		b = strconv.AppendUint(append(b, `,"erased_sequence":`...), w.erased, 10)
	}
	for i := 0; i < len(w.extensions); i += 2 {
		if b = append(b, ','); i == 0 {
			b = append(b, `"extensions":{`...)
		}
		b = append(appendString(b, w.extensions[i]), ':')
		b = appendString(b, w.extensions[i+1])
	}
	if len(w.extensions) > 0 {
		b = append(b, '}')
	}
	b = appendString(append(b, `,"op":`...), string(w.op))
	b = appendIf(b, `,"revision_of":`, w.revisionOf)
	b = strconv.AppendUint(append(b, `,"sequence":`...), w.seq, 10)
	b = appendIf(b, `,"source":`, w.source)
	b = appendIf(b, `,"subject":`, w.subject)
	b = appendIf(b, `,"time":`, w.time)
	b = appendOrNull(b, `,"topic":`, w.topic)
	b = appendIf(b, `,"type":`, w.kind)
	return append(b, '}')
}

func appendIf(b []byte, member, value string) []byte {
	if value == "" {
		return b
	}
	return appendString(append(b, member...), value)
}

func appendOrNull(b []byte, member, value string) []byte {
	if value == "" {
		return append(append(b, member...), "null"...)
	}
	return appendIf(b, member, value)
}
