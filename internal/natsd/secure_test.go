package natsd_test

import (
	"crypto/tls"
	"os"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/certreload"
	"github.com/sluice-io/sluice/internal/natsd"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
)

func TestOperator_OnlyUsersOfItsAccountsLogIn(t *testing.T) {
	t.Parallel()
	operator := natstest.NewOperator(t)
	ours := operator.Account(t, "SLUICE", natstest.Unlimited())
	file, accounts := operator.Files(t)
	opts := natsd.Options{StoreDir: t.TempDir(), Sync: "2m", Operator: file, Accounts: accounts}
	s := start(t, opts)
	info, err := dial(t, "", nats.InProcessServer(s), nats.UserCredentials(ours.Creds(t))).AccountInfo(t.Context())
	require.NoError(t, err)
	require.Positive(t, info.API.Level)
	_, err = dial(t, s.ClientURL(), nats.UserCredentials(ours.Creds(t))).AccountInfo(t.Context())
	require.NoError(t, err)

	later := operator.Account(t, "LATER", natstest.Unlimited())
	stranger := natstest.NewOperator(t).Account(t, "SLUICE", natstest.Unlimited())
	for name, opt := range map[string]nats.Option{
		"nobody": nats.Name("nobody"), "an account that was not given": nats.UserCredentials(later.Creds(t)), "another operator's": nats.UserCredentials(stranger.Creds(t)),
	} {
		require.ErrorIs(t, refusal(s.ClientURL(), opt), nats.ErrAuthorization, name)
	}
}

func TestOperator_RefusesInvalidOnes(t *testing.T) {
	t.Parallel()
	operator := natstest.NewOperator(t)
	operator.Account(t, "POOR", jwt.JetStreamLimits{})
	file, accounts := operator.Files(t)
	for want, give := range map[string]natsd.Options{
		"no such file":                 {Operator: "none.jwt", Accounts: accounts},
		"its system account":           {Operator: file, Accounts: accounts[1:]},
		"account " + file:              {Operator: file, Accounts: append([]string{file}, accounts...)},
		"none-of-them.jwt":             {Operator: file, Accounts: []string{"none-of-them.jwt"}},
		"exclude each other":           {Operator: file, Accounts: accounts, Users: []natsd.User{ann}},
		"not the public key of a user": {Users: []natsd.User{{Name: "ann", NKey: "U123"}}},
	} {
		give.StoreDir = t.TempDir()
		_, err := natsd.Start(t.Context(), give)
		require.ErrorContains(t, err, want)
	}
}

// reloading returns a TLS configuration whose certificate is read again, and the files.
func reloading(t *testing.T, authority *natstest.Authority) (config *tls.Config, cert, key string) {
	t.Helper()
	cert, key = authority.Issue(t, "listener")
	reloader, err := certreload.New(cert, key)
	require.NoError(t, err)
	config = authority.TLS(t, tls.NoClientCert)
	config.Certificates, config.GetCertificate = nil, reloader.GetCertificate
	return config, cert, key
}

func TestTLS_EncryptsAllButInProcessConnections(t *testing.T) {
	t.Parallel()
	authority := natstest.NewAuthority(t)
	config, _, _ := reloading(t, authority)
	s := start(t, natsd.Options{StoreDir: t.TempDir(), Users: []natsd.User{ann}, TLS: config})
	require.Contains(t, s.ClientURL(), "tls://127.0.0.1:")
	state, err := natstest.Connect(t, s.ClientURL(), nats.UserInfo("ann", "sesame"), nats.RootCAs(authority.File)).TLSConnectionState()
	require.NoError(t, err)
	require.Equal(t, "listener", state.PeerCertificates[0].Subject.CommonName)
	_, err = nats.Connect(s.ClientURL(), nats.UserInfo("ann", "sesame"))
	require.ErrorContains(t, err, "certificate", "its authority is unknown")
	require.ErrorIs(t, refusal(s.ClientURL(), nats.UserInfo("ann", "guess"), nats.RootCAs(authority.File)), nats.ErrAuthorization)
	_, err = dial(t, "", within(s)...).AccountInfo(t.Context())
	require.NoError(t, err)
}

func TestTLS_ClientCertificateIsRequiredWhenConfigured(t *testing.T) {
	t.Parallel()
	authority, stranger := natstest.NewAuthority(t), natstest.NewAuthority(t)
	s := start(t, natsd.Options{StoreDir: t.TempDir(), TLS: authority.TLS(t, tls.RequireAndVerifyClientCert)})
	opts := []nats.Option{nats.RootCAs(authority.File)}
	natstest.Connect(t, s.ClientURL(), append(opts, nats.ClientCert(authority.Issue(t, "client")))...).Close()
	_, err := nats.Connect(s.ClientURL(), append(opts, nats.ClientCert(stranger.Issue(t, "client")))...)
	require.Error(t, err)
	_, err = nats.Connect(s.ClientURL(), opts...)
	require.Error(t, err)
	_, err = dial(t, "", nats.InProcessServer(s)).AccountInfo(t.Context())
	require.NoError(t, err)
}

func TestTLS_NewCertificateNeedsNoRestart(t *testing.T) {
	t.Parallel()
	authority := natstest.NewAuthority(t)
	config, cert, key := reloading(t, authority)
	s := start(t, natsd.Options{StoreDir: t.TempDir(), TLS: config})
	served := func() string {
		state, err := natstest.Connect(t, s.ClientURL(), nats.RootCAs(authority.File)).TLSConnectionState()
		require.NoError(t, err)
		return state.PeerCertificates[0].Subject.CommonName
	}
	require.Equal(t, "listener", served())
	newCert, newKey := authority.Issue(t, "renewed")
	require.NoError(t, os.Rename(newCert, cert))
	require.Equal(t, "listener", served())
	require.NoError(t, os.Rename(newKey, key))
	require.Eventually(t, func() bool { return served() == "renewed" }, patience, 100*time.Millisecond)
}
