package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/cloudevent"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/internal/ingest"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// publish answers POST /v1/namespaces/{ns}/events: 201 with the positions when JetStream has stored
// the events, or 202 for an event with a time in the future. A batch is stored as a whole or not at
// all. A repeated event ID within the dedup window is a duplicate and no error. Codes: those of
// ingest.Admit, among them UnknownEventType and InvalidEventData (S4-64), EventLoopDetected (S4-82)
// and QuotaExceeded; Conflict for an ID that belongs to another event.
func (s *Server) publish(c echo.Context) error {
	data, err := httpkit.Body(c)
	if err != nil {
		return err
	}
	events, err := cloudevent.Parse(c.Request().Header, data, model.SeedFrom(c.Request().Context()))
	if err != nil {
		return err
	}
	when, err := deliverAt(events, time.Now())
	if err != nil {
		return err
	}
	if err := s.admit(c, len(data))(c.Request().Context(), events); err != nil {
		return err
	}
	if !when.IsZero() {
		return s.schedules.Schedule(c, events[0], when)
	}
	return s.publishNow(c, events)
}

// publishNow publishes the events of a request after all checks.
func (s *Server) publishNow(c echo.Context, events []sluice.Event) error {
	if err := s.unawaited(c, events); err != nil {
		return err
	}
	stored, err := s.opts.Ingest.Store(c.Request().Context(), c.Param("ns"), events)
	if err != nil {
		return err
	}
	for i := range stored {
		if events[i].Type == sluice.DefaultType { // the request may have omitted it
			stored[i].Type = sluice.DefaultType
		}
	}
	return c.JSON(http.StatusCreated, struct {
		Events []sluice.Stored `json:"events"`
	}{stored})
}

// admit returns a function that checks the events of a request before they are published or
// appended to a stream. Size is the number of bytes of the request.
func (s *Server) admit(c echo.Context, size int) func(context.Context, []sluice.Event) error {
	header, r := c.Request().Header, ingest.Request{Caller: httpkit.Caller(c), Namespace: c.Param("ns"), Bytes: size}
	if h := model.HandlingFrom(c.Request().Context()); h != nil {
		r.Caller, r.For = h.By, h
	}
	return func(ctx context.Context, events []sluice.Event) error {
		if err := cloudevent.InheritTrace(header, events); err != nil {
			return err
		}
		return s.opts.Ingest.Admit(ctx, r, events)
	}
}

// deliverAt returns the scheduled time of a request's events, zero for now. Code InvalidRequest if
// it differs among them: a batch is stored atomically.
func deliverAt(events []sluice.Event, now time.Time) (time.Time, error) {
	for i := range events {
		when, told, err := events[i].TellsDeliverAt()
		switch {
		case err != nil:
			return time.Time{}, model.InBatch(i, len(events), err)
		case !told || !when.After(now):
		case len(events) > 1:
			return time.Time{}, model.InBatch(i, len(events), sluice.Errorf(sluice.InvalidRequest, "send a scheduled event (%s) alone: a batch is stored atomically and immediately",
				when.Format(time.RFC3339)).With("field", sluice.AttributeDeliverAt))
		default:
			return when, nil
		}
	}
	return time.Time{}, nil
}

// unawaited returns an error (Conflict) if one of the admitted events is already scheduled. An event
// with its own scheduled time is a retry of the scheduled one.
func (s *Server) unawaited(c echo.Context, events []sluice.Event) error {
	for i := range events {
		if _, told := events[i].Extensions[sluice.AttributeDeliverAt]; told {
			continue
		}
		if err := s.schedules.Waits(c, &events[i]); err != nil {
			return model.InBatch(i, len(events), err)
		}
	}
	return nil
}
