package schedules

import (
	"cmp"
	"context"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Scheduled stores scheduled events.
type Scheduled interface {
	// Schedule stores a scheduled event, and returns it and whether one with its ID already
	// existed. Codes: those of publishing; QuotaExceeded; Conflict if the ID belongs to an event on
	// another path.
	Schedule(ctx context.Context, s model.Scheduled) (model.Scheduled, bool, error)
	// Published returns the position of an event with an ID in the log. Codes NotFound; Conflict if
	// it is on another path.
	Published(ctx context.Context, e *sluice.Event) (sluice.Stored, error)
	// Waits returns an error (Conflict) if an event that is to be published now is already
	// scheduled under its ID and path. The error says when, if shows permits the scheduled one.
	Waits(ctx context.Context, e *sluice.Event, shows func(*sluice.Event) (bool, error)) error
	// Get returns a scheduled event. Code NotFound.
	Get(ctx context.Context, namespace, id string) (model.Scheduled, error)
	// After returns at most most scheduled events of a namespace after a position, soonest first,
	// that want selects, and the next position; zero if there are no more. want gets the parts of an
	// event that decide which publishers may see it.
	After(ctx context.Context, namespace string, p model.ScheduledPlace, most int, want func(*sluice.Event) bool) ([]model.Scheduled, model.ScheduledPlace, error)
	// Cancel cancels an event at the revision that was read. Code Conflict if it is too late.
	Cancel(ctx context.Context, s model.Scheduled, by sluice.Principal) error
}

// Held is the response to a publish of a scheduled event.
type Held struct {
	ID        string      `json:"id"`
	Path      sluice.Path `json:"path"`
	DeliverAt time.Time   `json:"deliver_at"`
	Duplicate bool        `json:"duplicate"`
}

// Schedule schedules an event, which the caller has checked as for an immediate publish. It answers
// 202 for an event that waits, also for a repetition, and 201 with its position for one that is
// stored already. Codes Conflict if the ID belongs to a different event, or to one that the caller
// may not see; QuotaExceeded.
func (s *Handler) Schedule(c echo.Context, e sluice.Event, when time.Time) error {
	if s.opts.Scheduled == nil {
		return sluice.Errorf(sluice.Unprocessable, "this server does not support scheduled events; omit %s", sluice.AttributeDeliverAt)
	}
	ctx, who := c.Request().Context(), httpkit.Caller(c)
	e.Namespace = c.Param("ns")
	stored, err := s.opts.Scheduled.Published(ctx, &e)
	if err == nil {
		if err := s.repeated(c, &e, stored.Seq); err != nil {
			return err
		}
		return c.JSON(http.StatusCreated, map[string][]sluice.Stored{"events": {stored}})
	}
	if sluice.CodeOf(err) != sluice.NotFound {
		return err
	}
	is, duplicate, err := s.opts.Scheduled.Schedule(ctx, model.Scheduled{
		Creator: sluice.Creator{CreatedBy: who.Principal, Grant: who.Binding(), CreatedAt: time.Now().UTC()}, Event: e, DeliverAt: when.UTC(),
	})
	if err == nil && duplicate {
		var shown bool
		if shown, err = s.ofScheduled(c, &is.Event); err == nil && !shown {
			err = e.OtherEvent()
		}
	}
	if err != nil {
		return err
	}
	return c.JSON(http.StatusAccepted, map[string][]Held{"events": {{is.Event.ID, is.Event.Path, is.DeliverAt, duplicate}}})
}

// Waits returns an error (Conflict) if an event that is to be published now is already scheduled. It
// does not tell callers that may not see the scheduled one that it is.
func (s *Handler) Waits(c echo.Context, e *sluice.Event) error {
	if s.opts.Scheduled == nil {
		return nil
	}
	return s.opts.Scheduled.Waits(c.Request().Context(), e, func(is *sluice.Event) (bool, error) { return s.ofScheduled(c, is) })
}

// repeated returns an error (Conflict) unless the caller may see the stored event at a sequence,
// which has the same ID as the event that it publishes.
func (s *Handler) repeated(c echo.Context, e *sluice.Event, seq uint64) error {
	if httpkit.Caller(c).Unbounded() {
		return nil
	}
	stored, err := s.needs.EventAt(c.Request().Context(), c.Param("ns"), seq)
	if err != nil {
		return err
	}
	shown, err := s.needs.Rights.Shows(c, sluice.VerbPublish, &stored)
	if err == nil && !shown {
		err = e.OtherEvent()
	}
	return err
}

// ofScheduled reports whether the caller manages a scheduled event: whether it may publish on the
// path and see the event. The event is hidden from other callers.
func (s *Handler) ofScheduled(c echo.Context, e *sluice.Event) (bool, error) {
	if httpkit.Caller(c).Unbounded() {
		return true, nil
	}
	return s.needs.Rights.Shows(c, sluice.VerbPublish, e)
}

// listScheduled answers GET /v1/namespaces/{ns}/scheduled: a page of the waiting events on paths
// that the caller may publish to, soonest first. The cost is up to maxTurns reads.
func (s *Handler) listScheduled(c echo.Context) error {
	q, err := scheduledQueryOf(c)
	if err != nil {
		return err
	}
	if _, err := s.needs.Namespace(c.Request().Context(), c.Param("ns")); err != nil {
		return err
	}
	page, next, err := s.scheduledPage(c, q)
	if err != nil {
		return err
	}
	return c.JSONBlob(http.StatusOK, renderScheduled(page, next))
}

// maxTurns limits the reads for one page. If they find mostly events that are no longer there, the
// page is short, and another one follows.
const maxTurns = 5

// scheduledPage returns a page, and the cursor of the next one; "" if there is none. Hidden events
// show in neither.
func (s *Handler) scheduledPage(c echo.Context, q scheduledQuery) (page []model.Scheduled, next string, err error) {
	place := q.after
	var unknown error
	want := s.selects(c, q.pattern, &unknown)
	for range maxTurns {
		var all []model.Scheduled
		if all, place, err = s.opts.Scheduled.After(c.Request().Context(), c.Param("ns"), place, q.limit+1, want); cmp.Or(unknown, err) != nil {
			return nil, "", cmp.Or(unknown, err)
		}
		for i := range all {
			if ok, err := s.ofScheduled(c, &all[i].Event); err != nil { // another event may have its ID by now
				return nil, "", err
			} else if !ok {
				continue
			}
			if len(page) == q.limit {
				last := &page[q.limit-1]
				return page, encodePlace(last.DeliverAt, last.Event.ID), nil
			}
			page = append(page, all[i])
		}
		if place == (model.ScheduledPlace{}) {
			return page, "", nil
		}
	}
	return page, encodePlace(place.At, place.ID), nil
}

// selects returns a function that reports whether the caller manages an event on a path of a
// pattern. It sets unknown if the rights are not known.
func (s *Handler) selects(c echo.Context, pattern sluice.Pattern, unknown *error) func(*sluice.Event) bool {
	return func(e *sluice.Event) bool {
		if !pattern.Match(e.Path) || s.needs.Rights.Require(c, sluice.VerbPublish, authz.Target{Namespace: c.Param("ns"), Path: e.Path}) != nil {
			return false
		}
		shown, err := s.ofScheduled(c, e)
		*unknown = cmp.Or(*unknown, err)
		return shown
	}
}

// scheduledQuery is the query of a list of scheduled events.
type scheduledQuery struct {
	pattern sluice.Pattern
	after   model.ScheduledPlace // zero: the start
	limit   int
}

// scheduledQueryOf parses the parameters; without a pattern, all paths.
func scheduledQueryOf(c echo.Context) (q scheduledQuery, err error) {
	p, err := httpkit.PageOf(c)
	if err != nil {
		return q, err
	}
	q.limit = p.Limit
	if q.pattern, err = httpkit.PatternParam(c, "pattern"); err != nil {
		return q, err
	}
	q.pattern = cmp.Or(q.pattern, "/**")
	q.after, err = scheduledPlace(p.Cursor)
	return q, err
}

// scheduledPlace returns the position from which the list continues.
func scheduledPlace(cursor string) (p model.ScheduledPlace, err error) {
	text, err := decodePlace(cursor)
	if err != nil || text == "" {
		return p, err
	}
	if len(text) > placeDigits {
		var nanos int64
		if nanos, err = strconv.ParseInt(text[:placeDigits], 10, 64); err == nil {
			return model.ScheduledPlace{At: time.Unix(0, nanos).UTC(), ID: text[placeDigits:]}, nil
		}
	}
	return p, model.ForeignCursor(cursor)
}

// placeDigits is the number of digits in the time of a position.
const placeDigits = 20

// place is a position in a list by time: the time, zero-padded, and the ID.
func place(at time.Time, id string) string {
	digits := strconv.FormatInt(max(at.UnixNano(), 0), 10)
	return strings.Repeat("0", placeDigits-len(digits)) + digits + id
}

// encodePlace returns the cursor after a position.
func encodePlace(at time.Time, id string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(place(at, id)))
}

// decodePlace returns the position from which a list by time continues, "" for the start.
func decodePlace(cursor string) (string, error) {
	at, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return "", model.ForeignCursor(cursor)
	}
	return string(at), nil
}

// renderScheduled returns {"scheduled":[…],"next_cursor":"…"}, assembled like renderEvents.
func renderScheduled(page []model.Scheduled, next string) []byte {
	b := []byte(`{"scheduled":[`)
	for i := range page {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendScheduled(b, &page[i])
	}
	return append(sluice.AppendString(append(b, `],"next_cursor":`...), next), '}')
}

// appendScheduled appends the JSON of a scheduled event. Its state is waiting; publishing while a
// replica has claimed it; or retrying between two attempts to publish.
func appendScheduled(b []byte, is *model.Scheduled) []byte {
	state := "waiting"
	switch {
	case is.Claim != nil && !is.Claim.Idle.IsZero():
		state = "retrying"
	case is.Claim != nil:
		state = "publishing"
	}
	b = append(b, '{')
	for _, member := range [][2]string{
		{"id", is.Event.ID},
		{"path", string(is.Event.Path)},
		{"type", is.Event.Type},
		{"deliver_at", is.DeliverAt.Format(time.RFC3339Nano)},
		{"state", state},
		{"created_by", string(is.CreatedBy)},
		{"created_at", is.CreatedAt.Format(time.RFC3339Nano)},
	} {
		b = append(sluice.AppendString(append(sluice.AppendString(b, member[0]), ':'), member[1]), ',')
	}
	return append(is.Event.AppendJSON(append(b, `"event":`...)), '}')
}

// scheduledOf returns the request's scheduled event.
func (s *Handler) scheduledOf(c echo.Context) (model.Scheduled, error) {
	id, err := httpkit.Param(c, "event")
	if err != nil {
		return model.Scheduled{}, err
	}
	is, err := s.opts.Scheduled.Get(c.Request().Context(), c.Param("ns"), id)
	if err != nil {
		return is, err
	}
	ok, err := s.ofScheduled(c, &is.Event)
	if err == nil && !ok {
		err = authz.Concealed()
	}
	return is, err
}

// getScheduled answers GET …/scheduled/{event}. Code NotFound, also for a hidden or a stored one.
func (s *Handler) getScheduled(c echo.Context) error {
	is, err := s.scheduledOf(c)
	if err != nil {
		return err
	}
	return c.JSONBlob(http.StatusOK, appendScheduled(nil, &is))
}

// cancelScheduled answers DELETE …/scheduled/{event} with 204: the event is never stored then.
// Codes NotFound; Conflict if it is being published.
func (s *Handler) cancelScheduled(c echo.Context) error {
	is, err := s.scheduledOf(c)
	if err != nil {
		return err
	}
	if err := s.opts.Scheduled.Cancel(c.Request().Context(), is, httpkit.Caller(c).Principal); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}
