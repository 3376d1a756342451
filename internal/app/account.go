package app

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/sluice-io/sluice/internal/catalogue"
	"github.com/sluice-io/sluice/internal/grants"
	"github.com/sluice-io/sluice/internal/httpapi"
	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/outbox"
	"github.com/sluice-io/sluice/internal/quota"
	"github.com/sluice-io/sluice/internal/streamsub"
	"github.com/sluice-io/sluice/internal/subscription"
	"github.com/sluice-io/sluice/internal/sysevent"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// namespaces implements the API's namespace operations. Changes are recorded in the ledger before
// they are made; deleting a namespace deletes its subscriptions.
type namespaces struct {
	store    *natsstore.Store
	registry *subscription.Registry
	quotas   *quota.Quotas
	ledger   *ledger.Ledger

	authority *grants.Authority
	catalogue *catalogue.Index
	announce  *sysevent.Announcer
	dsubs     *streamsub.Engine
}

// changed is the result of a change to a namespace.
type changed struct {
	sluice.Namespace

	kind     string // type of the system event; "": unchanged
	old, now json.RawMessage
}

// PutNamespace creates or updates a namespace. Its quota and catalogue take effect immediately in
// this process.
func (n namespaces) PutNamespace(ctx context.Context, ns sluice.Namespace, by string) (sluice.Namespace, bool, error) {
	is, err := outbox.WriteThenPublish(ctx, func(ctx context.Context) (changed, error) { return n.put(ctx, ns, by) }, n.tellOf)
	return is.Namespace, is.kind == sluice.TypeNamespaceCreated, err
}

// tellOf publishes the system event of a change to a namespace.
func (n namespaces) tellOf(ctx context.Context, is changed) {
	if is.kind != "" {
		n.announce.Namespace(ctx, is.kind, &is.Namespace, is.old, is.now)
	}
}

func (n namespaces) put(ctx context.Context, ns sluice.Namespace, by string) (changed, error) {
	var is changed
	var intent *ledger.Intent
	label := ns.Label
	ns.Label = nil
	stored, _, err := n.store.PutNamespaceAfter(ctx, ns, func(was, next *sluice.Namespace) (told sluice.Announcement, err error) {
		if is, err = n.prepare(ctx, was, next, label); err != nil {
			return told, err
		}
		c := ledger.Change{Actor: by, Action: sluice.ActionNamespaceCreate, Namespace: ns.Name, Resource: ns.Name, New: next}
		if was != nil {
			c.Action, c.Old = sluice.ActionNamespaceUpdate, was
		}
		intent, err = n.ledger.Intend(ctx, nil, c)
		return sluice.Announcement{Type: is.kind, At: time.Now().UTC(), Old: is.old, New: is.now}, err
	})
	is.Namespace = stored
	if err != nil {
		intent.Fail(ctx, err)
		return is, err
	}
	if err := n.label(ctx, ns.Name, label); err != nil {
		return is, err
	}
	n.quotas.Set(stored)
	n.catalogue.SetNamespace(stored)
	return is, nil
}

// prepare returns the system event of a change. A new namespace gets its label before it can hold
// events.
func (n namespaces) prepare(ctx context.Context, was, is *sluice.Namespace, label *sluice.Label) (changed, error) {
	if was == nil {
		err := n.forget(ctx, is.Name) // remains of an interrupted deletion
		if err == nil {
			err = n.label(ctx, is.Name, label)
		}
		if err == nil {
			err = n.store.NamespaceTold(ctx, is.Name, 0) // the creation must be published
		}
		return changed{kind: sluice.TypeNamespaceCreated}, err
	}
	old, now, err := ledger.Fields(was, is)
	return changed{kind: sluice.TypeNamespaceUpdated, old: old, now: now}, err
}

// forget removes the permissions and the scheduled work of a namespace.
func (n namespaces) forget(ctx context.Context, name string) error {
	return errors.Join(n.authority.ForgetNamespace(ctx, model.CallerFrom(ctx), name), n.unschedule(ctx, name))
}

// unschedule removes the scheduled work of a namespace.
func (n namespaces) unschedule(ctx context.Context, name string) error {
	return errors.Join(n.store.Scheduled().DeleteOf(ctx, name), n.store.DeleteInstructions(ctx, name))
}

// label sets the label of a namespace; nil leaves it unchanged.
func (n namespaces) label(ctx context.Context, name string, label *sluice.Label) error {
	if label == nil {
		return nil
	}
	return n.authority.PutLabel(ctx, model.CallerFrom(ctx), name, *label)
}

// Namespace returns a namespace.
func (n namespaces) Namespace(ctx context.Context, name string) (sluice.Namespace, error) {
	return n.store.GetNamespace(ctx, name)
}

// Namespaces returns all namespaces.
func (n namespaces) Namespaces(ctx context.Context) ([]sluice.Namespace, error) {
	return n.store.ListNamespaces(ctx)
}

// DeleteNamespace deletes a namespace's subscriptions and event types, then its log.
func (n namespaces) DeleteNamespace(ctx context.Context, name, by string) error {
	if name == sluice.DefaultNamespace {
		return n.store.DeleteNamespace(ctx, name) // returns the reason for the refusal
	}
	_, err := outbox.WriteThenPublish(ctx, func(ctx context.Context) (changed, error) {
		ns, err := n.store.GetNamespace(ctx, name)
		if err == nil {
			n.announce.StillUntold(ctx, name)
			err = n.remove(ctx, ns, by)
		}
		return changed{Namespace: ns, kind: sluice.TypeNamespaceDeleted}, err
	}, n.tellOf)
	return err
}

func (n namespaces) remove(ctx context.Context, ns sluice.Namespace, by string) error {
	name := ns.Name
	intent, err := n.ledger.Intend(ctx, nil, ledger.Change{
		Actor: by, Action: sluice.ActionNamespaceDelete, Namespace: name, Resource: name, Old: ns,
	})
	if err != nil {
		return err
	}
	err = n.authority.EndGrants(ctx, model.CallerFrom(ctx), name)
	if err == nil {
		err = n.registry.DeleteAll(ctx, name, by)
	}
	if err == nil {
		err = n.dsubs.Forget(ctx, name, sluice.Principal(by))
	}
	if err == nil {
		err = n.store.DeleteEventTypes(ctx, name)
	}
	if err == nil {
		err = n.unschedule(ctx, name)
	}
	if err == nil {
		err = n.store.DeleteNamespace(ctx, name)
	}
	if err == nil {
		err = n.authority.ForgetNamespace(ctx, model.CallerFrom(ctx), name)
	}
	if err != nil {
		intent.Fail(ctx, err)
	}
	return err
}

// audit gives the API the ledger.
type audit struct{ ledger natsstore.Ledger }

// Entries returns entries, newest first.
func (a audit) Entries(ctx context.Context, q httpapi.AuditQuery) ([]sluice.LedgerEntry, uint64, error) {
	return a.ledger.Entries(ctx, natsstore.LedgerQuery(q))
}
