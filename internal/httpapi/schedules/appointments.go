package schedules

import (
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/internal/ingest"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Appointments stores appointments.
type Appointments interface {
	// Set creates an appointment, or replaces the one with its ID if may returns nil. It returns
	// the appointment and whether it is new. Codes: those of may; InvalidRequest; TooLarge;
	// Forbidden; Conflict if it is firing; RevisionMismatch; QuotaExceeded.
	Set(ctx context.Context, a sluice.Appointment, may func(was *sluice.Appointment) error) (sluice.Appointment, bool, error)
	// Get returns an appointment. Code NotFound.
	Get(ctx context.Context, namespace, id string) (sluice.Appointment, error)
	// Of returns the appointments of a namespace, soonest first.
	Of(ctx context.Context, namespace string) ([]sluice.Appointment, error)
	// Cancel cancels an appointment at the revision that was read. Code Conflict if it is too late.
	Cancel(ctx context.Context, a sluice.Appointment, by sluice.Principal) error
}

// appointmentList is one page of appointments.
type appointmentList struct {
	Appointments []sluice.Appointment `json:"appointments"`
	NextCursor   string               `json:"next_cursor"`
}

// AppointmentRequest is the body of a PUT of an appointment.
type AppointmentRequest struct {
	At         time.Time         `json:"at"`
	Every      sluice.Duration   `json:"every"`
	Cron       string            `json:"cron"`
	TimeZone   string            `json:"time_zone"`
	Notice     sluice.Duration   `json:"notice"`
	MissPolicy sluice.MissPolicy `json:"miss_policy"`
	Grace      sluice.Duration   `json:"grace"`
	Action     sluice.Action     `json:"action"`
}

// putAppointment answers PUT /v1/namespaces/{ns}/appointments/{id}: 201 for a new one, else 200.
// The rights to publish the action are checked now, and again at each firing. If-Match fences it:
// RevisionMismatch. Codes: those of Appointments.Set; NotFound for the ID of an appointment that is
// hidden from the caller.
func (s *Handler) putAppointment(c echo.Context) error {
	var req AppointmentRequest
	if err := httpkit.Bind(c, &req); err != nil {
		return err
	}
	ns, who := c.Param("ns"), httpkit.Caller(c)
	a := sluice.Appointment{
		Creator: sluice.Creator{CreatedBy: who.Principal, Grant: who.Binding(), CreatedAt: time.Now().UTC()},
		ID:      c.Param("id"), Namespace: ns, At: req.At, Every: req.Every, Cron: req.Cron, TimeZone: req.TimeZone, Notice: req.Notice, MissPolicy: req.MissPolicy, Grace: req.Grace, Action: req.Action,
	}
	a.SetDefaults()
	if err := a.Validate(); err != nil {
		return err
	}
	if err := s.needs.Ingest.May(ingest.Request{Caller: who, Namespace: ns}, []sluice.Event{a.Action.Event(ns, a.ID)}); err != nil {
		return err
	}
	var err error
	if a.Revision, err = httpkit.IfMatch(c); err != nil {
		return err
	}
	ctx := c.Request().Context()
	if _, err := s.needs.Namespace(ctx, ns); err != nil {
		return err
	}
	is, created, err := s.opts.Appointments.Set(ctx, a, func(was *sluice.Appointment) error { return s.mayHave(c, was) })
	if err != nil {
		return err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	return showAppointment(c, status, is)
}

func showAppointment(c echo.Context, status int, a sluice.Appointment) error {
	httpkit.SetETag(c, a.Revision)
	return c.JSON(status, a)
}

// mayHave returns an error unless the caller manages the appointment: it may publish the action's
// event, and see it. The appointment is hidden from other callers.
func (s *Handler) mayHave(c echo.Context, a *sluice.Appointment) error {
	if httpkit.Caller(c).Unbounded() {
		return nil
	}
	event := a.Action.Event(a.Namespace, a.ID)
	ok, err := s.needs.Rights.Shows(c, sluice.VerbPublish, &event)
	if err == nil && !ok {
		err = authz.Concealed()
	}
	return err
}

// appointmentOf returns the request's appointment.
func (s *Handler) appointmentOf(c echo.Context) (sluice.Appointment, error) {
	a, err := s.opts.Appointments.Get(c.Request().Context(), c.Param("ns"), c.Param("id"))
	if err != nil {
		return a, err
	}
	return a, s.mayHave(c, &a)
}

// getAppointment answers GET …/appointments/{id}. Code NotFound, also for a hidden one.
func (s *Handler) getAppointment(c echo.Context) error {
	a, err := s.appointmentOf(c)
	if err != nil {
		return err
	}
	return showAppointment(c, http.StatusOK, a)
}

// cancelAppointment answers DELETE …/appointments/{id} with 204: a pending one never fires then.
// Codes NotFound; RevisionMismatch; Conflict if it is too late.
func (s *Handler) cancelAppointment(c echo.Context) error {
	a, err := s.appointmentOf(c)
	if err != nil {
		return err
	}
	revision, err := httpkit.IfMatch(c)
	if err != nil {
		return err
	}
	if revision != 0 && revision != a.Revision {
		return sluice.Errorf(sluice.RevisionMismatch, "the appointment is at revision %d", a.Revision)
	}
	if err := s.opts.Appointments.Cancel(c.Request().Context(), a, httpkit.Caller(c).Principal); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// listAppointments lists appointments, soonest first; the cursor is the ID of the last one on the
// previous page.
func (s *Handler) listAppointments(c echo.Context) error {
	p, err := httpkit.PageOf(c)
	if err != nil {
		return err
	}
	if _, err := s.needs.Namespace(c.Request().Context(), c.Param("ns")); err != nil {
		return err
	}
	all, err := s.opts.Appointments.Of(c.Request().Context(), c.Param("ns"))
	if err != nil {
		return err
	}
	after, err := decodePlace(p.Cursor)
	if err != nil {
		return err
	}
	found := []sluice.Appointment{}
	for i := range all {
		if after != "" && place(all[i].At, all[i].ID) <= after {
			continue
		}
		switch err := s.mayHave(c, &all[i]); sluice.CodeOf(err) { //nolint:exhaustive // all others mean that the rights are not known
		case "":
			found = append(found, all[i])
		case sluice.NotFound:
		default:
			return err
		}
		if len(found) > p.Limit {
			break
		}
	}
	page, next := model.FirstPage(found, p.Limit, func(a *sluice.Appointment) string { return encodePlace(a.At, a.ID) })
	return c.JSON(http.StatusOK, appointmentList{page, next})
}
