package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/natstest"
)

// Of several servers, those serve the subscriptions of a module that have its approved files, and no attempt fails elsewhere. When
// one of them is killed, or its files change, another one takes over; a server with other files suspends nothing.
func TestModuleCluster_RunsWhereItsFilesAre(t *testing.T) { // S4-17, S4-22, S4-29
	t.Parallel()
	const lease = "3s"
	nats := natstest.Listening(t)
	servers := map[string]*running{}
	processes := map[string]*child{}
	dirs := map[string]string{}
	for _, name := range []string{"one", "other", "none"} {
		dirs[name] = t.TempDir()
		if name == "one" {
			moduleOf(t, dirs[name], "m", `echo ran`)
		}
		processes[name], servers[name] = replica(t, nats.ClientURL(), lease, serveModulesEnv+"="+dirs[name])
	}
	serving := func(want string) {
		t.Helper()
		require.Eventually(t, func() bool {
			for name, s := range servers {
				if (len(s.servedOf(t, "m-run")) == 1) != (name == want) {
					return false
				}
			}
			return true
		}, 2*patience, 10*time.Millisecond, "%q serves it", want)
	}
	n := 0
	handled := func(through string) {
		t.Helper()
		for range 3 {
			n++
			servers[through].publishes(t, "default", fmt.Sprintf("/a e%d", n))
			a := servers[through].attemptsOf(t, "m-run", fmt.Sprintf("e%d", n))
			require.Len(t, a, 1, "no attempt is made where the module is not")
			require.Equal(t, "ran\n", a[0]["output"])
		}
	}
	servers["one"].approves(t, "m")
	serving("one")
	handled("none")
	shown := func(server, field string) any {
		return servers[server].must(t, 200, "GET /v1/modules/m", "").field(t, field)
	}
	require.NotEqual(t, shown("one", "server"), shown("none", "server"))
	for name := range servers {
		eventually(t, func() bool { return shown(name, "served_by") == shown("one", "server") }, name+" shows the one that serves it")
	}

	moduleOf(t, dirs["other"], "m", `echo different`)
	require.Equal(t, "changed", servers["other"].must(t, 200, "GET /v1/modules/m", "").field(t, "state"))
	handled("none") // and it is not suspended
	moduleOf(t, dirs["other"], "m", `echo ran`)
	require.Equal(t, "approved", servers["other"].must(t, 200, "GET /v1/modules/m", "").field(t, "state"))
	eventually(t, func() bool {
		return len(servers["one"].servedOf(t, "m-run"))+len(servers["other"].servedOf(t, "m-run")) == 1
	}, "one of them serves it")
	first, second := "one", "other"
	if len(servers["other"].servedOf(t, "m-run")) == 1 {
		first, second = second, first
	}
	processes[first].kill(t)
	delete(servers, first)
	serving(second)
	handled("none")
	require.NoError(t, os.RemoveAll(filepath.Join(dirs[second], "m")))
	serving("")
	servers["none"].publishes(t, "default", "/a waits")
	moduleOf(t, dirs[second], "m", `echo ran`)
	a := servers["none"].attemptsOf(t, "m-run", "waits")
	require.Len(t, a, 1, "it has waited")
}
