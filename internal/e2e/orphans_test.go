package e2e_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/app"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// lockedBuffer is a buffer that a log writes to and a test reads.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// S2-47: a start tells of each type that left a catalogue once, with how many subscriptions name it, and not again while as
// many do.
func TestOrphanedTypes_AreToldAtStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	told := func(s *running) (data []map[string]any) {
		page, err := s.api.Events(t.Context(), "acme", client.EventsQuery{Pattern: "/_sys/event-types/*"})
		require.NoError(t, err)
		for _, ev := range page.Items {
			require.Equal(t, sluice.TypeEventTypeOrphaned, ev.Type)
			var one map[string]any
			require.NoError(t, json.Unmarshal(ev.Data, &one))
			data = append(data, one)
		}
		return data
	}
	const line = "subscriptions name a type that is no longer in the catalogue"
	run := func(lines int, during func(s *running)) {
		var log lockedBuffer
		s := startWith(t, dir, nil, app.Options{Version: "1", Log: slog.New(slog.NewTextHandler(&log, nil))})
		require.Eventually(t, func() bool { return strings.Count(log.String(), line) >= lines }, time.Minute, 20*time.Millisecond)
		during(s)
		s.stop(t)
		require.Equal(t, lines, strings.Count(log.String(), line), log.String())
	}
	quietly := func(during func(s *running)) { // a silent server does not look
		s := start(t, dir, nil)
		during(s)
		s.stop(t)
	}
	quietly(func(s *running) {
		strictAcme(t, s.api)
		for _, name := range []string{"order.paid", "order.lost", "stays"} {
			putType(t, s.api, "acme", name, client.EventTypeSpec{})
		}
		for _, sub := range []string{`["order.paid"]`, `["order.lost","stays"]`, `["order.lost"]`, `["stays"]`} {
			subscribe(t, s.api, wish("http://127.0.0.1:1/", `"namespace":"acme"`, `"filter":{"types":`+sub+`}`))
		}
		require.NoError(t, s.api.DeleteEventType(t.Context(), "acme", "order.paid"))
		require.NoError(t, s.api.DeleteEventType(t.Context(), "acme", "order.lost"))
		require.Empty(t, told(s), "only at a start")
	})
	var first any
	run(2, func(s *running) {
		require.Eventually(t, func() bool { return len(told(s)) == 2 }, time.Minute, 20*time.Millisecond)
		is := told(s)
		require.Equal(t, "order.lost", is[0]["type"])
		require.InEpsilon(t, 2, is[0]["count"], 0)
		require.Equal(t, "order.paid", is[1]["type"])
		require.InEpsilon(t, 1, is[1]["count"], 0)
		first = is[1]["first_observed_at"]
		require.NotEmpty(t, first)
	})
	quietly(func(s *running) { require.NoError(t, s.api.DeleteEventType(t.Context(), "acme", "stays")) })
	run(1, func(s *running) { // the last that it looks at: nothing else has changed
		require.Eventually(t, func() bool { return len(told(s)) == 3 }, time.Minute, 20*time.Millisecond)
		require.Equal(t, "stays", told(s)[2]["type"])
	})
	quietly(func(s *running) {
		putType(t, s.api, "acme", "order.paid", client.EventTypeSpec{})
		subscribe(t, s.api, wish("http://127.0.0.1:1/2", `"namespace":"acme"`, `"filter":{"types":["order.paid"]}`))
		require.NoError(t, s.api.DeleteEventType(t.Context(), "acme", "order.paid"))
	})
	run(1, func(s *running) {
		require.Eventually(t, func() bool { return len(told(s)) == 4 }, time.Minute, 20*time.Millisecond)
		is := told(s)[3]
		require.Equal(t, "order.paid", is["type"])
		require.InEpsilon(t, 2, is["count"], 0)
		require.Equal(t, first, is["first_observed_at"])
	})
}
