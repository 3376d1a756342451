package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/natsd"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// batchBody returns a batch of so many events; change makes one of them different.
func batchBody(n int, change func(i int) string) string {
	events := make([]string, n)
	for i := range events {
		events[i] = fmt.Sprintf(`{"specversion":"1.0","id":"b-%d","type":"t","source":"/s","path":"/b/%d"}`, i, i%3)
		if other := change(i); other != "" {
			events[i] = other
		}
	}
	return "[" + strings.Join(events, ",") + "]"
}

// S4-06, S2-59, C18: with any fault of one event of a batch, and at the bounds, all of it is stored or nothing, and the answer says why.
func TestBatch_IsStoredWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	event := func(id, path, more string) string {
		return `{"specversion":"1.0","id":"` + id + `","type":"t","source":"/s","path":"` + path + `"` + more + `}`
	}
	at := func(which int, text string) func(int) string {
		return func(i int) string {
			if i == which {
				return text
			}
			return ""
		}
	}
	same := func(int) string { return "" }
	loop := func(i int) string {
		if i < 18 {
			return ""
		}
		return event(fmt.Sprint("l-", i), "/loop", fmt.Sprintf(`,"causationid":"l-%d"`, i-1))
	}
	tests := []batchTest{
		{"the most", "most", batchBody(1000, same), http.StatusCreated, "", 1000},
		{"one more", "more", batchBody(1001, same), http.StatusBadRequest, "invalid_request", 0},
		{"none", "none", "[]", http.StatusBadRequest, "invalid_request", 0},
		{"one is too large", "large", batchBody(20, at(10, event("l", "/l", `,"data":"`+strings.Repeat("x", 2<<20)+`"`))), http.StatusRequestEntityTooLarge, "too_large", 0},
		{"one has a path that is none", "path", batchBody(20, at(19, event("p", "/p/*", ""))), http.StatusBadRequest, "invalid_request", 0},
		{"one comes twice", "twice", batchBody(20, at(10, event("b-4", "/b/1", ""))), http.StatusCreated, "", 19},
		{"an id is on two paths", "paths", batchBody(20, at(10, event("b-4", "/other", ""))), http.StatusConflict, "conflict", 0},
		{"the quota ends in the middle", "few", batchBody(4, same), http.StatusTooManyRequests, "quota_exceeded", 1},
		{"one came of itself", "loop", batchBody(20, loop), http.StatusConflict, "event_loop_detected", 0},
	}
	for _, where := range []string{"embedded", "another NATS"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			s := start(t, t.TempDir(), func(c *config.Config) {
				if where != "embedded" {
					c.NATS.URL = natstest.NewWith(t, natsd.Options{}).ClientURL()
				}
			})
			s.must(t, http.StatusCreated, "PUT /v1/namespaces/few", `{"quota":{"events_per_second":0.01,"burst":4}}`)
			s.must(t, http.StatusCreated, "POST /v1/namespaces/few/events", `{"id":"q","path":"/q","type":"t"}`)
			for _, tt := range tests {
				tt.run(t, s)
			}
		})
	}
}

// batchTest is a batch and what becomes of it, in a namespace of its own.
type batchTest struct {
	name, namespace, body string
	status                int
	code                  string
	stored                int
}

func (tt batchTest) run(t *testing.T, s *running) {
	t.Helper()
	if tt.namespace != "few" {
		s.must(t, http.StatusCreated, "PUT /v1/namespaces/"+tt.namespace, "{}")
	}
	r := s.must(t, tt.status, "POST /v1/namespaces/"+tt.namespace+"/events", tt.body, "Content-Type", "application/cloudevents-batch+json")
	if tt.code != "" {
		require.Equal(t, tt.code, r.field(t, "error.code"), tt.name)
	}
	page, err := s.api.Events(t.Context(), tt.namespace, client.EventsQuery{Limit: 1000})
	require.NoError(t, err)
	require.Len(t, page.Items, tt.stored, tt.name)
}

// C18, S2-59, S2-60: of publishers at once each has its batches in one piece, parents before what came of them: in a feed, at
// an endpoint, and in the log.
func TestBatch_ConcurrentOnesStayContiguous(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	hook := hooktest.New(t, nil)
	subscribe(t, s.api, wish(hook.URL, `"policy":{"ordering":"all"}`))
	live, _ := s.feed(t, "pattern=/**&buffer=4096")
	const publishers, rounds, size = 8, 5, 12
	var publishing sync.WaitGroup
	errs := make([]error, publishers)
	for p := range publishers {
		publishing.Go(func() {
			for round := 0; round < rounds && errs[p] == nil; round++ {
				_, errs[p] = s.api.Publish(t.Context(), sluice.DefaultNamespace, family(p, round, size)...)
			}
		})
	}
	publishing.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	const total = publishers * rounds * size
	var fed, sent []string
	for range total {
		fed = append(fed, live.frame().Event.ID)
	}
	for _, r := range hook.Wait(total) {
		sent = append(sent, parse(t, r).ID)
	}
	logged := requireFamilies(t, s.api)
	require.Equal(t, logged, fed)
	require.Equal(t, logged, sent)
}

// family returns a batch of which the first event is the cause of the others.
func family(publisher, round, size int) []sluice.Event {
	events := make([]sluice.Event, size)
	for i := range events {
		events[i] = sluice.Event{ID: fmt.Sprintf("%d-%d-%d", publisher, round, i), Path: sluice.Path(fmt.Sprintf("/p/%d", (publisher+i)%4)), Type: "parent"}
		if i > 0 {
			events[i].Type, events[i].Extensions = "child", map[string]string{sluice.CausationID: events[0].ID}
		}
	}
	return events
}

// requireFamilies returns the ids in the log, where every event follows the one before it in its batch.
func requireFamilies(t *testing.T, api *client.Client) (logged []string) {
	t.Helper()
	page, err := api.Events(t.Context(), sluice.DefaultNamespace, client.EventsQuery{Limit: 1000})
	require.NoError(t, err)
	for i, ev := range page.Items {
		logged = append(logged, ev.ID)
		var p, round, n int
		_, err := fmt.Sscanf(ev.ID, "%d-%d-%d", &p, &round, &n)
		require.NoError(t, err)
		if n > 0 {
			require.Equal(t, fmt.Sprintf("%d-%d-%d", p, round, n-1), logged[i-1])
		}
	}
	return logged
}
