package e2e_test

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const mortal = `"policy":{"retry":{"preset":"custom","steps":["100ms"],"max_attempts":2}}`

// S4-53, S4-84…87, C07: what an operator sees of a delivery that was given up, and how it goes away.
func TestDeadLetters_AreShownAndDiscarded(t *testing.T) {
	t.Parallel()
	api, _ := serve(t, nil)
	hook := hooktest.New(t, status(http.StatusTeapot, func(r hooktest.Request) bool { return idOf(r) != "a-2" }))
	sub := subscribe(t, api, wish(hook.URL, `"id":"erp"`, mortal))
	put(t, api, "/a", 1, 3)
	statusOf(t, api, sub.ID, func(st sluice.Status) bool { return idle(st) && st.DeadLetters == 2 })
	page, err := api.DeadLetters(t.Context(), sub.ID, client.DeadLettersQuery{Reason: sluice.Exhausted})
	require.NoError(t, err)
	require.Len(t, page.Items, 2)
	require.Equal(t, []string{"a-3", "a-1"}, []string{page.Items[0].EventID, page.Items[1].EventID})
	var d client.DeadLetter
	eventually(t, func() bool {
		d, err = api.DeadLetter(t.Context(), sub.ID, "a-3")
		return err == nil && len(d.History) == 2
	}, "its attempts are recorded")
	require.Equal(t, []any{2, http.StatusTeapot, "status 418", true}, []any{d.Attempts, d.LastStatus, d.LastError, d.Redrivable})
	require.JSONEq(t, `{"n":3}`, string(d.Event.Data))
	require.WithinDuration(t, d.History[0].StartedAt, d.FirstFailedAt, 0)
	require.True(t, d.At.After(d.FirstFailedAt))

	_, err = api.Redrive(t.Context(), sub.ID, client.RedriveSpec{IDs: []string{"a-2"}})
	require.Equal(t, sluice.NotFound, sluice.CodeOf(err), "it was delivered")
	require.NoError(t, api.DiscardDeadLetter(t.Context(), sub.ID, "a-3"))
	require.NoError(t, api.DiscardDeadLetters(t.Context(), sub.ID))
	st, err := api.Status(t.Context(), sub.ID)
	require.NoError(t, err)
	require.Zero(t, st.DeadLetters)
}

// S4-83…88, S4-90, C34: with a directory to export to, dead letters and events are files below it.
func TestExport_WritesDeadLettersAndEvents(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "out")
	api, _ := serve(t, func(c *config.Config) { c.Export.Dir = dir })
	hook := hooktest.New(t, status(http.StatusTeapot, func(r hooktest.Request) bool { return idOf(r) == "a-1" }))
	subscribe(t, api, wish(hook.URL, `"id":"erp"`, mortal))
	put(t, api, "/a", 1, 2)
	eventually(t, func() bool {
		_, err := os.Stat(filepath.Join(dir, "events", "dlq", "erp", "a-1.json"))
		return err == nil
	}, "the dead letter's file")
	eventually(t, func() bool {
		files, err := filepath.Glob(filepath.Join(dir, "logs", "events", "default-*.jsonl"))
		require.NoError(t, err)
		lines := 0
		for _, file := range files {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			lines += bytes.Count(data, []byte(`"id":"a-`))
		}
		return lines == 2
	}, "a line an event")
}

// S4-90: an export that cannot write holds up nothing.
func TestExport_FailureDelaysNoDelivery(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "out")
	require.NoError(t, os.WriteFile(dir, nil, 0o600))
	s := start(t, t.TempDir(), func(c *config.Config) { c.Export.Dir = dir })
	hook := hooktest.New(t, nil)
	subscribe(t, s.api, wish(hook.URL))
	put(t, s.api, "/a", 1, 20)
	require.Len(t, hook.Wait(20), 20)
	eventually(t, func() bool {
		return strings.Contains(s.must(t, http.StatusOK, "GET /metrics", "").text, `sluice_export_failures_total{what="dead_letters"}`)
	}, "the failures are counted")
}

// S4-53: what was given up is tried again, all of it or some, in the order of its paths and by the
// subscription's timetable; what arrives is a dead letter no more, what is given up again is one.
func TestRedrive_RepeatsDeadLetters(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir, nil)
	var well atomic.Bool
	hook := hooktest.New(t, func(r hooktest.Request) hooktest.Answer {
		if idOf(r) == "a-5" || !well.Load() {
			return hooktest.Answer{Status: http.StatusTeapot}
		}
		return hooktest.Answer{}
	})
	sub := subscribe(t, s.api, wish(hook.URL, `"id":"erp"`, mortal))
	put(t, s.api, "/a", 1, 5)
	statusOf(t, s.api, sub.ID, func(st sluice.Status) bool { return idle(st) && st.DeadLetters == 5 })
	before := len(hook.Requests())
	well.Store(true)

	one, err := s.api.Redrive(t.Context(), sub.ID, client.RedriveSpec{IDs: []string{"a-2"}})
	require.NoError(t, err)
	require.Equal(t, uint64(1), ended(t, s.api, one.Replay).Sent)
	statusOf(t, s.api, sub.ID, func(st sluice.Status) bool { return st.DeadLetters == 4 })

	rest, err := s.api.Redrive(t.Context(), sub.ID, client.RedriveSpec{All: true, Rate: sluice.Rate{PerSecond: 4}})
	require.NoError(t, err)
	require.Equal(t, uint64(4), rest.Total)
	hook.Wait(before + 2)
	s.stop(t)
	s = start(t, dir, nil)
	again := ended(t, s.api, rest.Replay)
	require.Equal(t, []any{sluice.ReplayDone, uint64(3), uint64(1)}, []any{again.State, again.Sent, again.Dead})
	require.Equal(t, []string{"a-2", "a-1", "a-3", "a-4", "a-5", "a-5"}, idsOf(hook.Requests()[before:]))
	page, err := s.api.DeadLetters(t.Context(), sub.ID, client.DeadLettersQuery{})
	require.NoError(t, err)
	require.Len(t, page.Items, 1)
	require.Equal(t, []any{"a-5", sluice.Exhausted, 2}, []any{page.Items[0].EventID, page.Items[0].Reason, page.Items[0].Attempts})
	put(t, s.api, "/a", 6, 6)
	require.Equal(t, "a-6", idOf(hook.Wait(before + 7)[before+6]), "live deliveries go on")
}
