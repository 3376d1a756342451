package deliverystore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Limits of counting dead letters by subscription: their number, because the answer of NATS lists
// each one, and the number of subscriptions that are counted concurrently.
const (
	maxCounted  = 100_000
	countAtOnce = 8
)

// owner is the subscription in the subject of a dead letter. Subscriptions that follow one another
// can have the same.
type owner struct{ namespace, subscription string }

// ownerOf returns the owner in a subject; false if it is not that of a dead letter.
func (s *Store) ownerOf(subject string) (owner, bool) {
	parts := strings.SplitN(s.core.Names().BareSubject(subject), ".", 4)
	if len(parts) != 4 {
		return owner{}, false
	}
	return owner{parts[1], parts[2]}, true
}

// unmixed caches the subscriptions that have no dead letters of earlier ones with the same ID: they
// will never have any.
type unmixed struct {
	mu    sync.Mutex
	since map[owner]time.Time // their creation
}

func (h *unmixed) has(sub *sluice.Subscription) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.since[owner{sub.Namespace, sub.ID}].Equal(sub.CreatedAt)
}

func (h *unmixed) add(sub *sluice.Subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.since == nil {
		h.since = map[owner]time.Time{}
	}
	h.since[owner{sub.Namespace, sub.ID}] = sub.CreatedAt
}

// prune forgets subscriptions without dead letters.
func (h *unmixed) prune(counts map[owner]uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.since, func(of owner, _ time.Time) bool { return counts[of] == 0 })
}

// DeadLetterGauges returns the total number of dead letters, and the number of each subscription
// with dead letters unless there are more than 100,000 in total. Those of an earlier subscription
// with the same ID, or of another namespace, count only in the total.
func (s *Store) DeadLetterGauges(ctx context.Context, created model.Created) (model.DeadLetterGauges, error) {
	handle, err := s.core.JetStream().Stream(ctx, s.core.Names().DeadLetters())
	if err != nil {
		return model.DeadLetterGauges{}, fmt.Errorf("stream %s: %w", s.core.Names().DeadLetters(), natsstore.StoreError(ctx, err))
	}
	switch n := handle.CachedInfo().State.Msgs; {
	case n == 0:
		return model.DeadLetterGauges{Of: []model.SubscriptionLetters{}}, nil
	case n > maxCounted:
		return model.DeadLetterGauges{Total: n}, nil
	}
	info, err := natsstore.AskedFor(ctx, natsstore.ListTimeout, func(ctx context.Context) (*jetstream.StreamInfo, error) {
		return handle.Info(ctx, jetstream.WithSubjectFilter(s.core.Names().DeadLettersSubjects()))
	})
	if err != nil {
		return model.DeadLetterGauges{}, fmt.Errorf("count dead letters: %w", natsstore.StoreError(ctx, err))
	}
	counts := map[owner]uint64{}
	for subject, n := range info.State.Subjects {
		if of, ok := s.ownerOf(subject); ok {
			counts[of] += n
		}
	}
	s.unmixed.prune(counts)
	all, err := s.ownLetters(ctx, counts, created)
	return model.DeadLetterGauges{Total: info.State.Msgs, Of: all}, err
}

// ownLetters returns the number of the dead letters of each subscription that has some, given those
// with its namespace and ID.
func (s *Store) ownLetters(ctx context.Context, counts map[owner]uint64, created model.Created) ([]model.SubscriptionLetters, error) {
	all := make([]model.SubscriptionLetters, 0, len(counts))
	var mu sync.Mutex
	var errs error
	var asking sync.WaitGroup
	free := make(chan struct{}, countAtOnce)
	for of, n := range counts {
		at, is := created(of.namespace, of.subscription)
		if !is {
			continue
		}
		free <- struct{}{}
		asking.Go(func() {
			defer func() { <-free }()
			own, err := s.ownOf(ctx, &sluice.Subscription{ID: of.subscription, Namespace: of.namespace, Lifecycle: sluice.Lifecycle{CreatedAt: at}}, n)
			mu.Lock()
			defer mu.Unlock()
			errs = errors.Join(errs, err)
			if own > 0 {
				all = append(all, model.SubscriptionLetters{Namespace: of.namespace, Subscription: of.subscription, Letters: own})
			}
		})
	}
	asking.Wait()
	return all, errs
}

// ownOf returns the number of the dead letters of a subscription, given the number n of those with
// its namespace and ID.
func (s *Store) ownOf(ctx context.Context, sub *sluice.Subscription, n uint64) (uint64, error) {
	if s.unmixed.has(sub) {
		return n, nil
	}
	oldest, err := s.core.LeadersMessage(ctx, s.core.Names().DeadLetters(), natsstore.MessageRequest{Seq: 1, Next: s.core.Names().DeadLettersSubject(sub.Namespace, sub.ID)})
	switch {
	case err != nil:
		return 0, err
	case oldest.Time.Before(sub.CreatedAt):
		return s.CountDeadLetters(ctx, sub)
	}
	s.unmixed.add(sub)
	return n, nil
}
