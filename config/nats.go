package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// exampleUsers is how a list of users is written.
const exampleUsers = `[{"name":"shop","password":"…","namespaces":["acme"]}]`

// NATSUser may log in to the embedded server. Password and NKey are alternatives.
type NATSUser struct {
	// Name is 1 to 64 of A-Z, a-z, 0-9, _ and -.
	Name string `json:"name"`
	// Password, or its bcrypt hash.
	Password string `json:"password"`
	// NKey is a user's public key.
	NKey string `json:"nkey"`
	// Namespaces are where the user may publish; "*": everywhere.
	Namespaces []string `json:"namespaces"`
	// Trusted makes the user believed about auth attributes.
	Trusted bool `json:"trusted"`
	// Read allows to subscribe to the namespaces' events, too.
	Read bool `json:"read"`
	// Admin allows everything, with the nats command for example. It has no namespaces.
	Admin bool `json:"admin"`
}

// ServerTLS is what clients are met with.
type ServerTLS struct {
	// Cert is a PEM file of the server's certificate; empty: no TLS.
	Cert string `json:"cert" env:"CERT"`
	// Key is a PEM file of Cert's private key; empty: none.
	Key string `json:"key" env:"KEY"`
	// ClientCA is a PEM file of authorities; clients must have a certificate of one of them. Empty: they need none.
	ClientCA string `json:"client_ca" env:"CLIENT_CA"`
}

// Guarded reports whether the embedded server asks who somebody is.
func (n NATS) Guarded() bool { return len(n.Users) > 0 || n.Operator != "" }

// Trusts reports whether there may be publishers whose auth attributes are believed.
func (n NATS) Trusts() bool {
	return n.TrustedSubjects || slices.ContainsFunc(n.Users, func(u NATSUser) bool { return u.Trusted })
}

// Readers reports whether a user subscribes to events.
func (n NATS) Readers() bool {
	return slices.ContainsFunc(n.Users, func(u NATSUser) bool { return u.Read })
}

// parseUsers reads users in JSON.
func parseUsers(text string) (any, error) {
	var users []NATSUser
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&users); err != nil {
		return nil, errors.New("not a list of users") // the text of the error may hold a password
	}
	return users, nil
}

// checkDoors returns what is wrong with who may come in.
func (n NATS) checkDoors() error {
	inner := n.Guarded() || n.AllowAnonymous || n.ServerTLS != (ServerTLS{}) || len(n.AccountJWTs) > 0
	if !n.Embedded() {
		return when(inner, "nats: users, allow_anonymous, server_tls, operator and account_jwts are for the embedded server; the one at nats.url has its own")
	}
	anybody := !n.Guarded()
	return errors.Join(
		n.checkUsers(),
		when(len(n.Users) > 0 && n.Operator != "", "nats: set users or operator; an operator's users are in its accounts"),
		when(len(n.AccountJWTs) > 0 && n.Operator == "", "nats.account_jwts: there is no nats.operator that they belong to"),
		when(n.Operator != "" && (len(n.AccountJWTs) == 0 || n.Credentials == ""), "nats.operator: set account_jwts, and credentials for the server itself"),
		when(n.AllowAnonymous && !anybody, "nats.allow_anonymous: there are users or an operator, so nobody is let in without a name; leave it out"),
		when(anybody && !n.AllowAnonymous && !onlyHere(n.Listen), "nats.listen %q: without users it is for this machine; set nats.users, listen on 127.0.0.1, or set nats.allow_anonymous", n.Listen),
		when((n.ServerTLS.Cert == "") != (n.ServerTLS.Key == ""), "nats.server_tls: set cert and key together"),
		when(n.ServerTLS.ClientCA != "" && n.ServerTLS.Cert == "", "nats.server_tls.client_ca: set cert and key, too"),
	)
}

func (n NATS) checkUsers() error {
	var errs []error
	names, keys := map[string]bool{}, map[string]bool{}
	for i, u := range n.Users {
		at := fmt.Sprintf("nats.users[%d]", i)
		errs = append(errs, u.check(at),
			when(names[u.Name], "%s: there is another user %s", at, u.Name),
			when(u.NKey != "" && keys[u.NKey], "%s.nkey: another user has it", at))
		names[u.Name], keys[u.NKey] = true, true
	}
	return errors.Join(errs...)
}

func (u NATSUser) check(at string) error {
	errs := []error{
		when(!isName(u.Name), "%s.name %q: use 1 to 64 of A-Z, a-z, 0-9, _ and -", at, u.Name),
		when((u.Password == "") == (u.NKey == ""), "%s: set either password or nkey", at),
		when(u.NKey != "" && !isUserKey(u.NKey), "%s.nkey: write a user's public key, which starts with U and has 56 characters", at),
		when(u.Admin && (len(u.Namespaces) > 0 || u.Trusted || u.Read), "%s: an admin may do everything; leave out namespaces, trusted and read", at),
		when(!u.Admin && len(u.Namespaces) == 0, `%s.namespaces: name one at least, or "*" for all`, at),
	}
	for _, ns := range u.Namespaces {
		errs = append(errs, when(ns != "*" && sluice.CheckNamespaceName(ns) != nil, `%s.namespaces: %q is no namespace; write "*" for all`, at, ns))
	}
	return errors.Join(errs...)
}

func isName(s string) bool {
	return s != "" && len(s) <= 64 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}

func isUserKey(s string) bool {
	return len(s) == 56 && s[0] == 'U' && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// onlyHere reports whether an address is reached from this machine only. Names other than
// localhost are not looked up, and so are not.
func onlyHere(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil || host == "localhost" {
		return true // "none", or what is refused for another reason
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
