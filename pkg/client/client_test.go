package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// answer is what the server says to one request.
type answer struct {
	status int
	body   string
}

// request is what the server was asked.
type request struct {
	line   string
	header http.Header
	body   string
}

// server answers in turn, the last answer for ever, and keeps what it was asked.
type server struct {
	*client.Client

	mu      sync.Mutex
	asked   []request
	answers []answer
}

func serve(t *testing.T, answers ...answer) *server {
	t.Helper()
	s := &server{answers: answers}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked = append(s.asked, request{r.Method + " " + r.URL.RequestURI(), r.Header, string(body)})
		a := s.answers[0]
		if len(s.answers) > 1 {
			s.answers = s.answers[1:]
		}
		w.WriteHeader(a.status)
		_, _ = io.WriteString(w, a.body)
	}))
	t.Cleanup(srv.Close)
	s.Client = client.New(srv.URL+"/", "tok")
	return s
}

func (s *server) requests() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

func TestClient_CallsMatchTheContract(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		call   func(context.Context, *client.Client) error
		want   string
		body   string
		status int
		reply  string
	}{
		{"capabilities", func(ctx context.Context, c *client.Client) error { _, err := c.Capabilities(ctx); return err }, "GET /v1/capabilities", "", 200, "{}"},
		{"ready", func(ctx context.Context, c *client.Client) error { _, err := c.Ready(ctx); return err }, "GET /readyz", "", 200, `{"ok":true}`},
		{"namespaces", func(ctx context.Context, c *client.Client) error { _, err := c.Namespaces(ctx, "c1"); return err }, "GET /v1/namespaces?cursor=c1", "", 200, "{}"},
		{"namespace", func(ctx context.Context, c *client.Client) error { _, err := c.Namespace(ctx, "acme"); return err }, "GET /v1/namespaces/acme", "", 200, "{}"},
		{"put namespace", func(ctx context.Context, c *client.Client) error {
			_, err := c.PutNamespace(ctx, "acme", client.NamespaceSpec{Retention: sluice.Retention{MaxAge: sluice.Duration(time.Hour)}})
			return err
		}, "PUT /v1/namespaces/acme", `{"retention":{"max_age":"1h0m0s","max_bytes":0}}`, 200, "{}"},
		{"delete namespace", func(ctx context.Context, c *client.Client) error { return c.DeleteNamespace(ctx, "acme") }, "DELETE /v1/namespaces/acme", "", 204, ""},
		{"event types", func(ctx context.Context, c *client.Client) error {
			_, err := c.EventTypes(ctx, "acme", "c1")
			return err
		}, "GET /v1/namespaces/acme/event-types?cursor=c1", "", 200, "{}"},
		{"event type", func(ctx context.Context, c *client.Client) error {
			_, err := c.EventType(ctx, "acme", "a/b c")
			return err
		}, "GET /v1/namespaces/acme/event-types/a%2Fb%20c", "", 200, "{}"},
		{"put event type", func(ctx context.Context, c *client.Client) error {
			_, err := c.PutEventType(ctx, "acme", "t", client.EventTypeSpec{Schema: json.RawMessage(`{"a":"<"}`), SummaryFields: []string{"a"}}, 7)
			return err
		}, "PUT /v1/namespaces/acme/event-types/t", `{"schema":{"a":"<"},"summary_fields":["a"]}`, 200, "{}"},
		{"delete event type", func(ctx context.Context, c *client.Client) error { return c.DeleteEventType(ctx, "acme", "t") }, "DELETE /v1/namespaces/acme/event-types/t", "", 204, ""},
		{"audit", func(ctx context.Context, c *client.Client) error {
			_, err := c.Audit(ctx, client.AuditQuery{Namespace: "acme", Action: "subscription.*", Since: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), Limit: 5})
			return err
		}, "GET /v1/audit?action=subscription.%2A&limit=5&namespace=acme&since=2026-01-02T03%3A04%3A05.000000006Z", "", 200, "{}"},
		{"events", func(ctx context.Context, c *client.Client) error {
			_, err := c.Events(ctx, "acme", client.EventsQuery{Pattern: "/a/**", Types: []string{"x", "y.*"}, Since: "-1", Limit: 5})
			return err
		}, "GET /v1/namespaces/acme/events?limit=5&pattern=%2Fa%2F%2A%2A&since=-1&types=x%2Cy.%2A", "", 200, "{}"},
		{"event with an odd id", func(ctx context.Context, c *client.Client) error { _, err := c.Event(ctx, "acme", "a/b c"); return err }, "GET /v1/namespaces/acme/events/a%2Fb%20c", "", 200, "{}"},
		{"subscriptions", func(ctx context.Context, c *client.Client) error {
			_, err := c.Subscriptions(ctx, client.SubscriptionsQuery{Namespace: "acme", State: sluice.Paused})
			return err
		}, "GET /v1/subscriptions?namespace=acme&state=paused", "", 200, "{}"},
		{"create", func(ctx context.Context, c *client.Client) error {
			_, _, err := c.CreateSubscription(ctx, client.SubscriptionSpec{Pattern: "/**", Endpoint: sluice.Endpoint{URL: "https://e"}})
			return err
		}, "POST /v1/subscriptions", `{"pattern":"/**","endpoint":{"url":"https://e"}}`, 201, "{}"},
		{"put", func(ctx context.Context, c *client.Client) error {
			_, _, err := c.PutSubscription(ctx, "s", json.RawMessage(`{"target":"scope:acme"}`))
			return err
		}, "PUT /v1/subscriptions/s", `{"target":"scope:acme"}`, 200, "{}"},
		{"subscription", func(ctx context.Context, c *client.Client) error { _, err := c.Subscription(ctx, "s"); return err }, "GET /v1/subscriptions/s", "", 200, "{}"},
		{"patch", func(ctx context.Context, c *client.Client) error {
			_, err := c.PatchSubscription(ctx, "s", map[string]any{"enabled": false}, 7)
			return err
		}, "PATCH /v1/subscriptions/s", `{"enabled":false}`, 200, "{}"},
		{"consumers", func(ctx context.Context, c *client.Client) error {
			_, err := c.Consumers(ctx, "s", client.ConsumersQuery{State: sluice.WakeLive, Limit: 5, Cursor: "/a"})
			return err
		}, "GET /v1/subscriptions/s/consumers?cursor=%2Fa&limit=5&state=live", "", 200, "{}"},
		{"consumer by its path", func(ctx context.Context, c *client.Client) error {
			_, err := c.Consumer(ctx, "s", "/a/b c")
			return err
		}, "GET /v1/subscriptions/s/consumers/%2Fa%2Fb%20c", "", 200, "{}"},
		{"consumer by its id", func(ctx context.Context, c *client.Client) error {
			_, err := c.Consumer(ctx, "s", "s:%2Fa%2Fb")
			return err
		}, "GET /v1/subscriptions/s/consumers/s:%252Fa%252Fb", "", 200, "{}"},
		{"delete", func(ctx context.Context, c *client.Client) error { return c.DeleteSubscription(ctx, "s") }, "DELETE /v1/subscriptions/s", "", 204, ""},
		{"pause", func(ctx context.Context, c *client.Client) error { _, err := c.PauseSubscription(ctx, "s"); return err }, "POST /v1/subscriptions/s/pause", "", 200, "{}"},
		{"resume", func(ctx context.Context, c *client.Client) error {
			_, err := c.ResumeSubscription(ctx, "s")
			return err
		}, "POST /v1/subscriptions/s/resume", "", 200, "{}"},
		{"rotate", func(ctx context.Context, c *client.Client) error {
			_, err := c.RotateSecret(ctx, "s", time.Hour)
			return err
		}, "POST /v1/subscriptions/s/secret/rotate", `{"overlap":"1h0m0s"}`, 200, "{}"},
		{"test", func(ctx context.Context, c *client.Client) error { _, err := c.TestSubscription(ctx, "s"); return err }, "POST /v1/subscriptions/s/test", "", 200, "{}"},
		{"test with an example", func(ctx context.Context, c *client.Client) error {
			_, err := c.TestSubscriptionWith(ctx, "s", "order.paid")
			return err
		}, "POST /v1/subscriptions/s/test", `{"type":"order.paid"}`, 200, "{}"},
		{"attempts", func(ctx context.Context, c *client.Client) error {
			_, err := c.Attempts(ctx, "n", client.AttemptsQuery{Subscription: "s", After: "7", Wait: time.Second, Limit: 5})
			return err
		}, "GET /v1/namespaces/n/attempts?after=7&limit=5&subscription=s&wait=1s", "", 200, "{}"},
		{"match", func(ctx context.Context, c *client.Client) error {
			_, err := c.MatchSubscription(ctx, "s", client.MatchRequest{EventID: "e"})
			return err
		}, "POST /v1/subscriptions/s/match", `{"event_id":"e"}`, 200, "{}"},
		{"status", func(ctx context.Context, c *client.Client) error { _, err := c.Status(ctx, "s"); return err }, "GET /v1/subscriptions/s/status", "", 200, "{}"},
		{"deliveries", func(ctx context.Context, c *client.Client) error {
			_, err := c.Deliveries(ctx, "s", client.DeliveriesQuery{State: "dead", Since: "9", Path: "/a/**", Types: []string{"x"}})
			return err
		}, "GET /v1/subscriptions/s/deliveries?event_type=x&path=%2Fa%2F%2A%2A&since=9&state=dead", "", 200, "{}"},
		{"discard", func(ctx context.Context, c *client.Client) error {
			_, err := c.DiscardDelivery(ctx, "s", "e 1")
			return err
		}, "POST /v1/subscriptions/s/deliveries/e%201/discard", "", 202, "{}"},
		{"retry", func(ctx context.Context, c *client.Client) error {
			_, err := c.RetryDelivery(ctx, "s", "e 1")
			return err
		}, "POST /v1/subscriptions/s/deliveries/e%201/retry", "", 202, "{}"},
		{"window", func(ctx context.Context, c *client.Client) error {
			_, err := c.SubscriptionEvents(ctx, "s", client.WindowQuery{After: "7", Limit: 5, Wait: 30 * time.Second})
			return err
		}, "GET /v1/subscriptions/s/events?after=7&envelope=cloudevents&limit=5&wait=30s", "", 200, "{}"},
		{"state", func(ctx context.Context, c *client.Client) error {
			_, err := c.State(ctx, "acme", client.StateQuery{Pattern: "/a/**", At: 7, Limit: 5, Cursor: "7.3"})
			return err
		}, "GET /v1/namespaces/acme/state?at_seq=7&cursor=7.3&limit=5&pattern=%2Fa%2F%2A%2A", "", 200, `{"seq":7,"events":[],"next_cursor":""}`},
		{"state of some types", func(ctx context.Context, c *client.Client) error {
			_, err := c.State(ctx, "acme", client.StateQuery{Filter: sluice.Filter{Types: []string{"a.*"}}})
			return err
		}, "GET /v1/namespaces/acme/state?filter=%7B%22types%22%3A%5B%22a.%2A%22%5D%7D", "", 200, `{"seq":7,"events":[],"next_cursor":""}`},
		{"state of a path", func(ctx context.Context, c *client.Client) error {
			_, err := c.StateOf(ctx, "acme", "/a/b c//é")
			return err
		}, "GET /v1/namespaces/acme/state/a%2Fb%20c%2F%2F%C3%A9", "", 200, "{}"},
		{"delivery", func(ctx context.Context, c *client.Client) error { _, err := c.Delivery(ctx, "s", "e"); return err }, "GET /v1/subscriptions/s/deliveries/e", "", 200, "{}"},
		{"dead letters", func(ctx context.Context, c *client.Client) error {
			_, err := c.DeadLetters(ctx, "s", client.DeadLettersQuery{Reason: sluice.Exhausted, Path: "/a/**", Limit: 7})
			return err
		}, "GET /v1/subscriptions/s/dead-letters?limit=7&path=%2Fa%2F%2A%2A&reason=exhausted", "", 200, "{}"},
		{"dead letter", func(ctx context.Context, c *client.Client) error { _, err := c.DeadLetter(ctx, "s", "a/b"); return err }, "GET /v1/subscriptions/s/dead-letters/a%2Fb", "", 200, "{}"},
		{"discard dead letter", func(ctx context.Context, c *client.Client) error { return c.DiscardDeadLetter(ctx, "s", "e") }, "DELETE /v1/subscriptions/s/dead-letters/e", "", 204, ""},
		{"discard dead letters", func(ctx context.Context, c *client.Client) error { return c.DiscardDeadLetters(ctx, "s") }, "DELETE /v1/subscriptions/s/dead-letters?all=true", "", 204, ""},
		{"redrive", func(ctx context.Context, c *client.Client) error {
			_, err := c.Redrive(ctx, "s", client.RedriveSpec{IDs: []string{"e"}, Rate: sluice.Rate{PerSecond: 2}})
			return err
		}, "POST /v1/subscriptions/s/dead-letters/redrive", `{"ids":["e"],"rate":{"per_second":2}}`, 202, "{}"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, answer{tt.status, tt.reply})
			require.NoError(t, tt.call(t.Context(), s.Client))
			got := s.requests()[0]
			require.Equal(t, tt.want, got.line)
			require.Equal(t, tt.body, got.body)
			require.Equal(t, "Bearer tok", got.header.Get("Authorization"))
			if tt.name == "patch" {
				require.Equal(t, "application/merge-patch+json", got.header.Get("Content-Type"))
				require.Equal(t, `"7"`, got.header.Get("If-Match"))
			}
		})
	}
}

func TestPublish_SendsCloudEvents(t *testing.T) {
	t.Parallel()
	s := serve(t, answer{201, `{"events":[{"id":"a","seq":1,"path":"/o/1"},{"id":"b","seq":2,"path":"/o/2"},{"id":"c","seq":3,"path":"/o/3","duplicate":true}]}`})
	stored, err := s.Publish(
		t.Context(), "acme",
		sluice.Event{ID: "a", Path: "/o/1", Type: "order.placed", Data: []byte(`{"n":1}`), Extensions: map[string]string{"region": "eu"}},
		sluice.Event{ID: "b", Path: "/o/2", ContentType: "text/plain", Data: []byte("hello")},
		sluice.Event{ID: "c", Path: "/o/3", Data: []byte{0xff}},
	)
	require.NoError(t, err)
	require.Equal(t, uint64(2), stored[1].Seq)
	require.True(t, stored[2].Duplicate)
	got := s.requests()[0]
	require.Equal(t, "application/cloudevents-batch+json", got.header.Get("Content-Type"))
	require.JSONEq(t, `[
		{"specversion":"1.0","id":"a","path":"/o/1","type":"order.placed","source":"/sluice/client","region":"eu","datacontenttype":"application/json","data":{"n":1}},
		{"specversion":"1.0","id":"b","path":"/o/2","type":"message","source":"/sluice/client","datacontenttype":"text/plain","data":"hello"},
		{"specversion":"1.0","id":"c","path":"/o/3","type":"message","source":"/sluice/client","datacontenttype":"application/octet-stream","data_base64":"/w=="}]`, got.body)
}

func TestPublish_RepeatKeepsTheIDs(t *testing.T) {
	t.Parallel()
	s := serve(t, answer{503, ""}, answer{201, `{"events":[{"id":"x","seq":1,"path":"/a"}]}`})
	_, err := s.Publish(t.Context(), "acme", sluice.Event{Path: "/a"})
	require.NoError(t, err)
	got := s.requests()
	require.Len(t, got, 2)
	require.Equal(t, got[0].body, got[1].body)
	var body struct{ ID string }
	require.NoError(t, json.Unmarshal([]byte(got[0].body), &body))
	require.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, body.ID)
}

func TestEvents_ReadAsPublished(t *testing.T) {
	t.Parallel()
	s := serve(t, answer{200, `{"events":[
		{"specversion":"1.0","id":"a","source":"/s","type":"t","time":"2026-01-02T03:04:05Z","path":"/o/1","namespace":"acme","sequence":"7","region":"eu","data":{"n":1}},
		{"specversion":"1.0","id":"b","source":"/s","type":"t","path":"/o/2","namespace":"acme","sequence":"8","datacontenttype":"text/plain","data":"hello"},
		{"specversion":"1.0","id":"c","source":"/s","type":"t","path":"/o/3","namespace":"acme","sequence":"9","data":"json text"},
		{"specversion":"1.0","id":"d","source":"/s","type":"t","path":"/o/4","namespace":"acme","sequence":"00000000000000000010","datacontenttype":"image/png","data_base64":"/w=="}],"next_cursor":"n"}`})
	page, err := s.Events(t.Context(), "acme", client.EventsQuery{})
	require.NoError(t, err)
	require.Equal(t, "n", page.Next)
	require.Equal(t, sluice.Event{
		Namespace: "acme", ID: "a", Source: "/s", Type: "t", Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Path: "/o/1", Seq: 7, Extensions: map[string]string{"region": "eu"}, Data: []byte(`{"n":1}`),
	}, page.Items[0])
	require.Equal(t, "hello", string(page.Items[1].Data))
	require.Equal(t, `"json text"`, string(page.Items[2].Data))
	require.Equal(t, []byte{0xff}, page.Items[3].Data)
}

func TestCreateSubscription_ReadsTheSecretFromEitherPlace(t *testing.T) {
	t.Parallel()
	for _, body := range []string{`{"id":"s","secret":"whsec_x"}`, `{"id":"s","endpoint":{"url":"u","secret":"whsec_x"}}`} {
		s := serve(t, answer{201, body})
		sub, created, err := s.CreateSubscription(t.Context(), client.SubscriptionSpec{})
		require.NoError(t, err)
		require.True(t, created)
		require.Equal(t, "s", sub.ID)
		require.Equal(t, "whsec_x", sub.Endpoint.Secret)
	}
	s := serve(t, answer{200, `{"id":"s"}`})
	_, created, err := s.CreateSubscription(t.Context(), client.SubscriptionSpec{})
	require.NoError(t, err)
	require.False(t, created, "200 means that there was one already")
}

func TestError_HasServerCodeAndRequestID(t *testing.T) {
	t.Parallel()
	s := serve(t, answer{422, `{"ok":false,"error":{"code":"blocked_address","message":"10.0.0.1 is private","details":{"address":"10.0.0.1"}},"request_id":"r1"}`})
	_, _, err := s.CreateSubscription(t.Context(), client.SubscriptionSpec{})
	e, ok := errors.AsType[*sluice.Error](err)
	require.True(t, ok)
	require.Equal(t, sluice.BlockedAddress, e.Code)
	require.Equal(t, "10.0.0.1 is private", e.Error())
	require.Equal(t, map[string]any{"address": "10.0.0.1", "request_id": "r1"}, e.Details)
}

func TestError_ForeignAnswerHasTheCodeOfItsStatus(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]sluice.Code{
		400: sluice.InvalidRequest, 401: sluice.Unauthenticated, 403: sluice.Forbidden, 404: sluice.NotFound, 409: sluice.Conflict,
		412: sluice.RevisionMismatch, 413: sluice.TooLarge, 429: sluice.QuotaExceeded, 502: sluice.Unavailable, 500: sluice.Internal,
	} {
		s := serve(t, answer{status, "<html>"})
		_, err := s.Status(t.Context(), "s")
		require.Equal(t, want, sluice.CodeOf(err), status)
	}
}

func TestClient_RepeatsOnlyHarmlessCalls(t *testing.T) {
	t.Parallel()
	s := serve(t, answer{503, ""}, answer{503, ""}, answer{200, `{"id":"s"}`})
	sub, err := s.Subscription(t.Context(), "s")
	require.NoError(t, err)
	require.Equal(t, "s", sub.ID)
	require.Len(t, s.requests(), 3)

	s = serve(t, answer{503, ""})
	s.Retries = 2
	_, err = s.Subscription(t.Context(), "s")
	require.Equal(t, sluice.Unavailable, sluice.CodeOf(err))
	require.Len(t, s.requests(), 3, "the number of repetitions is bounded")

	s = serve(t, answer{503, ""})
	_, err = s.RotateSecret(t.Context(), "s", 0)
	require.Equal(t, sluice.Unavailable, sluice.CodeOf(err))
	require.Len(t, s.requests(), 1, "a second rotation would end the first one's secret")
	require.JSONEq(t, `{"overlap":"0s"}`, s.requests()[0].body, "0 is no default: the old secret is removed")

	s = serve(t, answer{500, ""})
	_, err = s.Status(t.Context(), "s")
	require.Error(t, err)
	require.Len(t, s.requests(), 1, "a 500 does not get better")
}

func TestClient_AbsentServerIsUnavailable(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := "http://" + listener.Addr().String()
	require.NoError(t, listener.Close())
	c := client.New(address, "")
	c.Retries = 1
	_, err = c.Namespace(t.Context(), "acme")
	require.Equal(t, sluice.Unavailable, sluice.CodeOf(err))
	require.ErrorContains(t, err, "no response from "+address)
}

func TestClient_ContextEndsACall(t *testing.T) {
	t.Parallel()
	s := serve(t, answer{503, ""})
	s.Retries = 1000
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := s.Namespace(ctx, "acme")
	require.Error(t, err)
	require.Error(t, ctx.Err())
	_, err = s.Namespace(ctx, "acme")
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestClient_AnswerWithoutJSONIsAnError(t *testing.T) {
	t.Parallel()
	s := serve(t, answer{200, "<html>"})
	_, err := s.Status(t.Context(), "s")
	require.ErrorContains(t, err, "does not have the expected JSON structure")
	s = serve(t, answer{200, `{"subscriptions":{}}`})
	_, err = s.Subscriptions(t.Context(), client.SubscriptionsQuery{})
	require.ErrorContains(t, err, "unexpected subscriptions")
}

// The data of an event arrives as it was given, spaces and all.
func TestPublish_SendsDataByteForByte(t *testing.T) {
	t.Parallel()
	s := serve(t, answer{201, `{"events":[{"id":"a","seq":1,"path":"/o"},{"id":"b","seq":2,"path":"/o"}]}`})
	const data = "{ \"b\": 1.50,\n  \"a\": \"<&>\" }"
	ev := sluice.Event{ID: "a", Path: "/o", Source: "/<s>", Data: []byte(data)}
	_, err := s.Publish(t.Context(), "acme", ev, sluice.Event{ID: "b", Path: "/o", Data: []byte(data)})
	require.NoError(t, err)
	_, err = s.Publish(t.Context(), "acme", ev)
	require.Error(t, err, "two are confirmed")
	for _, r := range s.requests() {
		require.Contains(t, r.body, `"data":`+data+`}`)
		require.True(t, json.Valid([]byte(r.body)), r.body)
	}
}

func TestClient_RefusesEmptyNamesBeforeSending(t *testing.T) {
	t.Parallel()
	s := serve(t, answer{200, "{}"})
	_, err := s.Subscription(t.Context(), "")
	require.ErrorContains(t, err, "a name is empty")
	require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err))
	_, err = s.Delivery(t.Context(), "s", "")
	require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err))
	require.Empty(t, s.requests())
}

// A repeated batch has the key of the first, so that its answer has the secrets; a dry run needs none.
func TestCreateSubscriptions_RepeatHasTheSameKey(t *testing.T) {
	t.Parallel()
	s := serve(t, answer{http.StatusServiceUnavailable, `{}`}, answer{http.StatusOK, `{"results":[
		{"index":0,"status":"created","id":"a","secret":"whsec_x"},
		{"index":1,"status":"error","error":{"code":"insecure_url","message":"use https","details":{"field":"x"}}}],"created":1,"exists":0,"failed":1}`})
	specs := []client.SubscriptionSpec{{ID: "a", Pattern: "/a"}, {Pattern: "/b"}}
	results, err := s.CreateSubscriptions(t.Context(), specs)
	require.NoError(t, err)
	require.Equal(t, []client.BatchResult{
		{Status: client.BatchCreated, ID: "a", Secret: "whsec_x"},
		{Status: client.BatchFailed, Error: sluice.Errorf(sluice.InsecureURL, "use https").With("field", "x")},
	}, results)
	asked := s.requests()
	require.Len(t, asked, 2)
	require.Equal(t, "POST /v1/subscriptions/batch", asked[1].line)
	require.JSONEq(t, `[{"id":"a","pattern":"/a"},{"pattern":"/b"}]`, asked[1].body)
	require.NotEmpty(t, asked[0].header.Get("Idempotency-Key"))
	require.Equal(t, asked[0].header.Get("Idempotency-Key"), asked[1].header.Get("Idempotency-Key"))

	_, err = s.CheckSubscriptions(t.Context(), []json.RawMessage{json.RawMessage(`{}`)})
	require.NoError(t, err)
	require.Equal(t, "POST /v1/subscriptions/batch?dry_run=true", s.requests()[2].line)
	require.Empty(t, s.requests()[2].header.Get("Idempotency-Key"))
}
