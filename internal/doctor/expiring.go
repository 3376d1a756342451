package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// soonEnds is how long before its end the doctor warns of a grant.
const soonEnds = 7 * 24 * time.Hour

// checkGrants looks for grants that end soon, and the subscriptions that end with them. It reads
// all grants and subscriptions that the caller may see. Expired grants are included while their
// subscriptions are not yet cancelled.
func (e *examination) checkGrants(ctx context.Context) {
	token, err := e.session.BearerToken()
	if e.api == nil || err != nil {
		e.note("grants", "skip", "no server or no token")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	api, err := e.session.ClientOf(e.addresses.HTTP, token)
	if err != nil {
		e.note("grants", "fail", "%v", err)
		return
	}
	grants, err := terminal.Collect(0, func(cursor string, most int) (client.Page[sluice.Grant], error) {
		return api.Grants(ctx, client.GrantsQuery{Limit: most, Cursor: cursor})
	})
	if err != nil {
		e.note("grants", "fail", "%v", err)
		return
	}
	subs, err := terminal.Collect(0, func(cursor string, most int) (client.Page[sluice.Subscription], error) {
		return api.Subscriptions(ctx, client.SubscriptionsQuery{Limit: most, Cursor: cursor})
	})
	if err != nil {
		e.note("grants", "fail", "%v", err)
		return
	}
	e.noteGrants(grants, subs, time.Now())
	e.noteCertificates(subs, time.Now())
}

// soonExpires is how long before its end the doctor warns of a client certificate of an endpoint.
const soonExpires = 30 * 24 * time.Hour

// noteCertificates warns of client certificates that expire within soonExpires, or have expired. It
// notes nothing if there are none.
func (e *examination) noteCertificates(subs []sluice.Subscription, now time.Time) {
	var soon []string
	n := 0
	for _, sub := range subs {
		t := sub.Endpoint.TLS
		if t == nil || t.NotAfter == nil || sub.State == sluice.Cancelled {
			continue
		}
		n++
		if t.NotAfter.Before(now.Add(soonExpires)) {
			soon = append(soon, sub.ID+" at "+terminal.FormatTime(*t.NotAfter))
		}
	}
	switch {
	case len(soon) > 0:
		e.note("certificates", "warn", "%d of %d client certificates of endpoints expire within 30 days or have expired: %s; replace them with sluice sub edit ID --endpoint-cert FILE --endpoint-key FILE", len(soon), n, some(soon))
	case n > 0:
		e.note("certificates", "ok", "none of %d client certificates of endpoints expires within 30 days", n)
	}
}

// noteGrants warns of grants that end within soonEnds and end a subscription, also those that the
// subscription's grant derives from (S0-57).
func (e *examination) noteGrants(grants []sluice.Grant, subs []sluice.Subscription, now time.Time) {
	known := make(map[string]sluice.Grant, len(grants))
	for _, g := range grants {
		known[g.ID] = g
	}
	living := map[string]bool{}
	with := map[string][]string{} // the subscriptions that end with a grant
	for _, sub := range subs {
		if sub.Grant == "" || sub.State == sluice.Cancelled {
			continue
		}
		living[sub.Grant] = true
		for _, g := range chain(known, sub.Grant) {
			if g.ExpiresAt.Before(now.Add(soonEnds)) {
				with[g.ID] = append(with[g.ID], sub.ID)
			}
		}
	}
	if len(with) == 0 {
		e.note("grants", "ok", "none of %d grants with subscriptions expires within a week", len(living))
		return
	}
	var texts []string
	for _, id := range slices.Sorted(maps.Keys(with)) { // ids ascend with time: parents come first
		g := known[id]
		texts = append(texts, fmt.Sprintf("%s of %s expires at %s, which cancels %s", id, g.Principal, terminal.FormatTime(g.ExpiresAt), some(with[id])))
	}
	e.note("grants", "warn", "%s; in this order, extend them with sluice grant renew GRANT --for 30d, which issues a new token for the holder", strings.Join(texts, "; "))
}

// chain returns a grant and its known ancestors. It ends at a grant that is not known, and after
// sluice.MaxGrantDepth ancestors, so a cycle ends, too.
func chain(known map[string]sluice.Grant, id string) (all []sluice.Grant) {
	for range sluice.MaxGrantDepth + 1 {
		g, ok := known[id]
		if !ok {
			break
		}
		all = append(all, g)
		id = g.Parent
	}
	return all
}

// some names the first of a few things and counts the rest. It sorts names.
func some(names []string) string {
	const most = 3
	slices.Sort(names)
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}
