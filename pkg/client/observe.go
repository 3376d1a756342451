package client

import (
	"context"
	"net/http"
	"strconv"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// ObserveQuery selects changes of a namespace; all fields are optional.
type ObserveQuery struct {
	Since uint64       // exclusive; ThroughSeq of the previous page
	Limit int          // at most 1000; default 100
	Depth sluice.Depth // how much of the data is wanted; default: all
}

// Observe returns a page of the changes of a namespace that the caller may read, in log order, with
// deletions. A page with HasMore has a next one, even if it has no items. The caller remembers
// Incarnation, ThroughSeq and ThroughTag: another incarnation, or another SinceTag, is another log. If FirstSeq is greater than Since + 1, the events in between are no longer stored.
func (c *Client) Observe(ctx context.Context, namespace string, q ObserveQuery) (sluice.ObservePage, error) {
	return send[sluice.ObservePage](ctx, c, call{
		method: http.MethodGet, path: join(namespaces, namespace, "observe"),
		query: params("since", strconv.FormatUint(q.Since, 10), "limit", number(q.Limit), "depth", string(q.Depth)),
	}, nil)
}
