package e2e_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/app"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
)

// Issue 15: the subscription that is one too many moves all of its namespace to the shared reader. That is no failure, and
// deliveries go on.
func TestShared_TakesOverInSilence(t *testing.T) {
	t.Parallel()
	const above = 5
	lines := &lastLines{}
	s := startWith(t, t.TempDir(), func(c *config.Config) { c.Webhooks.SharedAbove = above }, app.Options{
		Version: "test", Silent: true, Log: slog.New(slog.NewTextHandler(lines, nil)),
	})
	hook := hooktest.New(t, nil)
	for i := range above + 1 {
		s.must(t, http.StatusCreated, "POST /v1/subscriptions", fmt.Sprintf(`{"id":"s%d","pattern":"/a/%d","endpoint":{"url":%q}}`, i, i, hook.URL))
		if i < above {
			s.news(t, fmt.Sprintf("/a/%d", i)) // it has a runner
		}
	}
	hook.Wait(above)
	stream, err := dial(t, s.at.NATS).Stream(t.Context(), "EVENTS_default")
	require.NoError(t, err)
	eventually(t, func() bool {
		own := 0
		for name := range stream.ConsumerNames(t.Context()).Name() {
			if name[0] == 's' {
				own++
			}
		}
		return own == 0
	}, "no subscription has a consumer of its own")
	for i := range above + 1 {
		s.news(t, fmt.Sprintf("/a/%d", i))
	}
	hook.Wait(2*above + 1)
	lines.mu.Lock()
	defer lines.mu.Unlock()
	require.NotContains(t, string(lines.kept), "restarting")
}
