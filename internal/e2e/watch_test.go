package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// hot is a watch that publishes on /alarms/hot when a sensor is hotter than 30.
func hot(change ...func(*client.WatchSpec)) client.WatchSpec {
	spec := client.WatchSpec{
		Pattern: "/sensors/**", Filter: sluice.Filter{Types: []string{"reading"}, CEL: "event.data.celsius > 30"}, Trigger: sluice.TriggerEdge,
		Action: sluice.Action{Path: "/alarms/hot", Type: "alarm.raised", Data: json.RawMessage(`{"level":"high"}`)},
	}
	for _, f := range change {
		f(&spec)
	}
	return spec
}

func celsius(path sluice.Path, degrees int) sluice.Event {
	return sluice.Event{Path: path, Type: "reading", Data: fmt.Appendf(nil, `{"celsius":%d}`, degrees)}
}

// watched puts a watch.
func watched(t *testing.T, api *client.Client, id string, spec client.WatchSpec) sluice.Watch {
	t.Helper()
	w, err := api.PutWatch(t.Context(), "default", id, spec)
	require.NoError(t, err)
	return w
}

// publishAll publishes events one after the other and returns where they lie.
func publishAll(t *testing.T, api *client.Client, events ...sluice.Event) []sluice.Stored {
	t.Helper()
	var all []sluice.Stored
	for _, ev := range events {
		stored, err := api.Publish(t.Context(), "default", ev)
		require.NoError(t, err)
		all = append(all, stored...)
	}
	return all
}

// eventsOn returns the events whose paths a pattern matches, when there are at least so many.
func eventsOn(t *testing.T, api *client.Client, pattern sluice.Pattern, n int) []sluice.Event {
	t.Helper()
	var all []sluice.Event
	eventually(t, func() bool {
		page, err := api.Events(t.Context(), "default", client.EventsQuery{Pattern: pattern, Limit: 1000})
		require.NoError(t, err)
		all = page.Items
		return len(all) >= n
	}, fmt.Sprintf("%d events on %s", n, pattern))
	return all
}

// saidOf returns the data of the system events of a kind about a watch, when there are at least so many.
func saidOf(t *testing.T, api *client.Client, id, kind string, n int) []map[string]any {
	t.Helper()
	var all []map[string]any
	eventually(t, func() bool {
		all = nil
		page, err := api.Events(t.Context(), "default", client.EventsQuery{Pattern: sluice.Pattern(sluice.WatchPath(id)), Types: []string{kind}, Limit: 1000})
		require.NoError(t, err)
		for _, ev := range page.Items {
			var data map[string]any
			require.NoError(t, json.Unmarshal(ev.Data, &data))
			all = append(all, data)
		}
		return len(all) >= n
	}, fmt.Sprintf("%d events %s about %s", n, kind, id))
	return all
}

// S2-42, S2-43, S2-45: from the first reading to the end.
func TestWatch_PublishesWhenItsConditionBegins(t *testing.T) {
	t.Parallel()
	api, _ := serve(t, nil)
	publishAll(t, api, celsius("/sensors/1", 50)) // before it was made
	w := watched(t, api, "hot", hot())
	other := celsius("/sensors/2", 60)
	other.Type = "humidity"
	cause := celsius("/sensors/2", 31)
	cause.Extensions = map[string]string{sluice.CorrelationID: "affair"}
	stored := publishAll(t, api, celsius("/sensors/2", 29), cause, other, celsius("/sensors/2", 40), celsius("/elsewhere", 50), celsius("/sensors/2", 3), celsius("/sensors/2", 35))

	alarms := eventsOn(t, api, "/alarms/**", 2)
	require.Len(t, alarms, 2)
	for i, of := range []int{1, 6} {
		a := alarms[i]
		require.Equal(t, []any{"alarm.raised", "/watches/hot", `{"level":"high"}`}, []any{a.Type, a.Source, string(a.Data)})
		require.Regexp(t, fmt.Sprintf("^watch-hot-%d-%d-[0-9a-f]{32}$", w.Revision, stored[of].Seq), a.ID)
		require.Equal(t, stored[of].ID, a.Extensions[sluice.CausationID])
		require.Equal(t, "root", a.Extensions[sluice.AuthID])
	}
	require.Equal(t, "affair", alarms[0].Extensions[sluice.CorrelationID])
	require.Equal(t, stored[6].ID, alarms[1].Extensions[sluice.CorrelationID])

	fired := saidOf(t, api, "hot", sluice.TypeWatchFired, 2)
	require.Len(t, fired, 2)
	require.Equal(t, []any{"root", "hot", "ok"}, []any{fired[0]["creator"], fired[0]["watch_id"], fired[0]["dispatch_outcome"]})
	require.InDelta(t, time.Now().UnixMilli(), fired[0]["fired_at_ms"], 60_000)

	require.NoError(t, api.DeleteWatch(t.Context(), "default", "hot"))
	require.Equal(t, []map[string]any{{"creator": "root", "watch_id": "hot", "cancelled_by": "root"}}, saidOf(t, api, "hot", sluice.TypeWatchCancelled, 1))
	require.Equal(t, sluice.NotFound, sluice.CodeOf(api.DeleteWatch(t.Context(), "default", "hot")))
	watched(t, api, "next", hot(func(s *client.WatchSpec) { s.Action.Path = "/alarms/next" }))
	publishAll(t, api, celsius("/sensors/9", 50))
	eventsOn(t, api, "/alarms/next", 1)
	require.Len(t, eventsOn(t, api, "/alarms/hot", 2), 2, "it is gone")
}

// S2-44: what a level does not fire for.
func TestWatch_LevelFiresOncePerCooldown(t *testing.T) {
	t.Parallel()
	api, _ := serve(t, nil)
	watched(t, api, "hot", hot(func(s *client.WatchSpec) { s.Trigger, s.Cooldown = sluice.TriggerLevel, sluice.Duration(time.Hour) }))
	publishAll(t, api, celsius("/sensors/1", 40), celsius("/sensors/1", 40), celsius("/sensors/1", 2), celsius("/sensors/1", 40), celsius("/sensors/2", 40))
	require.Len(t, eventsOn(t, api, "/alarms/hot", 2), 2)
	eventually(t, func() bool {
		count := 0.0
		for _, m := range saidOf(t, api, "hot", sluice.TypeWatchMissed, 1) {
			require.Equal(t, []any{"root", "hot", "cooldown"}, []any{m["creator"], m["watch_id"], m["reason"]})
			require.InDelta(t, time.Now().UnixMilli(), m["suppressed_at_ms"], 60_000)
			n, _ := m["count"].(float64)
			count += n
		}
		return count == 2
	}, "two readings were suppressed")
}

// S2-42: a duration is over without another reading.
func TestWatch_DurationFiresWithoutAnotherReading(t *testing.T) {
	t.Parallel()
	api, _ := serve(t, nil)
	watched(t, api, "hot", hot(func(s *client.WatchSpec) { s.For = sluice.Duration(1500 * time.Millisecond) }))
	stored := publishAll(t, api, celsius("/sensors/1", 40), celsius("/sensors/2", 40), celsius("/sensors/1", 41), celsius("/sensors/2", 4))
	alarms := eventsOn(t, api, "/alarms/hot", 1)
	require.Equal(t, stored[0].ID, alarms[0].Extensions[sluice.CausationID])
	first, err := api.Event(t.Context(), "default", stored[0].ID)
	require.NoError(t, err)
	require.GreaterOrEqual(t, alarms[0].Time.Sub(first.Time), 1500*time.Millisecond, "not before its time")
}

// S2-42: what a watch does that meets its own condition comes to an end.
func TestWatch_SelfTriggeringOneEnds(t *testing.T) {
	t.Parallel()
	api, _ := serve(t, nil)
	loop := func(from, to sluice.Path) client.WatchSpec {
		return client.WatchSpec{Pattern: sluice.Pattern(from), Trigger: sluice.TriggerLevel, Action: sluice.Action{Path: to, Type: "echo"}}
	}
	watched(t, api, "self", loop("/a", "/a"))
	watched(t, api, "ping", loop("/x", "/y"))
	watched(t, api, "pong", loop("/y", "/x"))
	watched(t, api, "about", client.WatchSpec{Pattern: "/_sys/**", Trigger: sluice.TriggerLevel, Action: sluice.Action{Path: "/told", Type: "told"}})
	publishAll(t, api, sluice.Event{Path: "/a", Type: "first"}, sluice.Event{Path: "/x", Type: "first"})
	outcomes := func(id string, n int) (all []any) {
		for _, m := range saidOf(t, api, id, sluice.TypeWatchFired, n) {
			all = append(all, m["dispatch_outcome"])
		}
		return all
	}
	require.Equal(t, []any{"ok", "event_loop_detected"}, outcomes("self", 2))
	require.Equal(t, []any{"ok", "event_loop_detected"}, outcomes("ping", 2))
	require.Equal(t, []any{"ok"}, outcomes("pong", 1))
	require.Len(t, eventsOn(t, api, "/a", 2), 2)
	publishAll(t, api, sluice.Event{Path: "/a", Type: "second"}) // no producer was marked
	require.Equal(t, []any{"ok", "event_loop_detected", "ok", "event_loop_detected"}, outcomes("self", 4))
}

// S2-42: one that says the same is left as it is, another one begins anew, and there are only so many.
func TestWatch_PutIsIdempotentAndBounded(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), func(c *config.Config) { c.Watches.PerNamespace = 2 })
	first := watched(t, s.api, "hot", hot())
	require.Equal(t, first, watched(t, s.api, "hot", hot()))
	publishAll(t, s.api, celsius("/sensors/1", 40))
	eventsOn(t, s.api, "/alarms/hot", 1)
	second := watched(t, s.api, "hot", hot(func(s *client.WatchSpec) { s.Cooldown = sluice.Duration(time.Millisecond) }))
	require.Greater(t, second.Revision, first.Revision)
	publishAll(t, s.api, celsius("/sensors/1", 41))
	alarms := eventsOn(t, s.api, "/alarms/hot", 2)
	require.Len(t, alarms, 2, "what the first one remembered is not the second's")

	watched(t, s.api, "more", hot())
	_, err := s.api.PutWatch(t.Context(), "default", "most", hot())
	require.Equal(t, sluice.QuotaExceeded, sluice.CodeOf(err))
	page, err := s.api.Watches(t.Context(), "default", "")
	require.NoError(t, err)
	require.Equal(t, []string{"more", "hot"}, []string{page.Items[0].ID, page.Items[1].ID})
	got, err := s.api.Watch(t.Context(), "default", "hot")
	require.NoError(t, err)
	require.NotNil(t, got.Status)
	got.Status = nil
	require.Equal(t, second, got)
	s.must(t, http.StatusBadRequest, "PUT /v1/namespaces/default/watches/hot", `{"pattern":"/a","wat":1}`)
	s.must(t, http.StatusBadRequest, "PUT /v1/namespaces/default/watches/hot", `{"pattern":"/a","filter":{"cel":"1 +"},"action":{"path":"/b","type":"t"}}`)
	s.must(t, http.StatusNotFound, "PUT /v1/namespaces/nowhere/watches/hot", `{"pattern":"/a","action":{"path":"/b","type":"t"}}`)
}

// S2-37, S2-42: of many who make watches and appointments at once only so many have room as there is.
func TestInstructions_ConcurrentCallersStayWithinTheBound(t *testing.T) {
	t.Parallel()
	const most, tries = 5, 24
	s := start(t, t.TempDir(), func(c *config.Config) { c.Watches.PerNamespace, c.Limits.AppointmentsPerNamespace = most, most })
	appointment := client.AppointmentSpec{At: time.Now().Add(time.Hour), Action: sluice.Action{Path: "/later", Type: "t"}}
	var all sync.WaitGroup
	errs := make([]error, 2*tries)
	for n := range tries {
		all.Go(func() { _, errs[2*n] = s.api.PutWatch(t.Context(), "default", fmt.Sprint("w", n), hot()) })
		all.Go(func() {
			_, errs[2*n+1] = s.api.PutAppointment(t.Context(), "default", fmt.Sprint("a", n), appointment, 0)
		})
	}
	all.Wait()
	made := [2]int{}
	for n, err := range errs {
		if err == nil {
			made[n%2]++
			continue
		}
		require.Equal(t, sluice.QuotaExceeded, sluice.CodeOf(err), "%v", err)
	}
	require.Equal(t, [2]int{most, most}, made, "watches and appointments")
	watches, err := s.api.Watches(t.Context(), "default", "")
	require.NoError(t, err)
	require.Len(t, watches.Items, most)
	appointments, err := s.api.Appointments(t.Context(), "default", 0, "")
	require.NoError(t, err)
	require.Len(t, appointments.Items, most)
}

// Who looks at a watch sees what came of it.
func TestWatch_ReportsItsOutcomes(t *testing.T) { // S2-42
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	w := watched(t, s.api, "hot", hot(func(s *client.WatchSpec) { s.Cooldown = sluice.Duration(time.Hour) }))
	require.Nil(t, w.Status)
	stored := publishAll(t, s.api, celsius("/sensors/1", 40), celsius("/sensors/1", 3), celsius("/sensors/2", 41), celsius("/sensors/1", 42))
	var is *sluice.WatchStatus
	eventually(t, func() bool {
		got, err := s.api.Watch(t.Context(), "default", "hot")
		require.NoError(t, err)
		is = got.Status
		return is != nil && is.Fired == 2 && is.Missed == 1
	}, "it fired twice")
	require.Equal(t, []any{uint64(4), stored[2].Seq, "ok", 2, 2}, []any{is.Readings, is.FiredSeq, is.Outcome, is.Holds, is.Cooling})
	require.WithinDuration(t, time.Now(), is.FiredAt, time.Minute)
	require.WithinDuration(t, time.Now().Add(time.Hour), is.CoolsUntil, time.Minute)
	page, err := s.api.Watches(t.Context(), "default", "")
	require.NoError(t, err)
	require.Equal(t, uint64(2), page.Items[0].Status.Fired)

	for _, line := range []string{
		`sluice_watch_readings_total{namespace="default",watch="hot"} 4`,
		`sluice_watch_firings_total{namespace="default",outcome="ok",watch="hot"} 2`,
		`sluice_watch_lag_seconds{namespace="default",watch="hot"} 0`,
	} {
		eventually(t, func() bool { return strings.Contains(s.must(t, http.StatusOK, "GET /metrics", "").text, line) }, line)
	}

	again := watched(t, s.api, "hot", hot())
	got, err := s.api.Watch(t.Context(), "default", "hot")
	require.NoError(t, err)
	require.Zero(t, got.Status.Fired, "another one in its place has done nothing")
	require.Equal(t, again.FromSeq, got.Status.Place)
}

// What a watch would have done is what it does.
func TestWatch_DryRunMatchesItsEffects(t *testing.T) { // S2-42
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	level := hot(func(s *client.WatchSpec) { s.Trigger, s.Cooldown = sluice.TriggerLevel, sluice.Duration(time.Hour) })
	watched(t, s.api, "hot", level)
	stored := publishAll(t, s.api, celsius("/sensors/1", 40), celsius("/sensors/1", 41), celsius("/sensors/2", 3), celsius("/sensors/2", 50), celsius("/elsewhere", 90))
	alarms := eventsOn(t, s.api, "/alarms/hot", 2)
	is, err := s.api.TestWatch(t.Context(), "default", level, 0)
	require.NoError(t, err)
	require.Equal(t, []any{2, uint64(4), 4, map[string]uint64{"cooldown": 1}, false}, []any{is.Fires, is.Readings, is.Events, is.Missed, is.More})
	for i, of := range []int{0, 3} {
		f := is.Firings[i]
		require.Equal(t, []any{stored[of].Seq, stored[of].ID, "reading"}, []any{f.Seq, f.ID, f.Type})
		require.Equal(t, f.ID, alarms[i].Extensions[sluice.CausationID])
	}
	require.Len(t, eventsOn(t, s.api, "/alarms/hot", 2), 2, "nothing is published")
	is, err = s.api.TestWatch(t.Context(), "default", level, stored[2].Seq)
	require.NoError(t, err)
	require.Equal(t, []any{1, uint64(1)}, []any{is.Fires, is.Readings})
	is, err = s.api.TestWatch(t.Context(), "default", hot(func(s *client.WatchSpec) { s.For = sluice.Duration(time.Millisecond) }), 0)
	require.NoError(t, err)
	require.Equal(t, 2, is.Fires, "a duration is over by now")
	list := "[1" + strings.Repeat(",1", 120) + "]"
	for _, cel := range []string{"1 +", list + ".map(a, " + list + ".map(b, a + b)) == []"} { // none, and one that is too dear for what looks at everything
		dear := hot(func(s *client.WatchSpec) { s.Filter.CEL = cel })
		_, err = s.api.TestWatch(t.Context(), "default", dear, 0)
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err))
		_, err = s.api.PutWatch(t.Context(), "default", "dear", dear)
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err))
	}

	s.must(t, http.StatusOK, "PUT /v1/namespaces/default/acl/user:ann", `{"tier":"read","pattern":"/sensors/1"}`)
	ann := s.grant(t, "user:ann", "scope:default", "read")
	const at = "POST /v1/namespaces/default/watches/test"
	s.must(t, http.StatusForbidden, at, `{"pattern":"/sensors/**"}`, as(ann.token)...)
	got := s.must(t, http.StatusOK, at, `{"pattern":"/sensors/1","trigger":"level"}`, as(ann.token)...)
	require.InDelta(t, 2, got.field(t, "fires"), 0)
}
