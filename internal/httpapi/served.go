package httpapi

import (
	"net/http"
	"slices"
	"time"

	"github.com/sluice-io/sluice/internal/model"
)

// Requests counts the requests that have ended.
type Requests interface {
	Served(r model.Served)
}

// routeKey names a route.
type routeKey struct{ method, path string }

// count counts a request. A path or method of no route is not used as a label, because the caller
// may choose any text.
func (s *Server) count(r *served, took time.Duration) {
	if s.opts.Requests == nil {
		return
	}
	is := model.Served{Method: r.method, Route: r.route, Status: r.status, Took: took, Waits: r.waits}
	if _, known := s.known[routeKey{r.method, r.route}]; !known {
		is.Route = model.Unrouted
		if !slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions}, r.method) {
			is.Method = model.Other
		}
	}
	s.opts.Requests.Served(is)
}
