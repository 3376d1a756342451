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

// StateQuery says of which paths the state is wanted; everything is optional.
type StateQuery struct {
	Pattern sluice.Pattern
	Filter  sluice.Filter // paths whose last event it does not let through are left out
	At      uint64        // as of this sequence; 0: as of now
	Limit   int           // at most 1000; the server's default is 100
	Cursor  string        // StatePage.Next of the part before
}

// StatePage is part of a state: the last events of paths.
type StatePage struct {
	Seq    uint64         `json:"seq"` // what it is the state as of: the same in every part
	Events []sluice.Event `json:"events"`
	Next   string         `json:"next_cursor"` // the cursor of the part that follows, empty on the last
}

// State returns the last event of every path of a namespace as of one sequence. With the events after that
// sequence nothing is missing and nothing there twice; what was published before the call is in it. Code
// WindowExceeded if the log no longer has what comes after At, or retention has overtaken who reads the parts.
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

// StateOf returns the last event of one path. Code NotFound if there is none.
func (c *Client) StateOf(ctx context.Context, namespace string, path sluice.Path) (sluice.Event, error) {
	if _, err := sluice.ParsePath(string(path)); err != nil {
		return sluice.Event{}, err
	}
	// Empty segments would be lost on the way.
	rest := url.PathEscape(strings.TrimPrefix(string(path), "/"))
	return send[sluice.Event](ctx, c, call{method: http.MethodGet, path: join(namespaces, namespace) + "/state/" + rest}, nil)
}
