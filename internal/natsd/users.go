package natsd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/sluice-io/sluice/streams"
)

// inbox is the subject of answers in every client library.
const inbox = "_INBOX.>"

// readersDoor replaces the first token of the subjects that a user publishes on if the user also
// reads. Otherwise the user would receive its own events twice: when it sends them, and when they
// are stored.
const readersDoor = "publish."

// User may log in over the network. Each has an account of its own, which hides other users'
// answers, and which connects to the server's account only through its imports: even the subject
// for an answer is private.
type User struct {
	Name     string
	Password string // or its bcrypt hash
	NKey     string // a public user key, instead of Password

	Namespaces []string // namespaces that it may publish to; "*": all
	Trusted    bool     // the server accepts the auth attributes of its events
	Read       bool     // it may also subscribe to the namespaces' events
	Admin      bool     // it may do everything in the server's account; no other permission may be set
}

// identity is the login of this process's connections: a key that never leaves the process.
type identity struct {
	pair   nkeys.KeyPair
	public string
}

func newIdentity() (identity, error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return identity{}, fmt.Errorf("generate a key: %w", err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		return identity{}, fmt.Errorf("generate a key: %w", err)
	}
	return identity{pair, public}, nil
}

// admit configures the server to admit the users, and connections of this process as id, and no
// other login. The streams are in the global account, as they are without users.
func admit(config *server.Options, names streams.Names, users []User, id identity) error {
	global := server.NewAccount(server.DEFAULT_GLOBAL_ACCOUNT)
	err := errors.Join(
		global.AddServiceExport(names.EventsSubjects(streams.AnyNamespace), nil),
		global.AddServiceExport(names.TrustedSubjects(streams.AnyNamespace), nil),
		global.AddStreamExport(names.LiveSubjects(streams.AnyNamespace), nil),
	)
	if err != nil {
		return err
	}
	config.Accounts = []*server.Account{global}
	config.Nkeys = []*server.NkeyUser{{
		Nkey: id.public, AllowedConnectionTypes: map[string]struct{}{jwt.ConnectionTypeInProcess: {}},
	}}
	for _, u := range users {
		if err := enter(config, global, names, u); err != nil {
			return fmt.Errorf("user %s: %w", u.Name, err)
		}
	}
	return nil
}

func enter(config *server.Options, global *server.Account, names streams.Names, u User) error {
	account, permissions := global, (*server.Permissions)(nil)
	if !u.Admin {
		var err error
		if account, err = u.account(global, names); err != nil {
			return err
		}
		config.Accounts = append(config.Accounts, account)
		permissions = u.permissions(names)
	}
	if u.NKey != "" {
		if !nkeys.IsValidPublicUserKey(u.NKey) {
			return errors.New("its nkey is not the public key of a user")
		}
		config.Nkeys = append(config.Nkeys, &server.NkeyUser{Nkey: u.NKey, Account: account, Permissions: permissions})
		return nil
	}
	config.Users = append(config.Users, &server.User{Username: u.Name, Password: u.Password, Account: account, Permissions: permissions})
	return nil
}

// account returns the user's account with its imports from the global one.
func (u User) account(global *server.Account, names streams.Names) (*server.Account, error) {
	own := server.NewAccount("user_" + u.Name)
	var errs []error
	if u.Read {
		errs = append(errs, own.AddMapping(names.EventsPrefix()+">", readersDoor+">"))
	}
	for _, ns := range u.Namespaces {
		to := names.EventsSubjects(ns)
		if u.Trusted {
			to = names.TrustedSubjects(ns)
		}
		errs = append(errs, own.AddServiceImport(global, u.door(names)+ns+".>", numbered(to)))
		if u.Read {
			errs = append(errs, own.AddMappedStreamImport(global, names.LiveSubjects(ns), numbered(names.EventsSubjects(ns))))
		}
	}
	return own, errors.Join(errs...)
}

// numbered returns the subject for a wildcard on an import's other side.
func numbered(subject string) string { return strings.Replace(subject, ".*.", ".$1.", 1) }

func (u User) door(names streams.Names) string {
	if u.Read {
		return readersDoor
	}
	return names.EventsPrefix()
}

// permissions returns the user's permissions within its account. NATS maps a subject before it
// checks permissions.
func (u User) permissions(names streams.Names) *server.Permissions {
	publish, subscribe := &server.SubjectPermission{}, &server.SubjectPermission{Allow: []string{inbox}}
	behind := func(subject string) string { return u.door(names) + strings.TrimPrefix(subject, names.EventsPrefix()) }
	for _, ns := range u.Namespaces {
		publish.Allow = append(publish.Allow, behind(names.EventsSubjects(ns)))
		publish.Deny = append(publish.Deny, behind(names.SystemRoot(ns)), behind(names.SystemSubjects(ns)))
		if u.Read {
			subscribe.Allow = append(subscribe.Allow, names.EventsSubjects(ns))
		}
	}
	return &server.Permissions{Publish: publish, Subscribe: subscribe}
}

// trust configures the server to admit the users of an operator's accounts, and no other login.
func trust(config *server.Options, operator string, accounts []string) error {
	claims, err := server.ReadOperatorJWT(operator)
	if err != nil {
		return fmt.Errorf("operator %s: %w", operator, err)
	}
	resolver := &server.MemAccResolver{}
	var known []string
	for _, file := range accounts {
		token, err := readJWT(file)
		if err != nil {
			return err
		}
		account, err := jwt.DecodeAccountClaims(token)
		if err != nil {
			return fmt.Errorf("account %s: %w", file, err)
		}
		if err := resolver.Store(account.Subject, token); err != nil {
			return fmt.Errorf("account %s: %w", file, err)
		}
		known = append(known, account.Subject)
	}
	if claims.SystemAccount != "" && !slices.Contains(known, claims.SystemAccount) {
		return fmt.Errorf("operator %s: the JWT of its system account %s is missing", operator, claims.SystemAccount)
	}
	config.TrustedOperators = []*jwt.OperatorClaims{claims}
	config.SystemAccount = claims.SystemAccount
	config.AccountResolver = resolver
	return nil
}

// readJWT returns the token in a file, which may be decorated as nsc writes it.
func readJWT(file string) (string, error) {
	content, err := os.ReadFile(filepath.Clean(file))
	if err != nil {
		return "", fmt.Errorf("account: %w", err)
	}
	token, err := jwt.ParseDecoratedJWT(content)
	if err != nil {
		return "", fmt.Errorf("account %s: %w", file, err)
	}
	return token, nil
}
