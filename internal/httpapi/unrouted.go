package httpapi

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// unrouted returns the error for a request that matches no route, nil for all others. It may name
// routes, because the list of routes is public.
func unrouted(c echo.Context, err error) *sluice.Error {
	e, ok := errors.AsType[*echo.HTTPError](err)
	switch {
	case ok && e.Code == http.StatusNotFound:
		return sluice.Errorf(sluice.NotFound, "no resource at this URL; %s", elsewhere(c.Request().URL.Path))
	case ok && e.Code == http.StatusMethodNotAllowed:
		return notAllowed(c)
	}
	return nil
}

// notAllowed returns the error for a method that a URL does not know. The router has set Allow.
func notAllowed(c echo.Context) *sluice.Error {
	method, path := c.Request().Method, c.Request().URL.Path
	methods := slices.DeleteFunc(strings.Split(c.Response().Header().Get(echo.HeaderAllow), ", "), func(m string) bool { return m == http.MethodOptions })
	e := sluice.Errorf(httpkit.MethodNotAllowed, "%s is not allowed at this URL, only %s", method, strings.Join(methods, ", ")).With("allow", methods)
	if other := otherMethod(method, strings.Split(strings.Trim(path, "/"), "/")); other != "" {
		e.Message += "; use " + other
	}
	return e
}

// otherMethod returns the request that is likely meant by a method that a URL does not know. at is
// the path by segments; "" if there is no better method.
func otherMethod(method string, at []string) string {
	if len(at) < 2 || at[0] != "v1" {
		return ""
	}
	path := "/" + strings.Join(at, "/")
	switch last := at[len(at)-1]; method + " " + at[1] + " " + strconv.Itoa(len(at)) {
	case "POST subscriptions 4":
		switch last {
		case "replays":
			return "POST " + strings.TrimSuffix(path, "s")
		case "dead-letters":
			return "POST " + path + "/redrive"
		case "deliveries":
			return "POST " + path + "/{event}/retry"
		}
	case "PUT subscriptions 2":
		return "PUT /v1/subscriptions/{id}"
	case "POST subscriptions 3":
		return "PATCH " + path + " to change it, PUT " + path + " to create it"
	case "POST namespaces 2", "PUT namespaces 2":
		return "PUT /v1/namespaces/{ns}"
	case "POST namespaces 3", "PATCH namespaces 3":
		return "PUT " + path
	case "PUT namespaces 4":
		if last == "events" {
			return "POST " + path
		}
	case "POST namespaces 4":
		if last == "event-types" || last == "watches" || last == "appointments" || last == "acl" {
			return "PUT " + path + "/{id}"
		}
	case "DELETE grants 3":
		return "POST " + path + "/revoke"
	}
	return ""
}

// elsewhere returns a hint for a wrong URL: the URL that was probably meant, or else where all URLs
// are listed. It reveals no resource: the hint depends on the text of the URL only.
func elsewhere(path string) string {
	at := strings.Split(strings.Trim(path, "/"), "/")
	if at[0] == "api" {
		at = at[1:]
	}
	if len(at) > 0 && at[0] == "v1" {
		at = at[1:]
	}
	if to := placeOf(at); to != "" && to != path {
		return "use " + to
	}
	return "/docs lists all"
}

// placeOf returns the URL of the resource that users of other services would expect at a path, with
// or without /v1; "" if there is none. The names are those of other webhook services, and likely
// misspellings of this API's.
func placeOf(at []string) string {
	if len(at) == 0 {
		return ""
	}
	rest := strings.Join(at[1:], "/")
	switch at[0] {
	case "health", "live", "ping", "status":
		return "/healthz"
	case "ready":
		return "/readyz"
	case "openapi", "swagger", "swagger.json", "api-docs":
		return "/openapi.json"
	case "event", "events", "messages", "message", "msg", "publish":
		return "/v1/namespaces/{ns}/events"
	case "endpoint", "endpoints", "webhook", "webhooks", "webhook_endpoints", "destinations", "hooks", "subscription":
		return strings.TrimSuffix("/v1/subscriptions/"+rest, "/")
	case "tokens", "keys", "api_keys", "api-keys", "apikeys":
		return "/v1/grants"
	case "namespaces":
		return placeInNamespace(at)
	case "app", "apps", "tenants", "projects":
		return placeInNamespace(append([]string{"namespaces"}, at[1:]...))
	case "subscriptions":
		return placeOfSubscription(at)
	case "grants", "audit", "modules", "principals", "capabilities", "whoami", "storage":
		return "/v1/" + strings.Join(at, "/")
	}
	return ""
}

// placeInNamespace is placeOf below /namespaces.
func placeInNamespace(at []string) string {
	if len(at) < 3 {
		return "/v1/" + strings.Join(at, "/")
	}
	ns := "/v1/namespaces/" + at[1]
	switch at[2] {
	case "subscriptions", "endpoint", "endpoints", "webhooks", "destinations":
		if len(at) > 3 {
			return "/v1/subscriptions/" + strings.Join(at[3:], "/")
		}
		return ns + "/subscriptions"
	case "event", "msg", "message", "messages", "publish", "events":
		return strings.Join(append([]string{ns, "events"}, at[3:]...), "/")
	case "eventtypes", "event_types", "types", "schemas", "topics":
		return ns + "/event-types"
	case "grants", "audit":
		return "/v1/" + at[2]
	}
	return ""
}

// placeOfSubscription is placeOf below /subscriptions.
func placeOfSubscription(at []string) string {
	if len(at) < 3 {
		return "/v1/" + strings.Join(at, "/")
	}
	one := "/v1/subscriptions/" + at[1]
	switch at[2] {
	case "attempts", "attempt", "messages", "delivery", "deliveries":
		return strings.Join(append([]string{one, "deliveries"}, at[3:]...), "/")
	case "dead_letters", "deadletters", "dead", "dlq":
		return strings.Join(append([]string{one, "dead-letters"}, at[3:]...), "/")
	case "rotate", "rotate-secret", "secret":
		return one + "/secret/rotate"
	case "redrive", "retry":
		return one + "/dead-letters/redrive"
	case "replay", "replays":
		return one + "/replay"
	case "health", "state", "stats":
		return one + "/status"
	case "disable":
		return one + "/pause"
	case "enable":
		return one + "/resume"
	}
	return ""
}
