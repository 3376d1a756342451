package deliverystore

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

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
	state jetstream.StreamState    // up to which the dead letters were read
	all   map[string]sluice.Reason // by subject
	sums  map[string]map[sluice.Reason]uint64
}

// DeadLetterReasons returns the number of dead letters of each subscription by reason; nil if there
// are more than 10,000 in total, or if not all have been read yet. It includes those of earlier
// subscriptions with the same ID. Callers share the result and must not change it. One call reads
// at most readAtOnce dead letters: call it again later for the rest.
func (s *Store) DeadLetterReasons(ctx context.Context) (map[string]map[sluice.Reason]uint64, error) {
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
		r.state, r.all, r.sums = jetstream.StreamState{}, nil, nil
		return nil, nil //nolint:nilnil // there are too many
	case r.sums != nil && r.state.LastSeq == now.State.LastSeq && r.state.Msgs == now.State.Msgs:
		return r.sums, nil
	case r.all == nil || now.State.LastSeq < r.state.LastSeq:
		r.state, r.all = jetstream.StreamState{}, map[string]sluice.Reason{}
	}
	more, err := s.readReasons(ctx, r)
	if err != nil || more {
		r.sums = nil
		return nil, err
	}
	if err := r.prune(ctx, handle, s.core.Names().DeadLettersSubjects()); err != nil {
		return nil, err
	}
	r.state.Msgs, r.state.LastSeq = now.State.Msgs, max(r.state.LastSeq, now.State.LastSeq)
	r.sums = map[string]map[sluice.Reason]uint64{}
	for subject, reason := range r.all {
		if parts := strings.SplitN(s.core.Names().BareSubject(subject), ".", 4); len(parts) == 4 {
			if r.sums[parts[2]] == nil {
				r.sums[parts[2]] = map[sluice.Reason]uint64{}
			}
			r.sums[parts[2]][reason]++
		}
	}
	return r.sums, nil
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
		if json.Unmarshal(msg.Data, &letter) == nil {
			r.all[msg.Subject] = letter.Reason
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
	maps.DeleteFunc(r.all, func(subject string, _ sluice.Reason) bool { return info.State.Subjects[subject] == 0 })
	return nil
}
