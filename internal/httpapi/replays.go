package httpapi

import (
	"encoding/json"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/internal/subscription"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// startReplay replays past events, or counts them with dry_run. It answers POST …/replay: 202 as
// soon as the replay is stored, 200 with the count of a dry run. Events go out beside the live
// ones, with their IDs, so receivers recognize them (S0-39). A dry run is a trial, of which a
// principal has one at a time. Codes: those of Registry.Replay; QuotaExceeded.
func (s *Server) startReplay(c echo.Context) error {
	var req struct {
		From     json.RawMessage `json:"from"` // a string, or a number for a sequence
		To       json.RawMessage `json:"to"`
		Types    []string        `json:"types"`
		EventIDs []string        `json:"event_ids"`
		Rate     sluice.Rate     `json:"rate"`
		DryRun   bool            `json:"dry_run"`
	}
	if err := httpkit.Bind(c, &req); err != nil {
		return err
	}
	want := subscription.ReplayRequest{From: placeIn(req.From), To: placeIn(req.To), Types: req.Types, EventIDs: req.EventIDs, Rate: req.Rate}
	if !req.DryRun {
		if err := s.paysForSend(c); err != nil {
			return err
		}
		rep, err := s.opts.Registry.Replay(c.Request().Context(), c.Param("id"), want, httpkit.By(c))
		if err != nil {
			return err
		}
		c.Response().Header().Set(echo.HeaderLocation, "/v1/subscriptions/"+rep.Subscription+"/replays/"+rep.ID)
		return c.JSON(http.StatusAccepted, rep)
	}
	sub, err := s.opts.Registry.Get(c.Request().Context(), c.Param("id"))
	if err != nil {
		return err
	}
	leave, err := s.enterTrial(c, sub.Namespace)
	if err != nil {
		return err
	}
	defer leave()
	count, err := s.opts.Registry.Count(c.Request().Context(), c.Param("id"), want)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, count)
}

// replayList is the replays of a subscription.
type replayList struct {
	Replays    []sluice.Replay `json:"replays"`
	NextCursor string          `json:"next_cursor"` // always empty: all replays fit on one page
}

// listReplays answers GET …/replays, newest first, with the ended ones that are kept.
func (s *Server) listReplays(c echo.Context) error {
	all, err := s.opts.Registry.Replays(c.Request().Context(), c.Param("id"))
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, replayList{Replays: all})
}

// getReplay answers GET …/replays/{replay}. Code NotFound.
func (s *Server) getReplay(c echo.Context) error {
	rep, err := s.opts.Registry.GetReplay(c.Request().Context(), c.Param("id"), c.Param("replay"))
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, rep)
}

// cancelReplay answers POST …/replays/{replay}/cancel. Deliveries in flight are completed; a replay
// that has ended keeps its state.
func (s *Server) cancelReplay(c echo.Context) error {
	rep, err := s.opts.Registry.CancelReplay(c.Request().Context(), c.Param("id"), c.Param("replay"), httpkit.By(c))
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, rep)
}
