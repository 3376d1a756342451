package remote

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-io/sluice/internal/jsonarray"
	"github.com/sluice-io/sluice/internal/strictjson"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Limits of a page, besides pageBytes. They apply before a list is decoded, because a body of short
// elements takes a hundred times its size in memory.
const (
	pageHops   = 4096     // logs whose content the source has in mirrors
	pageLost   = 10_000   // ranges
	labelBytes = 16 << 10 // of the label's text
	nameBytes  = 256      // of an incarnation
)

// encodedPage is a page whose lists are not decoded yet.
type encodedPage struct {
	Incarnation string          `json:"incarnation"`
	FirstSeq    uint64          `json:"first_seq"`
	LastSeq     uint64          `json:"last_seq"`
	ThroughSeq  uint64          `json:"through_seq"`
	HasMore     bool            `json:"has_more"`
	SinceTag    string          `json:"since_tag"`
	ThroughTag  string          `json:"through_tag"`
	Label       json.RawMessage `json:"label"`
	Passed      json.RawMessage `json:"passed"`
	Items       json.RawMessage `json:"items"`
	Lost        json.RawMessage `json:"lost"`
}

// decodePage returns the page in a response. It refuses lists that are too long and ambiguous JSON
// before it decodes them. Memory stays in proportion to the body. Whether the page continues the
// mirror's place is left to mirror.Rule.
func decodePage(body []byte) (*sluice.ObservePage, error) {
	if !json.Valid(body) {
		return nil, json.Unmarshal(body, &json.RawMessage{}) //nolint:wrapcheck // it names the offset; the caller names the source
	}
	var in encodedPage
	encoded, head := jsonarray.Cut(body, "items")
	if err := json.Unmarshal(head, &in); err != nil {
		return nil, err //nolint:wrapcheck // the caller names the source
	}
	if encoded == nil || string(in.Items) != "null" {
		return nil, errors.New("it has not one list of items")
	}
	page := &sluice.ObservePage{
		Incarnation: in.Incarnation, FirstSeq: in.FirstSeq, LastSeq: in.LastSeq, ThroughSeq: in.ThroughSeq, HasMore: in.HasMore,
		SinceTag: in.SinceTag, ThroughTag: in.ThroughTag,
	}
	if max(len(in.Incarnation), len(in.SinceTag), len(in.ThroughTag)) > nameBytes || len(in.Label) > labelBytes {
		return nil, errors.New("its incarnation, a tag or its label is too long")
	}
	if len(in.Label) > 0 {
		if err := json.Unmarshal(in.Label, &page.Label); err != nil {
			return nil, fmt.Errorf("label: %w", err)
		}
	}
	var err error
	if page.Passed, err = list[sluice.Hop](in.Passed, pageHops); err != nil {
		return nil, fmt.Errorf("passed: %w", err)
	}
	if page.Lost, err = list[sluice.Gap](in.Lost, pageLost); err != nil {
		return nil, fmt.Errorf("lost: %w", err)
	}
	items, err := list[change](encoded, pageItems)
	if err != nil {
		return nil, fmt.Errorf("items: %w", err)
	}
	page.Items = make([]sluice.Change, len(items))
	for i := range items {
		page.Items[i] = items[i].Change
	}
	return page, nil
}

// list decodes a list of at most most elements. Only the data of events may be large.
func list[T any](text json.RawMessage, most int) ([]T, error) {
	if len(text) == 0 {
		return nil, nil
	}
	if err := strictjson.CheckEvents(text); err != nil {
		return nil, err
	}
	return jsonarray.Decode[T](text, most) //nolint:wrapcheck // the caller names the list
}

// change is a change whose event's data is copied without being parsed again: the page is known to
// be valid JSON.
type change struct{ sluice.Change }

// UnmarshalJSON reads a change as sluice.Change does.
func (c *change) UnmarshalJSON(text []byte) error {
	data, head := jsonarray.Cut(text, "data")
	if err := c.Change.UnmarshalJSON(head); err != nil || data == nil {
		return err //nolint:wrapcheck // the caller names the list
	}
	if !c.Event.IsJSON() {
		return c.Change.UnmarshalJSON(text) //nolint:wrapcheck // the caller names the list
	}
	if before, after, _ := bytes.Cut(c.Event.Data, []byte("null")); len(before)+len(after) > 0 { // white space around what was cut
		data = slices.Concat(before, data, after)
	}
	c.Event.Data = data
	return nil
}
