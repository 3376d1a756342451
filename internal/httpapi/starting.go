package httpapi

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// startPatience is how long a request waits for a server that starts. A restart with an embedded
// NATS takes less, so that its callers notice a delay and no error.
const startPatience = 5 * time.Second

// Starting is the handler of a server that starts, for example while it waits for its NATS:
//
//	/livez, /healthz   200 at once: a supervisor must not restart the process
//	/readyz            503 at once
//	others             wait for Ready; after startPatience 503 with Retry-After
//
// After Ready it passes all requests on, also those that wait. It is safe for concurrent use.
type Starting struct {
	ready chan struct{} // closed by Ready, after which api is set
	api   http.Handler
}

// NewStarting returns the handler of a server that is not ready.
func NewStarting() *Starting { return &Starting{ready: make(chan struct{})} }

// Ready makes the API answer all requests. Call it once.
func (s *Starting) Ready(api http.Handler) {
	s.api = api
	close(s.ready)
}

// ServeHTTP answers a request, or passes it on.
func (s *Starting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.isReady() {
		switch r.URL.Path {
		case "/livez", "/healthz":
			answer(w, http.StatusOK, map[string]bool{"ok": true})
			return
		case "/readyz":
			refuse(w, r)
			return
		}
		if !s.wait(r) {
			refuse(w, r)
			return
		}
	}
	s.api.ServeHTTP(w, r)
}

func (s *Starting) isReady() bool {
	select {
	case <-s.ready:
		return true
	default:
		return false
	}
}

// wait waits for Ready. It returns false after startPatience, or when the client has disconnected.
func (s *Starting) wait(r *http.Request) bool {
	limit := time.NewTimer(startPatience)
	defer limit.Stop()
	select {
	case <-s.ready:
		return true
	case <-limit.C:
	case <-r.Context().Done():
	}
	return false
}

// refuse answers that the server is starting (Unavailable).
func refuse(w http.ResponseWriter, r *http.Request) {
	id := requestID(r.Header.Get(echo.HeaderXRequestID))
	w.Header().Set(echo.HeaderXRequestID, id)
	w.Header().Set(echo.HeaderRetryAfter, "1")
	answer(w, http.StatusServiceUnavailable, httpkit.Failure{RequestID: id, Error: httpkit.FailureError{
		Code: sluice.Unavailable, Message: "the server is starting; retry; if this lasts, its log says what it waits for", Details: map[string]any{},
	}})
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set(echo.HeaderContentType, echo.MIMEApplicationJSON)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // fails if the client has disconnected
}
