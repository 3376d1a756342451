package natsd

import (
	"errors"
	"fmt"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/sluice-io/sluice/streams"
)

// Inspector is the login of people and programs on the server's machine if no Users are configured.
// It may publish events, subscribe to every log, and read streams, buckets and consumers with
// JetStream's API. It may change nothing else: it has an account of its own, with only these
// imports from the server's account.
type Inspector struct {
	NKey    string // public user key to log in with; "": connections without credentials are admitted
	Trusted bool   // may also publish under streams.TrustedSubjects
}

// readAPI returns the read-only requests of JetStream's API.
func readAPI() []string {
	return []string{
		"$JS.API.INFO", "$JS.API.STREAM.NAMES", "$JS.API.STREAM.LIST", "$JS.API.STREAM.INFO.*", "$JS.API.STREAM.MSG.GET.*",
		"$JS.API.CONSUMER.NAMES.*", "$JS.API.CONSUMER.LIST.*", "$JS.API.CONSUMER.INFO.*.*",
	}
}

// directAPI is the subject of read-only requests that may have more than one answer.
const directAPI = "$JS.API.DIRECT.GET.>"

// Subjects for the inspector's own consumers, in any stream.
const (
	nextAPI   = "$JS.API.CONSUMER.MSG.NEXT.*."
	deleteAPI = "$JS.API.CONSUMER.DELETE.*."
)

// flowControl is the subject on which a client of a push consumer reports that it is ready for
// more.
const flowControl = "$JS.FC.>"

// acknowledgements has no effect, because the inspector's consumers need no acknowledgements. It is
// permitted because clients send them anyway, and a refusal would be reported as an error.
const acknowledgements = "$JS.ACK.>"

// userInfo is the subject on which a client asks for its login.
const userInfo = "$SYS.REQ.USER.INFO"

// admitInspector configures the server to admit an inspector, and connections of this process as
// id, and no other login.
func admitInspector(config *server.Options, names streams.Names, in Inspector, id identity) error {
	if in.NKey != "" && !nkeys.IsValidPublicUserKey(in.NKey) {
		return errors.New("the inspector's nkey is not the public key of a user")
	}
	if err := admit(config, names, nil, id); err != nil {
		return err
	}
	account, err := in.account(config.Accounts[0], names)
	if err != nil {
		return fmt.Errorf("inspector: %w", err)
	}
	config.Accounts = append(config.Accounts, account)
	key := in.NKey
	if key == "" { // a key that is discarded: it stands for connections without credentials
		nobody, err := newIdentity()
		if err != nil {
			return err
		}
		key, config.NoAuthUser = nobody.public, nobody.public
	}
	config.Nkeys = append(config.Nkeys, &server.NkeyUser{Nkey: key, Account: account, Permissions: in.permissions(names)})
	return nil
}

// account returns the inspector's account.
func (in Inspector) account(global *server.Account, names streams.Names) (*server.Account, error) {
	own := server.NewAccount("inspector")
	service := func(subject, to string, answers server.ServiceRespType) error {
		return errors.Join(
			global.AddServiceExportWithResponse(to, answers, []*server.Account{own}),
			own.AddServiceImport(global, subject, to))
	}
	stream := func(subject string) error {
		return errors.Join(
			global.AddStreamExport(subject, []*server.Account{own}),
			own.AddStreamImport(global, subject, ""))
	}
	events := names.EventsSubjects(streams.AnyNamespace)
	errs := []error{
		// Events published here are delivered in this account directly. The server does not deliver
		// them a second time through the import of the same subjects below, which brings events
		// published through the API.
		own.AddServiceImport(global, events, events),
		service(flowControl, flowControl, server.Singleton),
		service(directAPI, directAPI, server.Streamed),
		stream(inbox),
	}
	if in.Trusted {
		trusted := names.TrustedSubjects(streams.AnyNamespace)
		errs = append(errs, own.AddServiceImport(global, trusted, trusted))
	}
	for _, subject := range readAPI() {
		errs = append(errs, service(subject, subject, server.Singleton))
	}
	create, arrives := names.InspectCreate()
	errs = append(errs, service(create, arrives, server.Singleton))
	for _, name := range streams.InspectorConsumers() {
		errs = append(errs,
			service(nextAPI+name, nextAPI+name, server.Streamed),
			service(deleteAPI+name, deleteAPI+name, server.Singleton))
	}
	for _, subject := range names.LogSubjects() {
		errs = append(errs, stream(subject))
	}
	return own, errors.Join(errs...)
}

// permissions returns the inspector's permissions within its account. They cover only the imports,
// so that the server refuses anything else at once instead of leaving it unanswered.
func (in Inspector) permissions(names streams.Names) *server.Permissions {
	publish := &server.SubjectPermission{
		Allow: []string{names.EventsSubjects(streams.AnyNamespace), flowControl, directAPI, acknowledgements, userInfo},
		Deny:  []string{names.SystemRoot(streams.AnyNamespace), names.SystemSubjects(streams.AnyNamespace)},
	}
	publish.Allow = append(publish.Allow, readAPI()...)
	create, _ := names.InspectCreate()
	publish.Allow = append(publish.Allow, create)
	for _, name := range streams.InspectorConsumers() {
		publish.Allow = append(publish.Allow, nextAPI+name, deleteAPI+name)
	}
	if in.Trusted {
		publish.Allow = append(publish.Allow, names.TrustedSubjects(streams.AnyNamespace))
	}
	return &server.Permissions{
		Publish:   publish,
		Subscribe: &server.SubjectPermission{Allow: append([]string{inbox}, names.LogSubjects()...)},
	}
}

// NewLogin returns the seed of a new user key, in the form that nats --nkey reads.
func NewLogin() (string, error) {
	id, err := newIdentity()
	if err != nil {
		return "", err
	}
	defer id.pair.Wipe()
	seed, err := id.pair.Seed()
	return string(seed), err
}

// PublicLogin returns the public key of a seed from NewLogin.
func PublicLogin(seed string) (string, error) {
	pair, err := nkeys.ParseDecoratedUserNKey([]byte(seed))
	if err != nil {
		return "", fmt.Errorf("not the seed of a user's nkey: %w", err)
	}
	defer pair.Wipe()
	return pair.PublicKey()
}
