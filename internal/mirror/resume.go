package mirror

import (
	"context"
	"errors"
	"log/slog"

	"github.com/sluice-io/sluice/internal/shutdown"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Resume makes a suspended mirror sync again, if the caller might create it now (S3-128). If its
// origin was replaced, accept must be true: the mirror then begins anew, and its entries of the
// former log are removed. Of concurrent calls, only one resumes it. Codes: those of Create;
// Conflict if the origin was replaced and accept is false. An active mirror is returned as it is.
// by becomes the approver, whose rights the Gate checks from then on. Code SubscriptionMissing.
func (k *Keeper) Resume(ctx context.Context, id string, by sluice.Caller, accept bool) (sluice.Mirror, error) {
	for {
		m, err := k.get(ctx, id)
		if err != nil || m.State == sluice.Active {
			return m.Mirror, err
		}
		if err := k.resumable(ctx, &m.Mirror, accept); err != nil {
			return m.Mirror, err
		}
		resumed, err := k.resume(ctx, &m.Mirror, by)
		if errors.Is(err, errChanged) {
			continue // decide again
		}
		if err == nil && m.Reason == sluice.MirrorOriginReplaced {
			k.beginAnew(ctx, &resumed)
		}
		return resumed, err
	}
}

// resumable returns an error unless a suspended mirror may sync again.
func (k *Keeper) resumable(ctx context.Context, m *sluice.Mirror, accept bool) error { //nolint:revive // accept is the caller's word
	if err := k.check(ctx, m); err != nil {
		return err
	}
	if err := k.unlike(m); err != nil {
		return err
	}
	if m.Reason == sluice.MirrorOriginReplaced && !accept {
		return sluice.Errorf(sluice.Conflict, "%s; resume with \"accept_origin\": true to remove what is mirrored of the former log and begin anew", m.SuspendDetail)
	}
	return nil
}

// errChanged means that a mirror has changed since resumable checked it.
var errChanged = errors.New("the mirror has changed")

// resume resumes a mirror unless it has changed since it was read: it may be suspended for another
// reason by now.
func (k *Keeper) resume(ctx context.Context, was *sluice.Mirror, by sluice.Caller) (sluice.Mirror, error) {
	return k.change(ctx, was.ID, act{string(by.Principal), sluice.ActionMirrorResume, sluice.TypeMirrorResumed}, func(m *sluice.Mirror) error {
		if !m.UpdatedAt.Equal(was.UpdatedAt) || !m.CreatedAt.Equal(was.CreatedAt) {
			return errChanged
		}
		if m.Reason == sluice.MirrorOriginReplaced {
			now := k.now().UTC()
			m.BegunAt = &now
		}
		m.State, m.Reason, m.SuspendDetail, m.SuspendedAt = sluice.Active, "", "", nil
		m.ApprovedBy, m.Grant = string(by.Principal), by.Grant
		return nil
	})
}

// beginAnew removes the entries of a former log from a resumed mirror. If it fails, the next sync
// does so.
func (k *Keeper) beginAnew(ctx context.Context, m *sluice.Mirror) {
	if _, err := k.engine.opened(shutdown.Lasting(ctx), m); err != nil {
		k.log.LogAttrs(ctx, slog.LevelWarn, "entries of the former log not removed yet", slog.String("mirror", m.ID), slog.Any("error", err))
	}
}
