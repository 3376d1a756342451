package deliverystore

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

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
