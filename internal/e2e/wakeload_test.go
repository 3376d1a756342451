package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
)

// Any body that is sent as a callback is answered as S1 says, and does no harm.
func TestWake_RefusesInvalidCallbacks(t *testing.T) { // S1-71, S1-85…91
	t.Parallel()
	s := start(t, t.TempDir(), func(c *config.Config) { c.HTTP.AuthFailures.Burst = 0 })
	hook := newWakeHook(t)
	s.must(t, http.StatusCreated, "POST /v1/subscriptions", agents(hook.URL, quick))
	s.news(t, "/agents/a")
	n := hook.wait(t, "/agents/a", 1)
	at := "POST /callback/default/"
	for line, want := range map[string]string{
		at + ":%2Fagents%2Fa":                  "CONSUMER_GONE",
		at + "agents":                          "CONSUMER_GONE",
		at + "agents:":                         "CONSUMER_GONE",
		at + "agents:%2F":                      "CONSUMER_GONE",
		at + "*:%2Fagents%2Fa":                 "CONSUMER_GONE",
		at + "agents%3E:%2Fagents%2Fa":         "CONSUMER_GONE",
		at + "agents:%2Fagents%2Fb":            "CONSUMER_GONE",
		at + "agents:%252Fagents%252Fa":        "CONSUMER_GONE",
		at + "none:%2Fagents%2Fa":              "CONSUMER_GONE",
		"POST /callback/other/" + n.ConsumerID: "CONSUMER_GONE",
	} {
		r := s.must(t, http.StatusGone, line, `{"epoch":1}`, as(n.Token)...)
		require.Equal(t, want, r.field(t, "error.code"), line)
	}
	for body, want := range map[string]int{
		``: 400, `null`: 400, `[]`: 400, `"x"`: 400, `{}`: 400, `{"epoch":-1}`: 400, `{"epoch":1.5}`: 400, `{"epoch":"1"}`: 400, `{"epoch":1}{}`: 400,
		`{"epoch":1,"subscribe":["x"]}`: 400, `{"epoch":1,"unsubscribe":[7]}`: 400,
		`{"epoch":1,"acks":{}}`: 400, `{"epoch":1,"done":"yes"}`: 400, `{"epoch":18446744073709551615}`: 409, `{"epoch":18446744073709551616}`: 400,
		`{"epoch":1,"acks":[{"path":"/agents/a","offset":"99999999999999999999"}]}`: 409,
		`{"epoch":1,"acks":[{"path":"/agents/none","offset":"-1"}]}`:                409,
		`{"epoch":1,"acks":[{"path":"nonsense","offset":"-1"}]}`:                    409,
		`{"epoch":1,"wake_id":"w_"}`:                                                409,
	} {
		r := s.calls(t, want, n, n.Token, body)
		require.Equal(t, false, r.field(t, "ok"), body)
	}
	for _, token := range []string{"", "x", "a.b.c", n.Token + "x", n.Token[:len(n.Token)-4], strings.ToUpper(n.Token)} {
		require.Equal(t, "TOKEN_INVALID", s.calls(t, http.StatusUnauthorized, n, token, `{"epoch":1}`).field(t, "error.code"), token)
	}
	require.Equal(t, []any{"live", 1.0}, []any{s.consumer(t, "/agents/a", "state"), s.consumer(t, "/agents/a", "epoch")}, "it was answered 200, and nothing else happened")
}

// Callbacks of one consumer at once are taken one after the other; each of them is answered.
func TestWake_AnswersConcurrentCallbacks(t *testing.T) {
	t.Parallel()
	far := natstest.Listening(t)
	outside := func(c *config.Config) { c.NATS.URL = far.ClientURL() }
	servers := []*running{start(t, t.TempDir(), outside), start(t, t.TempDir(), outside)}
	hook := newWakeHook(t)
	servers[0].must(t, http.StatusCreated, "POST /v1/subscriptions", agents(hook.URL, quick))
	servers[0].news(t, "/agents/a")
	n := hook.wait(t, "/agents/a", 1)
	const many = 64
	var calls sync.WaitGroup
	statuses := make([]int, many)
	for i := range many {
		calls.Go(func() {
			body := fmt.Sprintf(`{"epoch":1,%s,"subscribe":["/other/%d"]}`, claim(n), i)
			statuses[i] = servers[i%2].call(t, "POST "+strings.TrimPrefix(strings.TrimPrefix(n.Callback, servers[0].at.HTTP), servers[1].at.HTTP), body, as(n.Token)...).status
		})
	}
	calls.Wait()
	for i, status := range statuses {
		require.Equal(t, http.StatusOK, status, i)
	}
	require.Len(t, servers[0].consumer(t, "/agents/a", "streams"), many+1)
}

// An endpoint that hangs, with a thousand consumers to wake, does not hold up another subscription.
func TestWake_HangingEndpointDelaysNoOther(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), func(c *config.Config) { c.Webhooks.MaxInFlight = 64 })
	hanging, other := hooktest.New(t, func(hooktest.Request) hooktest.Answer { return hooktest.Answer{Hang: true} }), newWakeHook(t)
	s.must(t, http.StatusCreated, "POST /v1/subscriptions", agents(hanging.URL, `"policy":{"window":1000}`))
	s.must(t, http.StatusCreated, "POST /v1/subscriptions", `{"id":"fine","mode":"wake","pattern":"/fine/*","endpoint":{"url":"`+other.URL+`"}}`)
	js := dial(t, s.at.NATS, nats.MaxReconnects(-1))
	const consumers = 1000
	for i := range consumers {
		_, err := js.PublishAsync(jsNames(t).EventsPrefix()+fmt.Sprintf("default.agents.a%d", i), []byte(`{}`))
		require.NoError(t, err)
	}
	<-js.PublishAsyncComplete()
	hanging.Wait(32)
	eventually(t, func() bool {
		waking, _ := s.must(t, http.StatusOK, "GET /v1/subscriptions/agents/status", "").field(t, "consumers.waking").(float64)
		return waking == consumers
	}, "all are to be woken")
	slowest := time.Duration(0)
	for i := range 20 {
		path := fmt.Sprintf("/fine/%d", i)
		began := time.Now()
		s.news(t, path)
		other.wait(t, path, 1)
		slowest = max(slowest, time.Since(began))
	}
	t.Logf("while %d consumers of an endpoint that hangs are to be woken, another one's wake takes %s at most", consumers, slowest)
	require.Less(t, len(hanging.Requests()), consumers, "it does hang")
}
