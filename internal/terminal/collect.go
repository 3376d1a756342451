package terminal

import (
	"context"

	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Collect reads the pages of a list until it has limit elements; 0 reads all. It requests at most
// 1000 elements at once. After an error, it returns none. Without an error, the result is not nil.
func Collect[T any](limit int, next func(cursor string, most int) (client.Page[T], error)) ([]T, error) {
	const part = 1000
	if limit < 0 {
		return nil, Usagef("--limit %d: write a number, or 0 for all", limit)
	}
	all := []T{}
	cursor := ""
	for {
		most := part
		if limit > 0 {
			most = min(part, limit-len(all))
		}
		page, err := next(cursor, most)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if page.Next == "" || page.Next == cursor || (limit > 0 && len(all) >= limit) {
			return all, nil
		}
		cursor = page.Next
	}
}

// FirstEvent returns the first event that matches a query, and false if none does. It reads on
// after an empty page, which need not be the last.
func FirstEvent(ctx context.Context, api *client.Client, ns string, q client.EventsQuery) (sluice.Event, bool, error) {
	q.Limit = 1
	for {
		page, err := api.Events(ctx, ns, q)
		switch {
		case err != nil:
			return sluice.Event{}, false, err
		case len(page.Items) > 0:
			return page.Items[0], true, nil
		case page.Next == "" || page.Next == q.Cursor:
			return sluice.Event{}, false, nil
		}
		q.Cursor = page.Next
	}
}
