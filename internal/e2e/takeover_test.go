package e2e_test

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/client"
)

// replica returns a server in a process of its own on a NATS that others use too.
func replica(t *testing.T, url, lease string, env ...string) (*child, *running) {
	t.Helper()
	c := &child{dir: t.TempDir(), http: "127.0.0.1:0", env: append([]string{serveNATSEnv + "=" + url, serveLeaseEnv + "=" + lease}, env...)}
	c.start(t)
	t.Cleanup(func() { _ = c.proc.Process.Kill() }) // it may have been already
	s := &running{token: c.token(t)}
	s.at.HTTP, s.at.NATS = "http://"+c.http, "nats://"+c.nats
	s.api = client.New(s.at.HTTP, s.token)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	s.api.HTTP = &http.Client{Transport: transport}
	return c, s
}

// S4-17, S4-22: of two servers on one NATS one is killed, and cannot give its leases back. The other
// delivers what was the first one's when the leases have run out, and nothing is lost; what was under
// way may come twice.
func TestReplicas_TakeOverFromAKilledServer(t *testing.T) {
	t.Parallel()
	lease := "3s"
	if os.Getenv("SLUICE_LONG") != "" {
		lease = "" // as it is in use
	}
	nats := natstest.Listening(t)
	killed, one := replica(t, nats.ClientURL(), lease)
	_, two := replica(t, nats.ClientURL(), lease)
	require.Equal(t, nats.ClientURL(), two.at.NATS)
	hook := hooktest.New(t, nil)
	const subs, paths, round, window = 12, 3, 20, 8
	var ids []string
	for i := range subs {
		ids = append(ids, fmt.Sprintf("s%d", i))
		subscribe(t, one.api, wish(hook.URL+"/"+ids[i], `"id":"`+ids[i]+`"`, fmt.Sprintf(`"policy":{"window":%d}`, window)))
	}
	eventually(t, func() bool {
		a, b := len(one.servedOf(t, ids...)), len(two.servedOf(t, ids...))
		return a > 0 && b > 0 && a+b == subs
	}, "both serve some")

	js := dial(t, nats.ClientURL())
	publish := func(begin int) {
		for n := begin; n < begin+round; n++ {
			for p := range paths {
				_, err := js.Publish(t.Context(), jsNames(t).EventsPrefix()+fmt.Sprintf("default.p%d", p), fmt.Appendf(nil, "%d", n))
				require.NoError(t, err)
			}
		}
	}
	publish(0)
	waitFor(t, hook, subs*paths*round)
	publish(round) // the first is killed while these are on their way
	killed.kill(t)
	publish(2 * round)
	began := time.Now()
	require.Eventually(t, func() bool { return len(two.servedOf(t, ids...)) == subs }, 2*patience, 10*time.Millisecond, "the other serves all")
	t.Logf("taken over after %s", time.Since(began).Round(time.Millisecond))
	for _, id := range ids {
		statusOf(t, two.api, id, idle)
	}
	requireInOrder(t, hook.Requests(), subs*paths, 3*round, subs*window)
}

// requireInOrder checks that each lane was sent the numbers below n, the first time in their order,
// and that at most some were sent twice.
func requireInOrder(t *testing.T, requests []hooktest.Request, lanes, n, twice int) {
	t.Helper()
	next := map[string]int{}
	for _, r := range requests {
		d := parse(t, r)
		lane := r.Path + d.Path
		var number int
		_, err := fmt.Sscan(string(d.Data), &number)
		require.NoError(t, err)
		require.LessOrEqual(t, number, next[lane], "the next of %s", lane)
		next[lane] = max(next[lane], number+1)
	}
	require.Len(t, next, lanes)
	for lane, count := range next {
		require.Equal(t, n, count, lane)
	}
	again := len(requests) - lanes*n
	t.Logf("%d sent twice", again)
	require.LessOrEqual(t, again, twice)
}

// C38: a configuration file names all that a NATS wants to see: an authority of its own, a certificate of
// ours, credentials that an operator signed. That its JetStream has a domain makes no difference.
func TestNATS_GuardedServerIsUsed(t *testing.T) {
	t.Parallel()
	authority, operator := natstest.NewAuthority(t), natstest.NewOperator(t)
	cert, key := authority.Issue(t, "sluice")
	creds := operator.Account(t, "APP", natstest.Unlimited()).Creds(t)
	url := natstest.Custom(t, func(o *server.Options) {
		operator.Trust(o)
		o.TLSConfig = authority.TLS(t, tls.RequireAndVerifyClientCert)
		o.JetStreamDomain = "hub"
	})
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, "nats:\n  url: %s\n  credentials: %s\n  tls: {ca: %s, cert: %s, key: %s}\n",
		url, creds, authority.File, cert, key), 0o600))
	api, at := serve(t, func(c *config.Config) {
		loaded, err := config.Load(file, nil)
		require.NoError(t, err)
		c.NATS, c.NATS.Prefix = loaded.NATS, jsNames(t).Prefix()
	})
	require.Equal(t, url, at.NATS)
	hook := hooktest.New(t, nil)
	subscribe(t, api, wish(hook.URL, `"id":"guarded"`))
	js := dial(t, url, nats.UserCredentials(creds), nats.RootCAs(authority.File), nats.ClientCert(cert, key))
	_, err := js.Publish(t.Context(), jsNames(t).EventsPrefix()+"default.p", []byte(`{"n":1}`))
	require.NoError(t, err)
	require.JSONEq(t, `{"n":1}`, string(parse(t, hook.Wait(1)[0]).Data))
	statusOf(t, api, "guarded", idle)
}
