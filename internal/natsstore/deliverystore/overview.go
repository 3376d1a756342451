package deliverystore

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// Healths returns the stored health of all subscriptions whose endpoint has a problem, by
// subscription. Records of deleted subscriptions may be among them: the caller looks up its own.
func (s *Store) Healths(ctx context.Context) (map[string]model.StoredHealth, error) {
	prefix := streams.HealthKey("")
	entries, err := s.healths().List(ctx, prefix+">")
	all := make(map[string]model.StoredHealth, len(entries))
	for _, e := range entries {
		all[strings.TrimPrefix(e.Key, prefix)] = e.Value
	}
	return all, err
}

// maxCounted is the number of dead letters up to which they are counted by subscription: the answer
// of NATS lists each one.
const maxCounted = 100_000

// DeadLetterCounts returns the number of dead letters of each subscription; nil if there are more
// than 100,000 in total. It includes those of earlier subscriptions with the same ID.
func (s *Store) DeadLetterCounts(ctx context.Context) (map[string]uint64, error) {
	counted, err := s.DeadLetterGauges(ctx)
	if err != nil || counted.Of == nil {
		return nil, err
	}
	all := map[string]uint64{}
	for _, of := range counted.Of {
		all[of.Subscription] += of.Letters
	}
	return all, nil
}

// DeadLetterGauges returns the total number of dead letters, and the number of each subscription
// with dead letters unless there are more than 100,000 in total. It includes those of earlier
// subscriptions with the same ID.
func (s *Store) DeadLetterGauges(ctx context.Context) (model.DeadLetterGauges, error) {
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
	type owner struct{ namespace, subscription string }
	counts := map[owner]uint64{}
	for subject, n := range info.State.Subjects {
		if parts := strings.SplitN(s.core.Names().BareSubject(subject), ".", 4); len(parts) == 4 {
			counts[owner{parts[1], parts[2]}] += n
		}
	}
	all := model.DeadLetterGauges{Total: info.State.Msgs, Of: make([]model.SubscriptionLetters, 0, len(counts))}
	for of, n := range counts {
		all.Of = append(all.Of, model.SubscriptionLetters{Namespace: of.namespace, Subscription: of.subscription, Letters: n})
	}
	return all, nil
}

// LastAttempt returns the last recorded attempt of a subscription; nil if there is none. It may be
// a probe or an attempt of a replay.
func (s *Store) LastAttempt(ctx context.Context, sub *sluice.Subscription) (*sluice.Attempt, error) {
	msg, err := s.core.LeadersMessage(ctx, s.core.Names().Attempts(), natsstore.MessageRequest{Last: s.core.Names().AttemptsSubject(sub.Namespace, sub.ID)})
	if err != nil {
		return nil, fmt.Errorf("last attempt of %s: %w", sub.ID, err)
	}
	if msg.Seq == 0 {
		return nil, nil //nolint:nilnil // most subscriptions have none
	}
	var last sluice.Attempt
	for line := range streams.SplitBlock(msg.Data) {
		last = sluice.Attempt{}
		if err := json.Unmarshal(line, &last); err != nil {
			return nil, fmt.Errorf("attempt: %w", err)
		}
	}
	if last.StartedAt.Before(sub.CreatedAt) {
		return nil, nil //nolint:nilnil // it was an earlier subscription's of the same ID
	}
	return &last, nil
}
