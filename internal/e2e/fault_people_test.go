package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/faulttest"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/pkg/webhook"
)

// Issue 3, "Faults": people change things in the middle of deliveries. What is deleted is
// left alone at once and for good, what is made again under its name begins anew, and what
// stays loses nothing.
func TestFault_OperatorsMayChangeThingsMidDelivery(t *testing.T) { // S0-10, S0-70, S4-46
	t.Parallel()
	for id, try := range map[string]func(*testing.T, *peopleWorld){
		"subscription-deleted": deleteSubscription,
		"namespace-deleted":    deleteNamespace,
		"secret-rotated":       rotateSecret,
	} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			w := &peopleWorld{got: faulttest.NewArrivals(), log: &lines{Writer: t.Output()}, fails: map[string]bool{}, refused: map[string]int{}}
			w.hook = hooktest.New(t, w.answer)
			w.running = startLogging(t, t.TempDir(), nil, w.log)
			w.watch = faulttest.Begin(t, id)
			try(t, w)
		})
	}
}

// peopleWorld is a server, and an endpoint that takes its time, where some paths fail.
type peopleWorld struct {
	*running

	hook  *hooktest.Server
	log   *lines
	watch *faulttest.Watch
	got   *faulttest.Arrivals

	mu      sync.Mutex
	fails   map[string]bool
	knows   *webhook.Receiver // nil: every sender is believed
	refused map[string]int
}

func (w *peopleWorld) answer(r hooktest.Request) hooktest.Answer {
	w.mu.Lock()
	fails, knows, got := w.fails, w.knows, w.got
	w.mu.Unlock()
	id := idOf(r)
	path, _, _ := strings.Cut(id, "-")
	got.Try(path, id)
	if fails[path] {
		return hooktest.Answer{Status: http.StatusServiceUnavailable}
	}
	if knows != nil {
		req, err := http.NewRequest(r.Method, "http://receiver"+r.Path, strings.NewReader(string(r.Body))) //nolint:noctx // it goes nowhere
		if err != nil {
			return hooktest.Answer{Status: http.StatusInternalServerError}
		}
		req.Header = r.Header
		if _, err := knows.Receive(req); err != nil {
			w.mu.Lock()
			w.refused[id]++
			w.mu.Unlock()
			return hooktest.Answer{Status: http.StatusUnauthorized}
		}
	}
	got.Take(id)
	return hooktest.Answer{Body: "ok", Drip: 3 * time.Millisecond}
}

func (w *peopleWorld) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

const peoplePolicy = `"policy":{"window":4,"retry":{"preset":"custom","steps":["100ms"],"max_attempts":100}}`

// quiet requires that soon nothing is sent any more, and nothing complained about all the time.
func (w *peopleWorld) quiet(t *testing.T) {
	t.Helper()
	eventually(t, func() bool { // attempts under way are finished
		before := w.got.Tries()
		<-time.After(3 * time.Second)
		return w.got.Tries() == before
	}, "nothing is sent any more")
	lasts := time.Second
	if faulttest.Long() {
		lasts = 10 * time.Second
	}
	tries, logged := w.got.Tries(), w.log.n.Load()
	w.watch.Wait(lasts)
	require.Equal(t, tries, w.got.Tries(), "nothing is sent")
	require.LessOrEqual(t, w.log.n.Load()-logged, int64(lasts/time.Second)+1, "warnings")
}

func deleteSubscription(t *testing.T, w *peopleWorld) {
	t.Helper()
	w.set(func() { w.fails = map[string]bool{"p1": true} })
	body := wish(w.hook.URL, `"id":"s"`, peoplePolicy)
	subscribe(t, w.api, body)
	subscribe(t, w.api, wish(w.hook.URL, `"id":"beside"`, `"pattern":"/other"`))
	feed := newFeed(t, w.at.NATS)
	feed.publish(t, 120)
	eventually(t, func() bool { return w.got.Taken() > 20 }, "it is in the middle")
	w.must(t, http.StatusNoContent, "DELETE /v1/subscriptions/s", "")
	w.served(t, "s", nil)
	w.quiet(t)
	w.set(func() { w.fails = map[string]bool{} })

	again := faulttest.NewArrivals()
	w.set(func() { w.got = again })
	subscribe(t, w.api, body)
	w.watch.Recovered()
	feed.sent = map[string][]string{}
	feed.publish(t, 30)
	eventually(t, func() bool { return again.Taken() > 0 }, "the new one begins")
	w.watch.Resumed()
	statusOf(t, w.api, "s", func(st sluice.Status) bool { return idle(st) && again.Taken() == 30 })
	a := again.Compare(feed.sent)
	require.Equal(t, 30, again.Tries(), "nothing of what the old one had to do")
	w.watch.End(a, "nothing was sent after the deletion; the figures are of the new one")
}

func deleteNamespace(t *testing.T, w *peopleWorld) {
	t.Helper()
	begin := func() {
		w.must(t, http.StatusCreated, "PUT /v1/namespaces/brief", `{}`)
		subscribe(t, w.api, wish(w.hook.URL, `"id":"s"`, `"namespace":"brief"`, peoplePolicy))
	}
	w.set(func() { w.fails = map[string]bool{"p1": true} })
	begin()
	subscribe(t, w.api, wish(w.hook.URL, `"id":"beside"`, peoplePolicy))
	sent := map[string][]string{}
	publish := func(ns string, n int) {
		events := []sluice.Event{}
		for i := range n {
			path := fmt.Sprintf("p%d", i%3)
			id := fmt.Sprintf("%s-%s-%d", path, ns, i)
			events = append(events, sluice.Event{ID: id, Path: sluice.Path("/" + path), Type: "t", Data: []byte(`{}`)})
			sent[path] = append(sent[path], id)
		}
		_, err := w.api.Publish(t.Context(), ns, events...)
		require.NoError(t, err)
	}
	publish("brief", 120)
	eventually(t, func() bool { return w.got.Taken() > 20 }, "it is in the middle")
	w.must(t, http.StatusNoContent, "DELETE /v1/namespaces/brief", "")
	w.served(t, "s", nil)
	w.quiet(t)
	w.set(func() { w.fails, w.got = map[string]bool{}, faulttest.NewArrivals() })

	begin()
	sent = map[string][]string{}
	w.watch.Recovered()
	publish("brief", 30)
	eventually(t, func() bool { return w.got.Taken() == 30 }, "the new one begins")
	w.watch.Resumed()
	publish("default", 30)
	eventually(t, func() bool { return w.got.Taken() == 60 }, "all arrive")
	statusOf(t, w.api, "s", idle)
	statusOf(t, w.api, "beside", idle)
	require.Equal(t, 60, w.got.Tries())
	w.watch.End(w.got.Compare(sent), "nothing was sent after the deletion; the figures are of the new one and of one beside it")
}

func rotateSecret(t *testing.T, w *peopleWorld) {
	t.Helper()
	sub := subscribe(t, w.api, wish(w.hook.URL, `"id":"s"`, peoplePolicy))
	first := receiverOf(t, w.running, sub, sub.Endpoint.Secret)
	w.set(func() { w.knows = first })
	feed := newFeed(t, w.at.NATS)
	feed.publish(t, 60)
	eventually(t, func() bool { return w.got.Taken() > 10 }, "it is in the middle")
	rotated := w.must(t, http.StatusOK, "POST /v1/subscriptions/s/secret/rotate", `{"overlap":"1h"}`)
	secret, ok := rotated.field(t, "secret").(string)
	require.True(t, ok)
	feed.publish(t, 60)
	eventually(t, func() bool { return w.got.Taken() > 80 }, "who knows the old one believes")
	second := receiverOf(t, w.running, sub, secret)
	w.set(func() { w.knows = second })
	feed.publish(t, 60)
	statusOf(t, w.api, "s", func(st sluice.Status) bool { return idle(st) && w.got.Taken() == 180 })
	w.set(func() { require.Empty(t, w.refused) })
	a := w.got.Compare(feed.sent)
	require.Zero(t, a.Twice)
	w.watch.End(a, "no signature was refused, neither by the receiver with the old secret nor by the one with the new")
}
