package namespace

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/outbox"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Service implements the API's namespace operations.
type Service struct {
	Store         Store
	Scheduled     Scheduled
	Subscriptions Subscriptions
	StreamSubs    StreamSubscriptions
	Mirrors       Mirrors
	Enrichment    Enrichment
	Authority     Authority
	Ledger        *ledger.Ledger
	Announce      Announcer
	Quotas        Quotas
	Catalogue     Catalogue
}

// changed is the result of a change to a namespace.
type changed struct {
	sluice.Namespace

	kind     string // type of the system event; "": unchanged
	old, now json.RawMessage
}

// PutNamespace creates or updates a namespace. Its quota and catalogue take effect immediately in
// this process.
func (s Service) PutNamespace(ctx context.Context, ns sluice.Namespace, by string) (sluice.Namespace, bool, error) {
	is, err := outbox.WriteThenPublish(ctx, func(ctx context.Context) (changed, error) { return s.put(ctx, ns, by) }, s.tellOf)
	return is.Namespace, is.kind == sluice.TypeNamespaceCreated, err
}

// tellOf publishes the system event of a change to a namespace.
func (s Service) tellOf(ctx context.Context, is changed) {
	if is.kind != "" {
		s.Announce.Namespace(ctx, is.kind, &is.Namespace, is.old, is.now)
	}
}

func (s Service) put(ctx context.Context, ns sluice.Namespace, by string) (changed, error) {
	var is changed
	var intent *ledger.Intent
	stored, _, err := s.Store.PutAfter(ctx, ns, func(was, next *sluice.Namespace) (told sluice.Announcement, err error) {
		if is, err = s.prepare(ctx, was, next); err != nil {
			return told, err
		}
		c := ledger.Change{Actor: by, Action: sluice.ActionNamespaceCreate, Namespace: ns.Name, Resource: ns.Name, New: next}
		if was != nil {
			c.Action, c.Old = sluice.ActionNamespaceUpdate, was
		}
		intent, err = s.Ledger.Intend(ctx, nil, c)
		return sluice.Announcement{Type: is.kind, At: time.Now().UTC(), Old: is.old, New: is.now}, err
	})
	is.Namespace = stored
	if err != nil {
		intent.Fail(ctx, err)
		return is, err
	}
	if ns.Label != nil {
		err = s.label(ctx, ns.Name, stored.Label) // as stored last, should there be concurrent changes
	}
	if err != nil {
		return is, err
	}
	s.Quotas.Set(stored)
	s.Catalogue.SetNamespace(stored)
	return is, nil
}

// prepare returns the system event of a change. A new namespace gets its label before it can hold
// events, and another one after its record, whose revision fences the change: if that fails, the
// request is to be repeated.
func (s Service) prepare(ctx context.Context, was, is *sluice.Namespace) (changed, error) {
	if was == nil {
		err := s.forget(ctx, is.Name) // remains of an interrupted deletion
		if err == nil {
			err = s.label(ctx, is.Name, is.Label)
		}
		if err == nil {
			err = s.Store.Told(ctx, is.Name, 0) // the creation must be published
		}
		return changed{kind: sluice.TypeNamespaceCreated}, err
	}
	if was.Label == nil && is.Label != nil { // a record without a label, such as one of an earlier build
		label := s.Authority.Label(is.Name)
		was.Label = &label
	}
	old, now, err := ledger.Fields(was, is)
	return changed{kind: sluice.TypeNamespaceUpdated, old: old, now: now}, err
}

// forget removes the permissions and the scheduled work of a namespace.
func (s Service) forget(ctx context.Context, name string) error {
	return errors.Join(s.Authority.ForgetNamespace(ctx, model.CallerFrom(ctx), name), s.unschedule(ctx, name))
}

// unschedule removes the scheduled work of a namespace.
func (s Service) unschedule(ctx context.Context, name string) error {
	return errors.Join(s.Scheduled.DeleteOf(ctx, name), s.Store.DeleteInstructions(ctx, name))
}

// label sets the label of a namespace; nil leaves it unchanged.
func (s Service) label(ctx context.Context, name string, label *sluice.Label) error {
	if label == nil {
		return nil
	}
	return s.Authority.PutLabel(ctx, model.CallerFrom(ctx), name, *label)
}

// Namespace returns a namespace.
func (s Service) Namespace(ctx context.Context, name string) (sluice.Namespace, error) {
	return s.Store.Get(ctx, name)
}

// Namespaces returns all namespaces.
func (s Service) Namespaces(ctx context.Context) ([]sluice.Namespace, error) {
	return s.Store.List(ctx)
}

// DeleteNamespace deletes a namespace's subscriptions and event types, then its log.
func (s Service) DeleteNamespace(ctx context.Context, name, by string) error {
	if name == sluice.DefaultNamespace {
		return s.Store.Delete(ctx, name) // returns the refusal
	}
	_, err := outbox.WriteThenPublish(ctx, func(ctx context.Context) (changed, error) {
		ns, err := s.Store.Get(ctx, name)
		if err == nil {
			s.Announce.StillUntold(ctx, name)
			err = s.remove(ctx, ns, by)
		}
		return changed{Namespace: ns, kind: sluice.TypeNamespaceDeleted}, err
	}, s.tellOf)
	return err
}

// remove deletes the parts of a namespace in order: first everything that sends events, then the
// log, and last the permissions that protect it.
func (s Service) remove(ctx context.Context, ns sluice.Namespace, by string) error {
	name := ns.Name
	intent, err := s.Ledger.Intend(ctx, nil, ledger.Change{
		Actor: by, Action: sluice.ActionNamespaceDelete, Namespace: name, Resource: name, Old: ns,
	})
	if err != nil {
		return err
	}
	for _, step := range []func() error{
		func() error { return s.Authority.EndGrants(ctx, model.CallerFrom(ctx), name) },
		func() error { return s.Subscriptions.DeleteAll(ctx, name, by) },
		func() error { return s.StreamSubs.Forget(ctx, name, sluice.Principal(by)) },
		func() error { return s.Mirrors.DeleteAll(ctx, name, by) },
		func() error { return s.Enrichment.DeleteAll(ctx, name, by) },
		func() error { return s.Store.DeleteEventTypes(ctx, name) },
		func() error { return s.unschedule(ctx, name) },
		func() error { return s.Store.Delete(ctx, name) },
		func() error { return s.Mirrors.DeleteAll(ctx, name, by) },    // those that were created meanwhile
		func() error { return s.Enrichment.DeleteAll(ctx, name, by) }, // likewise
		func() error { return s.Authority.ForgetNamespace(ctx, model.CallerFrom(ctx), name) },
	} {
		if err := step(); err != nil {
			intent.Fail(ctx, err)
			return err
		}
	}
	return nil
}
