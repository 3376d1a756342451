package e2e_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// An id that waits is taken on its path: who wants the event at once cancels the one that waits. What comes past that, by NATS, has its id
// in the log first, and the one that waited is told of as not stored.
func TestDelayed_WaitingIDIsTaken(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	const events = "POST /v1/namespaces/default/events"
	at := time.Now().Add(20 * time.Second).UTC().Format(time.RFC3339Nano)
	for _, id := range []string{"now", "past", "other"} {
		s.must(t, http.StatusAccepted, events, `{"id":"`+id+`","type":"t","path":"/a","deliver_at":"`+at+`"}`)
	}
	r := s.must(t, http.StatusConflict, events, `[{"path":"/a"},{"id":"now","path":"/a"}]`)
	require.Contains(t, r.text, "[1]")
	require.Equal(t, at, r.field(t, "error.details.deliver_at"))
	s.must(t, http.StatusCreated, events, `{"id":"other","path":"/b"}`) // a publisher on /a does not keep it out
	require.NoError(t, s.api.CancelScheduled(t.Context(), "default", "now"))
	s.must(t, http.StatusCreated, events, `{"id":"now","type":"at.once","path":"/a"}`)
	_, err := dial(t, s.at.NATS).PublishMsg(t.Context(), &nats.Msg{Subject: jsNames(t).EventsPrefix() + "default.a", Header: nats.Header{"Nats-Msg-Id": {"past"}, "ce-type": {"at.once"}}, Data: []byte(`{}`)})
	require.NoError(t, err)

	eventually(t, func() bool { return len(s.systemEvents(t, sluice.TypeScheduledFailed)) == 2 }, "both are told of")
	for _, failed := range s.systemEvents(t, sluice.TypeScheduledFailed) {
		require.Equal(t, "conflict", failed["outcome"], failed)
		require.Contains(t, []any{"past", "other"}, failed["id"])
	}
	for _, ev := range s.logOf(t, "/a") {
		require.Equal(t, "at.once", ev.Type)
	}
	eventually(t, func() bool { return len(s.scheduled(t, s.api)) == 0 }, "nothing waits")
}

// An event by NATS is stored at once, with any delivery time in it, and shows that time.
func TestDelayed_EventByNATSIsStoredAtOnce(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	at := in(time.Hour)
	_, err := dial(t, s.at.NATS).PublishMsg(t.Context(), &nats.Msg{Subject: jsNames(t).EventsPrefix() + "default.a", Header: nats.Header{"Nats-Msg-Id": {"1"}, "ce-type": {"t"}, "ce-deliverat": {at}}, Data: []byte(`{}`)})
	require.NoError(t, err)
	log := s.logOf(t, "/a")
	require.Len(t, log, 1)
	require.Equal(t, at, log[0].Extensions[sluice.AttributeDeliverAt])
	require.Contains(t, s.must(t, http.StatusOK, "GET /v1/namespaces/default/events/1", "").text, `"deliverat":"`+at+`"`)
	require.Empty(t, s.scheduled(t, s.api))
}

// Who sends once more what he scheduled, after its time, is told that it is there.
func TestDelayed_RepeatAfterItsTimeIsADuplicate(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	at := time.Now().Add(10 * time.Second) // longer than the request takes on a busy machine
	held, err := s.api.Schedule(t.Context(), "default", sluice.Event{ID: "1", Path: "/a"}, at)
	require.NoError(t, err)
	require.Zero(t, held.Seq)
	eventually(t, func() bool { return time.Now().After(at) }, "it is due")
	held, err = s.api.Schedule(t.Context(), "default", sluice.Event{ID: "1", Path: "/a"}, at)
	require.NoError(t, err)
	require.NotZero(t, held.Seq)
	eventually(t, func() bool { return len(s.scheduled(t, s.api)) == 0 }, "nothing waits")
	require.Len(t, s.logOf(t, "/a"), 1)
	require.Empty(t, s.systemEvents(t, sluice.TypeScheduledFailed))
}

// An operator deletes the buckets of timed instructions under a running server: what waited is lost, and what comes is kept and done.
func TestSchedule_OutlivesItsDeletedBuckets(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	_, err := s.api.Schedule(t.Context(), "default", sluice.Event{ID: "lost", Path: "/a"}, time.Now().Add(time.Hour))
	require.NoError(t, err)
	js := dial(t, s.at.NATS)
	for _, bucket := range []string{streams.Scheduled, streams.Instructions} {
		require.NoError(t, js.DeleteStream(t.Context(), jsNames(t).BucketStream(bucket)))
	}
	eventually(t, func() bool {
		_, err := s.api.Schedule(t.Context(), "default", sluice.Event{ID: "next", Path: "/a"}, time.Now().Add(time.Second))
		return err == nil
	}, "there is a bucket again")
	eventually(t, func() bool {
		_, err := s.api.PutAppointment(t.Context(), "default", "next", lamp(time.Now().Add(time.Second)), 0)
		return err == nil
	}, "and another one")
	eventually(t, func() bool { return len(s.logOf(t, "/a"))+len(s.logOf(t, "/lamps/*")) == 2 }, "what came since is done")
	eventually(t, func() bool { return len(s.scheduled(t, s.api)) == 0 }, "nothing waits")
}

// Neither the pages of a list nor the refusal of an id say when hidden events are due, or that there are any.
func TestDelayed_HiddenEventsShowInNoAnswer(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	s.must(t, http.StatusCreated, "PUT /v1/namespaces/empty", "")
	const events, list = "POST /v1/namespaces/default/events", "GET " + scheduledRoute + "?limit=1"
	binary := []string{"Content-Type", "application/cloudevents+json"}
	for i := range 12 {
		s.must(t, http.StatusAccepted, events, fmt.Sprintf(
			`{"specversion":"1.0","id":"s%d","source":"/s","type":"t","path":"/a","dataclassification":"SECRET","deliverat":%q}`, i, in(time.Hour)), append(as(s.token), binary...)...)
	}
	ann, eve := s.grant(t, "user:ann", "scope:default", "publish"), s.grant(t, "user:ann", "scope:empty", "publish")
	nothing := s.must(t, http.StatusOK, "GET /v1/namespaces/empty/scheduled?limit=1", "", as(eve.token)...)
	require.JSONEq(t, nothing.text, s.must(t, http.StatusOK, list, "", as(ann.token)...).text)

	refused := s.must(t, http.StatusConflict, events, `{"id":"s0","path":"/a"}`, as(ann.token)...)
	other := &sluice.Event{ID: "s0"}
	require.Equal(t, other.OtherEvent().Error(), refused.field(t, "error.message"))
	require.NotContains(t, refused.text, "deliver_at")
	told := s.must(t, http.StatusConflict, events, `{"id":"s0","path":"/a"}`)
	require.NotEmpty(t, told.field(t, "error.details.deliver_at"))

	last := fmt.Sprintf(`{"specversion":"1.0","id":"open","source":"/s","type":"t","path":"/a","deliverat":%q}`, in(2*time.Hour))
	s.must(t, http.StatusAccepted, events, last, append(as(s.token), binary...)...)
	page := s.must(t, http.StatusOK, list, "", as(ann.token)...)
	require.Len(t, page.field(t, "scheduled"), 1, "what is hidden takes no place before it")
	require.Empty(t, page.field(t, "next_cursor"))
}
