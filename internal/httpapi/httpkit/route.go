package httpkit

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Route is a request of the API, with its access requirement.
type Route struct {
	Method string
	Path   string
	Demand echo.HandlerFunc // returns an error unless the caller may make the request
	Handle echo.HandlerFunc
	Params []string // query parameters
}

// On returns a route.
func On(method, path string, demand, handle echo.HandlerFunc, params ...string) Route {
	return Route{Method: method, Path: path, Demand: demand, Handle: handle, Params: params}
}

// OnPages returns the route of a list that PageOf divides into pages.
func OnPages(path string, demand, handle echo.HandlerFunc, params ...string) Route {
	return On(http.MethodGet, path, demand, handle, append(params, "limit", "cursor")...)
}

// CheckQuery returns an error (InvalidRequest) for a query with parameters that the route would
// ignore: those that url.URL.Query drops, and below /v1 unknown and repeated ones. Preflight
// requests repeat the query of the request that follows.
func (r Route) CheckQuery(c echo.Context) error {
	query, err := url.ParseQuery(c.Request().URL.RawQuery)
	if err != nil {
		return sluice.Errorf(sluice.InvalidRequest, "the query cannot be read: percent-encode ; and %%")
	}
	if !strings.HasPrefix(r.Path, "/v1/") || r.Method == http.MethodOptions {
		return nil
	}
	for name, values := range query {
		if !slices.Contains(r.Params, name) {
			return r.unknown(name)
		}
		if len(values) > 1 && !slices.Contains([]string{"types", "sources", "subjects", "labels"}, name) {
			return sluice.Errorf(sluice.InvalidRequest, "query parameter %q is repeated", name).With("field", name)
		}
	}
	return nil
}

func (r Route) unknown(param string) error {
	valid := "this request has none"
	if len(r.Params) > 0 {
		valid = "valid parameters are " + strings.Join(r.Params, ", ")
	}
	return sluice.Errorf(sluice.InvalidRequest, "query parameter %q is unknown; %s", param, valid).With("field", param)
}

// Open allows every request, even an unauthenticated one.
func Open(echo.Context) error { return nil }

// Authenticated requires an authenticated caller.
func Authenticated(c echo.Context) error {
	if Caller(c) == (sluice.Caller{}) {
		return sluice.Errorf(sluice.Unauthenticated, "the caller is unknown")
	}
	return nil
}

// IfSupported returns the routes of a resource. If the server does not support it, requests that
// meet a route's requirement end with the message (Unavailable).
func IfSupported(supported bool, message string, routes []Route) []Route { //nolint:revive // supported is a property of the server
	if supported {
		return routes
	}
	for i := range routes {
		routes[i].Handle = func(echo.Context) error { return sluice.Errorf(sluice.Unavailable, "%s", message) }
	}
	return routes
}
