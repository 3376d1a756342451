package e2e_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/pkg/webhook"
)

const holding = `"policy":{"on_dead":"hold","retry":{"preset":"custom","steps":["100ms"],"max_attempts":2}}`

func heldLanes(n int) func(sluice.Status) bool {
	return func(st sluice.Status) bool { return st.Held == n && st.Parked == n && st.Backlog == 0 }
}

// Issue 3, item 1, S4-53: with on_dead hold a delivery that is given up keeps its lane waiting, over a
// restart, until an operator retries or discards it; all who look see it, and who did what is recorded.
func TestHold_LaneWaitsForAnOperator(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir, nil)
	l := listen(t, s, func(told) string { return "" })
	var well atomic.Bool
	hook := hooktest.New(t, status(http.StatusTeapot, func(r hooktest.Request) bool {
		return idOf(r) == "a-1" && !well.Load() || idOf(r) == "a-3"
	}))
	sub := subscribe(t, s.api, wish(hook.URL, `"id":"erp"`, holding))
	require.Equal(t, sluice.DeadHolds, sub.Policy.OnDead)
	put(t, s.api, "/a", 1, 4)
	put(t, s.api, "/b", 1, 2)
	st := statusOf(t, s.api, sub.ID, heldLanes(1))
	require.Equal(t, []any{sluice.Path("/a"), "a-1", 2, sluice.Exhausted, "status 418"},
		[]any{st.ParkedLanes[0].Path, st.ParkedLanes[0].EventID, st.ParkedLanes[0].Attempts, st.ParkedLanes[0].Held, st.ParkedLanes[0].LastError})
	require.Nil(t, st.NextAttemptAt)
	require.Zero(t, st.DeadLetters)
	require.ElementsMatch(t, []string{"a-1", "a-1", "b-1", "b-2"}, idsOf(hook.Wait(4)), "the other lane goes on")
	eventually(t, func() bool { return len(l.of("erp")) == 2 }, "it is told")
	require.Equal(t, []string{"subscription.created", "delivery.held"}, l.of("erp"))
	s.explainsHeld(t)

	s.stop(t)
	s = start(t, dir, nil)
	statusOf(t, s.api, sub.ID, heldLanes(1))
	well.Store(true)
	_, err := s.api.DiscardDelivery(t.Context(), "erp", "a-2")
	require.Equal(t, sluice.Conflict, sluice.CodeOf(err), "it is not the head")
	_, err = s.api.DiscardDelivery(t.Context(), "erp", "nobody")
	require.Equal(t, sluice.NotFound, sluice.CodeOf(err))
	s.must(t, http.StatusOK, "POST /v1/subscriptions/erp/pause", "")
	rep, err := s.api.RetryDelivery(t.Context(), "erp", "a-1")
	require.NoError(t, err)
	require.Equal(t, sluice.ReplayRetry, rep.Kind)
	same, err := s.api.RetryDelivery(t.Context(), "erp", "a-1")
	require.NoError(t, err)
	require.Equal(t, rep.ID, same.ID, "it is not done yet")
	s.stop(t)
	s = start(t, dir, nil)
	s.must(t, http.StatusOK, "POST /v1/subscriptions/erp/resume", "")
	require.Equal(t, sluice.ReplayDone, ended(t, s.api, rep).State)
	requests := hook.Wait(8)
	require.Equal(t, []string{"a-1", "a-2", "a-3", "a-3"}, idsOf(requests[4:]))
	require.Equal(t, "1", requests[4].Header.Get(webhook.HeaderAttempt), "attempts are counted anew")

	statusOf(t, s.api, sub.ID, heldLanes(1))
	rep, err = s.api.DiscardDelivery(t.Context(), "erp", "a-3")
	require.NoError(t, err)
	require.Equal(t, []any{sluice.ReplayDone, uint64(1)}, func() []any { r := ended(t, s.api, rep); return []any{r.State, r.Dead} }())
	require.Equal(t, "a-4", idOf(hook.Wait(9)[8]))
	statusOf(t, s.api, sub.ID, func(st sluice.Status) bool { return idle(st) && st.Held == 0 && st.DeadLetters == 1 })
	dead, err := s.api.DeadLetter(t.Context(), "erp", "a-3")
	require.NoError(t, err)
	require.Equal(t, []any{sluice.Exhausted, 2, true}, []any{dead.Reason, dead.Attempts, dead.Redrivable})
	s.recordsActs(t)
}

// explainsHeld looks at what operators see while a-1 holds the lane of /a.
func (s *running) explainsHeld(t *testing.T) {
	t.Helper()
	d, err := s.api.Delivery(t.Context(), "erp", "a-1")
	require.NoError(t, err)
	require.Equal(t, []any{"held", sluice.Exhausted, 2}, []any{d.State, d.Reason, d.AttemptCount})
	require.Contains(t, d.Explanation, "retry or discard it")
	behind, err := s.api.Delivery(t.Context(), "erp", "a-2")
	require.NoError(t, err)
	require.Equal(t, []any{"waiting", "a-1", sluice.Exhausted}, []any{behind.State, behind.Behind.EventID, behind.Behind.Held})
	require.Nil(t, behind.NextAttemptAt)
	for state, want := range map[string]int{"held": 1, "parked": 1, "failed": 1, "retrying": 0, "dead": 0} {
		page, err := s.api.Deliveries(t.Context(), "erp", client.DeliveriesQuery{State: state})
		require.NoError(t, err)
		require.Len(t, page.Items, want, state)
	}
	eventually(t, func() bool {
		return strings.Contains(s.must(t, http.StatusOK, "GET /metrics", "").text, `sluice_lanes_held{namespace="default",subscription="erp"} 1`)
	}, "the gauge")
	_, err = s.api.Redrive(t.Context(), "erp", client.RedriveSpec{IDs: []string{"a-1"}})
	require.Equal(t, sluice.NotFound, sluice.CodeOf(err), "it is no dead letter")
}

// recordsActs looks at the traces of what the operator did.
func (s *running) recordsActs(t *testing.T) {
	t.Helper()
	page, err := s.api.Audit(t.Context(), client.AuditQuery{Resource: "erp", Action: "delivery.*"})
	require.NoError(t, err)
	require.Len(t, page.Items, 2)
	require.Equal(t, []string{sluice.ActionDeliveryDiscard, sluice.ActionDeliveryRetry}, []string{page.Items[0].Action, page.Items[1].Action})
	require.Contains(t, string(page.Items[0].New), "a-3")
	list, err := s.api.Deliveries(t.Context(), "erp", client.DeliveriesQuery{State: "dead"})
	require.NoError(t, err)
	require.Len(t, list.Items, 1)
	require.Equal(t, []any{"a-3", "dead", sluice.Exhausted}, []any{list.Items[0].EventID, list.Items[0].State, list.Items[0].Reason})
	d, err := s.api.Delivery(t.Context(), "erp", "a-3")
	require.NoError(t, err)
	require.Equal(t, "dead", d.State)
}
