package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// StateQuery selects the paths of a snapshot; all fields are optional.
type StateQuery struct {
	Pattern sluice.Pattern
	Filter  sluice.Filter // paths whose latest event does not match are left out
	At      uint64        // sequence of the snapshot; 0: the latest
	Limit   int           // at most 1000; default 100
	Cursor  string        // StatePage.Next of the previous page
}

// StatePage is one page of a snapshot: the latest events on some paths.
type StatePage struct {
	Seq    uint64         `json:"seq"` // sequence of the snapshot; equal on all pages
	Events []sluice.Event `json:"events"`
	Next   string         `json:"next_cursor"` // cursor of the next page; empty on the last
	// Unreadable are ranges up to Seq in which events may be lost, because the files of the log are
	// damaged: a path may show an earlier event, or none. They apply to the whole snapshot.
	Unreadable []sluice.Gap `json:"unreadable"`
}

// State returns the latest event on each path of a namespace at one sequence. Reading the events
// after that sequence continues it without gaps or duplicates; events published before the call are
// included. Code WindowExceeded if the events after At are no longer stored, or retention removes
// events of the snapshot before they are read.
func (c *Client) State(ctx context.Context, namespace string, q StateQuery) (StatePage, error) {
	at := ""
	if q.At > 0 {
		at = strconv.FormatUint(q.At, 10)
	}
	filter := ""
	if !q.Filter.Empty() {
		text, err := json.Marshal(q.Filter)
		if err != nil {
			return StatePage{}, fmt.Errorf("filter: %w", err)
		}
		filter = string(text)
	}
	return send[StatePage](ctx, c, call{
		method: http.MethodGet, path: join(namespaces, namespace, "state"),
		query: params("pattern", string(q.Pattern), "filter", filter, "at_seq", at, "limit", number(q.Limit), "cursor", q.Cursor),
	}, nil)
}

// StateOf returns the latest event on one path. Code NotFound if the path has none.
func (c *Client) StateOf(ctx context.Context, namespace string, path sluice.Path) (sluice.Event, error) {
	if _, err := sluice.ParsePath(string(path)); err != nil {
		return sluice.Event{}, err
	}
	// Empty segments would be lost in transit.
	rest := url.PathEscape(strings.TrimPrefix(string(path), "/"))
	return send[sluice.Event](ctx, c, call{method: http.MethodGet, path: join(namespaces, namespace) + "/state/" + rest}, nil)
}
