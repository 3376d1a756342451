package httpapi

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/cloudevent"
	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// listState answers GET /v1/namespaces/{ns}/state for callers that may read some path: a page of
// the latest event of each path, as of one sequence, which the cursor repeats. A path whose latest
// event is hidden is left out. A page may be shorter than the limit and not the last. A principal
// evaluates one expression at a time; its other requests with one wait. Codes NotFound;
// WindowExceeded; Unprocessable for an expression that costs too much.
func (s *Server) listState(c echo.Context) error {
	q, err := stateQuery(c)
	if err != nil {
		return err
	}
	if q.Visible = s.rights.Visible(c, sluice.VerbRead); q.Visible != nil && q.Pattern == "" {
		q.Pattern = s.rights.Granted(c) // nothing else is visible, so the rest need not be read
	}
	var tooDear error
	if q.Visible, err = s.wanted(c, q.Visible, &tooDear); err != nil {
		return err
	}
	if c.QueryParam("cel") != "" || c.QueryParam("filter") != "" {
		done, err := s.expressionTurn(c, c.Param("ns"))
		if err != nil {
			return err
		}
		defer done()
	}
	page, err := s.opts.Log.State(c.Request().Context(), c.Param("ns"), q)
	if err = cmp.Or(tooDear, err); err != nil {
		return err
	}
	if page.Events, err = s.rights.Shown(c, sluice.VerbRead, page.Events); err != nil {
		return err
	}
	return c.JSONBlob(http.StatusOK, renderState(page))
}

// stateCost limits the filter cost of one page of a snapshot, in the unit of filter.LiveLimit: some
// two seconds.
const stateCost = 20_000_000

// wanted returns a predicate for visible events that match the request's filter. Once the
// evaluations exceed the cost limit, it sets tooDear and selects nothing more.
func (s *Server) wanted(c echo.Context, visible func(*sluice.Event) bool, tooDear *error) (func(*sluice.Event) bool, error) {
	f, err := httpkit.Filter(c)
	if err != nil || f.Empty() {
		return visible, err
	}
	var labels filter.Labels
	if s.opts.Catalogue != nil {
		labels = s.opts.Catalogue.Labels
	}
	matcher, err := filter.CompileLive(f, labels)
	if err != nil {
		return nil, err
	}
	return func(ev *sluice.Event) bool {
		if *tooDear != nil || visible != nil && !visible(ev) {
			return false
		}
		ok, err := matcher.Match(ev)
		if sluice.CodeOf(err) == sluice.Unprocessable {
			*tooDear = err
		} else if matcher.Spent() > stateCost {
			*tooDear = sluice.Errorf(sluice.Unprocessable, "filter.cel: the expression costs more than %d for all paths together; use a narrower pattern, or a lower limit", stateCost).With("field", "cel")
		}
		return ok && err == nil // an event on which the filter fails is left out, as in a feed
	}, nil
}

// renderState returns {"seq":…,"events":[…],"next_cursor":"…"} and, where events are lost,
// "unreadable", assembled like renderEvents.
func renderState(page model.StatePage) []byte {
	b := strconv.AppendUint([]byte(`{"seq":`), page.Seq, 10)
	b = appendEvents(append(b, `,"events":`...), page.Events)
	b = append(b, `,"next_cursor":"`...)
	if page.Next != 0 {
		b = append(b, stateCursor(page.Seq, page.Next)...)
	}
	return append(appendGaps(append(b, '"'), page.Gaps), '}')
}

// stateCursor returns the cursor of a snapshot: its sequence, and the position reached.
func stateCursor(at, after uint64) string {
	return strconv.FormatUint(at, 10) + "." + strconv.FormatUint(after, 10)
}

// parseStateCursor parses a cursor: "SEQ.AFTER", such as "812.40", with after from 1 to seq. Code
// InvalidRequest.
func parseStateCursor(text string) (at, after uint64, err error) {
	first, second, _ := strings.Cut(text, ".")
	at, err = strconv.ParseUint(first, 10, 64)
	if err == nil {
		after, err = strconv.ParseUint(second, 10, 64)
	}
	if err != nil || stateCursor(at, after) != text || after == 0 || after > at {
		return 0, 0, model.ForeignCursor(text)
	}
	return at, after, nil
}

// stateQuery parses the parameters except those of the filter.
func stateQuery(c echo.Context) (q model.StateQuery, err error) {
	if q.Pattern, err = httpkit.PatternParam(c, "pattern"); err != nil {
		return q, err
	}
	if q.At, err = atSeq(c); err != nil {
		return q, err
	}
	if cursor := c.QueryParam("cursor"); cursor != "" {
		at, after, err := parseStateCursor(cursor)
		if err != nil {
			return q, err
		}
		if q.At != 0 && q.At != at {
			return q, sluice.Errorf(sluice.InvalidRequest, "the cursor belongs to the state at %d, not at %d; omit at_seq", at, q.At).With("field", "at_seq")
		}
		q.At, q.After = at, after
	}
	q.Limit, err = httpkit.Limit(c)
	return q, err
}

// atSeq returns the requested sequence of a snapshot, 0 for the latest.
func atSeq(c echo.Context) (uint64, error) {
	text := c.QueryParam("at_seq")
	if text == "" {
		return 0, nil
	}
	seq, err := strconv.ParseUint(text, 10, 64)
	if err != nil || seq == 0 {
		return 0, sluice.Errorf(sluice.InvalidRequest, "at_seq %q: use a sequence, at least 1", text).With("field", "at_seq")
	}
	return seq, nil
}

// getState returns the latest event on one path. A header lists the later sequences that are lost.
// It answers GET …/state/{path}. Codes NotFound, also for a hidden event and for a path without
// one; WindowExceeded.
func (s *Server) getState(c echo.Context) error {
	at, err := atSeq(c)
	if err != nil {
		return err
	}
	rest, err := httpkit.Param(c, "*")
	if err != nil {
		return err
	}
	path, err := sluice.ParsePath("/" + rest)
	if err != nil {
		return err
	}
	page, err := s.opts.Log.State(c.Request().Context(), c.Param("ns"), model.StateQuery{Path: path, At: at, Limit: 1})
	if err != nil {
		return err
	}
	if len(page.Events) == 0 {
		if ok, err := s.rights.Shows(c, sluice.VerbRead, &sluice.Event{Namespace: c.Param("ns"), Path: path}); ok && err == nil {
			httpkit.SetUnreadable(c, page.Gaps)
		}
		return authz.Concealed()
	}
	event := page.Events[0]
	if ok, err := s.rights.Shows(c, sluice.VerbRead, &event); err != nil || !ok {
		return cmp.Or(err, authz.Concealed())
	}
	httpkit.SetUnreadable(c, page.Gaps)
	return c.Blob(http.StatusOK, cloudevent.StructuredType, event.AppendJSON(nil))
}
