package e2e_test

import (
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

const appointmentsRoute = "/v1/namespaces/default/appointments"

// lamp is an appointment that switches a lamp on.
func lamp(at time.Time) client.AppointmentSpec {
	return client.AppointmentSpec{At: at, Action: sluice.Action{Path: "/lamps/1", Type: "lamp.on", Data: []byte(`{"on":true}`)}}
}

// S2-37…S2-39: it is told that it approaches, then the event is there, then it is told that it fired.
func TestAppointment_IsAnnouncedAndFires(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	at := time.Now().Add(12 * time.Second).Truncate(time.Millisecond).UTC() // later than the responses, also on a busy machine
	spec := lamp(at)
	spec.Notice = sluice.Duration(10 * time.Second)
	a, err := s.api.PutAppointment(t.Context(), "default", "wake-up", spec, 0)
	require.NoError(t, err)
	require.Equal(t, []any{sluice.AppointmentWaiting, sluice.Root, sluice.MissCatchUp, at}, []any{a.State, a.CreatedBy, a.MissPolicy, a.At})
	again, err := s.api.PutAppointment(t.Context(), "default", "wake-up", spec, 0)
	require.NoError(t, err)
	require.Equal(t, a.CreatedAt, again.CreatedAt, "the same once more changes nothing")

	eventually(t, func() bool { return len(s.logOf(t, "/_sys/appointments/wake-up")) == 2 }, "it has fired and is told of")
	log := s.logOf(t, "/*/**")
	lamps := s.logOf(t, "/lamps/1")
	require.Len(t, lamps, 1)
	require.Empty(t, log[1:], "there is nothing else")
	require.Equal(t, []string{"lamp.on", `{"on":true}`, "root"}, []string{lamps[0].Type, string(lamps[0].Data), lamps[0].Extensions[sluice.AuthID]})
	told := s.logOf(t, "/_sys/appointments/wake-up")
	require.Equal(t, []string{sluice.TypeAppointmentApproaching, sluice.TypeAppointmentFired}, []string{told[0].Type, told[1].Type})
	require.Less(t, told[0].Seq, lamps[0].Seq)
	require.Less(t, lamps[0].Seq, told[1].Seq, "told after what it tells of (S2-05)")

	approaching, fired := s.systemEvents(t, sluice.TypeAppointmentApproaching)[0], s.systemEvents(t, sluice.TypeAppointmentFired)[0]
	require.Equal(t, []any{"root", "wake-up", float64(at.UnixMilli())}, []any{approaching["creator"], approaching["appointment_id"], approaching["scheduled_for_ms"]})
	require.Positive(t, approaching["fires_in_ms"])
	require.LessOrEqual(t, approaching["fires_in_ms"], 10000.0)
	require.Equal(t, []any{"root", "wake-up", "ok", lamps[0].ID}, []any{fired["creator"], fired["appointment_id"], fired["dispatch_outcome"], fired["event_id"]})
	require.GreaterOrEqual(t, fired["fired_at_ms"], float64(at.UnixMilli()))

	a, err = s.api.GetAppointment(t.Context(), "default", "wake-up")
	require.NoError(t, err)
	require.Equal(t, []any{sluice.AppointmentFired, "ok", lamps[0].Seq}, []any{a.State, a.Last.Outcome, a.Last.Seq})
	require.Nil(t, a.Work)
	require.NoError(t, s.api.CancelAppointment(t.Context(), "default", "wake-up"))
	require.Empty(t, s.systemEvents(t, sluice.TypeAppointmentCancelled), "it is over")
	metrics := s.must(t, http.StatusOK, "GET /metrics", "").text
	require.Contains(t, metrics, `sluice_due_total{namespace="default",outcome="fired",what="appointment"} 1`)
	require.Contains(t, metrics, `sluice_due_late_seconds_count{namespace="default",what="appointment"} 1`)
	s.must(t, http.StatusNotFound, "GET "+appointmentsRoute+"/wake-up", "")
}

// S2-41.
func TestAppointment_CancelledOneDoesNotFire(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	_, err := s.api.PutAppointment(t.Context(), "default", "a", lamp(time.Now().Add(10*time.Second)), 0) // later than the responses, also on a busy machine
	require.NoError(t, err)
	require.NoError(t, s.api.CancelAppointment(t.Context(), "default", "a"))
	_, err = s.api.PutAppointment(t.Context(), "default", "b", lamp(time.Now().Add(10500*time.Millisecond)), 0)
	require.NoError(t, err)
	eventually(t, func() bool { return len(s.systemEvents(t, sluice.TypeAppointmentFired)) > 0 }, "the other one fires")
	require.Equal(t, "b", s.systemEvents(t, sluice.TypeAppointmentFired)[0]["appointment_id"])
	require.Len(t, s.logOf(t, "/lamps/1"), 1)
	require.Equal(t, map[string]any{"creator": "root", "appointment_id": "a", "cancelled_by": "root"}, s.systemEvents(t, sluice.TypeAppointmentCancelled)[0])
	var actions []string
	for _, e := range s.entries(t, client.AuditQuery{Action: "appointment.*"}) {
		actions = append(actions, e.Action)
	}
	require.ElementsMatch(t, []string{sluice.ActionAppointmentCreate, sluice.ActionAppointmentDelete, sluice.ActionAppointmentCreate}, actions)
}

// Of a cancellation and the time that has come one is first.
func TestAppointment_LateCancellationIsExact(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	const many = 40
	at := time.Now().Add(2 * time.Second)
	for i := range many {
		spec := lamp(at)
		spec.Action.Path = sluice.Path("/lamps/" + strconv.Itoa(i))
		_, err := s.api.PutAppointment(t.Context(), "default", strconv.Itoa(i), spec, 0)
		require.NoError(t, err)
	}
	outcome := make([]sluice.Code, many)
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			<-time.After(time.Until(at.Add(-10 * time.Millisecond)))
			for i := w; i < many; i += 4 {
				outcome[i] = sluice.CodeOf(s.api.CancelAppointment(t.Context(), "default", strconv.Itoa(i)))
			}
		})
	}
	all.Wait()
	told := func(kind string) int { return len(s.systemEvents(t, kind)) }
	eventually(t, func() bool {
		return told(sluice.TypeAppointmentFired)+told(sluice.TypeAppointmentCancelled) == many
	}, "each is told of once")
	require.Len(t, s.logOf(t, "/lamps/*"), told(sluice.TypeAppointmentFired))
	for _, e := range s.systemEvents(t, sluice.TypeAppointmentCancelled) {
		require.Empty(t, s.logOf(t, fmt.Sprint("/lamps/", e["appointment_id"])))
	}
	for i, code := range outcome {
		require.Contains(t, []sluice.Code{"", sluice.Conflict}, code, i)
	}
	t.Logf("cancelled %d of %d", told(sluice.TypeAppointmentCancelled), many)
}

// S2-39, S2-40: after a restart the policy says what becomes of what was due meanwhile.
func TestAppointment_MissedDuringDowntimeFollowsItsPolicy(t *testing.T) {
	t.Parallel()
	var s *running
	var due time.Time
	beforehand(t, time.Second, func(_ int, at time.Time) { // another server each time: what is too late has fired
		s, due = start(t, t.TempDir(), nil), at
		spec := func(policy sluice.MissPolicy, grace time.Duration) client.AppointmentSpec {
			one := lamp(at)
			one.MissPolicy, one.Grace, one.Notice = policy, sluice.Duration(grace), sluice.Duration(time.Hour)
			one.Action.Path = sluice.Path("/lamps/" + string(policy) + strconv.Itoa(int(grace.Seconds())))
			return one
		}
		for id, one := range map[string]client.AppointmentSpec{
			"drop": spec(sluice.MissDrop, 0), "within": spec(sluice.MissCatchUpWithin, time.Hour), "grace": spec(sluice.MissCatchUpWithin, 11*time.Second), "always": spec(sluice.MissCatchUp, 0),
		} {
			if !time.Now().Before(at) {
				break // too late: the next round
			}
			_, err := s.api.PutAppointment(t.Context(), "default", id, one, 0)
			require.NoError(t, err)
		}
		s.stop(t)
	})
	eventually(t, func() bool { return time.Since(due) > 11500*time.Millisecond }, "it is later than what counts as in time, which is the subject")
	s = start(t, s.dir, nil)
	eventually(t, func() bool {
		return len(s.systemEvents(t, sluice.TypeAppointmentFired)) == 2 && len(s.systemEvents(t, sluice.TypeAppointmentMissed)) == 2
	}, "two have fired and two are missed")
	reasons := map[any]any{}
	for _, e := range s.systemEvents(t, sluice.TypeAppointmentMissed) {
		reasons[e["appointment_id"]] = e["reason"]
		require.NotEmpty(t, e["scheduled_for_ms"])
	}
	require.Equal(t, map[any]any{"drop": "miss_policy", "grace": "grace_exceeded"}, reasons)
	require.Len(t, s.logOf(t, "/lamps/*"), 2)
	a, err := s.api.GetAppointment(t.Context(), "default", "grace")
	require.NoError(t, err)
	require.Equal(t, sluice.AppointmentMissed, a.State)
}

// S2-39: a creator that may not publish any more has nothing done; the outcome says so. Others do not see its appointment.
func TestAppointment_FiresWithTheRightsOfTheMoment(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	ann, bob := s.grant(t, "user:ann", "path:default/lamps/**", "publish"), s.grant(t, "user:bob", "path:default/doors/**", "publish")
	eve := s.grant(t, "user:eve", "scope:default", "read")
	put := func(status int, id, path, in, token string) {
		s.must(t, status, "PUT "+appointmentsRoute+"/"+id, fmt.Sprintf(`{"at":%q,"action":{"path":%q,"type":"t"}}`, in, path), as(token)...)
	}
	hour := in(time.Hour)
	put(http.StatusForbidden, "x", "/doors/1", hour, ann.token)
	put(http.StatusForbidden, "x", "/lamps/1", hour, eve.token)
	put(http.StatusForbidden, "x", "/_sys/1", hour, s.token)
	put(http.StatusCreated, "hers", "/lamps/1", hour, ann.token)
	put(http.StatusNotFound, "hers", "/doors/1", hour, bob.token)
	for _, line := range []string{"GET ", "DELETE "} {
		s.must(t, http.StatusNotFound, line+appointmentsRoute+"/hers", "", as(bob.token)...)
		s.must(t, http.StatusForbidden, line+appointmentsRoute+"/hers", "", as(eve.token)...)
	}
	require.Empty(t, s.must(t, http.StatusOK, "GET "+appointmentsRoute, "", as(bob.token)...).field(t, "appointments"))
	require.Len(t, s.must(t, http.StatusOK, "GET "+appointmentsRoute, "", as(ann.token)...).field(t, "appointments"), 1)
	round := beforehand(t, time.Second, func(round int, at time.Time) {
		ann := s.grant(t, "user:ann", "path:default/lost/**", "publish")
		put(http.StatusCreated, fmt.Sprint("lost-", round), fmt.Sprint("/lost/", round), at.UTC().Format(time.RFC3339Nano), ann.token)
		s.must(t, http.StatusOK, "POST /v1/grants/"+ann.id+"/revoke", "")
	})
	var fired map[string]any
	eventually(t, func() bool {
		for _, e := range s.systemEvents(t, sluice.TypeAppointmentFired) {
			if e["appointment_id"] == fmt.Sprint("lost-", round) {
				fired = e
			}
		}
		return fired != nil
	}, "it is told of")
	require.Equal(t, []any{"user:ann", "forbidden"}, []any{fired["creator"], fired["dispatch_outcome"]})
	require.Empty(t, s.logOf(t, fmt.Sprint("/lost/", round)))
}

func TestAppointment_RefusesInvalidOnes(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), func(c *config.Config) {
		c.Limits.AppointmentsPerNamespace, c.Limits.ScheduleAhead = 2, sluice.Duration(2*time.Hour)
	})
	hour := in(time.Hour)
	for body, status := range map[string]int{
		`{"action":{"path":"/a","type":"t"}}`:                                                     http.StatusBadRequest,
		`{"at":"2020-01-01T00:00:00Z","action":{"path":"/a","type":"t"}}`:                         http.StatusBadRequest,
		`{"at":"` + in(3*time.Hour) + `","action":{"path":"/a","type":"t"}}`:                      http.StatusBadRequest,
		`{"at":"` + hour + `","action":{"path":"/a"}}`:                                            http.StatusBadRequest,
		`{"at":"` + hour + `"}`:                                                                   http.StatusBadRequest,
		`{"at":"` + hour + `","miss_policy":"perhaps","action":{"path":"/a","type":"t"}}`:         http.StatusBadRequest,
		`{"at":"` + hour + `","miss_policy":"catch_up_within","action":{"path":"/a","type":"t"}}`: http.StatusBadRequest,
		`{"at":"` + hour + `","grace":"1m","action":{"path":"/a","type":"t"}}`:                    http.StatusBadRequest,
		`{"at":"` + hour + `","notice":"-1s","action":{"path":"/a","type":"t"}}`:                  http.StatusBadRequest,
		`{"at":"` + hour + `","every":"1ms","action":{"path":"/a","type":"t"}}`:                   http.StatusBadRequest,
		`{"at":"` + hour + `","every":"1m","notice":"2m","action":{"path":"/a","type":"t"}}`:      http.StatusBadRequest,
		`{"at":"` + hour + `","action":{"path":"/a","type":"sys.x"}}`:                             http.StatusForbidden,
		`{"at":"` + hour + `","surprise":1,"action":{"path":"/a","type":"t"}}`:                    http.StatusBadRequest,
		`{"at":"` + hour + `","action":{"path":"/a","type":"t","extensions":{"Big":"x"}}}`:        http.StatusBadRequest,
	} {
		s.must(t, status, "PUT "+appointmentsRoute+"/a", body)
	}
	good := `{"at":"` + hour + `","action":{"path":"/a","type":"t"}}`
	s.must(t, http.StatusBadRequest, "PUT "+appointmentsRoute+"/a.b", good)
	s.must(t, http.StatusNotFound, "PUT /v1/namespaces/none/appointments/a", good)
	r := s.must(t, http.StatusCreated, "PUT "+appointmentsRoute+"/a", good)
	s.must(t, http.StatusOK, "PUT "+appointmentsRoute+"/a", good)
	s.must(t, http.StatusPreconditionFailed, "PUT "+appointmentsRoute+"/a", good, append(as(s.token), "If-Match", `"1000"`)...)
	gone := s.must(t, http.StatusPreconditionFailed, "PUT "+appointmentsRoute+"/gone", good, append(as(s.token), "If-Match", `"1"`)...)
	require.Contains(t, gone.text, "appointment gone not found")
	s.must(t, http.StatusOK, "PUT "+appointmentsRoute+"/a", `{"at":"`+hour+`","action":{"path":"/b","type":"t"}}`, append(as(s.token), "If-Match", r.header.Get("ETag"))...)
	s.must(t, http.StatusCreated, "PUT "+appointmentsRoute+"/b", good)
	r = s.must(t, http.StatusTooManyRequests, "PUT "+appointmentsRoute+"/c", good)
	require.NotEmpty(t, r.header.Get("Retry-After"))
	page, err := s.api.Appointments(t.Context(), "default", 1, "")
	require.NoError(t, err)
	require.Equal(t, "a", page.Items[0].ID)
	page, err = s.api.Appointments(t.Context(), "default", 1, page.Next)
	require.NoError(t, err)
	require.Equal(t, "b", page.Items[0].ID)
	require.Empty(t, page.Next)
}

// One that repeats fires at each of its times until it is cancelled.
func TestAppointment_Repeats(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	spec := lamp(time.Now().Add(time.Second))
	spec.Every = sluice.Duration(time.Second)
	_, err := s.api.PutAppointment(t.Context(), "default", "tick", spec, 0)
	require.NoError(t, err)
	eventually(t, func() bool { return len(s.logOf(t, "/lamps/1")) >= 3 }, "it fires again and again")
	again, err := s.api.PutAppointment(t.Context(), "default", "tick", spec, 0)
	require.NoError(t, err)
	require.NotNil(t, again.Last, "the same once more changes nothing")
	eventually(t, func() bool {
		err = s.api.CancelAppointment(t.Context(), "default", "tick")
		return sluice.CodeOf(err) != sluice.Conflict
	}, "it is not firing at this moment")
	require.NoError(t, err)
	ids := map[string]bool{}
	for _, ev := range s.logOf(t, "/lamps/1") {
		ids[ev.ID] = true
	}
	require.Len(t, ids, len(s.logOf(t, "/lamps/1")))
	require.Len(t, s.systemEvents(t, sluice.TypeAppointmentFired), len(ids))
}

// Two servers have each appointment fire once, and tell of it once; when one ends the other goes on.
func TestAppointment_TwoServersFireItOnce(t *testing.T) {
	t.Parallel()
	shared := natstest.NewWith(t, natsd.Options{User: "sluice", Password: "a password"})
	outside := func(c *config.Config) {
		c.NATS.URL, c.NATS.User, c.NATS.Password = shared.ClientURL(), "sluice", "a password"
	}
	one, two := start(t, t.TempDir(), outside), start(t, t.TempDir(), outside)
	const many = 40
	var path string
	round := beforehand(t, 2*time.Second, func(round int, begin time.Time) {
		path = fmt.Sprint("/lamps/", round)
		for i := 0; i < many && time.Now().Before(begin); i++ {
			at := begin.Add(9*time.Second + time.Duration(i)*50*time.Millisecond)
			if i >= many/2 {
				at = at.Add(9 * time.Second) // their notices are due when the first half fires
			}
			spec := lamp(at)
			spec.Notice, spec.Action.Path = sluice.Duration(10*time.Second), sluice.Path(path)
			api := []*client.Client{one.api, two.api}[i%2]
			_, err := api.PutAppointment(t.Context(), "default", fmt.Sprintf("%d-%d", round, i), spec, 0)
			require.NoError(t, err)
		}
	})
	told := func(kind string) (ids []string) { // of this round
		for _, e := range two.systemEvents(t, kind) {
			if id := fmt.Sprint(e["appointment_id"]); strings.HasPrefix(id, fmt.Sprint(round, "-")) {
				ids = append(ids, id)
			}
		}
		return ids
	}
	eventually(t, func() bool { return len(two.logOf(t, path)) >= many/3 }, "some have fired")
	one.stop(t)
	eventually(t, func() bool { return len(told(sluice.TypeAppointmentFired)) >= many }, "all have fired")
	require.Len(t, two.logOf(t, path), many)
	require.Len(t, told(sluice.TypeAppointmentFired), many)
	approached := told(sluice.TypeAppointmentApproaching)
	slices.Sort(approached)
	require.Equal(t, slices.Compact(slices.Clone(approached)), approached, "none is told twice")
	require.GreaterOrEqual(t, len(approached), many/2, "who ends takes no notice along but of what is due at that moment")
}

// A server that is killed again and again while things are due does each once: events, and appointments with what tells of them.
func TestSchedule_KilledServerDoesEachThingOnce(t *testing.T) {
	t.Parallel()
	c := &child{dir: t.TempDir(), http: "127.0.0.1:0", nats: "127.0.0.1:0"}
	c.start(t)
	t.Cleanup(func() { _ = c.proc.Process.Kill() }) // if the test ended early
	api := client.New("http://"+c.http, c.token(t))
	const many, kills = 120, 4
	begin := time.Now().Add(5 * time.Second)
	for i := range many {
		at := begin.Add(time.Duration(i) * 50 * time.Millisecond)
		_, err := api.Schedule(t.Context(), "default", sluice.Event{ID: strconv.Itoa(i), Path: sluice.Path("/e/" + strconv.Itoa(i%3))}, at)
		require.NoError(t, err)
		if i%4 == 0 {
			_, err := api.PutAppointment(t.Context(), "default", strconv.Itoa(i), lamp(at), 0)
			require.NoError(t, err)
		}
	}
	for k := range kills {
		<-time.After(time.Until(begin.Add(time.Duration(k) * 1300 * time.Millisecond)))
		c.kill(t)
		c.start(t)
	}
	s := &running{api: api, dir: c.dir, token: c.token(t)}
	eventually(t, func() bool {
		return len(s.scheduled(t, api)) == 0 && len(s.systemEvents(t, sluice.TypeAppointmentFired)) >= many/4
	}, "all is done")
	count := map[string]int{}
	for _, ev := range append(s.logOf(t, "/e/*"), s.logOf(t, "/lamps/1")...) {
		count[ev.ID]++
		require.Equal(t, 1, count[ev.ID], ev.ID)
	}
	require.Len(t, count, many+many/4)
	fired := map[any]bool{}
	for _, e := range s.systemEvents(t, sluice.TypeAppointmentFired) {
		require.False(t, fired[e["appointment_id"]], e)
		fired[e["appointment_id"]] = true
		require.Equal(t, "ok", e["dispatch_outcome"])
	}
	c.kill(t)
}

// Who may publish elsewhere in the namespace, and sees what fires, keeps neither the action from being done, nor what tells of it from being told.
func TestAppointment_TakenIDsDoNotBlockIt(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	spec := lamp(time.Now().Add(time.Second))
	spec.Every = sluice.Duration(3 * time.Second)
	_, err := s.api.PutAppointment(t.Context(), "default", "a", spec, 0)
	require.NoError(t, err)
	var told []sluice.Event
	eventually(t, func() bool { told = s.logOf(t, "/_sys/appointments/a"); return len(told) > 0 }, "it fires")
	before, at, ok := cutLast(told[0].ID)
	require.True(t, ok)
	for i := range 20 { // whichever is next; the very next one may fire now
		id := fmt.Sprintf("%s-%d", before, at+3000*int64(i+2))
		for _, id := range []string{id, strings.Replace(id, sluice.TypeAppointmentFired, "appointment", 1)} {
			s.must(t, http.StatusCreated, "POST /v1/namespaces/default/events", fmt.Sprintf(`{"path":"/elsewhere","type":"t","id":%q}`, id))
		}
	}
	fired := func() []map[string]any { return s.systemEvents(t, sluice.TypeAppointmentFired) }
	eventually(t, func() bool { return len(fired()) > 3 }, "it is told of all the same")
	for _, one := range fired() {
		require.Equal(t, "ok", one["dispatch_outcome"])
	}
}

// cutLast cuts a number off the end of an id.
func cutLast(id string) (before string, number int64, ok bool) {
	at := strings.LastIndexByte(id, '-')
	number, err := strconv.ParseInt(id[at+1:], 10, 64)
	return id[:max(at, 0)], number, err == nil
}
