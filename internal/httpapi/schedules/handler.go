package schedules

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/internal/ingest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Options holds the engines of a handler.
type Options struct {
	Scheduled    Scheduled    // nil: no scheduled events
	Appointments Appointments // nil: 503
}

// Deps holds the parts of the API that a handler needs.
type Deps struct {
	Rights    httpkit.Rights
	Ingest    *ingest.Ingest
	Namespace func(ctx context.Context, name string) (sluice.Namespace, error)
	// EventAt returns the event with the sequence. Codes NotFound; WindowExceeded.
	EventAt func(ctx context.Context, namespace string, seq uint64) (sluice.Event, error)
}

// Handler handles the requests for scheduled events and appointments.
type Handler struct {
	opts  Options
	needs Deps
}

// New returns a handler.
func New(opts Options, needs Deps) *Handler { return &Handler{opts, needs} }

// Routes returns the routes of scheduled events and appointments.
func (s *Handler) Routes() []httpkit.Route {
	const events, appointments = "/v1/namespaces/:ns/scheduled", "/v1/namespaces/:ns/appointments"
	return []httpkit.Route{
		httpkit.OnPages(appointments, s.appointing, s.listAppointments),
		// The handler also checks the action's path.
		httpkit.On(http.MethodPut, appointments+"/:id", s.appointing, s.putAppointment),
		httpkit.On(http.MethodGet, appointments+"/:id", s.appointing, s.getAppointment),
		httpkit.On(http.MethodDelete, appointments+"/:id", s.appointing, s.cancelAppointment),
		httpkit.OnPages(events, s.scheduling, s.listScheduled, "pattern"),
		httpkit.On(http.MethodGet, events+"/:event", s.scheduling, s.getScheduled),
		httpkit.On(http.MethodDelete, events+"/:event", s.scheduling, s.cancelScheduled),
	}
}

// scheduling requires permission to publish somewhere in the namespace, and support for scheduled
// events.
func (s *Handler) scheduling(c echo.Context) error {
	if err := s.needs.Rights.OnSomePath(sluice.VerbPublish)(c); err != nil {
		return err
	}
	if s.opts.Scheduled == nil {
		return sluice.Errorf(sluice.Unavailable, "this server does not support scheduled events")
	}
	return nil
}

// appointing requires permission to publish somewhere in the namespace, and support for
// appointments.
func (s *Handler) appointing(c echo.Context) error {
	if err := s.needs.Rights.OnSomePath(sluice.VerbPublish)(c); err != nil {
		return err
	}
	if s.opts.Appointments == nil {
		return sluice.Errorf(sluice.Unavailable, "this server does not support appointments")
	}
	return nil
}
