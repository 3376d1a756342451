package client

import (
	"context"
	"iter"
)

// MirrorFeedQuery selects the changes of a mirror.
type MirrorFeedQuery struct {
	Mirror     string
	PathPrefix string // of entries; "": all
	// The cursor of an entry, exclusive; "0": all entries; default: new changes only.
	After string
	// FeedItem.Incarnation of the copy that After is of: code WindowExceeded if the mirror was begun anew, or
	// restored from a backup; default: the present one.
	Incarnation string
}

// MirrorFeed yields the entries of a mirror behind a cursor, in the order of their last change, and then its
// changes as they are stored: entries, gaps, and how far it has come. It reconnects as Feed does. An error is
// the last item: with code WindowExceeded, the mirror was begun anew, and all that was read is outdated.
func (c *Client) MirrorFeed(ctx context.Context, namespace string, q MirrorFeedQuery) iter.Seq2[FeedItem, error] {
	return func(yield func(FeedItem, error) bool) {
		c.follow(ctx, feeding{
			client: c, path: join(namespaces, namespace, "items", "feed"), resume: q.After, yield: yield,
			query: params("subscription", q.Mirror, "path_prefix", q.PathPrefix, "incarnation", q.Incarnation),
		})
	}
}
