package httpapi

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// The states of a delivery.
const (
	stateDelivered = "delivered" // settled by a 2xx
	stateRetrying  = "retrying"  // failed, and there is another attempt to come
	stateDead      = "dead"      // given up
)

// delivery is one event on its way to one subscription, as the attempt log knows it.
type delivery struct {
	EventID       string           `json:"event_id"`
	Seq           uint64           `json:"seq"`
	Path          sluice.Path      `json:"path"`
	Type          string           `json:"type"`
	State         string           `json:"state"`
	Reason        sluice.Reason    `json:"reason,omitempty"` // why it is dead
	AttemptCount  int              `json:"attempt_count"`
	LastStatus    int              `json:"last_status,omitempty"`
	LastError     string           `json:"last_error,omitempty"`
	LastAttemptAt time.Time        `json:"last_attempt_at"`
	NextAttemptAt *time.Time       `json:"next_attempt_at,omitempty"`
	Attempts      []sluice.Attempt `json:"attempts,omitempty"` // of one delivery, oldest first; not in lists
}

// deliveryOf returns the delivery whose last attempt is a.
func deliveryOf(a *sluice.Attempt) delivery {
	d := delivery{
		EventID: a.EventID, Seq: a.Seq, Path: a.Path, Type: a.Type, State: stateRetrying, Reason: a.Verdict.Dead,
		AttemptCount: a.Number, LastStatus: a.Status, LastError: a.Error, LastAttemptAt: a.StartedAt,
	}
	if a.Probe {
		d.AttemptCount--
	}
	switch {
	case a.Verdict.Dead != "":
		d.State = stateDead
	case a.Verdict.Settled:
		d.State = stateDelivered
	case a.Verdict.Cancel:
		d.State, d.Reason = stateDead, sluice.EndpointGone
	case !a.Verdict.Again.IsZero():
		d.NextAttemptAt = &a.Verdict.Again
	}
	return d
}

// deliveryList is one page of deliveries.
type deliveryList struct {
	Deliveries []delivery `json:"deliveries"`
	NextCursor string     `json:"next_cursor"`
}

// maxPages bounds how much of the attempt log one request reads.
const maxPages = 10

// deliveryQuery is what a list of deliveries is asked for.
type deliveryQuery struct {
	AttemptQuery

	state string
	after uint64 // sequence of the last event before those that are wanted
}

// listDeliveries lists a subscription's deliveries by their last attempt, newest first (S0-85).
// A delivery whose attempts lie on several pages is on each of them; the newest is the first.
func (s *Server) listDeliveries(c echo.Context) error {
	ctx := c.Request().Context()
	q, err := parseDeliveryQuery(c)
	if err != nil {
		return err
	}
	sub, err := s.opts.Registry.Get(ctx, c.Param("id"))
	if err != nil {
		return err
	}
	list := deliveryList{Deliveries: []delivery{}}
	seen, most := map[string]bool{}, q.Limit
	for range maxPages {
		q.Limit = most - len(list.Deliveries)
		attempts, next, err := s.opts.Deliveries.Attempts(ctx, sub, q.AttemptQuery)
		if err != nil {
			return err
		}
		list.Deliveries = append(list.Deliveries, q.pick(attempts, seen)...)
		q.Before = next
		if next == 0 || len(list.Deliveries) == most {
			break
		}
	}
	if q.Before != 0 {
		list.NextCursor = strconv.FormatUint(q.Before, 10)
	}
	return c.JSON(http.StatusOK, list)
}

// pick returns the deliveries of those attempts that are wanted and the newest of their event.
func (q *deliveryQuery) pick(attempts []sluice.Attempt, seen map[string]bool) []delivery {
	var picked []delivery
	for i := range attempts {
		a := &attempts[i]
		if seen[a.EventID] {
			continue
		}
		seen[a.EventID] = true
		d := deliveryOf(a)
		if (q.state == "" || q.state == d.State) && d.Seq > q.after {
			picked = append(picked, d)
		}
	}
	return picked
}

func parseDeliveryQuery(c echo.Context) (*deliveryQuery, error) {
	if err := onlyParams(c, "state", "since", "limit", "cursor"); err != nil {
		return nil, err
	}
	q := &deliveryQuery{state: c.QueryParam("state")}
	if err := oneOf(c, "state", stateDelivered, stateRetrying, stateDead); err != nil {
		return nil, err
	}
	var err error
	if q.Limit, err = limit(c); err != nil {
		return nil, err
	}
	if q.Before, err = listCursor(c); err != nil {
		return nil, err
	}
	return q, q.parseSince(c.QueryParam("since"))
}

func (q *deliveryQuery) parseSince(text string) error {
	if text == "" {
		return nil
	}
	since, err := sluice.ParseCursor(text)
	if err != nil {
		return err
	}
	switch since.Kind {
	case sluice.CursorBeginning:
	case sluice.CursorSeq:
		q.after = since.Seq
	case sluice.CursorTime:
		q.Since = since.Time
	case sluice.CursorEvent, sluice.CursorNow:
		return sluice.Errorf(sluice.InvalidRequest, "since %q: use a sequence, -1 or an RFC 3339 time", text).With("field", "since")
	}
	return nil
}

func (s *Server) getDelivery(c echo.Context) error {
	ctx := c.Request().Context()
	sub, err := s.opts.Registry.Get(ctx, c.Param("id"))
	if err != nil {
		return err
	}
	event, err := segment(c, "event")
	if err != nil {
		return err
	}
	attempts, _, err := s.opts.Deliveries.Attempts(ctx, sub, AttemptQuery{EventID: event, Limit: maxLimit})
	if err != nil {
		return err
	}
	if len(attempts) == 0 {
		return sluice.Errorf(sluice.NotFound, "there is no attempt at delivering event %q to this subscription", event)
	}
	d := deliveryOf(&attempts[0])
	d.Attempts = attempts
	slices.Reverse(d.Attempts)
	return c.JSON(http.StatusOK, d)
}
