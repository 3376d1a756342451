package client

import (
	"context"
	"net/http"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// TopicsQuery selects topics of a namespace; all fields are optional.
type TopicsQuery struct {
	IncludeMirrored bool   // also those of its mirrors
	PathPrefix      string // only topics that begin so
	Limit           int    // of each list
	Cursor          string // TopicsPage.Next of the previous page
}

// TopicsPage is a page of topics. Next is the cursor of the next page, empty on the last.
type TopicsPage struct {
	Topics   []sluice.Topic         `json:"topics"`
	Mirrored []sluice.MirroredTopic `json:"mirrored_topics"`
	Next     string                 `json:"next_cursor"`
}

// Topics returns a page of the paths of a namespace in the order of their last event, and if they are asked
// for, of its mirrors by mirror and name.
func (c *Client) Topics(ctx context.Context, namespace string, q TopicsQuery) (TopicsPage, error) {
	include := ""
	if q.IncludeMirrored {
		include = "true"
	}
	return send[TopicsPage](ctx, c, call{
		method: http.MethodGet, path: join(namespaces, namespace, "topics"),
		query: params("include_mirrored", include, "path_prefix", q.PathPrefix, "limit", number(q.Limit), "cursor", q.Cursor),
	}, nil)
}
