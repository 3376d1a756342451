package e2e_test

import (
	"errors"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/datadir"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/streams"
)

// places is which NATS the servers of each test use that shares one with other tests.
type places struct {
	mu     sync.Mutex
	ofDir  map[string]string // the address, by the data directory of a server without one of its own
	latest map[string]string // the address, by test
}

var onShared = places{ofDir: map[string]string{}, latest: map[string]string{}}

// ofServer returns the address for a server that would have an embedded NATS.
func (p *places) ofServer(tb testing.TB, dir string) string {
	tb.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ofDir[dir] == "" {
		p.ofDir[dir] = natstest.Listening(tb).ClientURL()
	}
	return p.ofDir[dir]
}

func (p *places) note(tb testing.TB, address string) {
	tb.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.latest[tb.Name()] = address
}

// namesAt returns the names of the streams, buckets and subjects of the servers on a NATS.
func namesAt(address string) streams.Names { return streams.Prefixed(natstest.Prefix(address)) }

// hostOf returns the host of an address of NATS.
func hostOf(tb testing.TB, address string) string {
	tb.Helper()
	u, err := url.Parse(address)
	require.NoError(tb, err)
	return u.Host
}

// through returns the address of a NATS behind a link.
func through(tb testing.TB, link, address string) string {
	tb.Helper()
	return strings.Replace(address, hostOf(tb, address), link, 1)
}

// jsNames returns the names of the streams, buckets and subjects of the server that the test started last.
func jsNames(tb testing.TB) streams.Names {
	tb.Helper()
	if !natstest.Shared() {
		return namesAt("")
	}
	onShared.mu.Lock()
	defer onShared.mu.Unlock()
	for name := tb.Name(); name != "."; name = path.Dir(name) {
		if at, ok := onShared.latest[name]; ok {
			return namesAt(at)
		}
	}
	require.FailNow(tb, "no server was started")
	return streams.Names{}
}

// placed has a server use the NATS that all tests share, if they do, and gives it its prefix. What a test asks of
// an embedded NATS must be the default.
func placed(tb testing.TB, cfg *config.Config, change func(*config.Config)) {
	tb.Helper()
	cfg.NATS.Prefix = natstest.Prefix("")
	given := cfg.NATS
	withTester(cfg, change)
	if !natstest.Shared() {
		return
	}
	if cfg.NATS.Embedded() {
		asked := cfg.NATS
		asked.Users = given.Users
		users := len(cfg.NATS.Users) == 1 && cfg.NATS.Users[0].Name == tester.Name
		require.True(tb, users && reflect.DeepEqual(given, asked), "the test needs a NATS server of its own: list it in apart")
		cfg.NATS = config.Default().NATS
		cfg.NATS.URL = onShared.ofServer(tb, cfg.Data)
		keyIn(tb, cfg)
	}
	if cfg.NATS.Prefix == given.Prefix {
		cfg.NATS.Prefix = natstest.Prefix(cfg.NATS.URL)
	}
	onShared.note(tb, cfg.NATS.URL)
}

// keyIn has a server keep its key as one does that has an embedded NATS.
func keyIn(tb testing.TB, cfg *config.Config) {
	tb.Helper()
	if cfg.Secrets != (config.Secrets{}) {
		return
	}
	cfg.Secrets.KeyFile = filepath.Join(cfg.Data, datadir.SecretsKeyFile)
	if _, err := os.Stat(cfg.Secrets.KeyFile); errors.Is(err, os.ErrNotExist) {
		require.NoError(tb, os.WriteFile(cfg.Secrets.KeyFile, []byte(sharedKey), 0o600))
	}
}

// nearby returns the environment that has a server in a process of its own use the NATS that all tests share, if they do.
func (c *child) nearby(t *testing.T) []string {
	t.Helper()
	if !natstest.Shared() {
		return nil
	}
	for _, one := range c.env {
		if at, ok := strings.CutPrefix(one, serveNATSEnv+"="); ok {
			onShared.note(t, at)
			return nil
		}
	}
	at := onShared.ofServer(t, c.dir)
	onShared.note(t, at)
	return []string{serveNATSEnv + "=" + at, serveLeaseEnv + "=3s"}
}
