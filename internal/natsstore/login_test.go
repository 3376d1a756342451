package natsstore_test

import (
	"crypto/tls"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/natsd"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// login is a kind of server, how one gets in there, and how one does not.
type login struct {
	name   string
	server func(*server.Options)
	right  natsstore.Options
	wrong  map[string]natsstore.Options // by what is told
}

const refused = "the server rejects the credentials"

func passwordLogin() login {
	return login{
		"user and password",
		func(o *server.Options) { o.Username, o.Password = "app", "sesame" },
		natsstore.Options{User: "app", Password: "sesame"},
		map[string]natsstore.Options{refused: {User: "app", Password: "guess"}},
	}
}

func tokenLogin() login {
	return login{
		"token",
		func(o *server.Options) { o.Authorization = "sesame" },
		natsstore.Options{Token: "sesame"},
		map[string]natsstore.Options{refused: {Token: "guess"}},
	}
}

func nkeyLogin(t *testing.T) login {
	t.Helper()
	known, public := natstest.NKey(t)
	stranger, _ := natstest.NKey(t)
	return login{
		"nkey",
		func(o *server.Options) { o.Nkeys = []*server.NkeyUser{{Nkey: public}} },
		natsstore.Options{NKeySeedFile: known},
		map[string]natsstore.Options{refused: {NKeySeedFile: stranger}, "missing.nk": {NKeySeedFile: "missing.nk"}},
	}
}

func credsLogin(t *testing.T) login {
	t.Helper()
	operator := natstest.NewOperator(t)
	ours := operator.Account(t, "APP", natstest.Unlimited())
	poor := operator.Account(t, "POOR", jwt.JetStreamLimits{})
	theirs := natstest.NewOperator(t).Account(t, "APP", natstest.Unlimited())
	return login{
		"creds",
		operator.Trust,
		natsstore.Options{Creds: ours.Creds(t)},
		map[string]natsstore.Options{
			refused:                       {Creds: theirs.Creds(t)},
			"missing.creds":               {Creds: "missing.creds"},
			"no permission for JetStream": {Creds: poor.Creds(t)},
		},
	}
}

func tlsLogin(t *testing.T) login {
	t.Helper()
	authority, other := natstest.NewAuthority(t), natstest.NewAuthority(t)
	return login{
		"TLS",
		func(o *server.Options) { o.TLSConfig = authority.TLS(t, tls.NoClientCert) },
		natsstore.Options{TLSCA: authority.File},
		map[string]natsstore.Options{
			"certificate signed by unknown authority": {TLSCA: other.File},
			"missing.pem": {TLSCA: "missing.pem"},
		},
	}
}

func mutualTLSLogin(t *testing.T) login {
	t.Helper()
	authority, other := natstest.NewAuthority(t), natstest.NewAuthority(t)
	cert, key := authority.Issue(t, "client")
	strangeCert, strangeKey := other.Issue(t, "client")
	return login{
		"mutual TLS",
		func(o *server.Options) { o.TLSConfig = authority.TLS(t, tls.RequireAndVerifyClientCert) },
		natsstore.Options{TLSCA: authority.File, TLSCert: cert, TLSKey: key},
		map[string]natsstore.Options{
			"certificate required":          {TLSCA: authority.File},
			"unknown certificate authority": {TLSCA: authority.File, TLSCert: strangeCert, TLSKey: strangeKey},
			"client certificate":            {TLSCA: authority.File, TLSCert: cert, TLSKey: strangeKey},
		},
	}
}

// domainLogin is no login: who connects to a server of the domain needs not name it.
func domainLogin() login {
	return login{"domain", func(o *server.Options) { o.JetStreamDomain = "hub" }, natsstore.Options{}, nil}
}

// C38: the store logs in to an external NATS by every method, and what is
// wrong is told at once.
func TestLogin_SupportsEveryMethod(t *testing.T) {
	t.Parallel()
	for _, kind := range []login{
		passwordLogin(), tokenLogin(), nkeyLogin(t), credsLogin(t), tlsLogin(t), mutualTLSLogin(t), domainLogin(),
	} {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			url := natstest.Custom(t, kind.server)
			kind.right.URL = url
			store := connected(t, kind.right)
			require.NoError(t, store.Ready(t.Context()))
			requireWorking(t, store)
			for want, wrong := range kind.wrong {
				wrong.URL = url
				_, err := natsstore.Connect(t.Context(), wrong)
				require.ErrorContains(t, err, want)
				require.NotContains(t, err.Error(), "guess")
			}
		})
	}
}

// requireWorking publishes, and reads both ways: directly and as a consumer does.
func requireWorking(t *testing.T, store rooms) {
	t.Helper()
	require.NoError(t, store.Provision(t.Context()))
	publish(t, store, ns, "/a", "/b")
	e, err := store.log.EventByID(t.Context(), ns, "/b#1")
	require.NoError(t, err)
	require.Equal(t, uint64(2), e.Seq)
}

// lines counts what is logged with a text in it.
type lines struct {
	text string
	n    atomic.Int64
}

func (l *lines) Write(line []byte) (int, error) {
	if strings.Contains(string(line), l.text) {
		l.n.Add(1)
	}
	return len(line), nil
}

// A server that refuses us for a while, because its users or our credentials are renewed, is
// asked on and on.
func TestLogin_RetriesWhileRefused(t *testing.T) {
	t.Parallel()
	opts := natsd.Options{StoreDir: t.TempDir(), User: "app", Password: "sesame", Sync: "2m"}
	first, err := natsd.Start(t.Context(), opts)
	require.NoError(t, err)
	url := first.ClientURL()
	refusals := &lines{text: nats.ErrAuthorization.Error()}
	store := connected(t, natsstore.Options{URL: url, User: "app", Password: "sesame", Log: slog.New(slog.NewTextHandler(refusals, nil))})
	require.NoError(t, first.Shutdown())

	_, port, err := net.SplitHostPort(strings.TrimPrefix(url, "nats://"))
	require.NoError(t, err)
	opts.Port, err = strconv.Atoi(port)
	require.NoError(t, err)
	opts.Password = "changed"
	second, err := natsd.Start(t.Context(), opts)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return refusals.n.Load() >= 3 }, time.Minute, 10*time.Millisecond)
	requireCode(t, sluice.Unavailable, store.Ready(t.Context()))
	require.NoError(t, second.Shutdown())

	opts.Password = "sesame"
	third, err := natsd.Start(t.Context(), opts)
	require.NoError(t, err)
	defer func() { require.NoError(t, third.Shutdown()) }()
	require.Eventually(t, func() bool { return store.Ready(t.Context()) == nil }, time.Minute, 10*time.Millisecond)
}

// Credentials that end are renewed in their file, and nothing is started again.
func TestLogin_TakesRenewedCredentials(t *testing.T) {
	t.Parallel()
	operator := natstest.NewOperator(t)
	account := operator.Account(t, "APP", natstest.Unlimited())
	file := filepath.Join(t.TempDir(), "user.creds")
	opts := natsstore.Options{URL: natstest.Custom(t, operator.Trust), Creds: file}
	var store *natsstore.Store
	for valid := 4 * time.Second; store == nil; valid *= 2 { // longer on a machine that is too slow for them
		require.Less(t, valid, time.Minute)
		account.WriteCreds(t, file, time.Now().Add(valid))
		s, err := natsstore.Connect(t.Context(), opts)
		if err != nil {
			continue
		}
		t.Cleanup(s.Close)
		if s.Ready(t.Context()) == nil {
			store = s
		}
	}
	require.Eventually(t, func() bool {
		return sluice.CodeOf(store.Ready(t.Context())) == sluice.Unavailable
	}, time.Minute, 10*time.Millisecond)
	account.WriteCreds(t, file, time.Time{})
	require.Eventually(t, func() bool { return store.Ready(t.Context()) == nil }, time.Minute, 10*time.Millisecond)
}
