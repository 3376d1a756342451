package e2e_test

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	logs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	metrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	traces "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/protobuf/proto"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// span is a span as a collector gets it.
type span struct{ name, trace, id, parent string }

// collector takes the three signals by OTLP over HTTP.
type collector struct {
	mu       sync.Mutex
	spans    []span
	lines    []string            // messages of the log
	figures  map[string]struct{} // names of metrics
	services map[string]string   // path: service.name and service.version
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	take, ok := map[string]func([]byte) (service string, err error){"/v1/traces": c.traces, "/v1/logs": c.logs, "/v1/metrics": c.metrics}[r.URL.Path]
	if ok && err == nil {
		c.services[r.URL.Path], err = take(body)
	}
	if err != nil || !ok {
		w.WriteHeader(http.StatusBadRequest)
	}
}

func (c *collector) traces(body []byte) (service string, err error) {
	var got traces.ExportTraceServiceRequest
	err = proto.Unmarshal(body, &got)
	for _, of := range got.GetResourceSpans() {
		service = serviceOf(of.GetResource().GetAttributes())
		for _, scope := range of.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				c.spans = append(c.spans, span{s.GetName(), hex.EncodeToString(s.GetTraceId()), hex.EncodeToString(s.GetSpanId()), hex.EncodeToString(s.GetParentSpanId())})
			}
		}
	}
	return service, err
}

func (c *collector) logs(body []byte) (service string, err error) {
	var got logs.ExportLogsServiceRequest
	err = proto.Unmarshal(body, &got)
	for _, of := range got.GetResourceLogs() {
		service = serviceOf(of.GetResource().GetAttributes())
		for _, scope := range of.GetScopeLogs() {
			for _, l := range scope.GetLogRecords() {
				c.lines = append(c.lines, l.GetSeverityText()+" "+l.GetBody().GetStringValue())
			}
		}
	}
	return service, err
}

func (c *collector) metrics(body []byte) (service string, err error) {
	var got metrics.ExportMetricsServiceRequest
	err = proto.Unmarshal(body, &got)
	for _, of := range got.GetResourceMetrics() {
		service = serviceOf(of.GetResource().GetAttributes())
		for _, scope := range of.GetScopeMetrics() {
			for _, m := range scope.GetMetrics() {
				c.figures[m.GetName()] = struct{}{}
			}
		}
	}
	return service, err
}

func serviceOf(attributes []*common.KeyValue) string {
	all := map[string]string{}
	for _, a := range attributes {
		all[a.GetKey()] = a.GetValue().GetStringValue()
	}
	return all["service.name"] + " " + all["service.version"]
}

// One trace leads from the publisher's request over the event to the endpoint, every attempt a span of its own. The
// collector gets the log and the metrics, too.
func TestTrace_LeadsFromPublisherToEndpoint(t *testing.T) {
	t.Parallel()
	sink := &collector{figures: map[string]struct{}{}, services: map[string]string{}}
	server := httptest.NewServer(sink)
	t.Cleanup(server.Close)
	s := start(t, t.TempDir(), func(c *config.Config) {
		c.Tracing.Endpoint, c.Metrics.Endpoint, c.Log.Endpoint = server.URL, server.URL, server.URL
	})
	hook := hooktest.New(t, status(http.StatusServiceUnavailable, func(r hooktest.Request) bool { return r.Number == 1 }))
	sub := subscribe(t, s.api, wish(hook.URL, quick))
	const trace, caller = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	s.must(t, http.StatusCreated, "POST /v1/namespaces/default/events", `{"path":"/a"}`, "Traceparent", "00-"+trace+"-"+caller+"-01")
	requests := hook.Wait(2)
	statusOf(t, s.api, sub.ID, idle)
	put(t, s.api, "/b", 1, 1)
	statusOf(t, s.api, sub.ID, func(st sluice.Status) bool { return idle(st) && st.AckFloor == 3 })
	s.stop(t) // sends what is left

	sink.mu.Lock()
	defer sink.mu.Unlock()
	byID := map[string]span{}
	var publishes []span
	for _, sp := range sink.spans {
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
	require.Equal(t, map[string]string{"/v1/traces": "sluice test", "/v1/logs": "sluice test", "/v1/metrics": "sluice test"}, sink.services)
	require.Contains(t, sink.lines, "INFO attempt")
	for _, name := range []string{"sluice_attempts_total", "sluice_http_request_duration_seconds", "sluice_build_info", "go_goroutines"} {
		require.Contains(t, sink.figures, name)
	}
}
