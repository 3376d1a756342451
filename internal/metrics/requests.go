package metrics

import (
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-io/sluice/internal/model"
)

// requests counts HTTP requests by route, method and class of status. Routes are patterns, so the
// number of label values is bounded.
type requests struct {
	served   *prometheus.CounterVec
	duration *prometheus.HistogramVec
	known    sync.Map // *requestFigures by requestKind; a lookup by labels costs ten times as much
}

// requestKind is a kind of requests that are counted together. A request without a route has the
// route model.Unrouted.
type requestKind struct {
	route, method string
	class         int // first digit of the status
}

type requestFigures struct {
	served   prometheus.Counter
	duration prometheus.Observer
}

func newRequests() *requests {
	labels := []string{"route", "method", "status"}
	return &requests{
		served: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sluice_http_requests_total", Help: "Requests that the HTTP API served, by route, method and class of status: 2xx, 4xx, …",
		}, labels),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sluice_http_request_duration_seconds", Help: "Duration of these requests, without feeds and long polls.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, labels),
	}
}

// Served counts an HTTP request that has ended. A request that waits for news counts, without its
// duration.
func (m *Metrics) Served(r model.Served) { m.requests.add(&r) }

// add counts a request. It creates the figures of a kind at its first request.
func (q *requests) add(r *model.Served) {
	const hundred = 100
	kind := requestKind{r.Route, r.Method, r.Status / hundred}
	found, ok := q.known.Load(kind)
	if !ok {
		class := strconv.Itoa(kind.class) + "xx"
		found, _ = q.known.LoadOrStore(kind, &requestFigures{
			q.served.WithLabelValues(r.Route, r.Method, class), q.duration.WithLabelValues(r.Route, r.Method, class),
		})
	}
	figures, _ := found.(*requestFigures)
	figures.served.Inc()
	if !r.Waits {
		figures.duration.Observe(r.Took.Seconds())
	}
}
