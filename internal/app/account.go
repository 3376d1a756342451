package app

import (
	"context"

	"github.com/sluice-io/sluice/internal/announce"
	"github.com/sluice-io/sluice/internal/authority"
	"github.com/sluice-io/sluice/internal/catalogue"
	"github.com/sluice-io/sluice/internal/dsub"
	"github.com/sluice-io/sluice/internal/httpapi"
	"github.com/sluice-io/sluice/internal/ledger"
	"github.com/sluice-io/sluice/internal/limits"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/registry"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// namespaces gives the API the namespaces. Their changes are in the ledger before they are
// made; a namespace that goes takes its subscriptions along.
type namespaces struct {
	store    *natsstore.Store
	registry *registry.Registry
	quotas   *limits.Quotas
	ledger   *ledger.Ledger

	authority *authority.Authority
	catalogue *catalogue.Index
	announce  *announce.Announcer
	dsubs     *dsub.Engine
}

// PutNamespace makes or changes a namespace. Its quota and its catalogue hold at once in this process.
func (n namespaces) PutNamespace(ctx context.Context, ns sluice.Namespace, by string) (sluice.Namespace, bool, error) {
	var intent *ledger.Intent
	label := ns.Label
	ns.Label = nil
	stored, created, err := n.store.PutNamespaceAfter(ctx, ns, func(was, is *sluice.Namespace) (err error) {
		if was == nil { // it has its label before anything can lie in it
			err = n.authority.ForgetNamespace(ctx, sluice.CallerFrom(ctx), ns.Name) // what a deletion left that was cut off
			if err == nil {
				err = n.label(ctx, ns.Name, label)
			}
			if err != nil {
				return err
			}
		}
		c := ledger.Change{Actor: by, Action: sluice.ActionNamespaceCreate, Namespace: ns.Name, Resource: ns.Name, New: is}
		if was != nil {
			c.Action, c.Old = sluice.ActionNamespaceUpdate, was
		}
		intent, err = n.ledger.Intend(ctx, nil, c)
		return err
	})
	if err != nil {
		intent.Fail(ctx, err)
		return stored, created, err
	}
	if err := n.label(ctx, ns.Name, label); err != nil {
		return stored, created, err
	}
	n.quotas.Set(stored)
	n.catalogue.SetNamespace(stored)
	if intent != nil {
		kind := sluice.TypeNamespaceUpdated
		if created {
			kind = sluice.TypeNamespaceCreated
		}
		n.announce.Namespace(ctx, kind, &stored)
	}
	return stored, created, nil
}

// label labels a namespace; nil leaves it as it is.
func (n namespaces) label(ctx context.Context, name string, label *sluice.Label) error {
	if label == nil {
		return nil
	}
	return n.authority.PutLabel(ctx, sluice.CallerFrom(ctx), name, *label)
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
	ns, err := n.store.GetNamespace(ctx, name)
	if err != nil {
		return err
	}
	if name == sluice.DefaultNamespace {
		return n.store.DeleteNamespace(ctx, name) // which says why not
	}
	intent, err := n.ledger.Intend(ctx, nil, ledger.Change{
		Actor: by, Action: sluice.ActionNamespaceDelete, Namespace: name, Resource: name, Old: ns,
	})
	if err != nil {
		return err
	}
	err = n.authority.EndGrants(ctx, sluice.CallerFrom(ctx), name)
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
		err = n.store.DeleteInstructions(ctx, name)
	}
	if err == nil {
		err = n.store.DeleteNamespace(ctx, name)
	}
	if err == nil {
		err = n.authority.ForgetNamespace(ctx, sluice.CallerFrom(ctx), name)
	}
	if err != nil {
		intent.Fail(ctx, err)
		return err
	}
	n.announce.Namespace(ctx, sluice.TypeNamespaceDeleted, &ns)
	return nil
}

// audit gives the API the ledger.
type audit struct{ ledger natsstore.Ledger }

// Entries returns entries, newest first.
func (a audit) Entries(ctx context.Context, q httpapi.AuditQuery) ([]sluice.LedgerEntry, uint64, error) {
	return a.ledger.Entries(ctx, natsstore.LedgerQuery(q))
}
