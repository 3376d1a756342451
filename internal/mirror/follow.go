package mirror

import (
	"context"
	"fmt"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// End returns how far a mirror has synced. It returns the zero value if nothing was mirrored yet.
func (k *Keeper) End(ctx context.Context, m *sluice.Mirror) (model.MirrorEnd, error) {
	held, err := k.deps.Copies.Hold(ctx, m.ID, nil)
	if err != nil {
		return model.MirrorEnd{}, fmt.Errorf("read place: %w", err)
	}
	restored, err := k.deps.Copies.Incarnation(ctx)
	if err != nil {
		return model.MirrorEnd{}, fmt.Errorf("read incarnation: %w", err)
	}
	return model.MirrorEnd{Cursor: held.Place.Revision, Incarnation: held.Place.Incarnation, Begun: held.Place.begun(restored)}, nil
}

// Follow calls each for the changes of a mirror after a cursor and then for new ones, until each
// returns an error, ctx ends or the store fails. An entry that has changed several times is
// reported once, with its last change. Exactly one of Item, Gap and Synced is set. A tombstone is
// an Item. If Begun changes, the copy began anew: the follower forgets the former entries.
func (k *Keeper) Follow(ctx context.Context, m *sluice.Mirror, after uint64, each func(model.MirrorChange) error) error {
	restored, err := k.deps.Copies.Incarnation(ctx)
	if err != nil {
		return fmt.Errorf("read incarnation: %w", err)
	}
	return k.deps.Copies.FollowChanges(ctx, m.ID, after, func(f Followed) error {
		change := model.MirrorChange{Cursor: f.Cursor, Gap: f.Gap}
		switch {
		case f.Entry != nil:
			item := itemOf(m, k.deps.Namespaces.Label(m.Namespace), f.Entry)
			change.Item = &item
		case f.Place != nil:
			change.Begun = f.Place.begun(restored)
			change.Synced = &sluice.MirrorSynced{Incarnation: f.Place.Incarnation, Watermark: f.Place.Watermark, SourceSeq: f.Place.SourceSeq}
		}
		return each(change)
	})
}
