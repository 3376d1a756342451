package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/internal/wake"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// wakers is a server with workers that were woken, each for the stream of a level of the store.
type wakers struct {
	*fullStore

	made  time.Time             // the streams
	woken *hooktest.Server      // is told of the streams
	late  *hooktest.Server      // is told of a stream that has no consumer yet
	hooks map[string]wakeNotice // of __ds, by subscription
}

func newWakers(t *testing.T) *wakers {
	t.Helper()
	w := &wakers{fullStore: &fullStore{}, woken: hooktest.New(t, nil), hooks: map[string]wakeNotice{}}
	w.running = start(t, t.TempDir(), func(c *config.Config) { c.NATS.MaxStore, c.NATS.Sync = 32<<20, "2m" })
	w.js = dial(t, w.at.NATS)
	w.must(t, http.StatusCreated, "PUT "+durableAt+"/agents/**?subscription=agents", `{"webhook":"`+w.woken.URL+`","description":"d"}`)
	for _, level := range []string{"tight", "scarce"} {
		hook := hooktest.New(t, nil)
		w.must(t, http.StatusCreated, "PUT "+durableAt+"/__ds/subscriptions/hook-"+level, `{"type":"webhook","webhook":{"url":"`+hook.URL+`"},"pattern":"agents/`+level+`","lease_ttl_ms":600000}`)
		w.must(t, http.StatusCreated, "PUT "+durableAt+"/__ds/subscriptions/pull-"+level, `{"type":"pull-wake","wake_stream":"pool/`+level+`","pattern":"agents/`+level+`"}`)
		w.must(t, http.StatusCreated, "PUT "+durableAt+"/agents/"+level, "news", append(text(), "Stream-TTL", "100")...)
		w.newest(t, level)
		w.hooks[level] = noticeOf(t, hook.Wait(1)[0])
	}
	w.late = hooktest.New(t, nil)
	w.must(t, http.StatusCreated, "POST /v1/subscriptions", `{"id":"late","mode":"wake","pattern":"/late/*","endpoint":{"url":"`+w.late.URL+`"}}`)
	w.must(t, http.StatusOK, "POST /v1/subscriptions/late/pause", "")
	w.news(t, "/late/1")
	w.made = time.Now()
	w.fillUp(t)
	return w
}

// newest returns the last notice of the stream of a level: a worker that was silent for 45 seconds is woken again (S1-43).
func (w *wakers) newest(t *testing.T, level string) (n wake.Notice) {
	t.Helper()
	eventually(t, func() bool {
		for _, r := range w.woken.Requests() {
			if one := notice(t, r); string(one.Primary) == "/agents/"+level {
				n = one
			}
		}
		return n.Epoch > 0
	}, "it is woken")
	return n
}

// work does what workers do that were woken for the stream of a level: they read it, claim, acknowledge, give back, and pass on.
func (w *wakers) work(t *testing.T, level string) {
	t.Helper()
	require.Equal(t, "news", w.must(t, http.StatusOK, "GET "+durableAt+"/agents/"+level, "").text, "its use cannot be stored")
	n := w.newest(t, level)
	next, _ := w.calls(t, http.StatusOK, n, n.Token, fmt.Sprintf(`{"epoch":%d,%s}`, n.Epoch, claim(n))).field(t, "token").(string)
	w.calls(t, http.StatusOK, n, next, fmt.Sprintf(`{"epoch":%d,%s,"done":true}`, n.Epoch, w.acks(t, "/agents/"+level)))

	h := w.hooks[level]
	w.must(t, http.StatusOK, "POST "+strings.TrimPrefix(h.Callback, w.at.HTTP), h.say(), as(h.Token)...)

	pull := "POST " + durableAt + "/__ds/subscriptions/pull-" + level
	for _, worker := range []string{"one", "two"} {
		held := w.must(t, http.StatusOK, pull+"/claim", `{"worker":"`+worker+`"}`)
		token, _ := held.field(t, "token").(string)
		body := fmt.Sprintf(`{"wake_id":%q,"generation":%v`, held.field(t, "wake_id"), held.field(t, "generation"))
		if worker == "one" {
			w.must(t, http.StatusNoContent, pull+"/release", body+"}", as(token)...)
			continue
		}
		w.must(t, http.StatusOK, pull+"/ack", body+fmt.Sprintf(`,"acks":[{"stream":"agents/%s","offset":%q}],"done":true}`, level, h.Streams[0].Tail), as(token)...)
	}
}

// Issue 13, F4: woken workers read their streams, acknowledge and pass their leases on while the store is tight or scarce; at scarce no
// new wake consumer takes the room that is left for what frees some, and it is woken later.
func TestFullStore_WorkersGoOn(t *testing.T) { // S1-59, S4-22
	t.Parallel()
	w := newWakers(t)
	w.level(t, sluice.StorageTight)
	eventually(t, func() bool { return time.Since(w.made) > 5*time.Second }, "a twentieth of a lifetime has passed: the next read is a use that would be stored")
	w.work(t, "tight")

	_, err := w.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "OTHERS", Subjects: []string{"others"}})
	require.NoError(t, err)
	for storage := (sluice.Storage{}); storage.UsedBytes <= storage.LimitBytes/100*96; {
		_, err := w.js.Publish(t.Context(), "others", make([]byte, 64<<10))
		require.NoError(t, err)
		storage, err = w.api.Storage(t.Context())
		require.NoError(t, err)
	}
	w.level(t, sluice.StorageScarce)
	w.must(t, http.StatusOK, "POST /v1/subscriptions/late/resume", "")
	w.work(t, "scarce")
	require.Empty(t, w.must(t, http.StatusOK, "GET /v1/subscriptions/late/consumers", "").field(t, "consumers"))
	require.NoError(t, w.js.DeleteStream(t.Context(), "OTHERS"))
	w.level(t, sluice.StorageTight)
	require.Equal(t, "/late/1", string(notice(t, w.late.Wait(1)[0]).Primary))
}
