package e2e_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/app"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// staffed runs a server with two namespaces and users, over TLS that needs a certificate.
func staffed(t *testing.T) (s *running, login func(name string) jetstream.JetStream) {
	t.Helper()
	authority := natstest.NewAuthority(t)
	cert, key := authority.Issue(t, "listener")
	mine, mineKey := authority.Issue(t, "client")
	s = start(t, t.TempDir(), func(c *config.Config) {
		c.NATS.ServerTLS = config.ServerTLS{Cert: cert, Key: key, ClientCA: authority.File}
		c.NATS.Users = []config.NATSUser{
			{Name: "shop", Password: "x", Namespaces: []string{"default"}},
			{Name: "core", Password: "x", Namespaces: []string{"default", "acme"}, Trusted: true},
			{Name: "acme", Password: "x", Namespaces: []string{"acme"}, Read: true},
			{Name: "ops", Password: "x", Admin: true},
		}
	})
	_, err := s.api.PutNamespace(t.Context(), "acme", client.NamespaceSpec{})
	require.NoError(t, err)
	return s, func(name string) jetstream.JetStream {
		return dial(t, s.at.NATS, nats.UserInfo(name, "x"), nats.RootCAs(authority.File), nats.ClientCert(mine, mineKey))
	}
}

// C38, S4-13, S4-27, S4-28, S4-80: users publish where they may; who caused an event is believed from
// the trusted ones, and every receiver sees that.
func TestProducer_IsBelievedFromTrustedUsers(t *testing.T) {
	t.Parallel()
	s, login := staffed(t)
	hook := hooktest.New(t, nil)
	subscribe(t, s.api, wish(hook.URL, `"pattern":"/orders/*"`, `"policy":{"ordering":"all"}`))
	subscribe(t, s.api, wish(hook.URL+"/attempt", `"pattern":"/last"`, `"policy":{"envelope":"attempt"}`))
	core := login("core")
	for _, c := range []struct {
		js   jetstream.JetStream
		user string
	}{{login("shop"), "shop"}, {core, "core"}, {login("ops"), "ops"}} {
		ack, err := c.js.PublishMsg(t.Context(), &nats.Msg{Subject: jsNames(t).EventsPrefix() + "default.orders." + c.user, Header: nats.Header{
			"Nats-Msg-Id": {c.user}, "ce-type": {"order.placed"}, "ce-authtype": {"user"}, "ce-authid": {"eve"}, "ce-region": {"eu"},
		}})
		require.NoError(t, err)
		require.Equal(t, jsNames(t).EventsStream("default"), ack.Stream)
	}
	believed, stripped := map[string]string{"region": "eu", "authtype": "user", "authid": "eve"}, map[string]string{"region": "eu"}
	want := map[string]map[string]string{"shop": stripped, "core": believed, "ops": stripped}
	for _, r := range hook.Wait(3) {
		d := parse(t, r)
		delete(d.Extensions, "sequence")
		delete(d.Extensions, "path")
		delete(d.Extensions, "namespace")
		for name, value := range want[d.ID] {
			require.Equal(t, value, d.Extensions[name], d.ID)
		}
		require.Equal(t, d.ID == "core", d.Extensions["authid"] != "", d.ID)
		require.Equal(t, d.ID == "core", d.Extensions["authtype"] != "", d.ID)
	}
	page, err := s.api.Events(t.Context(), sluice.DefaultNamespace, client.EventsQuery{Pattern: "/orders/*"})
	require.NoError(t, err)
	require.Len(t, page.Items, 3)
	text := s.must(t, http.StatusOK, "GET /v1/namespaces/default/events?pattern=/orders/*", "").text
	require.Contains(t, text, `"authid":"eve"`)
	for _, id := range []string{"shop", "ops"} {
		require.NotContains(t, s.must(t, http.StatusOK, "GET /v1/namespaces/default/events/"+id, "").text, `"eve"`)
	}
	require.Contains(t, s.must(t, http.StatusOK, "GET /v1/namespaces/default/events/core", "").text, `"authid":"eve"`)

	_, err = core.PublishMsg(t.Context(), &nats.Msg{Subject: jsNames(t).EventsPrefix() + "default.last", Header: nats.Header{"ce-authtype": {"user"}, "ce-type": {"t"}}})
	require.NoError(t, err)
	require.Contains(t, string(hook.Wait(4)[3].Body), `"producedBy":"user"`)
}

// C38: a user's view ends at its namespaces; the server works as ever beside it.
func TestBrokerUsers_StayInTheirNamespaces(t *testing.T) {
	t.Parallel()
	s, login := staffed(t)
	acme := login("acme")
	sub, err := acme.Conn().SubscribeSync(jsNames(t).EventsPrefix() + "acme.>")
	require.NoError(t, err)
	require.NoError(t, acme.Conn().Flush())
	soon, cancel := context.WithTimeout(t.Context(), time.Second) // what is refused is not answered
	defer cancel()
	_, err = acme.Publish(soon, jsNames(t).EventsPrefix()+"default.a", nil, jetstream.WithRetryAttempts(0))
	require.Error(t, err)
	_, err = acme.AccountInfo(soon)
	require.Error(t, err, "nothing of JetStream")
	for _, ns := range []string{"default", "acme"} {
		_, err := s.api.Publish(t.Context(), ns, sluice.Event{ID: "in-" + ns, Path: "/a"})
		require.NoError(t, err)
	}
	msg, err := sub.NextMsg(patience)
	require.NoError(t, err)
	require.Equal(t, []string{jsNames(t).EventsPrefix() + "acme.a", "in-acme"}, []string{msg.Subject, msg.Header.Get("ce-id")})
	_, err = login("ops").Stream(t.Context(), jsNames(t).EventsStream("default"))
	require.NoError(t, err)
	_, err = nats.Connect(s.at.NATS, nats.UserInfo("shop", "x"))
	require.Error(t, err, "without a certificate")
}

// An operator's accounts decide who may do what, and the server is one of their users.
func TestBrokerUsers_ComeFromTheOperator(t *testing.T) {
	t.Parallel()
	operator := natstest.NewOperator(t)
	account := operator.Account(t, "SLUICE", natstest.Unlimited())
	file, accounts := operator.Files(t)
	dir := t.TempDir()
	for round := range 2 {
		s := start(t, dir, func(c *config.Config) {
			c.NATS.Prefix = "" // the accounts export subjects without one
			c.NATS.Operator, c.NATS.AccountJWTs, c.NATS.Credentials, c.NATS.TrustedSubjects = file, accounts, account.Creds(t), true
		})
		js := dial(t, s.at.NATS, nats.UserCredentials(account.Creds(t)))
		id := []string{"first", "second"}[round]
		_, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: "trusted.default.a", Header: nats.Header{"Nats-Msg-Id": {id}, "ce-authid": {"eve"}}})
		require.NoError(t, err)
		page, err := s.api.Events(t.Context(), sluice.DefaultNamespace, client.EventsQuery{})
		require.NoError(t, err)
		require.Len(t, page.Items, round+1, "what was stored is there after a restart")
		require.Equal(t, "eve", page.Items[round].Extensions["authid"])
		_, err = nats.Connect(s.at.NATS)
		require.ErrorIs(t, err, nats.ErrAuthorization)
		js.Conn().Close()
		s.stop(t)
	}
}

func TestTLS_UnusableBrokerFilesEndTheStart(t *testing.T) {
	t.Parallel()
	authority := natstest.NewAuthority(t)
	cert, key := authority.Issue(t, "listener")
	none := filepath.Join(t.TempDir(), "none.pem")
	require.NoError(t, os.WriteFile(none, []byte("nothing"), 0o600))
	for want, give := range map[string]config.ServerTLS{
		"none.pem":       {Cert: cert, Key: none},
		"no certificate": {Cert: cert, Key: key, ClientCA: none},
		"client_ca":      {Cert: cert, Key: key, ClientCA: none + "x"},
	} {
		cfg := config.Default()
		cfg.NATS.Prefix = jsNames(t).Prefix()
		cfg.Data, cfg.HTTP.Listen, cfg.NATS.Listen, cfg.NATS.ServerTLS = t.TempDir(), "127.0.0.1:0", "127.0.0.1:0", give
		err := app.Run(t.Context(), cfg, app.Options{})
		require.ErrorContains(t, err, "nats.server_tls")
		require.ErrorContains(t, err, want)
	}
}
