package e2e_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// ordered returns the policy quick with an ordering.
func ordered(ordering string) string {
	return strings.Replace(quick, `{"retry"`, `{"ordering":"`+ordering+`","retry"`, 1)
}

// S4-03, S4-17, S4-18, S4-23, C18: a path in trouble waits for its head; no other path waits for it.
func TestOrdering_PathWaitsForItsHeadOnly(t *testing.T) {
	t.Parallel()
	api, _ := serve(t, nil)
	board := refusing("a-1")
	hook := hooktest.New(t, status(http.StatusServiceUnavailable, board.refuses))
	sub := subscribe(t, api, wish(hook.URL, ordered("path")))
	put(t, api, "/a", 1, 40)
	put(t, api, "/b/c", 1, 40)
	delivered := func(prefix string) (ids []string) {
		for _, id := range idsOf(hook.Requests()) {
			if strings.HasPrefix(id, prefix) && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
		return ids
	}
	eventually(t, func() bool { return len(delivered("b-c-")) == 40 }, "the other path goes on")
	require.Equal(t, []string{"a-1"}, delivered("a-"))
	st := statusOf(t, api, sub.ID, func(st sluice.Status) bool { return st.Parked == 1 })
	require.Equal(t, []any{sluice.Path("/a"), "a-1", "status 503"}, []any{st.ParkedLanes[0].Path, st.ParkedLanes[0].EventID, st.ParkedLanes[0].LastError})
	require.NotNil(t, st.NextAttemptAt)
	board.accept()
	statusOf(t, api, sub.ID, idle)
	require.Equal(t, numbers("a", 40), delivered("a-"))
	require.Equal(t, numbers("b-c", 40), delivered("b-c-"))
}

// numbers returns the ids that put gives the events of a path, from 1 on.
func numbers(path sluice.Path, last int) []string {
	var ids []string
	for n := 1; n <= last; n++ {
		ids = append(ids, numbered("/"+path, n))
	}
	return ids
}

// C18: with none, nothing waits for anything.
func TestOrdering_NoneWaitsForNothing(t *testing.T) {
	t.Parallel()
	api, _ := serve(t, nil)
	board := refusing("a-1", "a-3")
	hook := hooktest.New(t, status(http.StatusServiceUnavailable, board.refuses))
	sub := subscribe(t, api, wish(hook.URL, ordered("none")))
	put(t, api, "/a", 1, 5)
	st := statusOf(t, api, sub.ID, func(st sluice.Status) bool { return st.Parked == 2 && st.Backlog == 0 })
	require.Equal(t, uint64(6), st.AckFloor, "five, and that it was created")
	for _, id := range numbers("a", 5) {
		require.Contains(t, idsOf(hook.Requests()), id)
	}
	board.accept()
	statusOf(t, api, sub.ID, idle)
	for _, id := range []string{"a-2", "a-4", "a-5"} {
		n := len(slices.DeleteFunc(idsOf(hook.Requests()), func(other string) bool { return other != id }))
		require.Equal(t, 1, n, id)
	}
}

// S4-23, C18: with all, everything waits for the first.
func TestOrdering_AllWaitsForTheFirst(t *testing.T) {
	t.Parallel()
	api, _ := serve(t, nil)
	board := refusing("a-1")
	hook := hooktest.New(t, status(http.StatusServiceUnavailable, board.refuses))
	sub := subscribe(t, api, wish(hook.URL, ordered("all")))
	put(t, api, "/a", 1, 2)
	put(t, api, "/b", 1, 2)
	hook.Wait(3)
	statusOf(t, api, sub.ID, func(st sluice.Status) bool { return st.Parked == 1 && st.Backlog == 0 })
	require.NotContains(t, idsOf(hook.Requests()), "a-2")
	require.NotContains(t, idsOf(hook.Requests()), "b-1")
	board.accept()
	statusOf(t, api, sub.ID, idle)
	require.Equal(t, []string{"a-1", "a-2", "b-1", "b-2"}, slices.Compact(idsOf(hook.Requests())))
}

// S4-22, S0-41, S0-65: a server that was stopped goes on where it was, parked lanes included.
func TestPark_LaneSurvivesARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	board := refusing("a-1")
	hook := hooktest.New(t, status(http.StatusServiceUnavailable, board.refuses))
	first := start(t, dir, nil)
	sub := subscribe(t, first.api, wish(hook.URL, `"policy":{"retry":{"preset":"custom","steps":["100ms","1s"],"max_attempts":100}}`))
	put(t, first.api, "/a", 1, 3)
	put(t, first.api, "/b", 1, 1)
	hook.Wait(3)
	statusOf(t, first.api, sub.ID, func(st sluice.Status) bool {
		return st.Parked == 1 && st.Backlog == 0 && st.ParkedLanes[0].Attempts >= 2
	})
	first.stop(t)
	before := hook.Requests()

	second := start(t, dir, nil)
	require.Equal(t, first.token, second.token)
	st, err := second.api.Status(t.Context(), sub.ID)
	require.NoError(t, err)
	require.Equal(t, 1, st.Parked, "it is still parked")
	put(t, second.api, "/a", 4, 4)
	board.accept()
	statusOf(t, second.api, sub.ID, idle)
	after := hook.Requests()[len(before):]
	require.Equal(t, []string{"a-1", "a-2", "a-3", "a-4"}, slices.Compact(idsOf(after)))
	last := slices.IndexFunc(after, func(r hooktest.Request) bool { return idOf(r) == "a-2" }) - 1
	tried := slices.DeleteFunc(slices.Clone(before), func(r hooktest.Request) bool { return idOf(r) != "a-1" })
	require.Equal(t, parse(t, tried[len(tried)-1]).Attempt+last+1, parse(t, after[last]).Attempt, "attempts are counted on")
	again, err := second.api.Subscription(t.Context(), sub.ID)
	require.NoError(t, err)
	require.Equal(t, sub.CreatedAt, again.CreatedAt)
}
