package admin

import (
	"net/http"
	"net/http/pprof" // it adds routes to the default mux, which nothing serves
	"slices"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// maxProfile is the longest time that a profile may cover, in seconds. It is below the timeout of a
// response.
const maxProfile = 60

// profile sends a profile of the process in the format of pprof. Only one is made at a time: two
// would measure each other.
func (s *Handler) profile(c echo.Context) error {
	if !s.needs.Pprof {
		return sluice.Errorf(sluice.NotFound, "profiles are not served; the setting http.pprof serves them")
	}
	name := c.Param("profile")
	names := []string{"allocs", "block", "goroutine", "heap", "mutex", "profile", "threadcreate", "trace"}
	if !slices.Contains(names, name) {
		return sluice.Errorf(sluice.NotFound, "no profile %q: there are %q", name, names)
	}
	if given := c.QueryParam("seconds"); given != "" {
		if n, err := strconv.Atoi(given); err != nil || n < 1 || n > maxProfile {
			return sluice.Errorf(sluice.InvalidRequest, "seconds %q: write a number from 1 to %d", given, maxProfile).With("field", "seconds")
		}
	}
	if !s.profiling.TryLock() {
		return sluice.Errorf(sluice.Conflict, "another profile is being made; retry when it is done")
	}
	defer s.profiling.Unlock()
	serve := pprof.Handler(name)
	switch name {
	case "profile":
		serve = http.HandlerFunc(pprof.Profile)
	case "trace":
		serve = http.HandlerFunc(pprof.Trace)
	}
	serve.ServeHTTP(c.Response(), c.Request())
	return nil
}
