package mirror

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Limits of lists of topics. Making a list reads all entries of a mirror.
const (
	maxTopics   = 100_000 // of a list
	topicLists  = 4       // lists that are kept
	topicScans  = 2       // lists that are made at once
	topicsAgain = 10      // a list is reused for this many times its duration, although the mirror has moved
)

// topics keeps the last lists of topics, for the next pages of their readers.
type topics struct {
	scans chan struct{}

	mu    sync.Mutex
	lists map[topicsKey]*topicsOf
}

type topicsKey struct {
	mirror, prefix string
	made           time.Time // an id may be reused
}

// topicsOf is a list of topics by name.
type topicsOf struct {
	all      []sluice.MirroredTopic
	revision uint64 // of the mirror's place before the reading
	at       time.Time
	took     time.Duration
}

func newTopics() *topics {
	return &topics{scans: make(chan struct{}, topicScans), lists: map[topicsKey]*topicsOf{}}
}

// Topics returns the paths of a mirror's entries that begin with a prefix, ordered by name
// (S3-114). A list may be reused after changes of the mirror, for ten times as long as making it
// took. Code Unprocessable if there are too many. Callers share the list and must not change it. At
// most topicScans lists are made at a time; further callers wait, until ctx ends.
func (k *Keeper) Topics(ctx context.Context, m *sluice.Mirror, prefix string) ([]sluice.MirroredTopic, error) {
	held, err := k.deps.Copies.Hold(ctx, m.ID, nil)
	if err != nil {
		return nil, fmt.Errorf("read place: %w", err)
	}
	key, revision := topicsKey{m.ID, prefix, m.CreatedAt}, held.Place.Revision
	if all := k.topics.kept(key, revision, k.now()); all != nil {
		return all, nil
	}
	select {
	case k.topics.scans <- struct{}{}:
		defer func() { <-k.topics.scans }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if all := k.topics.kept(key, revision, k.now()); all != nil { // another request made it meanwhile
		return all, nil
	}
	begun := k.now()
	all, err := k.deps.Copies.Topics(ctx, m.ID, prefix, maxTopics)
	if err != nil {
		return nil, fmt.Errorf("read topics: %w", err)
	}
	for i := range all {
		all[i].Source, all[i].Subscription = m.Source, m.ID
	}
	slices.SortFunc(all, func(a, b sluice.MirroredTopic) int { return strings.Compare(string(a.Topic), string(b.Topic)) })
	now := k.now()
	k.topics.keep(key, &topicsOf{all, revision, now, now.Sub(begun)})
	return all, nil
}

// kept returns a kept list of the mirror's current place, or one that is not too old; nil if there
// is none.
func (t *topics) kept(key topicsKey, revision uint64, now time.Time) []sluice.MirroredTopic {
	t.mu.Lock()
	defer t.mu.Unlock()
	is := t.lists[key]
	if is == nil || is.revision != revision && now.Sub(is.at) > topicsAgain*is.took {
		return nil
	}
	return is.all
}

// keep keeps a list, and drops the oldest one if there are too many.
func (t *topics) keep(key topicsKey, is *topicsOf) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lists[key] = is
	if len(t.lists) <= topicLists {
		return
	}
	oldest := key
	for other, was := range t.lists {
		if was.at.Before(t.lists[oldest].at) {
			oldest = other
		}
	}
	delete(t.lists, oldest)
}
