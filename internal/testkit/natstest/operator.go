package natstest

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"
	"github.com/stretchr/testify/require"
)

// Operator creates and signs accounts for a server that trusts it. The server also knows accounts
// that are created after Trust.
type Operator struct {
	key      nkeys.KeyPair
	claims   *jwt.OperatorClaims
	resolver *server.MemAccResolver
	system   string
	accounts []string // JWTs
}

// NewOperator returns an operator with only a system account.
func NewOperator(tb testing.TB) *Operator {
	tb.Helper()
	key, public := pair(tb, nkeys.CreateOperator)
	o := &Operator{key: key, claims: jwt.NewOperatorClaims(public), resolver: &server.MemAccResolver{}}
	o.system = o.Account(tb, "SYS", jwt.JetStreamLimits{}).public
	o.claims.SystemAccount = o.system
	return o
}

// Trust makes a server accept only the users of this operator's accounts.
func (o *Operator) Trust(opts *server.Options) {
	opts.TrustedOperators = []*jwt.OperatorClaims{o.claims}
	opts.SystemAccount = o.system
	opts.AccountResolver = o.resolver
}

// Files writes the JWTs of the operator and of its accounts to files, and returns their names. The
// system account comes first.
func (o *Operator) Files(tb testing.TB) (operator string, accounts []string) {
	tb.Helper()
	dir := tb.TempDir()
	o.claims.SystemAccount = o.system
	token, err := o.claims.Encode(o.key)
	require.NoError(tb, err)
	operator = filepath.Join(dir, "operator.jwt")
	require.NoError(tb, os.WriteFile(operator, []byte(token), 0o600))
	for i, account := range o.accounts {
		accounts = append(accounts, filepath.Join(dir, "account-"+strconv.Itoa(i)+".jwt"))
		require.NoError(tb, os.WriteFile(accounts[i], []byte(account), 0o600))
	}
	return operator, accounts
}

// Account is an account of an operator.
type Account struct {
	key    nkeys.KeyPair
	public string
}

// Unlimited returns limits that permit an account everything in JetStream. The zero limits permit
// nothing.
func Unlimited() jwt.JetStreamLimits {
	return jwt.JetStreamLimits{MemoryStorage: jwt.NoLimit, DiskStorage: jwt.NoLimit, Streams: jwt.NoLimit, Consumer: jwt.NoLimit}
}

// Account creates an account that the trusting servers know.
func (o *Operator) Account(tb testing.TB, name string, limits jwt.JetStreamLimits) *Account {
	tb.Helper()
	key, public := pair(tb, nkeys.CreateAccount)
	claims := jwt.NewAccountClaims(public)
	claims.Name = name
	claims.Limits.JetStreamLimits = limits
	token, err := claims.Encode(o.key)
	require.NoError(tb, err)
	require.NoError(tb, o.resolver.Store(public, token))
	o.accounts = append(o.accounts, token)
	return &Account{key: key, public: public}
}

// Creds returns the .creds file of a new user.
func (a *Account) Creds(tb testing.TB) string {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "user.creds")
	a.WriteCreds(tb, file, time.Time{})
	return file
}

// WriteCreds writes the .creds file of a new user, valid until a time in whole seconds, or forever
// if it is zero.
func (a *Account) WriteCreds(tb testing.TB, file string, until time.Time) {
	tb.Helper()
	key, public := pair(tb, nkeys.CreateUser)
	claims := jwt.NewUserClaims(public)
	if !until.IsZero() {
		claims.Expires = until.Unix()
	}
	token, err := claims.Encode(a.key)
	require.NoError(tb, err)
	seed, err := key.Seed()
	require.NoError(tb, err)
	content, err := jwt.FormatUserConfig(token, seed)
	require.NoError(tb, err)
	require.NoError(tb, os.WriteFile(file, content, 0o600))
}

// NKey returns the file of a new user's seed, and the public key for the server.
func NKey(tb testing.TB) (file, public string) {
	tb.Helper()
	key, public := pair(tb, nkeys.CreateUser)
	seed, err := key.Seed()
	require.NoError(tb, err)
	file = filepath.Join(tb.TempDir(), "user.nk")
	require.NoError(tb, os.WriteFile(file, seed, 0o600))
	return file, public
}

func pair(tb testing.TB, create func() (nkeys.KeyPair, error)) (key nkeys.KeyPair, public string) {
	tb.Helper()
	key, err := create()
	require.NoError(tb, err)
	public, err = key.PublicKey()
	require.NoError(tb, err)
	return key, public
}
