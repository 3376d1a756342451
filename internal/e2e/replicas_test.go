package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/app"
	"github.com/sluice-io/sluice/internal/datadir"
	"github.com/sluice-io/sluice/internal/natsd"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
)

// S4-17, S4-19, S4-22, S0-41: two servers on one external NATS share the subscriptions; when one
// ends the other takes over. Each event arrives, in the order of its path, and none twice.
func TestReplicas_ShareTheWork(t *testing.T) {
	t.Parallel()
	shared := natstest.NewWith(t, natsd.Options{User: "sluice", Password: "a password"})
	outside := func(c *config.Config) {
		c.NATS.URL, c.NATS.User, c.NATS.Password = shared.ClientURL(), "sluice", "a password"
	}
	one, two := start(t, t.TempDir(), outside), start(t, t.TempDir(), outside)
	require.Equal(t, shared.ClientURL(), one.at.NATS)
	hook := hooktest.New(t, nil)
	const subs, paths, round = 12, 3, 20
	var ids []string
	for i := range subs {
		ids = append(ids, fmt.Sprintf("s%d", i))
		api := []*running{one, two}[i%2].api
		subscribe(t, api, wish(hook.URL+"/"+ids[i], `"id":"`+ids[i]+`"`, `"policy":{"window":8}`))
	}
	eventually(t, func() bool {
		a, b := len(one.servedOf(t, ids...)), len(two.servedOf(t, ids...))
		return a > 0 && b > 0 && a+b == subs
	}, "both serve some, and none is served twice")

	js := dial(t, shared.ClientURL(), nats.UserInfo("sluice", "a password"))
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
	for _, id := range ids {
		statusOf(t, two.api, id, idle)
	}
	publish(round) // the first ends while these are on their way
	one.stop(t)
	publish(2 * round)
	waitFor(t, hook, 3*subs*paths*round)
	require.ElementsMatch(t, ids, two.servedOf(t, ids...))
	for _, id := range ids {
		statusOf(t, two.api, id, idle)
	}
	requests := hook.Requests()
	require.Len(t, requests, 3*subs*paths*round, "none twice")
	next := map[string]int{}
	for _, r := range requests {
		d := parse(t, r)
		lane := r.Path + d.Path
		require.Equal(t, strconv.Itoa(next[lane]), string(d.Data), "the next of %s", lane)
		next[lane]++
	}
}

// waitFor waits for requests longer than the hook itself does: a lease changes hands within
// seconds, not at once.
func waitFor(t *testing.T, hook *hooktest.Server, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return len(hook.Requests()) >= n }, 2*patience, 10*time.Millisecond, "%d requests", n)
}

// C38: an external NATS has credentials, and wrong ones are told.
func TestStart_RefusesWrongCredentialsOfNATS(t *testing.T) {
	t.Parallel()
	shared := natstest.NewWith(t, natsd.Options{User: "sluice", Password: "a password"})
	cfg := config.Default()
	cfg.NATS.Prefix = jsNames(t).Prefix()
	cfg.Data, cfg.HTTP.Listen = t.TempDir(), "127.0.0.1:0"
	cfg.NATS.URL, cfg.NATS.User, cfg.NATS.Password = shared.ClientURL(), "sluice", "a wrong password"
	err := app.Run(t.Context(), cfg, app.Options{})
	require.Error(t, err)
	require.Contains(t, strings.ToLower(err.Error()), "authorization")
	require.NotContains(t, err.Error(), "a wrong password")
}

// C38: a URL may hold the login; it goes no further.
func TestStart_HidesThePasswordOfAURL(t *testing.T) {
	t.Parallel()
	shared := natstest.NewWith(t, natsd.Options{User: "sluice", Password: "sesame"})
	withLogin := strings.Replace(shared.ClientURL(), "nats://", "nats://sluice:sesame@", 1)
	s := start(t, t.TempDir(), func(c *config.Config) { c.NATS.URL = withLogin + ", " + withLogin })
	require.Equal(t, shared.ClientURL()+","+shared.ClientURL(), s.at.NATS)
	file, err := os.ReadFile(filepath.Join(s.dir, datadir.AddressesFile))
	require.NoError(t, err)
	require.NotContains(t, string(file), "sesame")
}
