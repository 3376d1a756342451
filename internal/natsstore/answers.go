package natsstore

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/seal"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// Answers stores the responses to requests with an Idempotency-Key, for a day. A key is a hash of
// the caller, its grant, the URL and the Idempotency-Key, so that no caller gets the response of
// another. It is safe for concurrent use.
type Answers struct{ bucket Bucket[answerRecord] }

// answerRecord is a response in the store. It is sealed completely, because responses contain
// tokens and secrets that are shown only once.
type answerRecord struct {
	Sealed string `json:"sealed"`
}

// Answers returns the store's Answers.
func (s *Store) Answers() Answers {
	return Answers{OpenBucket[answerRecord](s, streams.Answers)}
}

// Get returns the response stored under a key, and its revision. Codes: NotFound; Unavailable if it
// cannot be unsealed.
func (a Answers) Get(ctx context.Context, key string) (model.KeptAnswer, uint64, error) {
	var kept model.KeptAnswer
	record, revision, err := a.bucket.Get(ctx, key)
	if err != nil {
		return kept, 0, err
	}
	text, err := a.bucket.store.openText(record.Sealed, answerPlace(key))
	if err = unlocked("the response for this Idempotency-Key", err); err != nil {
		return kept, 0, err
	}
	if err := json.Unmarshal([]byte(text), &kept); err != nil {
		return kept, 0, fmt.Errorf("answer: %w", err)
	}
	return kept, revision, nil
}

// Put stores a response, or the mark that a request is in flight, and returns its revision. Codes:
// Conflict unless the stored revision is the given one, 0 for none; QuotaExceeded if too many are
// stored.
func (a Answers) Put(ctx context.Context, key string, kept model.KeptAnswer, revision uint64) (uint64, error) {
	text, err := json.Marshal(kept)
	if err != nil {
		return 0, fmt.Errorf("answer: %w", err)
	}
	sealed, err := a.bucket.store.sealText(string(text), answerPlace(key))
	if err != nil {
		return 0, err
	}
	revision, err = a.bucket.Put(ctx, key, answerRecord{sealed}, revision)
	if sluice.CodeOf(err) == sluice.QuotaExceeded {
		err = full("the limit of saved responses for Idempotency-Key is reached; they expire after a day. Send the request without the header, or later")
	}
	return revision, err
}

// sealed returns the number of responses that are sealed with each key. Unsealed ones do not count:
// they stay so until they expire.
func (a Answers) sealed(ctx context.Context) (map[string]int, error) {
	counts, err := AskedFor(ctx, ListTimeout, func(ctx context.Context) (map[string]int, error) {
		counts := map[string]int{}
		err := a.bucket.read(ctx, ">", 0, func(e Entry[answerRecord], pending uint64) (more bool) {
			if id := seal.KeyOf(e.Value.Sealed); id != "" {
				counts[id]++
			}
			return pending > 0
		})
		return counts, err
	})
	if err != nil {
		return nil, a.bucket.failed(ctx, "list", ">", err)
	}
	return counts, nil
}

// Delete removes the response stored under a key. Code Conflict unless the stored revision is the
// given one.
func (a Answers) Delete(ctx context.Context, key string, revision uint64) error {
	return a.bucket.Delete(ctx, key, revision)
}

func answerPlace(key string) string { return seal.Place(streams.Answers, key, "answer") }
