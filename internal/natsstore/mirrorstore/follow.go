package mirrorstore

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/sluice-io/sluice/internal/mirror"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// FollowChanges calls each for the changes of a mirror after a cursor and then for new ones, until
// each returns an error, ctx ends or reading fails. Exactly one of Entry, Place and Gap is set.
// Messages that were replaced before they were read are left out, so a follower sees the last
// state, but not each step to it. FollowChanges returns only with an error.
func (s *Store) FollowChanges(ctx context.Context, id string, after uint64, each func(mirror.Followed) error) error {
	place, entries := s.core.Names().MirrorPlaceSubject(id), strings.TrimSuffix(s.core.Names().MirrorEntriesSubject(id), "*")
	err := s.core.Tail(ctx, s.core.Names().Mirror(), s.core.Names().MirrorSubjects(id), after, func(msg *nats.Msg, meta *nats.MsgMetadata) error {
		seq := meta.Sequence.Stream
		if natsstore.IsMarker(msg.Header) { // a tombstone has expired
			return nil
		}
		f := mirror.Followed{Cursor: seq}
		switch {
		case msg.Subject == place:
			at, err := placeOf(msg.Data, seq)
			if err != nil {
				return err
			}
			f.Place = &at
		case strings.HasPrefix(msg.Subject, entries):
			e, err := entryOf(msg, seq)
			if err != nil {
				return err
			}
			f.Entry = &e
		default:
			f.Gap = &sluice.MirrorGap{}
			if err := json.Unmarshal(msg.Data, f.Gap); err != nil {
				return fmt.Errorf("gap: %w", err)
			}
		}
		return each(f)
	})
	return natsstore.StoreError(ctx, err)
}
