package natsstore_test

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/testkit/faulttest"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
)

// Fault F9: a question that NATS never answers, as while a cluster elects its leaders, is asked again; the time of
// the whole start is not spent on it.
func TestProvision_RepeatsUnansweredRequests(t *testing.T) {
	t.Parallel()
	for _, question := range []string{"$JS.API.STREAM.INFO.ATTEMPTS", "$JS.API.STREAM.CREATE.LEDGER", "$JS.API.STREAM.INFO.KV_leases"} {
		t.Run(question, func(t *testing.T) {
			t.Parallel()
			var once sync.Once
			wire := faulttest.OpenWire(t, strings.TrimPrefix(natstest.Listening(t).ClientURL(), "nats://"), func(said []byte) bool {
				passes := true
				if bytes.Contains(said, []byte(" "+question+" ")) {
					once.Do(func() { passes = false })
				}
				return passes
			})
			t.Cleanup(wire.Close)
			store := connected(t, natsstore.Options{URL: "nats://" + wire.Addr()})
			ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
			defer cancel()
			require.NoError(t, store.Provision(ctx))
			_, err := store.Leases(ctx, "r", nil)
			require.NoError(t, err)
		})
	}
}
