package httpkit

import (
	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Route is a request of the API, with its access requirement.
type Route struct {
	Method string
	Path   string
	Demand echo.HandlerFunc // returns an error unless the caller may make the request
	Handle echo.HandlerFunc
}

// On returns a route.
func On(method, path string, demand, handle echo.HandlerFunc) Route {
	return Route{Method: method, Path: path, Demand: demand, Handle: handle}
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
