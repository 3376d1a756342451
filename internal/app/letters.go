package app

import (
	"context"
	"slices"
	"time"

	"github.com/sluice-io/sluice/internal/announce"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// deadLetterSource gives the announcer the dead letters.
type deadLetterSource struct{ store *natsstore.Store }

// Follow hands out dead letters as they are buried.
func (l deadLetterSource) Follow(ctx context.Context, tell func(ctx context.Context, letters []sluice.BuriedLetter, again bool) error) error {
	return l.store.FollowLetters(ctx, tell)
}

// Subscription returns a subscription.
func (l deadLetterSource) Subscription(ctx context.Context, id string) (*sluice.Subscription, error) {
	sub, _, err := l.store.Subscriptions().Get(ctx, id)
	return sub, err
}

// known finds what was told before in the log: a second one outside the dedup window would be stored.
func known(store *natsstore.Store) announce.Known {
	return func(ctx context.Context, namespace string, path sluice.Path, id string, since time.Time) (bool, error) {
		q := natsstore.EventQuery{Pattern: sluice.Pattern(path), Since: since.UTC().Format(time.RFC3339Nano), Limit: 1000}
		page, err := store.Events(ctx, namespace, q)
		if sluice.CodeOf(err) == sluice.WindowExceeded { // the log begins later
			q.Since = ""
			page, err = store.Events(ctx, namespace, q)
		}
		for err == nil && !holds(page, id) {
			if page.NextCursor == 0 {
				return false, nil
			}
			q.After = page.NextCursor
			page, err = store.Events(ctx, namespace, q)
		}
		return err == nil, err
	}
}

func holds(page natsstore.EventPage, id string) bool {
	return slices.ContainsFunc(page.Events, func(ev sluice.Event) bool { return ev.ID == id })
}
