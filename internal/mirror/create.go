package mirror

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// Create creates a mirror, sets its defaults and returns it. The caller must have checked the
// rights of by. Codes InvalidRequest; Conflict for a mirror of itself; NotFound for the source;
// Forbidden if the label of the namespace does not dominate that of the source, or the credential
// permits more than reading; SubscriptionExists; SubscriptionDiffers if the ID is in use;
// MirrorCycle (S3-103…108); QuotaExceeded. The result is settled, and the replica that owns it
// syncs it at once. After an error nothing is left, unless the store failed in between: then the
// engine settles or removes the mirror. The credential is stored apart, and is never returned.
func (k *Keeper) Create(ctx context.Context, m sluice.Mirror, by sluice.Caller) (sluice.Mirror, error) {
	if err := k.check(ctx, &m); err != nil {
		return m, err
	}
	if m.ID == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return m, fmt.Errorf("generate an ID: %w", err)
		}
		m.ID = id.String()
	} else if err := streams.CheckSubscriptionID(m.ID); err != nil {
		return m, err
	}
	now, credential := k.now().UTC(), m.Credential
	m.Credential, m.State, m.Reason, m.Revision = "", sluice.Active, "", 0
	m.CreatedAt, m.UpdatedAt, m.CreatedBy, m.ApprovedBy, m.Grant = now, now, string(by.Principal), string(by.Principal), by.Grant
	if credential != "" {
		m.CredentialAt = &now
	}
	if most := k.engine.opts.Most; most > 0 {
		if has := len(k.engine.of(m.Namespace)); has >= most {
			return m, sluice.Errorf(sluice.QuotaExceeded, "%s has %d mirrors, the limit; delete some", m.Namespace, has).With("limit", most)
		}
	}
	if err := k.unlike(&m); err != nil { // most conflicts are found before anything is written
		return m, err
	}
	intent, err := k.deps.Ledger.Intend(ctx, nil, ledger.Change{
		Actor: m.CreatedBy, Namespace: m.Namespace, Resource: m.ID, Action: sluice.ActionMirrorCreate, New: &m,
	})
	if err != nil {
		return m, err
	}
	if err := k.store(ctx, &m, credential); err != nil {
		intent.Fail(ctx, err)
		return m, err
	}
	return m, k.outlived(ctx, &m)
}

// store stores a new mirror, and removes it if it conflicts with one that was stored before it.
func (k *Keeper) store(ctx context.Context, m *sluice.Mirror, credential string) error {
	record := Stored{Mirror: *m, Untold: []Said{k.said(m, sluice.TypeMirrorCreated, m.CreatedBy)}}
	var err error
	record.Revision, err = k.deps.Definitions.Put(ctx, m.ID, record, 0)
	if err != nil {
		if sluice.CodeOf(err) == sluice.Conflict {
			return sluice.Errorf(sluice.SubscriptionDiffers, "the id is in use; choose another one")
		}
		return fmt.Errorf("store mirror: %w", err)
	}
	if credential != "" {
		if err := k.deps.Credentials.Put(ctx, m.ID, credential); err != nil {
			return errors.Join(fmt.Errorf("store credential: %w", err), k.discard(ctx, &record))
		}
	}
	m.Revision, err = k.settle(ctx, &record)
	if sluice.CodeOf(err) == sluice.SubscriptionMissing { // it was deleted before its token was stored
		return errors.Join(err, k.deps.Credentials.Delete(shutdown.Lasting(ctx), m.ID))
	}
	return err
}

// outlived deletes a new mirror and returns an error (NotFound) if its namespace was deleted
// meanwhile. The deletion of the namespace may have listed the mirrors before this one was stored.
func (k *Keeper) outlived(ctx context.Context, m *sluice.Mirror) error {
	_, err := k.deps.Namespaces.Incarnation(ctx, m.Namespace)
	if sluice.CodeOf(err) != sluice.NotFound {
		return nil // it is created
	}
	if failed := k.Delete(shutdown.Lasting(ctx), m.ID, sluice.ActorSystem); failed != nil && sluice.CodeOf(failed) != sluice.SubscriptionMissing {
		return errors.Join(err, failed)
	}
	return err
}

// discard removes a mirror that is not settled.
func (k *Keeper) discard(ctx context.Context, m *Stored) error {
	ctx = shutdown.Lasting(ctx)
	if err := errors.Join(k.deps.Credentials.Delete(ctx, m.ID), k.deps.Definitions.Delete(ctx, m.ID, m.Revision)); err != nil {
		return fmt.Errorf("remove mirror %s: %w", m.ID, err)
	}
	return nil
}

// settle settles a stored mirror and returns its new revision, or removes it if it conflicts with
// an earlier one. The engine settles a mirror whose creator crashed. Several replicas may call it
// at the same time.
func (k *Keeper) settle(ctx context.Context, m *Stored) (uint64, error) {
	err := k.engine.await(ctx, m.ID, m.Revision)
	if err == nil {
		err = k.unlike(&m.Mirror)
	}
	if err == nil {
		settled := *m
		settled.Settled = true
		revision, err := k.deps.Definitions.Put(ctx, m.ID, settled, m.Revision)
		if sluice.CodeOf(err) != sluice.Conflict {
			return revision, err
		}
		if now, err := k.get(ctx, m.ID); err != nil || now.Settled { // another replica was faster
			return now.Revision, err
		}
		return 0, err
	}
	return 0, errors.Join(err, k.discard(ctx, m))
}

// unlike returns an error if a mirror conflicts with an earlier one that this process knows.
func (k *Keeper) unlike(m *sluice.Mirror) error {
	one := Edge{ID: m.ID, Subscriber: m.Namespace, Source: m.Source, Revision: cmp.Or(m.Revision, ^uint64(0))} // a new one is the last
	return k.engine.conflict(one)
}

// check returns an error unless a mirror is valid and may be created or resumed. Conflicts with
// other mirrors are left to unlike. Codes InvalidRequest, Conflict, NotFound, Forbidden, and those
// of Sources.CheckCredential. It stores nothing.
func (k *Keeper) check(ctx context.Context, m *sluice.Mirror) error {
	if err := m.Validate(); err != nil {
		return err
	}
	if m.Source == m.Namespace {
		return sluice.Errorf(sluice.Conflict, "%s cannot mirror itself", m.Namespace)
	}
	if _, err := k.deps.Namespaces.Incarnation(ctx, m.Namespace); err != nil {
		return err
	}
	if m.Remote() {
		if m.Credential == "" {
			return nil // it gets bundles
		}
		return k.deps.Sources.CheckCredential(ctx, m, m.Credential)
	}
	if m.Credential != "" {
		return sluice.Errorf(sluice.InvalidRequest, "credential: a namespace of this server needs none; omit it").With("field", "credential")
	}
	if _, err := k.deps.Namespaces.Incarnation(ctx, m.Source); err != nil {
		return err
	}
	source, own := k.deps.Namespaces.Label(m.Source), k.deps.Namespaces.Label(m.Namespace)
	if !own.Dominates(source) {
		return sluice.Errorf(sluice.Forbidden, "the label of %s (%s) does not dominate that of %s (%s)", m.Namespace, labelText(own), m.Source, labelText(source))
	}
	return nil
}
