package access

import (
	"errors"
	"strings"
	"time"

	"github.com/sluice-io/sluice/internal/passes"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	ticketPrefix = "tkt_" // so that whoever scans for leaked secrets finds tickets
	maxTicket    = 1024
)

// Ticket is what a ticket says: until it expires, whoever has it may open feeds of a namespace as its issuer, who showed
// a token. It goes into addresses, so it is for nothing else.
type Ticket struct {
	Namespace string    `json:"ns"`
	Grant     string    `json:"grant,omitempty"` // "" of root
	Token     string    `json:"token,omitempty"` // the hash of the nonce of the grant's token: a newer token ends the ticket
	Expiry    time.Time `json:"-"`
}

// ticketClaims is a ticket as it is signed.
type ticketClaims struct {
	Ticket
	passes.Term
}

// ticketKeys are the keys of tickets, which sign nothing else.
type ticketKeys [][]byte

// WakeKeys returns them.
func (k ticketKeys) WakeKeys() [][]byte { return k }

// SignTicket returns a ticket's text. Its end is a whole second. Code Unavailable if there is no key.
func SignTicket(t Ticket, keys [][]byte) (string, error) {
	text, err := passes.Sign(ticketKeys(keys), ticketClaims{t, passes.Until(t.Expiry)})
	return ticketPrefix + text, err
}

// VerifyTicket returns what a ticket says, if one of the keys signed it and it has not expired. Code Unauthenticated,
// with the reason in the details. It does not ask whether its issuer may still do anything.
func VerifyTicket(text string, keys [][]byte, now time.Time) (Ticket, error) {
	bare, ok := strings.CutPrefix(text, ticketPrefix)
	if !ok || len(text) > maxTicket {
		return Ticket{}, refuse(Malformed, "the ticket is not one of this server's")
	}
	c, err := passes.Read[ticketClaims](ticketKeys(keys), bare, now)
	switch {
	case errors.Is(err, passes.ErrExpired):
		return Ticket{}, refuse(Expired, "the ticket has expired; ask for another one")
	case err != nil:
		return Ticket{}, refuse(Forged, "the ticket's signature does not fit")
	}
	c.Expiry = c.ExpiresAt.Time
	return c.Ticket, nil
}

// TicketFor returns a ticket of a caller, and until when it is good: no longer than its grant. Code Unauthenticated
// if the grant is not known.
func (x *Index) TicketFor(c sluice.Caller, namespace string, until time.Time) (Ticket, error) {
	if c.Unbounded() {
		return Ticket{Namespace: namespace, Expiry: until}, nil
	}
	g, ok := x.Grant(c.Grant)
	if !ok {
		return Ticket{}, refuse(Revoked, "the token's grant is not known")
	}
	if g.ExpiresAt.Before(until) {
		until = g.ExpiresAt
	}
	return Ticket{Namespace: namespace, Grant: g.ID, Token: g.Nonce, Expiry: until}, nil
}

// Holder returns whose a verified ticket is, as Check does for tokens.
func (x *Index) Holder(t *Ticket, now time.Time) (holder sluice.Caller, known bool, err error) {
	if t.Grant == "" {
		return sluice.Caller{Principal: sluice.Root}, true, nil
	}
	return x.check(t.Grant, t.Token, t.Expiry, now)
}
