package authz

import (
	"errors"
	"strings"
	"time"

	"github.com/sluice-io/sluice/internal/callbacktoken"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	ticketPrefix = "tkt_" // recognizable by secret scanners
	maxTicket    = 1024
)

// Ticket permits its bearer, until it expires, to open feeds of a namespace on behalf of its
// issuer. It is used in URLs, so it permits nothing else.
type Ticket struct {
	Namespace string `json:"ns"`
	Grant     string `json:"grant,omitempty"` // "" for root
	// Hash of the nonce of the grant's token: a newer token invalidates the ticket.
	Token  string    `json:"token,omitempty"`
	Expiry time.Time `json:"-"`
}

// ticketClaims is the signed form of a ticket.
type ticketClaims struct {
	Ticket
	callbacktoken.Term
}

// ticketKeys are the keys that sign tickets, and nothing else.
type ticketKeys [][]byte

// WakeKeys returns the keys.
func (k ticketKeys) WakeKeys() [][]byte { return k }

// SignTicket returns a ticket's text. Its expiry is in whole seconds. Code Unavailable without a
// key.
func SignTicket(t Ticket, keys [][]byte) (string, error) {
	text, err := callbacktoken.Sign(ticketKeys(keys), ticketClaims{t, callbacktoken.Until(t.Expiry)})
	return ticketPrefix + text, err
}

// VerifyTicket returns the content of a ticket that was signed by one of the keys and has not
// expired. Code Unauthenticated, with the reason in the details. It does not check the permissions
// of the ticket's issuer.
func VerifyTicket(text string, keys [][]byte, now time.Time) (Ticket, error) {
	bare, ok := strings.CutPrefix(text, ticketPrefix)
	if !ok || len(text) > maxTicket {
		return Ticket{}, refuse(Malformed, "the ticket was not issued by this server")
	}
	c, err := callbacktoken.Read[ticketClaims](ticketKeys(keys), bare, now)
	switch {
	case errors.Is(err, callbacktoken.ErrExpired):
		return Ticket{}, refuse(Expired, "the ticket has expired; request a new one")
	case err != nil:
		return Ticket{}, refuse(Forged, "the ticket's signature is invalid")
	}
	c.Expiry = c.ExpiresAt.Time
	return c.Ticket, nil
}

// TicketFor returns a ticket for a caller, and its expiry, which is at most that of the grant. Code
// Unauthenticated if the grant is unknown.
func (x *Index) TicketFor(c sluice.Caller, namespace string, until time.Time) (Ticket, error) {
	if c.Unbounded() {
		return Ticket{Namespace: namespace, Expiry: until}, nil
	}
	g, ok := x.Grant(c.Grant)
	if !ok {
		return Ticket{}, refuse(Revoked, "the token's grant is unknown")
	}
	if g.ExpiresAt.Before(until) {
		until = g.ExpiresAt
	}
	return Ticket{Namespace: namespace, Grant: g.ID, Token: g.Nonce, Expiry: until}, nil
}

// Holder returns the issuer of a verified ticket, like Check for tokens.
func (x *Index) Holder(t *Ticket, now time.Time) (holder sluice.Caller, known bool, err error) {
	if t.Grant == "" {
		return sluice.Caller{Principal: sluice.Root}, true, nil
	}
	return x.check(t.Grant, t.Token, t.Expiry, now)
}
