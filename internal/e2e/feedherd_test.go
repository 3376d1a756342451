package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Readers that all begin far back at once, as after a restart of those who read, are all served; the server's connection to NATS, on
// which everything else depends too, is not cut because more is on its way than it may hold.
func TestFeed_ServesAHerdFromFarBack(t *testing.T) {
	t.Parallel()
	const readers, events, holds = 24, 40, 12 << 20 // a fifth of all that they read; as NATS comes it holds 64 MiB
	held := natstest.Custom(t, func(o *server.Options) { o.MaxPending = holds })
	s := start(t, t.TempDir(), func(c *config.Config) { c.NATS.URL, c.Feed.Ring = held, 16 })
	large := []byte(`"` + strings.Repeat("x", 60_000) + `"`)
	for n := range events {
		_, err := s.api.Publish(t.Context(), "default", sluice.Event{ID: strconv.Itoa(n), Path: "/large", Type: "t", Data: large})
		require.NoError(t, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	errs := make([]error, readers)
	var reading sync.WaitGroup
	for i := range readers {
		reading.Go(func() {
			next := 0
			err := wires()[i%2].read(ctx, s.place(), url.Values{"since": {"-1"}}, "", func(g glance) bool {
				if g.id == strconv.Itoa(next) {
					next++
				}
				return next < events
			})
			if err != nil {
				errs[i] = fmt.Errorf("behind %d: %w", next, err)
			}
		})
	}
	reading.Wait()
	require.NoError(t, errors.Join(errs...))
}
