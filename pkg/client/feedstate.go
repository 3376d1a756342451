package client

import (
	"context"
	"iter"
	"strconv"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// LastPerPath as FeedQuery.Since starts a feed with a snapshot: the latest event on each path, with
// all its data. The events after the snapshot follow without gaps or duplicates.
const LastPerPath = string(sluice.StartLastPerPath)

// fromState yields the snapshot, and then the feed from its sequence on.
func (c *Client) fromState(ctx context.Context, namespace string, q FeedQuery) iter.Seq2[FeedItem, error] {
	return func(yield func(FeedItem, error) bool) {
		state := StateQuery{
			Pattern: q.Pattern,
			Filter:  sluice.Filter{Types: q.Types, Sources: q.Sources, Subjects: q.Subjects, Labels: q.Labels, CEL: q.CEL},
		}
		for {
			page, err := c.State(ctx, namespace, state)
			if err != nil {
				yield(FeedItem{}, err)
				return
			}
			for _, ev := range page.Events {
				if !yield(FeedItem{Event: &ev, Seq: ev.Seq, Coalesced: 1, Resume: strconv.FormatUint(ev.Seq, 10)}, nil) {
					return
				}
			}
			if state.At, state.Cursor = page.Seq, page.Next; page.Next == "" {
				break
			}
		}
		q.Since = strconv.FormatUint(state.At, 10)
		c.Feed(ctx, namespace, q)(yield)
	}
}
