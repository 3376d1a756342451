package delivery_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-io/sluice/internal/delivery"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// scripted is a gate that says for each event one thing after the other, and goes on with the
// last.
type scripted struct {
	mu sync.Mutex
	of map[string][]model.Decision
}

func (s *scripted) Decide(_ *sluice.Subscription, ev *sluice.Event, _ time.Time) model.Decision {
	s.mu.Lock()
	defer s.mu.Unlock()
	says := s.of[ev.ID]
	if len(says) > 1 {
		s.of[ev.ID] = says[1:]
	}
	return says[0]
}

// publishGated publishes some events, and says in their ids what becomes of them: "yes" arrive,
// "no" are never sent, "late" fail until they are withheld.
func (w *world) publishGated(rt *rapid.T, gate *scripted, n *int) {
	for range rapid.IntRange(1, 15).Draw(rt, "events") {
		*n++
		kind := rapid.SampledFrom([]string{"yes", "yes", "yes", "no", "no", "late"}).Draw(rt, "kind")
		id := fmt.Sprintf("%s%d", kind, *n)
		var says []model.Decision
		if rapid.IntRange(0, 9).Draw(rt, "undecided") == 0 {
			says = append(says, model.Undecided)
		}
		fails := 0
		switch kind {
		case "yes":
			fails = rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(rt, "failures")
			says = append(says, model.Pass)
			w.total++
		case "no":
			says = append(says, model.Withhold)
		case "late":
			fails = 1000
			says = append(says, model.Pass, model.Withhold)
		}
		gate.mu.Lock()
		gate.of[id] = says
		gate.mu.Unlock()
		w.endpoint.failing(id, fails)
		w.publish(rt, sluice.Path(rapid.SampledFrom([]string{"/a", "/a/1", "/a/2"}).Draw(rt, "path")), id)
	}
}

// TestGate_RandomDecisionsDeliverExactlyTheAllowed drives random decisions, outcomes, crashes and
// restarts against a real store. What passes arrives, in the order of its path and, without a
// crash, once; what does not is never sent, and keeps nothing else back.
func TestGate_RandomDecisionsDeliverExactlyTheAllowed(t *testing.T) { // S0-59, S0-60, S0-62, S0-63, S4-17
	t.Parallel()
	store := connect(t)
	checkWithin(t, func(rt *rapid.T, checks int) {
		ordering := rapid.SampledFrom([]sluice.Ordering{sluice.OrderByPath, sluice.OrderAll, sluice.OrderNone}).Draw(rt, "ordering")
		w := newWorld(rt, store, fmt.Sprintf("g%d", checks), sluice.Policy{Window: 8, Ordering: ordering, Retry: quickRetries})
		gate, n := &scripted{of: map[string][]model.Decision{}}, 0
		w.ports = func(p *delivery.Deps) { p.Gate = gate }
		proc := w.start(rt)
		defer func() { proc.stop() }()
		rt.Repeat(map[string]func(*rapid.T){
			"publish": func(rt *rapid.T) { w.publishGated(rt, gate, &n) },
			"crash":   func(rt *rapid.T) { proc.crash(); w.crashes++; proc = w.start(rt) },
			"restart": func(rt *rapid.T) { proc.stop(); proc = w.start(rt) },
		})
		require.Eventually(rt, func() bool {
			st, err := store.Deliveries.Status(context.Background(), w.sub)
			return err == nil && w.endpoint.delivered() == w.total && st.Backlog == 0 && st.InFlight == 0 && st.Parked == 0
		}, 2*deadHandsBack, 5*time.Millisecond, "all is settled")
		proc.stop()
		w.check(rt)
		require.Empty(rt, w.letters(rt))
		for id, tries := range w.endpoint.tries {
			require.False(rt, strings.HasPrefix(id, "no"), "%s was sent", id)
			require.False(rt, strings.HasPrefix(id, "late") && tries > 1, "%s was sent %d times", id, tries)
		}
	})
}
