package httpapi_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/httpapi"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// wakes stand in for the engine: what is asked is kept, and answered as a test says.
type wakes struct {
	answer    model.WakeAnswer
	err       error
	consumers []sluice.WakeConsumer
	ended     error

	mu    sync.Mutex
	asked []string
}

func (w *wakes) note(asked ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = append(w.asked, strings.Join(asked, " "))
}

// last returns what was asked last.
func (w *wakes) last() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.asked) == 0 {
		return ""
	}
	return w.asked[len(w.asked)-1]
}

func (w *wakes) Call(_ context.Context, namespace, consumerID, token string, body []byte) (model.WakeAnswer, error) {
	w.note("call", namespace, consumerID, token, string(body))
	return w.answer, w.err
}

func (w *wakes) Admit(_ context.Context, _, _, token string) error {
	if token == "bad" {
		return sluice.Errorf(sluice.WakeTokenInvalid, "send a good token")
	}
	return nil
}

func (w *wakes) Consumers(_ context.Context, sub *sluice.Subscription, q model.WakeQuery) (model.WakePage, error) {
	w.note("consumers", sub.ID, string(q.State), q.After)
	return model.WakePage{Consumers: w.consumers, Next: "more", Counts: map[sluice.WakeState]int{sluice.WakeIdle: len(w.consumers)}}, w.err
}

func (w *wakes) Consumer(_ context.Context, sub *sluice.Subscription, path sluice.Path) (sluice.WakeConsumer, error) {
	w.note("consumer", sub.ID, string(path))
	for _, c := range w.consumers {
		if c.Path == path {
			return c, nil
		}
	}
	return sluice.WakeConsumer{}, sluice.Errorf(sluice.NotFound, "consumer of %q not found", path)
}

func (w *wakes) Ended(_ context.Context, namespace string, path sluice.Path) error {
	w.note("ended", namespace, string(path))
	return w.ended
}

// wakeBench is an API with wakes that a test sees.
func wakeBench(t *testing.T) (*bench, *wakes) {
	t.Helper()
	b, w := newBench(t), &wakes{}
	opts := b.options()
	opts.Wakes = w
	b.http.Close()
	b.http = httptest.NewServer(httpapi.New(opts).Handler())
	t.Cleanup(b.http.Close)
	return b, w
}

const (
	agents     = "/streams/default/agents/*"
	agentsWish = `{"webhook":"` + hook + `","description":"wakes agents"}`
)

// S1-106…113.
func TestWake_SubscriptionLivesAtItsPattern(t *testing.T) {
	t.Parallel()
	b, _ := wakeBench(t)
	a := b.must(t, http.StatusCreated, "PUT "+agents+"?subscription=handler", agentsWish)
	secret, _ := a.body["webhook_secret"].(string)
	require.True(t, strings.HasPrefix(secret, "whsec_"), a.text)
	delete(a.body, "webhook_secret")
	want := map[string]any{"subscription_id": "handler", "pattern": "/agents/*", "webhook": hook, "description": "wakes agents"}
	require.Equal(t, want, a.body)

	require.Equal(t, want, b.must(t, http.StatusOK, "PUT "+agents+"?subscription=handler", agentsWish).body, "S1-108")
	require.Equal(t, want, b.must(t, http.StatusOK, "PUT /streams/default/agents/%2A?subscription=handler", agentsWish).body, "S1-25")
	for _, other := range []string{`{"webhook":"not a url"}`, `{"webhook":"` + hook + `"}`, `{"webhook":"http://10.0.0.1/","description":"wakes agents"}`} {
		require.Equal(t, "subscription_conflict", b.must(t, http.StatusConflict, "PUT "+agents+"?subscription=handler", other).code(), "S1-109 %s", other)
	}
	b.must(t, http.StatusConflict, "PUT /streams/default/agents/**?subscription=handler", agentsWish)

	for _, line := range []string{"GET /streams/default/**?subscription=handler", "GET " + agents + "?subscription=handler", "GET /streams/default/agents/%2a?subscription=handler"} {
		require.Equal(t, want, b.must(t, http.StatusOK, line, "").body, "S1-112 %s", line)
	}
	whole := b.must(t, http.StatusOK, "GET /v1/subscriptions/handler", "").body
	require.Equal(t, "wake", whole["mode"])
	require.Equal(t, "/agents/*", whole["pattern"])

	b.must(t, http.StatusNotFound, "DELETE /streams/default/agents/**?subscription=handler", "")
	b.must(t, http.StatusNotFound, "DELETE /streams/default/**?subscription=handler", "")
	b.must(t, http.StatusNoContent, "DELETE "+agents+"?subscription=handler", "")
	b.must(t, http.StatusNotFound, "DELETE "+agents+"?subscription=handler", "")
	b.must(t, http.StatusNotFound, "GET /streams/default/**?subscription=handler", "")
	b.must(t, http.StatusCreated, "PUT "+agents+"?subscription=handler", agentsWish)
}

// S1-110, S1-111: of a pattern exactly, of /** all, and only those of mode wake and of the namespace.
func TestWake_SubscriptionsAreListedByPattern(t *testing.T) {
	t.Parallel()
	b, _ := wakeBench(t)
	b.must(t, http.StatusCreated, "PUT /v1/namespaces/acme", "{}")
	for _, line := range []string{agents + "?subscription=one", agents + "?subscription=two", "/streams/default/agents/**?subscription=deep", "/streams/default/**?subscription=all", "/streams/acme/agents/*?subscription=other"} {
		b.must(t, http.StatusCreated, "PUT "+line, agentsWish)
	}
	b.must(t, http.StatusCreated, "PUT /v1/subscriptions/pushed", `{"pattern":"/agents/*","endpoint":{"url":"`+hook+`"}}`)
	for line, want := range map[string][]string{
		agents + "?subscriptions":                  {"one", "two"},
		agents + "?subscriptions=":                 {"one", "two"},
		"/streams/default/agents/**?subscriptions": {"deep"},
		"/streams/default/**?subscriptions":        {"one", "two", "deep", "all"},
		"/streams/acme/**?subscriptions":           {"other"},
		"/streams/default/nothing?subscriptions":   {},
	} {
		var got []string
		for _, sub := range b.must(t, http.StatusOK, "GET "+line, "").list(t, "subscriptions") {
			require.NotContains(t, sub, "webhook_secret")
			id, _ := sub["subscription_id"].(string)
			got = append(got, id)
		}
		require.ElementsMatch(t, want, got, line)
	}
	b.must(t, http.StatusNotFound, "GET /streams/default/**?subscription=pushed", "")
	b.must(t, http.StatusNotFound, "DELETE "+agents+"?subscription=pushed", "")
	b.must(t, http.StatusNotFound, "GET /streams/acme/**?subscription=one", "")
	b.must(t, http.StatusNotFound, "DELETE /streams/acme/agents/*?subscription=one", "")
	b.must(t, http.StatusConflict, "PUT /streams/acme/agents/*?subscription=one", agentsWish)
	require.Len(t, b.must(t, http.StatusOK, "GET /v1/subscriptions?mode=wake", "").list(t, "subscriptions"), 5)
}

// A request that says that it is about subscriptions does nothing to streams, however little sense it makes.
func TestWake_RefusedRequestsLeaveStreamsAlone(t *testing.T) {
	t.Parallel()
	b, w := wakeBench(t)
	for line, status := range map[string]int{
		"PUT " + agents + "?subscription=":                 http.StatusBadRequest,
		"PUT " + agents + "?subscriptions":                 http.StatusBadRequest,
		"PUT " + agents + "?subscription=a.b":              http.StatusBadRequest,
		"PUT " + agents + "?subscription=a:b":              http.StatusBadRequest,
		"PUT /streams/default/a*b?subscription=x":          http.StatusBadRequest,
		"PUT /streams/default/?subscription=x":             http.StatusBadRequest,
		"PUT /streams/nowhere/a?subscription=x":            http.StatusNotFound,
		"DELETE " + agents + "?subscriptions":              http.StatusBadRequest,
		"DELETE " + agents + "?subscription":               http.StatusBadRequest,
		"GET " + agents + "?subscription=x&subscriptions":  http.StatusBadRequest,
		"GET /streams/default/a*b?subscriptions":           http.StatusBadRequest,
		"DELETE /streams/default/agents/x?subscriptions=y": http.StatusBadRequest,
	} {
		b.must(t, status, line, agentsWish)
	}
	for body, code := range map[string]string{
		`{}`: "invalid_request", ``: "invalid_request", `{"webhook":7}`: "invalid_request", `{`: "invalid_request", `{"webhook":"` + hook + `","secret":"x"}`: "invalid_request",
		`{"webhook":"not a url"}`: "invalid_request", `{"webhook":"http://192.0.2.1/"}`: "insecure_url", `{"webhook":"https://10.0.0.1/"}`: "blocked_address",
		`{"webhook":"https://169.254.169.254/latest"}`: "blocked_address", `{"webhook":"ftp://192.0.2.1/"}`: "insecure_url", // S1-143…145
	} {
		require.Equal(t, code, b.do(t, "PUT "+agents+"?subscription=x", body).code(), body)
	}
	for _, address := range []string{"not a url", "https://" + strings.Repeat("x", 2048), "http://192.0.2.1/", "https://:7/", "https://a.example/#x"} {
		a := b.do(t, "PUT "+agents+"?subscription=x", `{"webhook":"`+address+`"}`)
		require.Contains(t, []int{http.StatusBadRequest, http.StatusUnprocessableEntity}, a.status, a.text)
		require.NotContains(t, a.text, "endpoint", "the caller did not write that")
	}
	require.Contains(t, b.do(t, "PUT "+agents+"?subscription=x", `{"webhook":"not a url"}`).text, `webhook \"not a url\": use an absolute URL`)
	require.Empty(t, w.last())
	require.Empty(t, b.must(t, http.StatusOK, "GET /v1/subscriptions", "").list(t, "subscriptions"))
}

const callbackAt = "/callback/default/handler:%2Fagents%2Ftask%20%251"

// S1-15, S1-71, S1-82: what a worker reports goes to the engine as it came.
func TestCallback_ReachesTheEngineUnchanged(t *testing.T) {
	t.Parallel()
	b, w := wakeBench(t)
	w.answer = model.WakeAnswer{Token: "next", Streams: []model.WakeAcked{{Path: "/agents/a", Offset: "-1"}}}
	const sent = `{"epoch":7,"unknown":  "is for the engine to judge"}`
	a := b.must(t, http.StatusOK, "POST "+callbackAt, sent, "Authorization", "bearer the-token")
	require.Equal(t, "call default handler:%2Fagents%2Ftask%20%251 the-token "+sent, w.last())
	require.JSONEq(t, `{"ok":true,"token":"next","streams":[{"path":"/agents/a","offset":"-1"}]}`, a.text)

	w.answer = model.WakeAnswer{Token: "last"}
	a = b.must(t, http.StatusOK, "POST /callback/default/odd", sent, "Authorization", "Basic the-token")
	require.Equal(t, "call default odd  "+sent, w.last())
	require.JSONEq(t, `{"ok":true,"token":"last","streams":[]}`, a.text, "S1-84, S1-101")

	for _, id := range []string{"h:%2fa", "h:%2Fa%2520b", "h%3A%2Fa", "h:%2Fa+b", "h:%2F%E4%B8%96", "h:%2Fa?x=%2Fy", "h:/agents/a", "h:%2Fa/", "h:"} {
		b.must(t, http.StatusOK, "POST /callback/default/"+id, sent)
		id, _, _ = strings.Cut(id, "?")
		require.Equal(t, "call default "+id+" "+token+" "+sent, w.last())
	}
	before := w.last()
	b.must(t, http.StatusMethodNotAllowed, "GET "+callbackAt, "")
	require.Equal(t, before, w.last())
}

// S1-85…92: the status and the body are S1's, and the server's own trouble is told in the same shape.
func TestCallback_RefusalsHaveTheShapeOfS1(t *testing.T) {
	t.Parallel()
	b, w := wakeBench(t)
	for _, tt := range []struct {
		err    error
		token  string
		status int
		code   string
	}{
		{sluice.Errorf(sluice.WakeInvalid, "m"), "", 400, "INVALID_REQUEST"},
		{sluice.Errorf(sluice.WakeTokenExpired, "m"), "fresh", 401, "TOKEN_EXPIRED"},
		{sluice.Errorf(sluice.WakeTokenExpired, "m"), "", 401, "TOKEN_EXPIRED"},
		{sluice.Errorf(sluice.WakeTokenInvalid, "m"), "", 401, "TOKEN_INVALID"},
		{sluice.Errorf(sluice.WakeTaken, "m"), "", 409, "ALREADY_CLAIMED"},
		{sluice.Errorf(sluice.WakeOffset, "m"), "", 409, "INVALID_OFFSET"},
		{sluice.Errorf(sluice.WakeStale, "m"), "", 409, "STALE_EPOCH"},
		{sluice.Errorf(sluice.WakeGone, "m"), "", 410, "CONSUMER_GONE"},
		{sluice.Errorf(sluice.Unavailable, "m"), "", 503, "unavailable"},
		{sluice.Errorf(sluice.InvalidRequest, "m"), "", 400, "INVALID_REQUEST"},
	} {
		w.answer.Token, w.err = tt.token, tt.err
		a := b.must(t, tt.status, "POST "+callbackAt, `{"epoch":1}`)
		want := map[string]any{"ok": false, "error": map[string]any{"code": tt.code, "message": "m"}}
		if tt.token != "" {
			want["token"] = tt.token
		}
		require.Equal(t, want, a.body, tt.code)
		require.Equal(t, tt.status == 503, a.header.Get("Retry-After") != "")
	}
	w.err = context.Canceled // which is no code
	a := b.must(t, http.StatusInternalServerError, "POST "+callbackAt, `{"epoch":1}`)
	require.Equal(t, "internal", a.code())
	require.Len(t, a.body, 2)
	before := w.last()
	a = b.must(t, http.StatusRequestEntityTooLarge, "POST "+callbackAt, strings.Repeat(" ", 65<<10))
	require.Equal(t, "too_large", a.code())
	require.Len(t, a.body, 2)
	require.Equal(t, before, w.last())
}

// A caller without a good token is refused before its body is read: it is not even asked to send one.
func TestCallback_RefusesBadTokenBeforeBody(t *testing.T) {
	t.Parallel()
	b, w := wakeBench(t)
	body := &counted{Reader: strings.NewReader(`{"epoch":1}`)}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.http.URL+callbackAt, body)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer bad")
	req.Header.Set("Expect", "100-continue")
	transport := &http.Transport{ExpectContinueTimeout: time.Hour}
	t.Cleanup(transport.CloseIdleConnections)
	answer, err := (&http.Client{Transport: transport}).Do(req)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusUnauthorized, answer.StatusCode)
	require.Zero(t, body.read.Load(), "bytes sent")
	require.Empty(t, w.last(), "the engine got no callback")
}

// counted is a reader that counts what is read of it.
type counted struct {
	io.Reader

	read atomic.Int64
}

func (r *counted) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.read.Add(int64(n))
	return n, err
}

// Workers behind one address do not silence one another, nor does a client there that guesses tokens of the API.
func TestCallback_WrongTokensBlockNoOther(t *testing.T) {
	t.Parallel()
	b, w := wakeBench(t)
	opts := b.options()
	opts.Wakes, opts.FailureBurst, opts.FailureEvery = w, 2, time.Hour
	b.http.Close()
	b.http = httptest.NewServer(httpapi.New(opts).Handler())
	t.Cleanup(b.http.Close)
	w.err = sluice.Errorf(sluice.WakeTokenInvalid, "m")
	for range 10 {
		require.Equal(t, "TOKEN_INVALID", b.must(t, http.StatusUnauthorized, "POST "+callbackAt, `{"epoch":1}`, "Authorization", "Bearer forged").code())
	}
	for range 2 {
		b.must(t, http.StatusUnauthorized, "GET /v1/capabilities", "", "Authorization", "Bearer forged")
	}
	b.must(t, http.StatusTooManyRequests, "GET /v1/capabilities", "", "Authorization", "Bearer forged")
	w.err = sluice.Errorf(sluice.WakeTokenExpired, "m")
	b.must(t, http.StatusUnauthorized, "POST "+callbackAt, `{"epoch":1}`, "Authorization", "Bearer late")
	w.err = nil
	b.must(t, http.StatusOK, "POST "+callbackAt, `{"epoch":1}`, "Authorization", "Bearer good")
}

func TestCallback_WithoutWakesIsUnavailable(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.must(t, http.StatusCreated, "PUT "+agents+"?subscription=handler", agentsWish)
	a := b.must(t, http.StatusServiceUnavailable, "POST "+callbackAt, `{"epoch":1}`)
	require.Len(t, a.body, 2, a.text)
	for _, what := range []string{"consumers", "consumers/%2Fagents%2Fa", "status"} {
		b.must(t, http.StatusServiceUnavailable, "GET /v1/subscriptions/handler/"+what, "")
	}
}

func TestConsumer_IsShown(t *testing.T) {
	t.Parallel()
	b, w := wakeBench(t)
	b.must(t, http.StatusCreated, "PUT "+agents+"?subscription=handler", agentsWish)
	const path sluice.Path = "/agents/a %1"
	w.consumers = []sluice.WakeConsumer{{
		ID: model.WakeConsumerID("handler", path), Namespace: "default", Subscription: "handler", Path: path, State: sluice.WakeLive, Epoch: 3,
		Streams: []sluice.WakeStream{{Path: path, Acked: "-1", Pending: new(true)}}, Pending: new(true),
	}, {ID: model.WakeConsumerID("handler", "/agents/b"), Path: "/agents/b"}}
	a := b.must(t, http.StatusOK, "GET /v1/subscriptions/handler/consumers?state=live&cursor=%2Fagents&limit=7", "")
	require.Equal(t, "consumers handler live /agents", w.last())
	require.Equal(t, "more", a.body["next_cursor"])
	require.Equal(t, map[string]any{"idle": 2.0}, a.body["counts"])
	list := a.list(t, "consumers")
	require.Len(t, list, 2)
	require.Equal(t, "handler:%2Fagents%2Fa%20%251", list[0]["id"])
	require.Equal(t, "live", list[0]["state"])
	require.Equal(t, []any{}, list[1]["streams"])

	for _, name := range []string{
		"%2Fagents%2Fa%20%251", "handler:%2Fagents%2Fa%20%251", "handler:%252Fagents%252Fa%2520%25251", "handler%3A%252Fagents%252Fa%2520%25251", "%252Fagents%252Fa%2520%25251",
	} {
		require.Equal(t, list[0]["id"], b.must(t, http.StatusOK, "GET /v1/subscriptions/handler/consumers/"+name, "").body["id"], name)
		require.Equal(t, "consumer handler "+string(path), w.last())
	}
	for _, name := range []string{"%2Fagents%2Fnone", "other:%2Fagents%2Fb", "agents", "%25", "handler:", "%2Fagents%2F*"} {
		b.must(t, http.StatusNotFound, "GET /v1/subscriptions/handler/consumers/"+name, "")
	}
	b.must(t, http.StatusBadRequest, "GET /v1/subscriptions/handler/consumers?state=asleep", "")
	b.must(t, http.StatusBadRequest, "GET /v1/subscriptions/handler/consumers?limit=0", "")
	b.must(t, http.StatusBadRequest, "GET /v1/subscriptions/handler/consumers?path=x", "")

	status := b.must(t, http.StatusOK, "GET /v1/subscriptions/handler/status", "").body
	require.Equal(t, map[string]any{"idle": 2.0}, status["consumers"])
	require.Equal(t, "active", status["state"])
	require.Equal(t, true, b.must(t, http.StatusOK, "GET /v1/capabilities", "").body["features"].(map[string]any)["wake"])
}

// A request about events is refused with the name of what a wake has instead, before its other faults.
func TestWake_RefusesRequestsAboutEvents(t *testing.T) {
	t.Parallel()
	b, w := wakeBench(t)
	b.must(t, http.StatusCreated, "PUT "+agents+"?subscription=handler", agentsWish)
	const one = "/v1/subscriptions/handler"
	for _, line := range []string{
		"POST " + one + "/test", "POST " + one + "/seek", "POST " + one + "/replay", "GET " + one + "/deliveries", "GET " + one + "/deliveries/e", "POST " + one + "/deliveries/e/retry",
		"POST " + one + "/deliveries/e/discard", "GET " + one + "/events", "GET " + one + "/dead-letters", "DELETE " + one + "/dead-letters", "POST " + one + "/dead-letters/redrive",
		"GET " + one + "/dead-letters/e", "DELETE " + one + "/dead-letters/e",
	} {
		a := b.must(t, http.StatusUnprocessableEntity, line, "{}")
		require.Equal(t, "unprocessable", a.code(), line)
		require.Contains(t, a.text, "notices, not events; ", line)
	}
	id := b.subscription(t, hook)
	a := b.must(t, http.StatusUnprocessableEntity, "GET /v1/subscriptions/"+id+"/consumers", "")
	require.Contains(t, a.text, "/deliveries")
	b.must(t, http.StatusUnprocessableEntity, "GET /v1/subscriptions/"+id+"/consumers/%2Fa", "")
	require.Empty(t, w.last())

	require.Equal(t, "paused", b.must(t, http.StatusOK, "POST "+one+"/pause", "").body["state"])
	require.Equal(t, "active", b.must(t, http.StatusOK, "POST "+one+"/resume", "").body["state"])
	require.NotEmpty(t, b.must(t, http.StatusOK, "POST "+one+"/secret/rotate", "").body["secret"])
	b.must(t, http.StatusConflict, "PATCH "+one, `{"endpoint":{"url":"`+hook+`/other"}}`)
	b.must(t, http.StatusOK, "PATCH "+one, `{"enabled":false}`)
}
