package doctor

import (
	"context"
	"fmt"

	"github.com/sluice-io/sluice/internal/catalogue"
	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// checkTypes looks for subscriptions that name types that were removed from the catalogue of a
// strict namespace. No event of such a type can arrive any more, and no other check reports it. The
// cost is a request for each page of types and subscriptions of each strict namespace.
func (e *examination) checkTypes(ctx context.Context) {
	token, err := e.session.BearerToken()
	if e.api == nil || err != nil {
		e.note("types", "skip", "no server or no token")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	api, err := e.session.ClientOf(e.addresses.HTTP, token)
	var strict []sluice.Namespace
	if err == nil {
		strict, err = strictNamespaces(ctx, api)
	}
	var waiting []string
	for i := 0; i < len(strict) && err == nil; i++ {
		var found []string
		found, err = waitingInVain(ctx, api, strict[i])
		waiting = append(waiting, found...)
	}
	switch {
	case sluice.CodeOf(err) == sluice.Forbidden:
		e.note("types", "skip", "the token does not permit listing subscriptions")
	case err != nil:
		e.note("types", "fail", "%v", err)
	case len(waiting) > 0:
		e.note("types", "warn", "no longer in the catalogue: %s; restore them with sluice types put, or change the filters with sluice sub edit --type", some(waiting))
	default:
		e.note("types", "ok", "%d strict catalogues have every subscribed type", len(strict))
	}
}

// strictNamespaces returns the namespaces whose catalogue refuses unknown types (S4-40).
func strictNamespaces(ctx context.Context, api *client.Client) (strict []sluice.Namespace, err error) {
	all, err := terminal.Collect(0, func(cursor string, _ int) (client.Page[sluice.Namespace], error) { return api.Namespaces(ctx, cursor) })
	for _, ns := range all {
		if ns.Catalogue == sluice.CatalogueStrict {
			strict = append(strict, ns)
		}
	}
	return strict, err
}

// waitingInVain returns the types that a namespace's catalogue lacks, each with the subscription
// that names it. Cancelled subscriptions are left out.
func waitingInVain(ctx context.Context, api *client.Client, ns sluice.Namespace) (waiting []string, err error) {
	types, err := terminal.Collect(0, func(cursor string, _ int) (client.Page[sluice.EventType], error) {
		return api.EventTypes(ctx, ns.Name, cursor)
	})
	if err != nil {
		return nil, err
	}
	index := catalogue.New()
	index.SetNamespace(ns)
	for _, t := range types {
		index.SetType(t)
	}
	subs, err := terminal.Collect(0, func(cursor string, most int) (client.Page[sluice.Subscription], error) {
		return api.Subscriptions(ctx, client.SubscriptionsQuery{Namespace: ns.Name, Limit: most, Cursor: cursor})
	})
	for _, sub := range subs {
		for _, one := range sub.Filter.Types {
			if sub.State != sluice.Cancelled && index.CheckTypes(ns.Name, []string{one}) != nil {
				waiting = append(waiting, fmt.Sprintf("%s (subscribed by %s in %s)", one, sub.ID, ns.Name))
			}
		}
	}
	return waiting, err
}
