package sluice

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Depth is how much of each event leaves a namespace with a mirror or a bundle (S3-04, C10).
type Depth string

// The depths.
const (
	DepthCatalog Depth = "catalog" // attributes only
	DepthSummary Depth = "summary" // attributes, and the summary fields of the event type
	DepthFull    Depth = "full"    // attributes, and all data
)

// ParseDepth returns the depth with a name; "" means catalog, and S3's names "claims" and "entries"
// mean summary and full. Code InvalidRequest for any other name.
func ParseDepth(name string) (Depth, error) {
	switch Depth(name) {
	case "", DepthCatalog:
		return DepthCatalog, nil
	case DepthSummary, "claims":
		return DepthSummary, nil
	case DepthFull, "entries":
		return DepthFull, nil
	}
	return "", Errorf(InvalidRequest, "depth %q: use catalog, summary or full", clip(name)).With("field", "depth")
}

// Scope returns the name of the depth in S3: catalog, claims or entries.
func (d Depth) Scope() string {
	switch d {
	case DepthSummary:
		return "claims"
	case DepthFull:
		return "entries"
	case DepthCatalog:
	}
	return string(DepthCatalog)
}

// ChangeOp is the kind of a change to a namespace.
type ChangeOp string

// The kinds of changes.
const (
	OpWrite  ChangeOp = "write"  // an event was published
	OpRevise ChangeOp = "revise" // an event was published that replaces an earlier one (RevisionOf)
	OpDelete ChangeOp = "delete" // an event was erased
)

// RevisionOf is the extension attribute with the ID of the event that an event replaces (S3-59).
const RevisionOf = "revisionof"

// Change is one entry of the log in the form in which another namespace follows it.
type Change struct {
	Op ChangeOp
	// Event is the event. For a deletion, it has only Seq, which is the position of the deletion in
	// the log, the erased event's ID, and the ID of its original if it was a revision.
	Event Event
	// ErasedSeq, for a deletion, is the sequence that the erased event had; 0: unknown.
	ErasedSeq uint64
}

// Key returns the ID of the entry that the change is about. For a revision, that is its original.
func (c *Change) Key() string {
	if of := c.Event.Extensions[RevisionOf]; of != "" {
		return of
	}
	return c.Event.ID
}

// ChangeOf returns a stored event as a change.
func ChangeOf(e Event) Change {
	if e.Extensions[RevisionOf] != "" {
		return Change{Op: OpRevise, Event: e}
	}
	return Change{Op: OpWrite, Event: e}
}

// MarshalJSON returns an object with "op", "seq" and "id" and, unless it is a deletion, "path",
// "type", "time" and "source", and also "revision_of", "subject", "dataschema", "datacontenttype",
// "extensions" and "data" or "data_base64" if the event has them. JSON data is copied byte for
// byte; white space around it is in "data_before" and "data_after".
func (c Change) MarshalJSON() ([]byte, error) { return c.AppendJSON(nil), nil }

// AppendJSON appends the form that MarshalJSON returns.
func (c *Change) AppendJSON(b []byte) []byte { return c.appendObject(b, "source") }

// appendObject appends the change as an object, with the event's source under the given name.
func (c *Change) appendObject(b []byte, source string) []byte {
	e := &c.Event
	b = append(slices.Grow(b, len(e.Data)+512), `{"op":"`...)
	b = append(append(b, c.Op...), `","seq":`...)
	b = strconv.AppendUint(b, e.Seq, 10)
	member := func(name, value string) {
		if value != "" {
			b = appendMember(b, name, value)
		}
	}
	member("id", e.ID)
	if c.Op == OpDelete {
		member("revision_of", e.Extensions[RevisionOf])
		if c.ErasedSeq > 0 {
			b = strconv.AppendUint(append(b, `,"erased_seq":`...), c.ErasedSeq, 10)
		}
		return append(b, '}')
	}
	member("path", string(e.Path))
	member("type", cmp.Or(e.Type, DefaultType))
	if at := e.occurred(); !at.IsZero() {
		member("time", at.UTC().Format(time.RFC3339Nano))
	}
	member(source, cmp.Or(e.Source, "/"+e.Namespace))
	member("subject", e.Subject)
	member("dataschema", e.DataSchema)
	member("revision_of", e.Extensions[RevisionOf])
	b = appendExtensions(b, e.Extensions)
	if len(e.Data) > 0 {
		member("datacontenttype", cmp.Or(e.ContentType, "application/json"))
		b = e.appendExactData(append(b, ','))
	}
	return append(b, '}')
}

// jsonSpace is the white space of JSON.
const jsonSpace = " \t\r\n"

// appendExactData appends the event's data as members of an object, from which a reader gets it
// byte for byte. JSON that not every parser can read becomes "data_base64".
func (e *Event) appendExactData(b []byte) []byte {
	data := e.JSONData()
	switch {
	case data == nil && !e.IsJSON():
		return e.AppendData(b, "data")
	case data == nil, !utf8.Valid(data), nestsDeep(data):
		b = append(b, `"data_base64":"`...)
		return append(base64.StdEncoding.AppendEncode(b, e.Data), '"')
	}
	value := bytes.TrimLeft(data, jsonSpace)
	before := data[:len(data)-len(value)]
	value = bytes.TrimRight(value, jsonSpace)
	after := data[len(before)+len(value):]
	b = append(append(b, `"data":`...), value...)
	if len(before) > 0 {
		b = appendMember(b, "data_before", string(before))
	}
	if len(after) > 0 {
		b = appendMember(b, "data_after", string(after))
	}
	return b
}

// maxDataDepth is how deep data may nest in the list of a page, because readers of pages allow
// 1,000 levels.
const maxDataDepth = 900

// nestsDeep reports whether JSON has more levels than maxDataDepth.
func nestsDeep(data []byte) bool {
	if bytes.Count(data, []byte("["))+bytes.Count(data, []byte("{")) <= maxDataDepth {
		return false
	}
	depth, quoted := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case quoted:
		case c == '[' || c == '{':
			if depth++; depth > maxDataDepth {
				return true
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return false
}

// occurred returns the event's time or, without one, when it was stored.
func (e *Event) occurred() time.Time {
	if e.Time.IsZero() {
		return e.Stored
	}
	return e.Time
}

// appendExtensions appends the extensions, without RevisionOf, as a member.
func appendExtensions(b []byte, extensions map[string]string) []byte {
	first := true
	names := slices.AppendSeq(make([]string, 0, 8), maps.Keys(extensions))
	slices.Sort(names)
	for _, name := range names {
		if name == RevisionOf || !isExtension(name) {
			continue
		}
		if first {
			b = append(b, `,"extensions":{`...)
		} else {
			b = append(b, ',')
		}
		first = false
		b = AppendString(append(AppendString(b, name), ':'), extensions[name])
	}
	if first {
		return b
	}
	return append(b, '}')
}

// UnmarshalJSON parses the form that MarshalJSON returns. Members that it does not know are ignored.
func (c *Change) UnmarshalJSON(text []byte) error {
	var in struct {
		Op          ChangeOp          `json:"op"`
		Seq         uint64            `json:"seq"`
		ID          string            `json:"id"`
		Path        Path              `json:"path"`
		Type        string            `json:"type"`
		Time        time.Time         `json:"time"`
		Source      string            `json:"source"`
		Subject     string            `json:"subject"`
		DataSchema  string            `json:"dataschema"`
		RevisionOf  string            `json:"revision_of"`
		ErasedSeq   uint64            `json:"erased_seq"`
		Extensions  map[string]string `json:"extensions"`
		ContentType string            `json:"datacontenttype"`
		Data        json.RawMessage   `json:"data"`
		Before      string            `json:"data_before"`
		After       string            `json:"data_after"`
		Base64      *string           `json:"data_base64"`
	}
	if err := json.Unmarshal(text, &in); err != nil {
		return fmt.Errorf("change: %w", err)
	}
	*c = Change{Op: in.Op, ErasedSeq: in.ErasedSeq, Event: Event{
		Seq: in.Seq, ID: in.ID, Path: in.Path, Type: in.Type, Time: in.Time, Source: in.Source, Subject: in.Subject,
		DataSchema: in.DataSchema, Extensions: in.Extensions, ContentType: in.ContentType, Data: in.Data,
	}}
	if in.RevisionOf != "" {
		if c.Event.Extensions == nil {
			c.Event.Extensions = map[string]string{}
		}
		c.Event.Extensions[RevisionOf] = in.RevisionOf
	}
	switch {
	case in.Base64 != nil:
		data, err := base64.StdEncoding.DecodeString(*in.Base64)
		if err != nil {
			return fmt.Errorf("change %d: data_base64: %w", in.Seq, err)
		}
		c.Event.Data = data
	case len(in.Data) > 0 && !c.Event.IsJSON():
		var plain string
		if err := json.Unmarshal(in.Data, &plain); err != nil {
			return fmt.Errorf("change %d: data of type %q is not a string: %w", in.Seq, in.ContentType, err)
		}
		c.Event.Data = []byte(plain)
	case strings.Trim(in.Before+in.After, jsonSpace) != "":
		return fmt.Errorf("change %d: data_before and data_after are white space", in.Seq)
	case len(in.Data) > 0 && in.Before+in.After != "":
		c.Event.Data = slices.Concat([]byte(in.Before), in.Data, []byte(in.After))
	}
	return nil
}

// Hop is a log that content of a namespace has passed through: one that the namespace mirrors,
// directly or through other mirrors (S3-119, S3-120).
type Hop struct {
	Incarnation string `json:"incarnation"`
	Hops        int    `json:"hops"` // mirrors between that log and this one, from 1
}

// MaxMirrorHops is the longest chain of mirrors.
const MaxMirrorHops = 8

// ObservePage is a page of the changes of a namespace (S3-40, S3-117).
type ObservePage struct {
	Incarnation string `json:"incarnation"` // random ID of the log, created with it
	FirstSeq    uint64 `json:"first_seq"`   // of the first stored event
	LastSeq     uint64 `json:"last_seq"`    // of the last one; 0: there has been none
	// ThroughSeq is the sequence up to which the page has every change that the caller may read.
	// The next page begins after it.
	ThroughSeq uint64 `json:"through_seq"`
	HasMore    bool   `json:"has_more"` // there are changes after ThroughSeq
	// SinceTag and ThroughTag are tags of the messages at the sequence that the caller named and at
	// ThroughSeq; "" if no message is stored there. If SinceTag differs from a caller's last
	// ThroughTag, the caller reads another log than before.
	SinceTag   string   `json:"since_tag,omitempty"`
	ThroughTag string   `json:"through_tag,omitempty"`
	Label      Label    `json:"label"`          // of the namespace
	Passed     []Hop    `json:"passed"`         // logs whose content is in the namespace's mirrors
	Items      []Change `json:"items"`          // ascending, at most as many as requested
	Lost       []Gap    `json:"lost,omitempty"` // ranges in (since, ThroughSeq] that are lost to damage
}

// AppendJSON appends the page. JSON data is copied byte for byte, which json.Marshal does not do.
func (p ObservePage) AppendJSON(b []byte) ([]byte, error) {
	if p.Passed == nil {
		p.Passed = []Hop{}
	}
	head, err := json.Marshal(struct {
		ObservePage

		Items *struct{} `json:"items,omitempty"` // hides the items of the page
	}{ObservePage: p})
	if err != nil {
		return nil, fmt.Errorf("page of changes: %w", err)
	}
	size := len(head) + 16
	for i := range p.Items {
		size += len(p.Items[i].Event.Data) + 512
	}
	b = append(append(slices.Grow(b, size), head[:len(head)-1]...), `,"items":[`...)
	for i := range p.Items {
		if i > 0 {
			b = append(b, ',')
		}
		b = p.Items[i].appendObject(b, "source")
	}
	return append(b, "]}"...), nil
}
