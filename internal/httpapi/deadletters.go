package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/subscription"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// DeadLetters stores the deliveries that failed for good.
type DeadLetters interface {
	// ListDeadLetters returns a subscription's dead letters, newest first, and the position from
	// which a next query continues with older ones; 0: there are none.
	ListDeadLetters(ctx context.Context, sub *sluice.Subscription, q model.DeadLetterQuery) ([]model.BuriedLetter, uint64, error)
	// CountDeadLetters returns the number of a subscription's dead letters.
	CountDeadLetters(ctx context.Context, sub *sluice.Subscription) (uint64, error)
	// DeadLetter returns the dead letter of an event ID, or of a sequence if the event was never
	// read. Code NotFound.
	DeadLetter(ctx context.Context, sub *sluice.Subscription, event string) (model.BuriedLetter, error)
	// Discard deletes the dead letter that DeadLetter finds. Code NotFound.
	Discard(ctx context.Context, sub *sluice.Subscription, event, by string) error
	// DiscardAll deletes all dead letters of a subscription.
	DiscardAll(ctx context.Context, sub *sluice.Subscription, by string) error
	// Redrivable returns the dead letters that can be redriven.
	Redrivable(ctx context.Context, sub *sluice.Subscription) (model.Redrivable, error)
}

// Replays starts and shows replays.
type Replays interface {
	// Start starts a replay. The caller sets Kind, From, To, Types, EventIDs, Rate, Total and
	// CreatedBy; Start sets the other fields. Codes Conflict if the subscription is cancelled;
	// QuotaExceeded if too many are running.
	Start(ctx context.Context, sub *sluice.Subscription, want sluice.Replay) (sluice.Replay, error)
}

// deadLetter is a delivery that failed for good.
type deadLetter struct {
	sluice.DeadLetter

	Redrivable bool `json:"redrivable"` // the event is known and can be redriven
	// Only for a single dead letter, oldest first; not in lists.
	History []sluice.Attempt `json:"history,omitempty"`
}

// appendJSON appends the dead letter, preserving its event's data byte for byte.
func (d *deadLetter) appendJSON(b []byte) ([]byte, error) {
	bare := *d
	bare.Event = nil
	data, err := json.Marshal(bare)
	if err != nil {
		return b, fmt.Errorf("dead letter: %w", err)
	}
	return d.AppendEvent(append(b, data...)), nil
}

// deadLetterList is one page of dead letters.
type deadLetterList struct {
	DeadLetters []deadLetter `json:"dead_letters"`
	NextCursor  string       `json:"next_cursor"`
	Total       uint64       `json:"total"` // total of the subscription, ignoring filters
}

// listDeadLetters lists a subscription's dead letters without their events, newest first (S4-53).
// It answers GET …/dead-letters. Letters of hidden events are left out of the page. The total
// counts them, as the status and the health of the subscription do: who manages it sees how many
// there are, and discards and redrives all of them.
func (s *Server) listDeadLetters(c echo.Context) error {
	ctx := c.Request().Context()
	q, err := parseDeadLetterQuery(c)
	if err != nil {
		return err
	}
	sub := subscriptionOf(c)
	letters, next, err := s.opts.DeadLetters.ListDeadLetters(ctx, sub, q)
	if err != nil {
		return err
	}
	letters = slices.DeleteFunc(letters, func(d model.BuriedLetter) bool { return !s.knowsOf(c, sub, d.Path, d.Event) })
	list := deadLetterList{DeadLetters: make([]deadLetter, len(letters)), NextCursor: httpkit.Next(next)}
	if list.Total, err = s.opts.DeadLetters.CountDeadLetters(ctx, sub); err != nil {
		return err
	}
	for i, d := range letters {
		list.DeadLetters[i] = deadLetter{DeadLetter: d.DeadLetter, Redrivable: d.Redrivable() && !s.rights.Erased(d.Event)}
		list.DeadLetters[i].Event = nil
	}
	return c.JSON(http.StatusOK, list)
}

// parseDeadLetterQuery parses the parameters. The cursor is a position in the stream of dead
// letters.
func parseDeadLetterQuery(c echo.Context) (model.DeadLetterQuery, error) {
	q := model.DeadLetterQuery{Reason: sluice.Reason(c.QueryParam("reason"))}
	p, err := httpkit.PageOf(c)
	if err != nil {
		return q, err
	}
	if q.Reason != "" && !slices.Contains(sluice.Reasons(), q.Reason) {
		return q, sluice.Errorf(sluice.InvalidRequest, "reason %q: use one of %v", q.Reason, sluice.Reasons()).With("field", "reason")
	}
	if q.Pattern, err = httpkit.PatternParam(c, "path"); err != nil {
		return q, err
	}
	if q.Since, err = httpkit.TimeParam(c, "since"); err != nil {
		return q, err
	}
	q.Limit = p.Limit
	q.Before, err = p.Position()
	return q, err
}

// getDeadLetter shows a dead letter with its event and its attempts. It answers GET
// …/dead-letters/{event}. Attempts are the last httpkit.MaxLimit that the log still has. A hidden
// event looks missing.
func (s *Server) getDeadLetter(c echo.Context) error {
	ctx := c.Request().Context()
	sub, event, err := s.ofEvent(c)
	if err != nil {
		return err
	}
	found, err := s.opts.DeadLetters.DeadLetter(ctx, sub, event)
	if err != nil {
		return err
	}
	if err := s.seesLetter(c, sub, &found); err != nil {
		return err
	}
	d := deadLetter{DeadLetter: found.DeadLetter, Redrivable: found.Redrivable()}
	if d.EventID != "" {
		if d.History, err = s.opts.Explain.Attempts(ctx, sub, d.EventID, httpkit.MaxLimit); err != nil {
			return err
		}
	}
	if d.Event == nil {
		d.History = unjudged(c, d.History)
	}
	for i := range d.History {
		s.keepKnown(c, sub, &d.History[i])
	}
	body, err := d.appendJSON(nil)
	if err != nil {
		return err
	}
	return c.JSONBlob(http.StatusOK, body)
}

// seesLetter requires that the caller may see a dead letter with its event. Of an event that left
// the log before it was read again, only the place is known, and whether it was erased. Code
// NotFound.
func (s *Server) seesLetter(c echo.Context, sub *sluice.Subscription, d *model.BuriedLetter) error {
	switch {
	case d.Event != nil:
		return s.seesThis(c, d.Event)
	case !s.knows(c, sub, d.Path):
		return authz.Concealed()
	case d.Path == "": // a range of events that were never read
		return nil
	}
	return s.seesThis(c, &sluice.Event{Namespace: sub.Namespace, Path: d.Path, Seq: d.Seq})
}

// ofEvent returns the subscription and the event of a request.
func (s *Server) ofEvent(c echo.Context) (*sluice.Subscription, string, error) {
	event, err := httpkit.Param(c, "event")
	return subscriptionOf(c), event, err
}

// discardDeadLetter answers DELETE …/dead-letters/{event} with 204. The event stays in the log.
// Code NotFound, also for a repetition. A hidden event looks missing, but not for being erased: its
// dead letter has its data until it is discarded.
func (s *Server) discardDeadLetter(c echo.Context) error {
	ctx := c.Request().Context()
	sub, event, err := s.ofEvent(c)
	if err != nil {
		return err
	}
	found, err := s.opts.DeadLetters.DeadLetter(ctx, sub, event)
	if err == nil {
		found.Unplace()
		err = s.seesLetter(c, sub, &found)
	}
	if err != nil {
		return err
	}
	if err := s.opts.DeadLetters.Discard(ctx, sub, event, httpkit.By(c)); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// discardDeadLetters discards all dead letters of a subscription, which requires an explicit
// parameter.
func (s *Server) discardDeadLetters(c echo.Context) error {
	if c.QueryParam("all") != "true" {
		return sluice.Errorf(sluice.InvalidRequest, "name the event, or pass all=true to discard all dead letters of the subscription").With("field", "all")
	}
	sub := subscriptionOf(c)
	if err := s.opts.DeadLetters.DiscardAll(c.Request().Context(), sub, httpkit.By(c)); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// redriveRequest selects the dead letters to redrive.
type redriveRequest struct {
	IDs  []string    `json:"ids"` // event IDs
	All  bool        `json:"all"`
	Rate sluice.Rate `json:"rate"`
}

// check returns an error (InvalidRequest) unless the request has either IDs, at most
// httpkit.MaxLimit, or all, and a rate that a replay can have. Without a rate, that of the
// subscription applies.
func (r *redriveRequest) check() error {
	switch {
	case r.All == (len(r.IDs) > 0):
		return sluice.Errorf(sluice.InvalidRequest, `select dead letters: {"ids":["…"]} or {"all":true}`).With("field", "ids")
	case len(r.IDs) > httpkit.MaxLimit:
		return sluice.Errorf(sluice.InvalidRequest, "ids: use at most %[2]d, not %[1]d", len(r.IDs), httpkit.MaxLimit).With("field", "ids")
	}
	return subscription.CheckReplayRate(r.Rate)
}

// redrive is the response to a redrive: the replay of the dead letters as it starts.
type redrive struct {
	sluice.Replay

	Skipped int    `json:"skipped"`           // dead letters that cannot be redriven
	Message string `json:"message,omitempty"` // explains Skipped
}

// redriveDeadLetters starts a replay of dead letters (S4-53). Dead letters without a sendable event
// stay. It answers POST …/dead-letters/redrive with 202. A letter is deleted once its event is
// delivered, so an interrupted redrive can be repeated. Codes NotFound, with the detail missing;
// Conflict if no letter can be redriven, with the detail skipped; QuotaExceeded.
func (s *Server) redriveDeadLetters(c echo.Context) error {
	ctx := c.Request().Context()
	var req redriveRequest
	if err := httpkit.Bind(c, &req); err != nil {
		return err
	}
	if err := req.check(); err != nil {
		return err
	}
	if err := s.paysForSend(c); err != nil {
		return err
	}
	slices.Sort(req.IDs)
	req.IDs = slices.Compact(req.IDs)
	sub := subscriptionOf(c)
	found, err := s.opts.DeadLetters.Redrivable(ctx, sub)
	if err != nil {
		return err
	}
	want := sluice.Replay{Kind: sluice.ReplayDeadLetters, From: 1, To: found.Last, Rate: req.Rate, CreatedBy: httpkit.By(c)}
	if !req.All {
		if want.EventIDs, err = s.redrivableOf(c, sub, req.IDs); err != nil {
			return err
		}
		found.Can, found.Not = len(want.EventIDs), len(req.IDs)-len(want.EventIDs)
	}
	if found.Can == 0 && found.Not == 0 {
		return sluice.Errorf(sluice.Conflict, "%q has no dead letters", sub.ID).With("skipped", 0)
	}
	if found.Can == 0 {
		return sluice.Errorf(sluice.Conflict, "no dead letter can be redriven; %s", unknownEvents(found.Not)).With("skipped", found.Not)
	}
	want.Total = uint64(found.Can) //nolint:gosec // it is above 0
	if s.opts.Replays == nil {
		return sluice.Errorf(sluice.Unavailable, "this server does not support redriving dead letters")
	}
	started, err := s.opts.Replays.Start(ctx, sub, want)
	if err != nil {
		return err
	}
	answer := redrive{Replay: started, Skipped: found.Not}
	if found.Not > 0 {
		answer.Message = unknownEvents(found.Not)
	}
	return c.JSON(http.StatusAccepted, answer)
}

func unknownEvents(n int) string {
	return fmt.Sprintf("%d without a sendable event stay (reasons %s, %s, %s)", n, sluice.Expired, sluice.Unreadable, sluice.Malformed)
}

// redrivableOf returns the given events whose dead letters can be redriven. Code NotFound, with the
// detail missing, if some events have no dead letter. Hidden events look missing.
func (s *Server) redrivableOf(c echo.Context, sub *sluice.Subscription, ids []string) (can []string, err error) {
	missing := []string{}
	for _, id := range ids {
		d, err := s.opts.DeadLetters.DeadLetter(c.Request().Context(), sub, id)
		if err == nil {
			err = s.seesLetter(c, sub, &d)
		}
		switch code := sluice.CodeOf(err); {
		case code == sluice.NotFound:
			missing = append(missing, id)
		case err != nil:
			return nil, err
		case d.Redrivable():
			can = append(can, d.EventID)
		}
	}
	if len(missing) > 0 {
		return nil, sluice.Errorf(sluice.NotFound, "no dead letter found for event %q", missing[0]).With("missing", missing)
	}
	return can, nil
}
