package e2e_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/natsd"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// others fills a NATS server with messages of others until full says so, and returns what removes them.
func others(t *testing.T, js jetstream.JetStream, full func(err error) bool) (lift func()) {
	t.Helper()
	_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "OTHERS", Subjects: []string{"others"}})
	require.NoError(t, err)
	for !full(err) {
		_, err = js.Publish(t.Context(), "others", make([]byte, 64<<10))
	}
	return func() { require.NoError(t, js.DeleteStream(t.Context(), "OTHERS")) }
}

// Issue 13, F4: the wakes of a server that is killed while the store is full are taken over: at scarce at once, because records have
// room, and where NATS takes nothing as soon as it does. No wake is lost or begun anew, and workers keep their leases.
func TestFullStore_WakesAreTakenOver(t *testing.T) { // S1-59, S4-22
	t.Parallel()
	t.Run("scarce", func(t *testing.T) {
		t.Parallel()
		far := natstest.NewWith(t, natsd.Options{MaxStore: 128 << 20})
		w := newTakeover(t, far, fmt.Sprintf("%s=%d", serveStoreEnv, 32<<20))
		var said time.Time
		lift := others(t, w.js, func(error) bool {
			if time.Since(said) > 5*time.Second {
				w.beats(t)
				said = time.Now()
			}
			storage, err := w.other.api.Storage(t.Context())
			require.NoError(t, err)
			return storage.UsedBytes > storage.LimitBytes/100*96
		})
		w.other.level(t, sluice.StorageScarce)
		w.beats(t)
		w.owner.kill(t)
		patiently(t, func() bool { return w.other.wakesOf(t) }, "the other serves it")
		w.other.level(t, sluice.StorageScarce)
		w.other.finishes(t, w.hook)
		w.pulls(t, "two")
		lift()
		w.other.level(t, sluice.StorageAmple)
		w.other.wakesAgain(t, w.hook)
	})
	t.Run("nothing is taken", func(t *testing.T) {
		t.Parallel()
		far := natstest.NewWith(t, natsd.Options{MaxStore: 16 << 20})
		w := newTakeover(t, far)
		w.beats(t)
		lift := others(t, w.js, func(err error) bool { return err != nil })
		w.other.level(t, sluice.StorageBroken)
		w.owner.kill(t)
		refused := w.other.call(t, "POST /v1/namespaces/default/events", `{"path":"/agents/new","type":"t","data":1}`)
		require.Equal(t, http.StatusServiceUnavailable, refused.status)
		n := w.hook.wait(t, "/agents/live", 1)
		w.other.back(t, http.StatusServiceUnavailable, n, w.other.acks(t, "/agents/live")+`,"done":true`)
		lift()
		patiently(t, func() bool { return w.other.wakesOf(t) }, "the other serves it")
		w.other.finishes(t, w.hook)
		w.pulls(t, "two")
		w.other.wakesAgain(t, w.hook)
	})
}

// takeover is two servers on a NATS, of which one runs the clocks of wakes in all states, and a worker that holds a lease.
type takeover struct {
	hook  *wakeHook
	js    jetstream.JetStream
	owner *child
	other *fullStore
}

func newTakeover(t *testing.T, far *natstest.Server, env ...string) *takeover {
	t.Helper()
	w := &takeover{hook: newWakeHook(t), js: dial(t, far.ClientURL())}
	one, owner := replica(t, far.ClientURL(), "2s", env...)
	owner.must(t, http.StatusCreated, "POST /v1/subscriptions", agents(w.hook.URL, slowly))
	owner.must(t, http.StatusCreated, "PUT "+durableAt+"/__ds/subscriptions/pull", `{"type":"pull-wake","wake_stream":"pool/p","pattern":"agents/live","lease_ttl_ms":1000}`)
	owner.inAllStates(t, w.hook)
	two, other := replica(t, far.ClientURL(), "2s", env...)
	eventually(t, func() bool { return owner.wakesOf(t) != other.wakesOf(t) }, "one serves it")
	if other.wakesOf(t) {
		one, owner, other = two, other, owner
	}
	w.owner, w.other = one, &fullStore{running: other, js: w.js}
	owner.must(t, http.StatusOK, "POST "+durableAt+"/__ds/subscriptions/pull/claim", `{"worker":"one"}`)
	return w
}

// beats has the worker of /agents/live say that it is still there: it may be silent for 45 seconds (S1-43).
func (w *takeover) beats(t *testing.T) {
	t.Helper()
	n := w.hook.wait(t, "/agents/live", 1)
	w.other.back(t, http.StatusOK, n, claim(n))
}

// pulls has a worker claim what the one before did not acknowledge, when its lease has run out, and acknowledge it.
func (w *takeover) pulls(t *testing.T, worker string) {
	t.Helper()
	var held reply
	patiently(t, func() bool {
		held = w.other.call(t, "POST "+durableAt+"/__ds/subscriptions/pull/claim", `{"worker":"`+worker+`"}`)
		return held.status == http.StatusOK
	}, "the lease of the other worker has run out")
	token, _ := held.field(t, "token").(string)
	tail := w.other.must(t, http.StatusOK, "HEAD "+durableAt+"/agents/live", "").header.Get("Stream-Next-Offset")
	w.other.must(t, http.StatusOK, "POST "+durableAt+"/__ds/subscriptions/pull/ack", fmt.Sprintf(`{"wake_id":%q,"generation":%v,"acks":[{"stream":"agents/live","offset":%q}],"done":true}`,
		held.field(t, "wake_id"), held.field(t, "generation"), tail), as(token)...)
}

// wakesAgain checks that news on each stream begins a new cycle.
func (s *running) wakesAgain(t *testing.T, hook *wakeHook) {
	t.Helper()
	for _, path := range []string{"/agents/idle", "/agents/failing", "/agents/hanging", "/agents/live"} {
		hook.says(path, "done")
		eventually(t, func() bool {
			return s.call(t, "POST /v1/namespaces/default/events", fmt.Sprintf(`{"path":%q,"type":"t","data":1}`, path)).status == http.StatusCreated
		}, "events are taken again")
		require.NotEqual(t, hook.of(path)[0].WakeID, hook.epoch(t, path, 2).WakeID)
	}
}
