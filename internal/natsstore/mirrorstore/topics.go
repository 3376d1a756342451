package mirrorstore

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// pathOf has the fields of an entry that are needed to count paths.
type pathOf struct {
	Change struct {
		Path sluice.Path `json:"path"`
		Seq  uint64      `json:"seq"`
	} `json:"change"`
	TombstonedAt time.Time `json:"tombstoned_at"`
}

// Topics returns the paths with a prefix of the entries of a mirror, without tombstones, in no
// particular order. It reads all entries. Code Unprocessable if there are more than most paths.
func (s *Store) Topics(ctx context.Context, id, prefix string, most int) ([]sluice.MirroredTopic, error) {
	at := map[sluice.Path]int{}
	topics := []sluice.MirroredTopic{}
	err := s.scan(ctx, s.core.Names().MirrorEntriesSubject(id), 1, func(msg *nats.Msg, seq uint64, _ bool) (bool, error) {
		var e pathOf
		text, _, err := parts(msg)
		if err == nil {
			err = json.Unmarshal(text, &e)
		}
		if err != nil {
			return false, fmt.Errorf("message %d: entry: %w", seq, err)
		}
		if !e.TombstonedAt.IsZero() || !strings.HasPrefix(string(e.Change.Path), prefix) {
			return true, nil
		}
		i, known := at[e.Change.Path]
		if !known {
			if i = len(topics); i == most {
				return false, sluice.Errorf(sluice.Unprocessable, "mirror %s has more than %d paths; use a longer path_prefix", id, most).With("field", "path_prefix")
			}
			at[e.Change.Path] = i
			topics = append(topics, sluice.MirroredTopic{Topic: e.Change.Path})
		}
		t := &topics[i]
		t.EntryCount, t.LatestSequence = t.EntryCount+1, max(t.LatestSequence, e.Change.Seq)
		return true, nil
	})
	return topics, err
}
