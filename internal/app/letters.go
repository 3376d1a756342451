package app

import (
	"context"
	"slices"
	"time"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/sysevent"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// deadLetterSource gives the publisher of system events access to dead letters.
type deadLetterSource struct{ store *natsstore.Store }

// Follow passes new dead letters to tell.
func (l deadLetterSource) Follow(ctx context.Context, tell func(ctx context.Context, letters []model.BuriedLetter, again bool) error) error {
	return l.store.FollowLetters(ctx, tell)
}

// Subscription returns a subscription.
func (l deadLetterSource) Subscription(ctx context.Context, id string) (*sluice.Subscription, error) {
	sub, _, err := l.store.Subscriptions().Get(ctx, id)
	return sub, err
}

// clockSkew is the maximum difference between the clock of a change and that of the log.
const clockSkew = time.Hour

// known looks up published system events in the log. It does not search in a log that refuses
// writes.
func known(store *natsstore.Store) sysevent.Known {
	return func(ctx context.Context, namespace string, path sluice.Path, ids []string, since time.Time) (told []string, err error) {
		ns, err := store.GetNamespace(ctx, namespace)
		if err != nil || time.Since(since) < ns.DedupWindow.Std()/2 {
			return nil, err
		}
		q := natsstore.EventQuery{Pattern: sluice.Pattern(path), Since: since.Add(-clockSkew).UTC().Format(time.RFC3339Nano), Limit: 1000}
		page, err := store.Events(ctx, namespace, q)
		if sluice.CodeOf(err) == sluice.WindowExceeded { // the log starts later
			q.Since = "-1"
			page, err = store.Events(ctx, namespace, q)
		}
		for err == nil {
			told = append(told, idsIn(page, ids)...)
			if page.NextCursor == 0 {
				return told, nil
			}
			q.After = page.NextCursor
			page, err = store.Events(ctx, namespace, q)
		}
		return nil, err
	}
}

func idsIn(page natsstore.EventPage, of []string) (ids []string) {
	for i := range page.Events {
		if slices.Contains(of, page.Events[i].ID) {
			ids = append(ids, page.Events[i].ID)
		}
	}
	return ids
}
