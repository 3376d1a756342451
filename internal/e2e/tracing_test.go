package e2e_test

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// span is what a collector is told of one.
type span struct{ name, trace, id, parent string }

// collector takes traces by OTLP over HTTP.
type collector struct {
	mu    sync.Mutex
	spans []span
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || r.URL.Path != "/v1/traces" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range fields(body, 1) { // ExportTraceServiceRequest.resource_spans
		for _, scope := range fields(resource, 2) { // ResourceSpans.scope_spans
			for _, s := range fields(scope, 2) { // ScopeSpans.spans
				c.spans = append(c.spans, span{
					name: first(fields(s, 5)), trace: hex.EncodeToString([]byte(first(fields(s, 1)))),
					id: hex.EncodeToString([]byte(first(fields(s, 2)))), parent: hex.EncodeToString([]byte(first(fields(s, 4)))),
				})
			}
		}
	}
}

// fields returns the values of a message's field of bytes.
func fields(message []byte, number protowire.Number) (values [][]byte) {
	for len(message) > 0 {
		n, kind, head := protowire.ConsumeTag(message)
		size := protowire.ConsumeFieldValue(n, kind, message[max(head, 0):])
		if head < 0 || size < 0 {
			return nil
		}
		if value, _ := protowire.ConsumeBytes(message[head:]); n == number && kind == protowire.BytesType {
			values = append(values, value)
		}
		message = message[head+size:]
	}
	return values
}

func first(values [][]byte) string {
	if len(values) == 0 {
		return ""
	}
	return string(values[0])
}

// One trace leads from the publisher's request over the event to the
// endpoint, every attempt a span of its own.
func TestTrace_LeadsFromPublisherToEndpoint(t *testing.T) {
	t.Parallel()
	traces := &collector{}
	server := httptest.NewServer(traces)
	t.Cleanup(server.Close)
	s := start(t, t.TempDir(), func(c *config.Config) { c.Tracing.Endpoint = server.URL })
	hook := hooktest.New(t, status(http.StatusServiceUnavailable, func(r hooktest.Request) bool { return r.Number == 1 }))
	sub := subscribe(t, s.api, wish(hook.URL, quick))
	const trace, caller = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	s.must(t, http.StatusCreated, "POST /v1/namespaces/default/events", `{"path":"/a"}`, "Traceparent", "00-"+trace+"-"+caller+"-01")
	requests := hook.Wait(2)
	statusOf(t, s.api, sub.ID, idle)
	put(t, s.api, "/b", 1, 1)
	statusOf(t, s.api, sub.ID, func(st sluice.Status) bool { return idle(st) && st.AckFloor == 3 })
	s.stop(t) // sends what is left

	traces.mu.Lock()
	defer traces.mu.Unlock()
	byID := map[string]span{}
	var publishes []span
	for _, sp := range traces.spans {
		byID[sp.id] = sp
		if sp.name == "publish" {
			publishes = append(publishes, sp)
		}
	}
	require.Len(t, publishes, 2)
	require.Equal(t, []string{trace, caller}, []string{publishes[0].trace, publishes[0].parent})
	require.NotEqual(t, trace, publishes[1].trace, "a request without a trace begins one")
	require.Empty(t, publishes[1].parent)
	for i, r := range append(requests, hook.Requests()[2]) {
		parent := r.Header.Get("Traceparent")
		require.Regexp(t, `^00-[0-9a-f]{32}-[0-9a-f]{16}-01$`, parent)
		attempt := byID[parent[36:52]]
		require.Equal(t, "attempt", attempt.name)
		require.Equal(t, attempt.trace, parent[3:35])
		require.Equal(t, publishes[i/2].trace, attempt.trace)
		require.Equal(t, publishes[i/2].id, attempt.parent)
	}
}
