package deliverystore

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Limits of counting dead letters by reason, for which each is read once: their number, and the
// number that one call reads.
const (
	maxReasons = 10_000
	readAtOnce = 1_000
)

// reasons caches the reasons of the dead letters.
type reasons struct {
	mu    sync.Mutex
	state jetstream.StreamState // up to which the dead letters were read
	all   map[string]reason     // by subject
	whole bool                  // all were read
}

// reason is why, and when, a delivery failed for good.
type reason struct {
	of     owner
	at     time.Time // when the dead letter was stored
	reason sluice.Reason
}

// DeadLetterReasons returns the number of dead letters of each subscription by reason; nil if there
// are more than 10,000 in total, or if not all have been read yet. Those of an earlier subscription
// with the same ID, or of another namespace, do not count. One call reads at most readAtOnce dead
// letters: call it again later for the rest.
func (s *Store) DeadLetterReasons(ctx context.Context, created model.Created) (map[string]map[sluice.Reason]uint64, error) {
	r := &s.reasons
	r.mu.Lock()
	defer r.mu.Unlock()
	handle, err := s.core.JetStream().Stream(ctx, s.core.Names().DeadLetters())
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", s.core.Names().DeadLetters(), natsstore.StoreError(ctx, err))
	}
	now := handle.CachedInfo()
	switch {
	case now.State.Msgs > maxReasons:
		r.state, r.all, r.whole = jetstream.StreamState{}, nil, false
		return nil, nil //nolint:nilnil // there are too many
	case r.whole && r.state.LastSeq == now.State.LastSeq && r.state.Msgs == now.State.Msgs:
		return r.sums(created), nil
	case r.all == nil || now.State.LastSeq < r.state.LastSeq:
		r.state, r.all = jetstream.StreamState{}, map[string]reason{}
	}
	more, err := s.readReasons(ctx, r)
	if err != nil || more {
		r.whole = false
		return nil, err
	}
	if err := r.prune(ctx, handle, s.core.Names().DeadLettersSubjects()); err != nil {
		return nil, err
	}
	r.state.Msgs, r.state.LastSeq, r.whole = now.State.Msgs, max(r.state.LastSeq, now.State.LastSeq), true
	return r.sums(created), nil
}

// sums returns the number of dead letters of each subscription by reason.
func (r *reasons) sums(created model.Created) map[string]map[sluice.Reason]uint64 {
	sums := map[string]map[sluice.Reason]uint64{}
	for _, d := range r.all {
		at, is := created(d.of.namespace, d.of.subscription)
		if !is || d.at.Before(at) {
			continue
		}
		if sums[d.of.subscription] == nil {
			sums[d.of.subscription] = map[sluice.Reason]uint64{}
		}
		sums[d.of.subscription][d.reason]++
	}
	return sums
}

// readReasons reads at most readAtOnce dead letters that were not read yet, and reports whether
// there are more.
func (s *Store) readReasons(ctx context.Context, r *reasons) (more bool, err error) {
	read := 0
	config := jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: r.state.LastSeq + 1, FilterSubject: s.core.Names().DeadLettersSubjects()}
	err = s.core.Scan(ctx, s.core.Names().DeadLetters(), config, func(msg *nats.Msg, meta *nats.MsgMetadata) (bool, error) {
		var letter struct {
			Reason sluice.Reason `json:"reason"`
		}
		of, ok := s.ownerOf(msg.Subject)
		if ok && json.Unmarshal(msg.Data, &letter) == nil {
			r.all[msg.Subject] = reason{of, meta.Timestamp, letter.Reason}
		}
		r.state.LastSeq = meta.Sequence.Stream
		read++
		more = read >= readAtOnce && meta.NumPending > 0
		return !more, nil
	})
	if err != nil {
		return false, fmt.Errorf("reasons of dead letters: %w", natsstore.StoreError(ctx, err))
	}
	return more, nil
}

// prune removes deleted dead letters from the cache.
func (r *reasons) prune(ctx context.Context, handle jetstream.Stream, subjects string) error {
	if len(r.all) == 0 {
		return nil
	}
	info, err := natsstore.AskedFor(ctx, natsstore.ListTimeout, func(ctx context.Context) (*jetstream.StreamInfo, error) {
		return handle.Info(ctx, jetstream.WithSubjectFilter(subjects))
	})
	if err != nil {
		return fmt.Errorf("subjects of dead letters: %w", natsstore.StoreError(ctx, err))
	}
	maps.DeleteFunc(r.all, func(subject string, _ reason) bool { return info.State.Subjects[subject] == 0 })
	return nil
}
