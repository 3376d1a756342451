package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/natsd"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const scheduledRoute = "/v1/namespaces/default/scheduled"

// logOf returns the events of a pattern in the order of the log.
func (s *running) logOf(t *testing.T, pattern string) (all []sluice.Event) {
	t.Helper()
	q := client.EventsQuery{Pattern: sluice.Pattern(pattern), Limit: 1000}
	for {
		page, err := s.api.Events(t.Context(), "default", q)
		require.NoError(t, err)
		all = append(all, page.Items...)
		if q.Cursor = page.Next; q.Cursor == "" {
			return all
		}
	}
}

// systemEvents returns the data of the system events of a type.
func (s *running) systemEvents(t *testing.T, kind string) (all []map[string]any) {
	t.Helper()
	for _, ev := range s.logOf(t, "/_sys/**") {
		if ev.Type == kind {
			var data map[string]any
			require.NoError(t, json.Unmarshal(ev.Data, &data))
			all = append(all, data)
		}
	}
	return all
}

func in(d time.Duration) string { return time.Now().Add(d).UTC().Format(time.RFC3339Nano) }

// An event that says when is answered with 202, is not in the log before, and is at its time, as it was sent.
func TestDelayed_EventIsStoredAtItsTime(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	const publish = "POST /v1/namespaces/default/events"
	headers := append(as(s.token), "Content-Type", "application/cloudevents+json")
	body := func(id, at string) string {
		return fmt.Sprintf(`{"specversion":"1.0","id":%q,"source":"/s","type":"order.due","path":"/orders/1","deliverat":%q,"color":"red","data":{"a" : "<b>"}}`, id, at)
	}
	first := func(r reply) any { return r.field(t, "events").([]any)[0] }

	late := time.Now().Add(time.Hour).UTC()
	says := late.Format(time.RFC3339Nano)
	require.Equal(t, map[string]any{"id": "one/é 1", "path": "/orders/1", "deliver_at": says, "duplicate": false}, first(s.must(t, http.StatusAccepted, publish, body("one/é 1", says), headers...)))
	require.Equal(t, map[string]any{"id": "one/é 1", "path": "/orders/1", "deliver_at": says, "duplicate": true}, first(s.must(t, http.StatusAccepted, publish, body("one/é 1", in(2*time.Hour)), headers...)), "the first counts")
	s.must(t, http.StatusConflict, publish, strings.Replace(body("one/é 1", says), "/orders/1", "/orders/2", 1), headers...)
	one, err := s.api.GetScheduled(t.Context(), "default", "one/é 1")
	require.NoError(t, err)
	require.Equal(t, []any{"waiting", sluice.Root, "order.due", late}, []any{one.State, one.CreatedBy, one.Type, one.DeliverAt})
	require.JSONEq(t, `{"a":"<b>"}`, string(one.Event.Data))

	at := time.Now().Add(10 * time.Second).UTC() // later than the response, also on a busy machine
	s.must(t, http.StatusAccepted, publish, body("two/é 2", at.Format(time.RFC3339Nano)), headers...)
	eventually(t, func() bool { return len(s.logOf(t, "/orders/**")) == 1 }, "it is stored")
	ev := s.logOf(t, "/orders/**")[0]
	require.Equal(t, `{"a" : "<b>"}`, string(ev.Data), "byte for byte") //nolint:testifylint // and not as JSON
	require.Equal(t, []string{"two/é 2", "order.due", "/s", "red", "root"}, []string{ev.ID, ev.Type, ev.Source, ev.Extensions["color"], ev.Extensions[sluice.AuthID]})
	stored, err := time.Parse(time.RFC3339Nano, ev.Extensions[sluice.AttributeDeliverAt])
	require.NoError(t, err)
	require.False(t, ev.Time.Before(at), "not before its time")
	require.True(t, stored.Equal(at))
	eventually(t, func() bool {
		_, err := s.api.GetScheduled(t.Context(), "default", "two/é 2")
		return sluice.CodeOf(err) == sluice.NotFound
	}, "it is not waiting any more")

	r := s.must(t, http.StatusCreated, publish, body("two/é 2", in(time.Hour)), headers...)
	require.Equal(t, true, first(r).(map[string]any)["duplicate"], "the log has its id")
	require.Equal(t, []string{"one/é 1"}, s.scheduled(t, s.api))
}

// A list goes on from page to page, the next first, without what was cancelled or is not for the caller.
func TestDelayed_ListIsPaged(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	ann := s.grant(t, "user:ann", "path:default/even/**", "publish")
	const events = 60
	at := time.Now().Add(time.Hour)
	for i := range events {
		path := sluice.Path([]string{"/even/1", "/odd/1"}[i%2])
		_, err := s.api.Schedule(t.Context(), "default", sluice.Event{ID: fmt.Sprintf("%02d", i), Path: path}, at.Add(-time.Duration(i/3)*time.Second))
		require.NoError(t, err)
	}
	require.NoError(t, s.api.CancelScheduled(t.Context(), "default", "07"))
	var all, even []string
	for i := range events { // three at a time, of which the last are the first
		id := (events/3-1-i/3)*3 + i%3
		all = append(all, fmt.Sprintf("%02d", id))
	}
	all = slices.DeleteFunc(all, func(id string) bool { return id == "07" })
	for _, id := range all {
		if strings.Contains("02468", id[1:]) {
			even = append(even, id)
		}
	}
	for token, want := range map[string][]string{s.token: all, ann.token: even} {
		require.Equal(t, want, s.scheduledPages(t, token))
	}
	s.must(t, http.StatusBadRequest, "GET "+scheduledRoute+"?cursor=eA", "")
}

// scheduledPages returns the ids that a token's pages have.
func (s *running) scheduledPages(t *testing.T, token string) (ids []string) {
	t.Helper()
	for cursor := ""; ; {
		page := s.must(t, http.StatusOK, "GET "+scheduledRoute+"?limit=7&cursor="+cursor, "", as(token)...)
		for _, one := range page.field(t, "scheduled").([]any) {
			ids = append(ids, one.(map[string]any)["id"].(string))
		}
		if cursor = page.field(t, "next_cursor").(string); cursor == "" {
			return ids
		}
	}
}

func (s *running) scheduled(t *testing.T, api *client.Client) (ids []string) {
	t.Helper()
	page, err := api.Scheduled(t.Context(), "default", client.ScheduledQuery{})
	require.NoError(t, err)
	for _, one := range page.Items {
		ids = append(ids, one.ID)
	}
	return ids
}

func TestDelayed_InvalidTimesAreRefusedOrImmediate(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), func(c *config.Config) {
		c.Limits.ScheduledPerNamespace, c.Limits.ScheduleAhead = 2, sluice.Duration(2*time.Hour)
	})
	const events = "POST /v1/namespaces/default/events"
	s.must(t, http.StatusCreated, events, `{"path":"/a","deliver_at":"2020-01-01T00:00:00Z"}`)
	s.must(t, http.StatusCreated, events, `{"path":"/a","deliver_at":null}`)
	s.must(t, http.StatusBadRequest, events, `{"path":"/a","deliver_at":"tomorrow"}`)
	s.must(t, http.StatusBadRequest, events, `{"path":"/a","deliver_at":""}`) // of a template without a value
	r := s.must(t, http.StatusBadRequest, events, `{"path":"/a","deliver_at":"`+in(3*time.Hour)+`"}`)
	require.Contains(t, r.text, "use at most 2h0m0s")
	r = s.must(t, http.StatusBadRequest, events, `[{"path":"/a"},{"path":"/a","deliver_at":"`+in(time.Hour)+`"}]`)
	require.Contains(t, r.text, "[1]")
	s.must(t, http.StatusCreated, events, `[{"path":"/a"},{"path":"/a","deliver_at":"2020-01-01T00:00:00Z"}]`)
	s.must(t, http.StatusForbidden, events, `{"path":"/_sys/a","deliver_at":"`+in(time.Hour)+`"}`)
	s.must(t, http.StatusNotFound, "POST /v1/namespaces/none/events", `{"path":"/a","deliver_at":"`+in(time.Hour)+`"}`)
	s.must(t, http.StatusNotFound, "GET /v1/namespaces/none/scheduled", "")

	held := func(status int, id, path string) reply {
		return s.must(t, status, events, `{"id":"`+id+`","path":"`+path+`","deliver_at":"`+in(time.Hour)+`"}`)
	}
	held(http.StatusAccepted, "1", "/a/1")
	held(http.StatusAccepted, "2", "/b/2")
	r = held(http.StatusTooManyRequests, "3", "/a/3")
	require.Equal(t, "quota_exceeded", r.field(t, "error.code"))
	require.NotEmpty(t, r.header.Get("Retry-After"))

	page, err := s.api.Scheduled(t.Context(), "default", client.ScheduledQuery{Limit: 1})
	require.NoError(t, err)
	require.Equal(t, "1", page.Items[0].ID)
	page, err = s.api.Scheduled(t.Context(), "default", client.ScheduledQuery{Limit: 1, Cursor: page.Next})
	require.NoError(t, err)
	require.Equal(t, "2", page.Items[0].ID)
	require.Empty(t, page.Next)
	page, err = s.api.Scheduled(t.Context(), "default", client.ScheduledQuery{Pattern: "/b/*"})
	require.NoError(t, err)
	require.Len(t, page.Items, 1)

	s.must(t, http.StatusNoContent, "DELETE "+scheduledRoute+"/1", "")
	s.must(t, http.StatusNotFound, "DELETE "+scheduledRoute+"/1", "")
	s.must(t, http.StatusNotFound, "GET "+scheduledRoute+"/1", "")
	eventually(t, func() bool {
		return s.call(t, events, `{"id":"3","path":"/a/3","deliver_at":"`+in(time.Hour)+`"}`).status == http.StatusAccepted
	}, "there is room again")
	cancelled := s.systemEvents(t, sluice.TypeScheduledCancelled)
	require.Len(t, cancelled, 1)
	require.Equal(t, []any{"1", "/a/1", "root", "root"}, []any{cancelled[0]["id"], cancelled[0]["path"], cancelled[0]["creator"], cancelled[0]["cancelled_by"]})
	entries := s.entries(t, client.AuditQuery{Action: sluice.ActionScheduledCancel})
	require.Len(t, entries, 1)
	require.Equal(t, "1", entries[0].Resource)
	metrics := s.must(t, http.StatusOK, "GET /metrics", "").text
	require.Contains(t, metrics, `sluice_due_pending{namespace="default",what="event"} 2`)
	require.Contains(t, metrics, `sluice_due_total{namespace="default",outcome="cancelled",what="event"} 1`)
}

// Of a cancellation and the time that has come one is first: what was cancelled is never stored, and nothing else is lost.
func TestDelayed_LateCancellationIsExact(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	const events = 120
	at := time.Now().Add(2 * time.Second)
	for i := range events {
		_, err := s.api.Schedule(t.Context(), "default", sluice.Event{ID: strconv.Itoa(i), Path: "/x/" + sluice.Path(strconv.Itoa(i%7))}, at)
		require.NoError(t, err)
	}
	outcome := make([]sluice.Code, events)
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			<-time.After(time.Until(at.Add(-20 * time.Millisecond)))
			for i := w; i < events; i += 4 {
				outcome[i] = sluice.CodeOf(s.api.CancelScheduled(t.Context(), "default", strconv.Itoa(i)))
			}
		})
	}
	all.Wait()
	cancelled := 0
	for _, code := range outcome {
		require.Contains(t, []sluice.Code{"", sluice.Conflict, sluice.NotFound}, code)
		if code == "" {
			cancelled++
		}
	}
	t.Logf("cancelled %d of %d", cancelled, events)
	eventually(t, func() bool { return len(s.scheduled(t, s.api)) == 0 }, "nothing waits")
	stored := map[string]int{}
	for _, ev := range s.logOf(t, "/x/*") {
		stored[ev.ID]++
	}
	for i, code := range outcome {
		want := 1
		if code == "" {
			want = 0
		}
		require.Equal(t, want, stored[strconv.Itoa(i)], "event %d, whose cancellation was %q", i, code)
	}
	require.Len(t, s.systemEvents(t, sluice.TypeScheduledCancelled), cancelled)
}

// The rights that count are those of both moments, and others do not see the delayed events.
func TestDelayed_NeedsTheRightAtBothMoments(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	writer := s.grant(t, "user:ann", "path:default/a/**", "publish")
	other := s.grant(t, "user:bob", "path:default/b/**", "publish")
	reader := s.grant(t, "user:eve", "scope:default", "read")
	const events = "POST /v1/namespaces/default/events"
	s.must(t, http.StatusForbidden, events, `{"path":"/b/1","deliver_at":"`+in(time.Hour)+`"}`, as(writer.token)...)
	s.must(t, http.StatusForbidden, events, `{"path":"/a/1","deliver_at":"`+in(time.Hour)+`"}`, as(reader.token)...)
	s.must(t, http.StatusAccepted, events, `{"id":"hers","type":"t","path":"/a/1","deliver_at":"`+in(time.Hour)+`"}`, as(writer.token)...)
	s.must(t, http.StatusAccepted, events, `{"id":"his","type":"t","path":"/b/1","deliver_at":"`+in(time.Hour)+`"}`, as(other.token)...)
	s.must(t, http.StatusOK, "GET "+scheduledRoute+"/hers", "", as(writer.token)...)
	for _, line := range []string{"GET " + scheduledRoute + "/hers", "DELETE " + scheduledRoute + "/hers"} {
		s.must(t, http.StatusForbidden, line, "", as(reader.token)...)
		r := s.call(t, line, "", as(other.token)...)
		require.Equal(t, http.StatusNotFound, r.status, r.text)
	}
	r := s.must(t, http.StatusOK, "GET "+scheduledRoute, "", as(other.token)...)
	require.Len(t, r.field(t, "scheduled"), 1)
	require.NotContains(t, r.text, "/a/1")

	round := beforehand(t, time.Second, func(round int, at time.Time) {
		writer, other := s.grant(t, "user:ann", "path:default/lost/**", "publish"), s.grant(t, "user:bob", "path:default/kept/**", "publish")
		due := at.UTC().Format(time.RFC3339Nano)
		for of, g := range map[string]granted{"lost": writer, "kept": other} {
			r := s.call(t, events, fmt.Sprintf(`{"id":"%s-%d","type":"t","path":"/%s/%d","deliver_at":%q}`, of, round, of, round, due), as(g.token)...)
			require.Contains(t, []int{http.StatusAccepted, http.StatusCreated}, r.status, r.text) // 201: it was due when it came
		}
		s.must(t, http.StatusOK, "POST /v1/grants/"+writer.id+"/revoke", "")
	})
	lost, kept := fmt.Sprint("/lost/", round), fmt.Sprint("/kept/", round)
	failed := map[any]map[string]any{}
	eventually(t, func() bool {
		for _, e := range s.systemEvents(t, sluice.TypeScheduledFailed) {
			failed[e["path"]] = e
		}
		return failed[lost] != nil && len(s.logOf(t, kept)) == 1
	}, "one is told of, the other stored")
	require.Equal(t, []any{fmt.Sprint("lost-", round), "user:ann", "forbidden"}, []any{failed[lost]["id"], failed[lost]["creator"], failed[lost]["outcome"]})
	require.Nil(t, failed[kept])
	require.Empty(t, s.logOf(t, lost))
	require.Equal(t, "user:bob", s.logOf(t, kept)[0].Extensions[sluice.AuthID])
	eventually(t, func() bool { return len(s.scheduled(t, s.api)) == 2 }, "nothing that was due waits")
}

// A label of the event that the caller is not cleared for hides it, also from publishers of its path.
func TestDelayed_LabelledEventIsHidden(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	writer := s.grant(t, "user:ann", "scope:default", "publish")
	s.must(t, http.StatusAccepted, "POST /v1/namespaces/default/events", fmt.Sprintf(
		`{"specversion":"1.0","id":"s","source":"/s","type":"t","path":"/a","dataclassification":"SECRET","deliverat":%q}`, in(time.Hour)), append(as(s.token), "Content-Type", "application/cloudevents+json")...)
	require.Empty(t, s.must(t, http.StatusOK, "GET "+scheduledRoute, "", as(writer.token)...).field(t, "scheduled"))
	s.must(t, http.StatusNotFound, "GET "+scheduledRoute+"/s", "", as(writer.token)...)
	s.must(t, http.StatusNotFound, "DELETE "+scheduledRoute+"/s", "", as(writer.token)...)
	require.Len(t, s.must(t, http.StatusOK, "GET "+scheduledRoute, "").field(t, "scheduled"), 1)
}

// What was due while no server ran is stored when one does, and what is due later at its time.
func TestDelayed_TimesSurviveARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir, nil)
	begin := time.Now()
	for i, d := range []time.Duration{time.Hour, 10 * time.Second, 9900 * time.Millisecond, 15 * time.Second} {
		_, err := s.api.Schedule(t.Context(), "default", sluice.Event{ID: strconv.Itoa(i), Path: "/a"}, begin.Add(d))
		require.NoError(t, err)
	}
	s.stop(t)
	eventually(t, func() bool { return time.Since(begin) > 10*time.Second }, "two are due")
	s = start(t, dir, nil)
	eventually(t, func() bool { return len(s.logOf(t, "/a")) == 3 }, "three are stored")
	var ids []string
	for _, ev := range s.logOf(t, "/a") {
		ids = append(ids, ev.ID)
	}
	require.Equal(t, []string{"2", "1", "3"}, ids, "in the order of their times")
	require.Equal(t, []string{"0"}, s.scheduled(t, s.api))
}

// What was due while no server ran is stored in the order of its times, however many there are, and whichever was sent first.
func TestDelayed_MissedDuringDowntimeAreStoredInOrder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const events = 60
	var due time.Time
	round := beforehand(t, 7*time.Second, func(round int, at time.Time) {
		s := start(t, dir, nil)
		due = at
		for i := range events {
			event := sluice.Event{ID: fmt.Sprintf("%d-%d", round, i), Path: sluice.Path(fmt.Sprintf("/%d", round))}
			if time.Now().After(at) {
				break // too late: the next round
			}
			_, err := s.api.Schedule(t.Context(), "default", event, at.Add(-time.Duration(i)*time.Millisecond))
			require.NoError(t, err)
		}
		s.stop(t)
	})
	path := fmt.Sprintf("/%d", round)
	eventually(t, func() bool { return time.Now().After(due.Add(3 * time.Second)) }, "all are due for longer than it takes until it does not matter whose turn it is")
	s := start(t, dir, nil)
	eventually(t, func() bool { return len(s.logOf(t, path)) == events }, "all are stored")
	for i, ev := range s.logOf(t, path) {
		require.Equal(t, fmt.Sprintf("%d-%d", round, events-1-i), ev.ID)
	}
}

// beforehand prepares something for a time that has yet to come. If the machine is too slow for that, it prepares the next
// round, for a time that is twice as far away. It returns the round that was prepared in time.
func beforehand(t *testing.T, ahead time.Duration, prepare func(round int, at time.Time)) (round int) {
	t.Helper()
	for ; ahead < 4*patience; ahead, round = 2*ahead, round+1 {
		at := time.Now().Add(ahead)
		if prepare(round, at); time.Now().Before(at) {
			return round
		}
	}
	require.FailNow(t, "the machine is too slow")
	return round
}

// Two servers store each event once, those of a path in their order, and when one dies the other goes on.
func TestDelayed_TwoServersStoreEachOnce(t *testing.T) {
	t.Parallel()
	shared := natstest.NewWith(t, natsd.Options{User: "sluice", Password: "a password"})
	outside := func(c *config.Config) {
		c.NATS.URL, c.NATS.User, c.NATS.Password = shared.ClientURL(), "sluice", "a password"
	}
	one, two := start(t, t.TempDir(), outside), start(t, t.TempDir(), outside)
	const events, paths = 200, 8
	path := func(round, i int) sluice.Path { return sluice.Path(fmt.Sprintf("/p%d/%d", round, i%paths)) }
	round := beforehand(t, 3*time.Second, func(round int, begin time.Time) { // an event that is due when it comes overtakes those that wait
		for i := 0; i < events && time.Now().Before(begin); i++ {
			api := []*client.Client{one.api, two.api}[i%2]
			at := begin.Add(time.Duration(i/paths) * 40 * time.Millisecond)
			_, err := api.Schedule(t.Context(), "default", sluice.Event{ID: fmt.Sprintf("%d-%d", round, i), Path: path(round, i)}, at)
			require.NoError(t, err)
		}
	})
	all := fmt.Sprintf("/p%d/*", round)
	eventually(t, func() bool { return len(two.logOf(t, all)) >= events/2 }, "half of them are stored")
	one.stop(t)
	eventually(t, func() bool { return len(two.logOf(t, all)) >= events && len(two.scheduled(t, two.api)) == 0 }, "all of them are stored")
	next := map[sluice.Path]int{}
	for _, ev := range two.logOf(t, all) {
		_, number, _ := strings.Cut(ev.ID, "-")
		n, err := strconv.Atoi(number)
		require.NoError(t, err)
		require.Equal(t, path(round, n), ev.Path)
		require.Equal(t, next[ev.Path], n/paths, "the next on %s", ev.Path)
		next[ev.Path]++
	}
	require.Len(t, next, paths)
	for path, n := range next {
		require.Equal(t, events/paths, n, path)
	}
}

// A namespace that is deleted takes along what waits; the next of its name has none of it.
func TestDelayed_EventsEndWithTheirNamespace(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	s.must(t, http.StatusCreated, "PUT /v1/namespaces/acme", `{}`)
	_, err := s.api.Schedule(t.Context(), "acme", sluice.Event{ID: "1", Path: "/a"}, time.Now().Add(time.Hour))
	require.NoError(t, err)
	s.must(t, http.StatusNoContent, "DELETE /v1/namespaces/acme", "")
	s.must(t, http.StatusNotFound, "GET /v1/namespaces/acme/scheduled", "")
	s.must(t, http.StatusCreated, "PUT /v1/namespaces/acme", `{}`)
	page, err := s.api.Scheduled(t.Context(), "acme", client.ScheduledQuery{})
	require.NoError(t, err)
	require.Empty(t, page.Items)
}

// How late is measured and said, not asserted: the machine is shared.
func TestDelayed_LatenessIsMeasured(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	const events = 60
	begin := time.Now().Add(2 * time.Second)
	for i := range events {
		_, err := s.api.Schedule(t.Context(), "default", sluice.Event{Path: sluice.Path("/l/" + strconv.Itoa(i%20))}, begin.Add(time.Duration(i)*10*time.Millisecond))
		require.NoError(t, err)
	}
	eventually(t, func() bool { return len(s.logOf(t, "/l/*")) == events }, "all are stored")
	var late []time.Duration
	for _, ev := range s.logOf(t, "/l/*") {
		at, told, err := ev.TellsDeliverAt()
		require.NoError(t, err)
		require.True(t, told)
		late = append(late, ev.Time.Sub(at)) // of one without a time it is when it was stored
	}
	slices.Sort(late)
	require.GreaterOrEqual(t, late[0], time.Duration(0), "none before its time")
	t.Logf("late: p50 %s, p90 %s, p99 %s, max %s", late[events/2], late[events*9/10], late[events*99/100], late[events-1])
}
