package grants

import (
	"context"
	"time"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Lifetimes of tickets.
const (
	MinTicket     = time.Second
	MaxTicket     = time.Hour
	DefaultTicket = time.Minute
)

// Ticket returns a ticket that opens feeds of a namespace as the caller, and its expiry: ttl from
// now, rounded up to a whole second, but no later than the expiry of the caller's grant. Nothing is
// stored. Codes InvalidRequest; Unauthenticated; Unavailable if the server has no keys of tickets.
// A ticket can be used many times until its expiry, on every replica, and ends earlier if its grant
// is renewed or revoked.
func (a *Authority) Ticket(by sluice.Caller, namespace string, ttl time.Duration) (text string, until time.Time, err error) {
	if ttl < MinTicket || ttl > MaxTicket {
		return "", until, sluice.Errorf(sluice.InvalidRequest, "ttl %s: use %s to %s", ttl, MinTicket, MaxTicket).With("field", "ttl")
	}
	wanted := a.needs.Now().Add(ttl + time.Second - 1).Truncate(time.Second)
	t, err := a.needs.Index.TicketFor(by, namespace, wanted)
	if err != nil {
		return "", until, err
	}
	t.Expiry = t.Expiry.Truncate(time.Second).UTC()
	text, err = authz.SignTicket(t, a.ticketKeys())
	return text, t.Expiry, err
}

// Redeem returns the caller that opens a feed of a namespace with a ticket. Code Unauthenticated,
// with the reason in the details, for an invalid ticket. It checks the signature, the expiry, the
// namespace, whether the ticket is of the grant's last token, and revocation, in this order. Code
// Unavailable, as for Authenticate.
func (a *Authority) Redeem(ctx context.Context, text, namespace string) (sluice.Caller, error) {
	t, err := authz.VerifyTicket(text, a.ticketKeys(), a.needs.Now())
	if err != nil {
		return sluice.Caller{}, err
	}
	if t.Namespace != namespace {
		return sluice.Caller{}, sluice.Errorf(sluice.Unauthenticated, "the ticket is for another namespace").With("reason", string(authz.Elsewhere))
	}
	return a.holder(ctx, t.Grant, func(now time.Time) (sluice.Caller, bool, error) { return a.needs.Index.Holder(&t, now) })
}

// ticketKeys returns the keys of tickets; nil if there are none.
func (a *Authority) ticketKeys() [][]byte {
	if a.needs.Tickets == nil {
		return nil
	}
	return a.needs.Tickets()
}
