package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/sluice-io/sluice/internal/terminal"

	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	healthy = "ok"
	// HealthMost limits the requests for a subscription's status.
	HealthMost   = 500
	healthAtOnce = 8
)

// SubView is a subscription in a list's JSON.
type SubView struct {
	sluice.Subscription

	Health string `json:"health"`
}

// health describes a subscription's problem in a few words; "ok" if it has none.
func health(state sluice.State, st sluice.Status) string {
	var wrong []string
	note := func(is bool, format string, args ...any) {
		if is {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	note(state != sluice.Active && state != sluice.Paused && state != sluice.Cancelled, "%s", state)
	note(st.SourceError != "", "log unreadable")
	note(st.Breaker == sluice.BreakerOpen, "breaker open")
	note(st.Breaker == sluice.BreakerHalfOpen, "breaker half open")
	note(st.Parked > st.Held, "failing: %d paths retry", st.Parked-st.Held)
	note(st.Held > 0, "held: %d paths", st.Held)
	note(st.DeadLetters > 0, "%s", terminal.DeadLetterCount(st.DeadLetters))
	if len(wrong) == 0 {
		return healthy
	}
	return strings.Join(wrong, ", ")
}

// Views returns subscriptions with their health; "-" for those beyond HealthMost, and if it is
// unknown.
func Views(ctx context.Context, api *client.Client, subs []sluice.Subscription) []SubView {
	all := make([]SubView, len(subs))
	for i, sub := range subs {
		all[i] = SubView{sub, "-"}
	}
	var asking sync.WaitGroup
	free := make(chan struct{}, healthAtOnce)
	for i := range all[:min(len(all), HealthMost)] {
		free <- struct{}{}
		asking.Go(func() {
			defer func() { <-free }()
			if st, err := api.Status(ctx, all[i].ID); err == nil {
				all[i].Health = health(all[i].State, st)
			}
		})
	}
	asking.Wait()
	return all
}

// checkSubscriptions looks for subscriptions that do not deliver as they should.
func (e *examination) checkSubscriptions(ctx context.Context) {
	token, err := e.session.BearerToken()
	if e.api == nil || err != nil {
		e.note("subscriptions", "skip", "no server or no token")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	api, err := e.session.ClientOf(e.addresses.HTTP, token)
	var subs []sluice.Subscription
	if err == nil {
		subs, err = terminal.Collect(0, func(cursor string, most int) (client.Page[sluice.Subscription], error) {
			return api.Subscriptions(ctx, client.SubscriptionsQuery{Limit: most, Cursor: cursor})
		})
	}
	switch {
	case sluice.CodeOf(err) == sluice.Forbidden:
		e.note("subscriptions", "skip", "the token does not permit listing subscriptions")
	case err != nil:
		e.note("subscriptions", "fail", "%v", err)
	default:
		e.noteHealth(Views(ctx, api, subs))
	}
}

func (e *examination) noteHealth(all []SubView) {
	var ill []string
	unknown := 0
	for _, sub := range all {
		switch sub.Health {
		case healthy:
		case "-":
			unknown++
		default:
			ill = append(ill, fmt.Sprintf("%s (%s)", sub.ID, sub.Health))
		}
	}
	slices.Sort(ill)
	switch {
	case len(ill) > 0:
		e.note("subscriptions", "warn", "%d of %d: %s; see sluice sub ls and sluice sub status ID", len(ill), len(all), some(ill))
	case unknown > 0:
		e.note("subscriptions", "warn", "the health of %d of %d is unknown; see sluice sub ls --ns", unknown, len(all))
	default:
		e.note("subscriptions", "ok", "none of %d has an open breaker, retries, held paths or dead letters", len(all))
	}
}
