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

// exampleUsers shows the format of a list of users.
const exampleUsers = `[{"name":"shop","password":"…","namespaces":["acme"]}]`

// NATSUser is a login of the embedded server. Password and NKey are alternatives.
type NATSUser struct {
	// Name is 1 to 64 of A-Z, a-z, 0-9, _ and -.
	Name string `json:"name"`
	// Password, or its bcrypt hash.
	Password string `json:"password"`
	// NKey is a user's public key.
	NKey string `json:"nkey"`
	// Namespaces are the namespaces that the user may publish to; "*": all.
	Namespaces []string `json:"namespaces"`
	// Trusted makes the server trust the auth attributes of the user's events.
	Trusted bool `json:"trusted"`
	// Read also allows subscribing to the namespaces' events.
	Read bool `json:"read"`
	// Admin allows everything, for example with the nats command. It excludes Namespaces.
	Admin bool `json:"admin"`
}

// ServerTLS configures TLS for clients.
type ServerTLS struct {
	// Cert is a PEM file of the server's certificate; empty: no TLS.
	Cert string `json:"cert" env:"CERT"`
	// Key is a PEM file of Cert's private key; empty: none.
	Key string `json:"key" env:"KEY"`
	// ClientCA is a PEM file of authorities that must have signed the clients' certificates; empty:
	// clients need no certificate.
	ClientCA string `json:"client_ca" env:"CLIENT_CA"`
}

// Guarded reports whether the embedded server requires a login.
func (n NATS) Guarded() bool { return len(n.Users) > 0 || n.Operator != "" }

// Trusts reports whether some publishers' auth attributes are trusted.
func (n NATS) Trusts() bool {
	return n.TrustedSubjects || slices.ContainsFunc(n.Users, func(u NATSUser) bool { return u.Trusted })
}

// Readers reports whether a user may subscribe to events.
func (n NATS) Readers() bool {
	return slices.ContainsFunc(n.Users, func(u NATSUser) bool { return u.Read })
}

// parseUsers parses users in JSON.
func parseUsers(text string) (any, error) {
	var users []NATSUser
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&users); err != nil {
		return nil, errors.New("not a list of users") // the error's text may hold a password
	}
	return users, nil
}

// checkDoors returns an error for each invalid setting of the logins.
func (n NATS) checkDoors() error {
	inner := n.Guarded() || n.AllowAnonymous || n.ServerTLS != (ServerTLS{}) || len(n.AccountJWTs) > 0
	if !n.Embedded() {
		return when(inner, "nats: users, allow_anonymous, server_tls, operator and account_jwts apply to the embedded server only; the server at nats.url has its own")
	}
	anybody := !n.Guarded()
	return errors.Join(
		n.checkUsers(),
		when(len(n.Users) > 0 && n.Operator != "", "nats: set either users or operator; an operator's users are in its accounts"),
		when(len(n.AccountJWTs) > 0 && n.Operator == "", "nats.account_jwts: set nats.operator, too"),
		when(n.Operator != "" && (len(n.AccountJWTs) == 0 || n.Credentials == ""), "nats.operator: set account_jwts, and credentials for the server itself"),
		when(n.AllowAnonymous && !anybody, "nats.allow_anonymous: has no effect with users or an operator, which require a login; omit it"),
		when(anybody && !n.AllowAnonymous && !onlyHere(n.Listen), "nats.listen %q: without users, only addresses of this machine are allowed; set nats.users, listen on 127.0.0.1, or set nats.allow_anonymous", n.Listen),
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
			when(names[u.Name], "%s: duplicate user %s", at, u.Name),
			when(u.NKey != "" && keys[u.NKey], "%s.nkey: in use by another user", at))
		names[u.Name], keys[u.NKey] = true, true
	}
	return errors.Join(errs...)
}

func (u NATSUser) check(at string) error {
	errs := []error{
		when(!isName(u.Name), "%s.name %q: use 1 to 64 of A-Z, a-z, 0-9, _ and -", at, u.Name),
		when((u.Password == "") == (u.NKey == ""), "%s: set either password or nkey", at),
		when(u.NKey != "" && !isUserKey(u.NKey), "%s.nkey: write a user's public key, which starts with U and has 56 characters", at),
		when(u.Admin && (len(u.Namespaces) > 0 || u.Trusted || u.Read), "%s: an admin may do everything; omit namespaces, trusted and read", at),
		when(!u.Admin && len(u.Namespaces) == 0, `%s.namespaces: name at least one, or "*" for all`, at),
	}
	for _, ns := range u.Namespaces {
		errs = append(errs, when(ns != "*" && sluice.CheckNamespaceName(ns) != nil, `%s.namespaces: %q is not a namespace; write "*" for all`, at, ns))
	}
	return errors.Join(errs...)
}

func isName(s string) bool {
	return s != "" && len(s) <= 64 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}

func isUserKey(s string) bool {
	return len(s) == 56 && s[0] == 'U' && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// onlyHere reports whether an address is reachable only from this machine. It does not resolve
// names other than localhost, and assumes that they are reachable from elsewhere.
func onlyHere(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil || host == "localhost" {
		return true // "none", or refused for another reason
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
