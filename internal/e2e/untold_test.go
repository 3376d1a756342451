package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/natsd"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/internal/testkit/storetest"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// system returns what was told on a path: types, and what a member of the data says.
func (s *running) system(t *testing.T, path sluice.Pattern, member string) (told []string) {
	t.Helper()
	page, err := s.api.Events(t.Context(), sluice.DefaultNamespace, client.EventsQuery{Pattern: path, Limit: 1000})
	require.NoError(t, err)
	for _, ev := range page.Items {
		var data map[string]any
		require.NoError(t, json.Unmarshal(ev.Data, &data))
		told = append(told, fmt.Sprint(ev.Type, " ", data[member]))
	}
	return told
}

// C32, S2-05, S2-99, S2-132: what a server that died had changed and not told is told by the next one: changes in their order,
// an end, and a dead letter. What it had told and not noted is not told again.
func TestOutbox_NextServerAnnouncesForADeadOne(t *testing.T) {
	t.Parallel()
	shared := natstest.NewWith(t, natsd.Options{})
	outside := func(c *config.Config) { c.NATS.URL = shared.ClientURL() }
	first := start(t, t.TempDir(), outside)
	hook := hooktest.New(t, nil)
	first.must(t, http.StatusOK, "PUT /v1/namespaces/default", `{"dedup_window":"1s"}`)
	subscribe(t, first.api, wish(hook.URL, `"id":"changed"`))
	subscribe(t, first.api, wish(hook.URL, `"id":"ended"`))
	eventually(t, func() bool { return len(first.system(t, "/_sys/subscriptions/*", "id")) == 2 }, "they are told")
	first.stop(t)

	store := storetest.Connect(t, natsstore.Options{Names: jsNames(t), URL: shared.ClientURL()})
	subs, now := store.Subscriptions(), time.Now().UTC().Add(-time.Minute)
	js := dial(t, shared.ClientURL())
	change := func(id string, kinds ...string) *sluice.Subscription {
		raw := record(t, js, id)
		for i, kind := range kinds {
			raw.Untold = append(raw.Untold, sluice.Announcement{ID: fmt.Sprint(id, "-", i), Type: kind, State: sluice.Active, At: now})
			revision := rewrite(t, js, id, raw)
			raw.Untold[len(raw.Untold)-1].Revision = revision
		}
		left, err := subs.Untold(t.Context(), id)
		require.NoError(t, err)
		return left
	}
	changed := change("changed", "subscription.updated", "subscription.paused", "subscription.resumed")
	_, err := store.Log.Publish(t.Context(), sluice.DefaultNamespace, []sluice.Event{{ // told, and not noted
		ID: "changed-0", Path: "/_sys/subscriptions/changed", Type: "subscription.updated", Source: sluice.SystemSource, Time: now,
		ContentType: "application/json", Data: fmt.Appendf(nil, `{"revision":%d}`, changed.Untold[0].Revision),
	}})
	require.NoError(t, err)
	gone := change("ended", sluice.TypeSubscriptionDeleted)
	gone.Untold[0].Revision = 0
	require.NoError(t, subs.Retire(t.Context(), gone))
	log, err := store.Deliveries.AttemptLog()
	require.NoError(t, err)
	require.NoError(t, log.Bury(t.Context(), sluice.DeadLetter{
		Subscription: "changed", Namespace: sluice.DefaultNamespace, EventID: "a-1", Seq: 3, Path: "/a", Reason: sluice.Exhausted, At: now,
	}))

	eventually(t, func() bool {
		_, err := store.Log.RecentByID(t.Context(), sluice.DefaultNamespace, "changed-0")
		return sluice.CodeOf(err) == sluice.NotFound
	}, "the log would take it again")
	second := start(t, t.TempDir(), outside)
	var want []string
	for _, n := range changed.Untold {
		want = append(want, fmt.Sprint(n.Type, " ", float64(n.Revision)))
	}
	eventually(t, func() bool { return len(second.system(t, "/_sys/subscriptions/changed", "revision")) == 4 }, "every change is told")
	require.Equal(t, want, second.system(t, "/_sys/subscriptions/changed", "revision")[1:])
	eventually(t, func() bool { return len(second.system(t, "/_sys/subscriptions/ended", "id")) == 2 }, "the end is told")
	eventually(t, func() bool { return len(second.system(t, "/_sys/deliveries/changed", "event_id")) == 1 }, "the letter is told")
	require.Equal(t, []string{"delivery.dead a-1"}, second.system(t, "/_sys/deliveries/changed", "event_id"))
	second.must(t, http.StatusNotFound, "GET /v1/subscriptions/ended", "")
	eventually(t, func() bool {
		waiting, err := store.Outbox().Waiting(t.Context())
		return err == nil && len(waiting) == 0
	}, "nothing waits")
	_, err = js.KeyValue(t.Context(), jsNames(t).Bucket("subscriptions"))
	require.NoError(t, err)
	subscribe(t, second.api, wish(hook.URL, `"id":"ended"`))
	second.must(t, http.StatusOK, "POST /v1/subscriptions/changed/pause", "")
	require.Len(t, second.system(t, "/_sys/subscriptions/changed", "id"), 5, "nothing is told again")
	require.Len(t, second.system(t, "/_sys/subscriptions/ended", "id"), 3)
}

// S2-04, S2-20, S2-21: what becomes of a namespace is told in the namespace "default", with the fields that changed; what changes nothing is not.
func TestNamespace_ChangesAreAnnounced(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	const path = "/_sys/namespaces/acme"
	told := func(n int) { // if it takes over two seconds, by a sweep after the answer
		t.Helper()
		within(t, 3*time.Minute, func() bool { return len(s.system(t, path, "old")) == n }, "it is told")
	}
	s.must(t, http.StatusCreated, "PUT /v1/namespaces/acme", `{"description":"one"}`)
	told(1)
	s.must(t, http.StatusOK, "PUT /v1/namespaces/acme", `{"description":"one"}`)
	s.must(t, http.StatusOK, "PUT /v1/namespaces/acme", `{"description":"two"}`)
	told(2)
	s.must(t, http.StatusNoContent, "DELETE /v1/namespaces/acme", "")
	told(3)
	s.must(t, http.StatusCreated, "PUT /v1/namespaces/acme", `{}`)
	told(4)
	require.Equal(t, []string{"namespace.created <nil>", "namespace.updated map[description:one]", "namespace.deleted <nil>", "namespace.created <nil>"}, s.system(t, path, "old"))
	require.Equal(t, "namespace.updated map[description:two]", s.system(t, path, "new")[1])
}

// A new label is a change of its namespace: with another revision, fenced, and announced.
func TestNamespace_LabelIsAPartOfIt(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	const put, path = "PUT /v1/namespaces/acme", "/_sys/namespaces/acme"
	const secret, public = `{"level":"SECRET","compartments":["legal"]}`, `{"level":"PUBLIC"}`
	made := s.must(t, http.StatusCreated, put, `{}`)
	raised := s.must(t, http.StatusOK, put, `{"label":`+secret+`}`)
	require.NotEqual(t, made.header.Get("ETag"), raised.header.Get("ETag"))
	s.must(t, http.StatusPreconditionFailed, put, `{"label":`+public+`}`, "If-Match", made.header.Get("ETag"))
	for _, body := range []string{`{}`, `{"label":{"level":"SECRET","compartments":["legal","legal"]}}`} {
		same := s.must(t, http.StatusOK, put, body, "If-Match", raised.header.Get("ETag"))
		require.Equal(t, raised.header.Get("ETag"), same.header.Get("ETag"), body)
		require.Contains(t, same.text, `"label":`+secret)
	}
	within(t, 3*time.Minute, func() bool { return len(s.system(t, path, "old")) == 2 }, "it is told")
	require.Equal(t, "namespace.updated map[label:map[compartments:[] level:PUBLIC]]", s.system(t, path, "old")[1])
	require.Equal(t, "namespace.updated map[label:map[compartments:[legal] level:SECRET]]", s.system(t, path, "new")[1])
}

// stored is the part of a subscription's record that these tests change.
type stored struct {
	Untold []sluice.Announcement

	rest     map[string]json.RawMessage
	revision uint64
}

func record(t *testing.T, js jetstream.JetStream, id string) *stored {
	t.Helper()
	kv, err := js.KeyValue(t.Context(), jsNames(t).Bucket("subscriptions"))
	require.NoError(t, err)
	entry, err := kv.Get(t.Context(), id)
	require.NoError(t, err)
	s := &stored{revision: entry.Revision()}
	require.NoError(t, json.Unmarshal(entry.Value(), &s.rest))
	require.NoError(t, json.Unmarshal(s.rest["untold"], &s.Untold))
	s.Untold[0].Revision = s.revision
	return s
}

func rewrite(t *testing.T, js jetstream.JetStream, id string, s *stored) uint64 {
	t.Helper()
	untold, err := json.Marshal(s.Untold)
	require.NoError(t, err)
	s.rest["untold"] = untold
	text, err := json.Marshal(s.rest)
	require.NoError(t, err)
	ack, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: jsNames(t).KeySubject("subscriptions", id), Data: text}, jetstream.WithExpectLastSequencePerSubject(s.revision))
	require.NoError(t, err)
	s.revision = ack.Sequence
	return ack.Sequence
}

// parkedLanes returns the parked lanes of a subscription.
func parkedLanes(t *testing.T, store storetest.Rooms, id string) []sluice.Parked {
	t.Helper()
	sub, _, err := store.Subscriptions().Get(t.Context(), id)
	require.NoError(t, err)
	lanes, err := store.Deliveries.ParkedLanes(t.Context(), sub)
	require.NoError(t, err)
	return lanes
}
