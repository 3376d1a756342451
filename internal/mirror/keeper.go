package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Keeper creates, changes and deletes mirrors. It writes each change to the ledger before it makes
// it. It is safe for concurrent use.
type Keeper struct {
	deps   Deps
	engine *Engine
	topics *topics
	now    func() time.Time
	log    *slog.Logger
}

// Get returns a mirror. Code SubscriptionMissing.
func (k *Keeper) Get(ctx context.Context, id string) (sluice.Mirror, error) {
	m, err := k.get(ctx, id)
	return m.Mirror, err
}

func (k *Keeper) get(ctx context.Context, id string) (Stored, error) {
	m, revision, err := k.deps.Definitions.Get(ctx, id)
	if sluice.CodeOf(err) == sluice.NotFound || err == nil && m.Gone {
		return m, sluice.Errorf(sluice.SubscriptionMissing, "subscription %q not found", id)
	}
	m.Revision = revision
	return m, err
}

// List returns the mirrors of a namespace, ordered by id; "" stands for all namespaces. Suspended
// mirrors and those that are being created are among them; deleted ones are not. Without an error
// the result is not nil. The cost is O(mirrors of the server).
func (k *Keeper) List(ctx context.Context, namespace string) ([]sluice.Mirror, error) {
	all, err := k.deps.Definitions.All(ctx)
	if err != nil {
		return nil, fmt.Errorf("list mirrors: %w", err)
	}
	mirrors := []sluice.Mirror{}
	for i := range all {
		if !all[i].Gone && (namespace == "" || all[i].Namespace == namespace) {
			mirrors = append(mirrors, all[i].Mirror)
		}
	}
	slices.SortFunc(mirrors, func(a, b sluice.Mirror) int { return cmp.Compare(a.ID, b.ID) })
	return mirrors, nil
}

// act is a change of a mirror: its actor, its action in the ledger, and the type of its system event.
type act struct{ by, action, kind string }

// change applies an act to a stored mirror and returns the result. It repeats apply after a
// concurrent change. apply gets a copy, may be called several times, and refuses by an error, which
// is returned as it is. A change is announced by a system event that is stored with it (Untold) and
// published later.
func (k *Keeper) change(ctx context.Context, id string, a act, apply func(m *sluice.Mirror) error) (sluice.Mirror, error) {
	var intent *ledger.Intent
	for {
		was, err := k.get(ctx, id)
		if err != nil {
			intent.Fail(ctx, err)
			return was.Mirror, err
		}
		is := was
		if err = apply(&is.Mirror); err == nil {
			is.UpdatedAt = k.now().UTC()
			c := ledger.Change{Actor: a.by, Namespace: was.Namespace, Resource: id, Action: a.action, Old: &was.Mirror, New: &is.Mirror}
			if a.by == sluice.ActorSystem {
				intent = k.deps.Ledger.Note(ctx, intent, c)
			} else {
				intent, err = k.deps.Ledger.Intend(ctx, intent, c)
			}
		}
		if err != nil {
			intent.Fail(ctx, err)
			return was.Mirror, err
		}
		is.Untold = append(slices.Clone(was.Untold), k.said(&is.Mirror, a.kind, a.by))
		is.Revision, err = k.deps.Definitions.Put(ctx, id, is, was.Revision)
		if sluice.CodeOf(err) == sluice.Conflict {
			continue
		}
		if err != nil {
			intent.Fail(ctx, err)
			return was.Mirror, fmt.Errorf("store mirror: %w", err)
		}
		return is.Mirror, nil
	}
}

// Edit changes a mirror, at any revision if revision is 0. Codes SubscriptionMissing;
// InvalidRequest; Unprocessable; RevisionMismatch. A running sync uses the edited record from its
// next step on.
func (k *Keeper) Edit(ctx context.Context, id string, edit sluice.MirrorEdit, revision uint64, by string) (sluice.Mirror, error) {
	return k.change(ctx, id, act{by, sluice.ActionMirrorUpdate, sluice.TypeMirrorUpdated}, func(m *sluice.Mirror) error {
		if revision != 0 && revision != m.Revision {
			return sluice.Errorf(sluice.RevisionMismatch, "subscription %s is at revision %d", id, m.Revision)
		}
		return edit.Apply(m)
	})
}

// Sync syncs a mirror now, to the end of its source.
func (k *Keeper) Sync(ctx context.Context, id string) error {
	m, err := k.get(ctx, id)
	if err != nil {
		return err
	}
	return k.engine.Sync(ctx, &m)
}

// SyncShared is Sync, unless another SyncShared of the mirror has not begun yet: that one is for both.
func (k *Keeper) SyncShared(ctx context.Context, id string) error {
	m, err := k.get(ctx, id)
	if err != nil {
		return err
	}
	return k.engine.SyncShared(ctx, &m)
}

// Items returns entries of a mirror after a cursor, in the order of their last change. At the end
// More is false, and Next is the cursor to continue with later.
func (k *Keeper) Items(ctx context.Context, m *sluice.Mirror, after uint64, limit int) (model.MirrorPage, error) {
	page, err := k.deps.Copies.Page(ctx, m.ID, after, limit)
	if err != nil {
		return model.MirrorPage{}, fmt.Errorf("read entries: %w", err)
	}
	label := k.deps.Namespaces.Label(m.Namespace)
	items := make([]sluice.MirroredItem, len(page.Entries))
	for i := range page.Entries {
		items[i] = itemOf(m, label, &page.Entries[i])
	}
	return model.MirrorPage{Items: items, Next: page.Next, More: page.More}, nil
}

// itemOf returns an entry of a mirror with its provenance, and the label of the namespace that has it.
func itemOf(m *sluice.Mirror, label sluice.Label, e *Entry) sluice.MirroredItem {
	return sluice.MirroredItem{
		Source: "mirrored", Subscription: m.ID, Origin: m.Source, Weight: m.Weight, Label: &label,
		Tombstoned: e.Tombstone(), MirroredAt: &e.MirroredAt, Cursor: e.Cursor, Change: e.Change,
	}
}

// Passed returns the logs whose content a namespace has in mirrors, each with the number of mirrors
// in between (S3-119).
func (k *Keeper) Passed(ctx context.Context, namespace string) ([]sluice.Hop, error) {
	hops := map[string]int{}
	note := func(incarnation string, far int) {
		if had, ok := hops[incarnation]; incarnation != "" && (!ok || far < had) {
			hops[incarnation] = far
		}
	}
	for _, id := range k.engine.of(namespace) {
		held, err := k.deps.Copies.Hold(ctx, id, nil)
		if err != nil {
			return nil, fmt.Errorf("read place: %w", err)
		}
		note(held.Place.Incarnation, 1)
		for _, hop := range held.Place.Passed {
			note(hop.Incarnation, min(hop.Hops+1, sluice.MaxMirrorHops))
		}
	}
	passed := make([]sluice.Hop, 0, len(hops))
	for incarnation, far := range hops {
		passed = append(passed, sluice.Hop{Incarnation: incarnation, Hops: far})
	}
	slices.SortFunc(passed, func(a, b sluice.Hop) int {
		return cmp.Or(cmp.Compare(a.Hops, b.Hops), cmp.Compare(a.Incarnation, b.Incarnation))
	})
	return passed, nil
}

// Suspend stops the syncs of a mirror until it is resumed. Mirrored entries stay (S3-126).
// Suspending a suspended mirror keeps its first reason and is no error. Code SubscriptionMissing.
func (k *Keeper) Suspend(ctx context.Context, id, by string) (sluice.Mirror, error) {
	return k.stop(ctx, id, by, &Stop{sluice.MirrorSuspendedByOperator, "suspended by " + by}, func(*sluice.Mirror) bool { return true })
}

// suspend is Suspend by the server itself. It does nothing if the mirror has changed since its
// record was read.
func (k *Keeper) suspend(ctx context.Context, m *Stored, why *Stop) error {
	_, err := k.stop(shutdown.Lasting(ctx), m.ID, sluice.ActorSystem, why, func(is *sluice.Mirror) bool { return is.UpdatedAt.Equal(m.UpdatedAt) })
	if sluice.CodeOf(err) == sluice.SubscriptionMissing {
		return nil
	}
	return err
}

// stop suspends a mirror if is accepts its current state.
func (k *Keeper) stop(ctx context.Context, id, by string, why *Stop, is func(m *sluice.Mirror) bool) (sluice.Mirror, error) {
	stopped, err := k.change(ctx, id, act{by, sluice.ActionMirrorSuspend, sluice.TypeMirrorSuspended}, func(m *sluice.Mirror) error {
		if m.State == sluice.Suspended || !is(m) {
			return errSuspended
		}
		now := k.now().UTC()
		m.State, m.Reason, m.SuspendDetail, m.SuspendedAt = sluice.Suspended, why.Reason, why.Detail, &now
		return nil
	})
	if errors.Is(err, errSuspended) {
		err = nil
	}
	return stopped, err
}

// errSuspended means that a mirror is already suspended, for its first reason, or has changed.
var errSuspended = errors.New("suspended already")

// PutCredential replaces the token for a mirror's source (S3-144). Code Forbidden if the token
// permits more than reading (S3-142). Code Conflict for a source on this server. A suspended mirror
// stays suspended.
func (k *Keeper) PutCredential(ctx context.Context, id, token, by string) (sluice.Mirror, error) {
	m, err := k.get(ctx, id)
	if err != nil {
		return m.Mirror, err
	}
	m.Credential = token
	if err := m.Validate(); err != nil {
		return m.Mirror, err
	}
	if !m.Remote() {
		return m.Mirror, sluice.Errorf(sluice.Conflict, "the source is a namespace of this server, and needs no credential")
	}
	if err := k.deps.Sources.CheckCredential(ctx, &m.Mirror, token); err != nil {
		return m.Mirror, err
	}
	if err := k.deps.Credentials.Put(ctx, id, token); err != nil {
		return m.Mirror, fmt.Errorf("store credential: %w", err)
	}
	m.Mirror, err = k.change(ctx, id, act{by, sluice.ActionMirrorUpdate, sluice.TypeMirrorUpdated}, func(m *sluice.Mirror) error {
		now := k.now().UTC()
		m.CredentialAt = &now
		return nil
	})
	if sluice.CodeOf(err) == sluice.SubscriptionMissing { // it was deleted before its token was stored
		err = errors.Join(err, k.deps.Credentials.Delete(shutdown.Lasting(ctx), id))
	}
	return m.Mirror, err
}

// Delete removes a mirror with its entries, its credential and its record (S3-98, S3-110). Code
// SubscriptionMissing. When it returns, the mirror is gone for every caller; entries may remain for
// the engine to remove.
func (k *Keeper) Delete(ctx context.Context, id, by string) error {
	gone, err := k.leave(ctx, id, by)
	if err != nil {
		return err
	}
	if err := k.bury(shutdown.Lasting(ctx), &gone); err != nil { // the engine repeats it
		k.log.LogAttrs(ctx, slog.LevelWarn, "deleted mirror not removed yet", slog.String("mirror", id), slog.Any("error", err))
	}
	return nil
}

// leave marks a mirror as deleted and returns its record. It repeats after a concurrent change.
func (k *Keeper) leave(ctx context.Context, id, by string) (Stored, error) {
	var intent *ledger.Intent
	for {
		m, err := k.get(ctx, id)
		if err == nil {
			intent, err = k.deps.Ledger.Intend(ctx, intent, ledger.Change{
				Actor: by, Namespace: m.Namespace, Resource: id, Action: sluice.ActionMirrorDelete, Old: &m.Mirror,
			})
		}
		if err != nil {
			intent.Fail(ctx, err)
			return m, err
		}
		was := m.Revision
		m.Gone, m.Untold = true, append(slices.Clone(m.Untold), k.said(&m.Mirror, sluice.TypeMirrorDeleted, by))
		m.Revision, err = k.deps.Definitions.Put(ctx, id, m, was)
		if sluice.CodeOf(err) == sluice.Conflict {
			continue
		}
		if err != nil {
			intent.Fail(ctx, err)
			return m, fmt.Errorf("delete mirror: %w", err)
		}
		return m, nil
	}
}

// DeleteAll deletes the mirrors of a namespace. It also removes the keys that the namespace trusts.
// Repeat it after an error.
func (k *Keeper) DeleteAll(ctx context.Context, namespace, by string) error {
	all, err := k.List(ctx, namespace)
	if err != nil {
		return err
	}
	for i := range all {
		if err := k.Delete(ctx, all[i].ID, by); err != nil && sluice.CodeOf(err) != sluice.SubscriptionMissing {
			return err
		}
	}
	return k.deps.Trusts.Delete(ctx, namespace)
}

// bury removes the entries and the credential of a deleted mirror, publishes its pending system
// events, and removes its record last.
func (k *Keeper) bury(ctx context.Context, m *Stored) error {
	if err := k.engine.clear(ctx, &m.Mirror); err != nil {
		return err
	}
	if err := k.deps.Credentials.Delete(ctx, m.ID); err != nil {
		return fmt.Errorf("remove credential: %w", err)
	}
	if err := k.publish(ctx, m); err != nil {
		return err
	}
	err := k.deps.Definitions.Delete(ctx, m.ID, m.Revision)
	if sluice.CodeOf(err) == sluice.Conflict || sluice.CodeOf(err) == sluice.NotFound {
		return nil // another replica was faster
	}
	return err
}

// tell publishes the pending system events of a mirror, and removes them from its record.
func (k *Keeper) tell(ctx context.Context, m *Stored) error {
	if err := k.publish(ctx, m); err != nil {
		return err
	}
	told := *m
	told.Untold = nil
	_, err := k.deps.Definitions.Put(ctx, m.ID, told, m.Revision)
	if sluice.CodeOf(err) == sluice.Conflict {
		return nil // it was changed, and the events are published again
	}
	return err
}

func (k *Keeper) publish(ctx context.Context, m *Stored) error {
	for _, said := range m.Untold {
		err := k.deps.Teller.Tell(ctx, m.Namespace, model.SystemEvent{
			Path: sluice.SubscriptionPath(m.ID), Kind: said.Kind, ID: said.ID,
			Data: map[string]any{
				"subscription": m.ID, "source": m.Source, "state": m.State, "reason": m.Reason, "detail": m.SuspendDetail, "by": said.By, "at": said.At,
			},
		})
		if sluice.CodeOf(err) == sluice.NotFound { // the namespace is gone, and its log with it
			return nil
		}
		if err != nil {
			return fmt.Errorf("publish %s: %w", said.Kind, err)
		}
	}
	return nil
}

// said returns a system event about a mirror, which is stored with the change.
func (k *Keeper) said(m *sluice.Mirror, kind, by string) Said {
	return Said{ID: kind + "-" + m.ID + "-" + strconv.FormatUint(m.Revision, 10), Kind: kind, At: k.now().UTC(), By: by}
}
