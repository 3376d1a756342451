package httpapi

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/httpapi/cloudevent"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func (s *Server) publish(c echo.Context) error {
	data, err := httpkit.Body(c)
	if err != nil {
		return err
	}
	events, err := cloudevent.Parse(c.Request().Header, data)
	if err != nil {
		return err
	}
	for i := range events {
		if err := s.rights.Require(c, sluice.VerbPublish, authz.Target{Namespace: c.Param("ns"), Path: events[i].Path}); err != nil {
			return err
		}
	}
	when, err := deliverAt(events, time.Now())
	if err != nil {
		return err
	}
	if err := s.admit(c, len(data))(c.Request().Context(), events); err != nil {
		return s.unchained(c, err)
	}
	if !when.IsZero() {
		return s.schedule(c, events[0], when)
	}
	return s.publishNow(c, events)
}

// publishNow publishes the events of a request after all checks.
func (s *Server) publishNow(c echo.Context, events []sluice.Event) error {
	if err := s.unawaited(c, events); err != nil {
		return err
	}
	stored, err := s.opts.Publisher.Publish(c.Request().Context(), c.Param("ns"), events)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusCreated, struct {
		Events []sluice.Stored `json:"events"`
	}{stored})
}

// admit returns the checks before events of a request with a number of bytes are published, or
// appended to a stream.
func (s *Server) admit(c echo.Context, size int) func(context.Context, []sluice.Event) error {
	ns, answers, stamp := c.Param("ns"), s.answerable(c), s.stamp(c)
	return func(ctx context.Context, events []sluice.Event) error {
		if s.opts.Quota != nil {
			if err := s.opts.Quota.Take(ns, len(events), size, time.Now()); err != nil {
				return err
			}
		}
		if err := cloudevent.InheritTrace(c.Request().Header, events); err != nil {
			return err
		}
		if err := s.catalogued(ns, events); err != nil {
			return err
		}
		stamp(events)
		if s.opts.Causes == nil {
			return nil
		}
		return s.opts.Causes.CheckNew(ctx, ns, answers, events)
	}
}

// answerable returns the principal that is marked unsafe if the event is part of a loop.
func (s *Server) answerable(c echo.Context) string {
	if who := httpkit.Caller(c); !who.Unbounded() && s.opts.Access != nil {
		return string(s.opts.Access.Answers(who, c.Param("ns"), time.Now()))
	}
	return httpkit.By(c)
}

// stamp returns a function that sets the producer of events, overriding their own attributes
// (S4-80).
func (s *Server) stamp(c echo.Context) func([]sluice.Event) {
	who, authType := httpkit.Caller(c), sluice.AuthTypeOf(httpkit.Caller(c).Principal)
	if s.opts.Access != nil {
		authType = s.opts.Access.AuthType(who)
	}
	return func(events []sluice.Event) {
		for i := range events {
			events[i].ProducedBy(who.Principal, authType)
		}
	}
}

// catalogued returns an error about the first event of a request that its namespace's catalogue
// does not allow.
func (s *Server) catalogued(namespace string, events []sluice.Event) error {
	if s.opts.Catalogue == nil {
		return nil
	}
	for i := range events {
		events[i].Namespace = namespace
		if err := s.opts.Catalogue.Check(&events[i]); err != nil {
			return cloudevent.At(i, len(events), err)
		}
	}
	return nil
}

// deliverAt returns the scheduled time of a request's events, zero for now. Code InvalidRequest if
// it differs among them: a batch is stored atomically.
func deliverAt(events []sluice.Event, now time.Time) (time.Time, error) {
	for i := range events {
		when, told, err := events[i].TellsDeliverAt()
		switch {
		case err != nil:
			return time.Time{}, cloudevent.At(i, len(events), err)
		case !told || !when.After(now):
		case len(events) > 1:
			return time.Time{}, cloudevent.At(i, len(events), sluice.Errorf(sluice.InvalidRequest, "send a scheduled event (%s) alone: a batch is stored atomically and immediately",
				when.Format(time.RFC3339)).With("field", sluice.AttributeDeliverAt))
		default:
			return when, nil
		}
	}
	return time.Time{}, nil
}

// unawaited returns an error (Conflict) if one of the events is already scheduled. An event with
// its own scheduled time is a retry of the scheduled one.
func (s *Server) unawaited(c echo.Context, events []sluice.Event) error {
	if s.opts.Scheduled == nil {
		return nil
	}
	for i := range events {
		if _, told := events[i].Extensions[sluice.AttributeDeliverAt]; told {
			continue
		}
		e := events[i]
		e.Namespace = c.Param("ns")
		if err := s.opts.Scheduled.Waits(c.Request().Context(), &e); err != nil {
			return cloudevent.At(i, len(events), err)
		}
	}
	return nil
}

// unchained removes the causation chain from a refusal unless the caller may read the namespace: a
// publisher may not learn the paths of other events.
func (s *Server) unchained(c echo.Context, err error) error {
	if e, ok := errors.AsType[*sluice.Error](err); ok && e.Details["chain"] != nil && s.rights.Require(c, sluice.VerbRead, authz.Target{Namespace: c.Param("ns")}) != nil {
		bare := *e
		bare.Details = maps.Clone(e.Details)
		delete(bare.Details, "chain")
		return &bare
	}
	return err
}
