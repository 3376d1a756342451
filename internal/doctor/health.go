package doctor

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/sluice-io/sluice/internal/terminal"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// HealthMost limits the number of subscriptions with a problem that are requested.
const HealthMost = 1000

// named is how many of them a finding names.
const named = 3

// SubView is a subscription in a list's JSON. Health is the condition with its causes, "failing
// (breaker open, 3 dead letters)", or "-".
type SubView struct {
	sluice.Subscription

	Health string `json:"health"`
}

// health returns the condition of a subscription, and its causes.
func health(h *sluice.SubscriptionHealth) string {
	var causes []string
	note := func(is bool, format string, args ...any) {
		if is {
			causes = append(causes, fmt.Sprintf(format, args...))
		}
	}
	note(h.SourceError != "", "log unreadable")
	note(h.Breaker == sluice.BreakerOpen, "breaker open")
	note(h.Breaker == sluice.BreakerHalfOpen, "breaker half open")
	note(h.Parked > h.Held, "%s", paths(h.Parked-h.Held, "retries", "retry"))
	note(h.Held > 0, "%s", paths(h.Held, "is held", "are held"))
	note(h.Health == sluice.HealthBehind, "the oldest event waits for %ds", int(h.LagSeconds))
	note(h.DeadLetters > 0, "%s", terminal.DeadLetterCount(h.DeadLetters))
	if len(causes) == 0 {
		return string(h.Health)
	}
	return fmt.Sprintf("%s (%s)", h.Health, strings.Join(causes, ", "))
}

// paths returns "one path retries" or "3 paths retry".
func paths(n int, one, more string) string {
	if n == 1 {
		return "one path " + one
	}
	return fmt.Sprintf("%d paths %s", n, more)
}

// Views returns subscriptions with their health; "-" if it is unknown. It makes one request. If
// that fails, or more than HealthMost subscriptions have a problem, those that it does not name are
// "-". The order and length are those of subs.
func Views(ctx context.Context, api *client.Client, namespace string, subs []sluice.Subscription) []SubView {
	troubled, all := map[string]string{}, false
	q := client.HealthQuery{Namespace: namespace, Health: sluice.Troubles(), Limit: HealthMost}
	if page, err := api.Health(ctx, q); err == nil {
		all = page.Next == ""
		for i := range page.Subscriptions {
			troubled[page.Subscriptions[i].ID] = health(&page.Subscriptions[i])
		}
	}
	views := make([]SubView, len(subs))
	for i, sub := range subs {
		views[i] = SubView{sub, cmp.Or(troubled[sub.ID], "-")}
		if all && troubled[sub.ID] == "" {
			views[i].Health = string(withoutTrouble(sub.State))
		}
	}
	return views
}

// withoutTrouble returns the condition of a subscription without a problem.
func withoutTrouble(state sluice.State) sluice.Health {
	switch state {
	case sluice.Paused:
		return sluice.HealthPaused
	case sluice.Cancelled:
		return sluice.HealthCancelled
	case sluice.Active, sluice.Disabled, sluice.Suspended: // the last two have changed since the health was read
	}
	return sluice.HealthOK
}

// checkSubscriptions looks for subscriptions with delivery problems.
func (e *examination) checkSubscriptions(ctx context.Context) {
	token, err := e.session.BearerToken()
	if e.api == nil || err != nil {
		e.note("subscriptions", "skip", "no server or no token")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	api, err := e.session.ClientOf(e.addresses.HTTP, token)
	var page client.HealthPage
	if err == nil {
		page, err = api.Health(ctx, client.HealthQuery{Health: sluice.Troubles(), Limit: named})
	}
	switch {
	case sluice.CodeOf(err) == sluice.Forbidden:
		e.note("subscriptions", "skip", "the token does not permit listing subscriptions")
	case err != nil:
		e.note("subscriptions", "fail", "%v", err)
	default:
		e.noteHealth(&page)
	}
}

// noteHealth names the worst, and counts the others.
func (e *examination) noteHealth(page *client.HealthPage) {
	all, ill := 0, 0
	for _, n := range page.Counts {
		all += n
	}
	for _, h := range sluice.Troubles() {
		ill += page.Counts[h]
	}
	if len(page.Subscriptions) == 0 {
		e.note("subscriptions", "ok", "none of %d is failing or behind, or has retries, held paths or dead letters", all)
		return
	}
	names := make([]string, len(page.Subscriptions))
	for i := range page.Subscriptions {
		names[i] = fmt.Sprintf("%s (%s)", page.Subscriptions[i].ID, health(&page.Subscriptions[i]))
	}
	more := ""
	if ill > len(names) {
		more = fmt.Sprintf(" and %d more", ill-len(names))
	}
	e.note("subscriptions", "warn", "%d of %d: %s%s; see sluice status and sluice sub status ID", ill, all, strings.Join(names, ", "), more)
}
