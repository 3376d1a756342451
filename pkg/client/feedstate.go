package client

import (
	"context"
	"iter"
	"slices"
	"strconv"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// LastPerPath as FeedQuery.Since starts a feed with a snapshot: the latest event on each path, with
// all its data. The events after the snapshot follow without gaps or duplicates.
const LastPerPath = string(sluice.StartLastPerPath)

// fromState yields what the snapshot lacks because it is lost, the snapshot, and then the feed from its sequence on.
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
			items := page.items()
			if state.Cursor == "" {
				items = append(page.lost(), items...)
			}
			if slices.ContainsFunc(items, func(item FeedItem) bool { return !yield(item, nil) }) {
				return
			}
			if state.At, state.Cursor = page.Seq, page.Next; page.Next == "" {
				break
			}
		}
		q.Since = strconv.FormatUint(state.At, 10)
		c.Feed(ctx, namespace, q)(yield)
	}
}

// lost returns what a snapshot lacks, as a feed has it.
func (p *StatePage) lost() (all []FeedItem) {
	for i := range p.Unreadable {
		g := &p.Unreadable[i]
		lag := FeedLag{Missed: int(g.To - g.From + 1), Oldest: g.To + 1, Current: p.Seq, Unreadable: g} //nolint:gosec // a count
		all = append(all, FeedItem{Lagged: &lag, Resume: LastPerPath})
	}
	return all
}

// items returns a page's events as a feed has them.
func (p *StatePage) items() []FeedItem {
	all := make([]FeedItem, len(p.Events))
	for i := range p.Events {
		ev := &p.Events[i]
		all[i] = FeedItem{Event: ev, Seq: ev.Seq, Coalesced: 1, Resume: strconv.FormatUint(ev.Seq, 10)}
	}
	return all
}
