package natstest

import (
	"context"
	"crypto/rand"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/streams"
)

// SharedEnv is the environment variable with the address of a NATS server that all tests of a
// process share with other programs. It requires PrefixEnv: each test then has a prefix that begins
// with its value.
//
// Without SharedEnv, all servers of the tests have the prefix in PrefixEnv.
const (
	SharedEnv = "SLUICE_TEST_NATS"
	PrefixEnv = "SLUICE_TEST_PREFIX"
)

// Shared reports whether tests share a NATS server.
func Shared() bool { return os.Getenv(SharedEnv) != "" }

// Prefix returns the prefix of a test's names on a NATS server. For a shared server it is the path
// of the address. It is empty if neither variable is set.
func Prefix(address string) string {
	one, _, _ := strings.Cut(address, ",")
	if u, err := url.Parse(one); err == nil && Shared() {
		return strings.TrimPrefix(u.Path, "/")
	}
	return os.Getenv(PrefixEnv)
}

// room returns the address of the shared server with a new prefix. Everything with the prefix is
// removed when the test ends.
func room(tb testing.TB) string {
	tb.Helper()
	prefix := os.Getenv(PrefixEnv) + "-" + strings.ToLower(rand.Text()[:8])
	require.NoError(tb, streams.CheckPrefix(prefix), "set %s", PrefixEnv)
	tb.Cleanup(func() { empty(tb, streams.Prefixed(prefix)) })
	return os.Getenv(SharedEnv) + "/" + prefix
}

func empty(tb testing.TB, names streams.Names) {
	tb.Helper()
	nc, err := nats.Connect(os.Getenv(SharedEnv))
	require.NoError(tb, err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	require.NoError(tb, err)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), time.Minute)
	defer cancel()
	list := js.StreamNames(ctx)
	for name := range list.Name() {
		if _, ours := names.Bare(name); ours {
			require.NoError(tb, js.DeleteStream(ctx, name))
		}
	}
	require.NoError(tb, list.Err())
}

// alone fails a test that needs a server of its own if the tests share one.
func alone(tb testing.TB) {
	tb.Helper()
	require.False(tb, Shared(), "the test needs a NATS server of its own: list it with those that do")
}
