package httpapi

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/cloudevent"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// listEvents answers GET /v1/namespaces/{ns}/events for callers that may read some path: a page of
// the visible events in log order. A page may be shorter than the limit and not the last. A cursor
// that names a hidden event is NotFound, as a missing one is (C14). Codes NotFound; WindowExceeded.
func (s *Server) listEvents(c echo.Context) error {
	q, err := eventQuery(c)
	if err != nil {
		return err
	}
	if q.Visible = s.rights.Visible(c, sluice.VerbRead); q.Visible != nil && q.Pattern == "" {
		q.Pattern = s.rights.Granted(c) // nothing else is visible, so the rest need not be read
	}
	page, err := s.opts.Log.Read(c.Request().Context(), c.Param("ns"), q)
	if err == nil {
		err = s.startsAtShown(c, sluice.VerbRead, c.Param("ns"), q.Since, q.Until)
	}
	if err != nil {
		return err
	}
	if page.Events, err = s.rights.Shown(c, sluice.VerbRead, page.Events); err != nil {
		return err
	}
	return c.JSONBlob(http.StatusOK, renderEvents(page))
}

// renderEvents returns {"events":[…],"next_cursor":"…"} and, where events are lost, "unreadable",
// assembled by hand so that the events' data is preserved byte for byte.
func renderEvents(page model.EventPage) []byte {
	b := appendEvents([]byte(`{"events":`), page.Events)
	b = append(append(append(b, `,"next_cursor":"`...), httpkit.Next(page.Next)...), '"')
	return append(appendGaps(b, page.Gaps), '}')
}

// appendGaps appends the member "unreadable", if there are gaps.
func appendGaps(b []byte, gaps []sluice.Gap) []byte {
	opening := `,"unreadable":[`
	for _, g := range gaps {
		b = fmt.Appendf(append(b, opening...), `{"from":%d,"to":%d}`, g.From, g.To)
		opening = ","
	}
	if len(gaps) > 0 {
		b = append(b, ']')
	}
	return b
}

// appendEvents appends a JSON array of events, "[]" for none.
func appendEvents(b []byte, events []sluice.Event) []byte {
	b = append(b, '[')
	for i := range events {
		if i > 0 {
			b = append(b, ',')
		}
		b = events[i].AppendJSON(b)
	}
	return append(b, ']')
}

// eventQuery parses the parameters. Since and until keep their text: the log resolves event IDs.
func eventQuery(c echo.Context) (model.EventQuery, error) {
	q := model.EventQuery{Since: httpkit.PlaceParam(c, "since"), Until: httpkit.PlaceParam(c, "until")}
	p, err := httpkit.PageOf(c)
	if err != nil {
		return q, err
	}
	if q.Pattern, err = httpkit.PatternParam(c, "pattern"); err != nil {
		return q, err
	}
	for _, types := range c.QueryParams()["types"] {
		q.Types = append(q.Types, httpkit.SplitTypes(types)...)
	}
	for _, name := range []string{"since", "until"} {
		cursor := httpkit.PlaceParam(c, name)
		if cursor == "" {
			continue
		}
		if _, err := sluice.ParseCursor(cursor); err != nil {
			return q, httpkit.InField(err, name)
		}
	}
	q.Limit = p.Limit
	q.After, err = p.Position()
	return q, err
}

// getEvent finds an event by its sequence, or else by its id. An id may be a number, too. A hidden
// event looks missing (C14). The body is a CloudEvent in structured mode, with the data unchanged.
func (s *Server) getEvent(c echo.Context) error {
	name, err := httpkit.Param(c, "event")
	if err != nil {
		return err
	}
	event, err := s.findEvent(c.Request().Context(), c.Param("ns"), name)
	if err != nil {
		return err
	}
	if ok, err := s.rights.Shows(c, sluice.VerbRead, &event); err != nil || !ok {
		return cmp.Or(err, authz.Concealed())
	}
	return c.Blob(http.StatusOK, cloudevent.StructuredType, event.AppendJSON(nil))
}

// findEvent returns the event without a check of access. Codes NotFound; WindowExceeded for a
// sequence before the oldest event.
func (s *Server) findEvent(ctx context.Context, ns, name string) (sluice.Event, error) {
	if seq, err := strconv.ParseUint(name, 10, 64); err == nil {
		event, err := s.opts.Log.EventAt(ctx, ns, seq)
		switch sluice.CodeOf(err) { //nolint:exhaustive // the other codes go to the caller
		case sluice.InvalidRequest:
			return event, sluice.Errorf(sluice.NotFound, "the message at %d in %s is not an event", seq, ns)
		case sluice.NotFound:
		default:
			return event, err
		}
	}
	return s.opts.Log.EventByID(ctx, ns, name)
}
