package httpapi

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/explain"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/subscription"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	storyTime   = 10 * time.Second // then the page ends
	storyAtOnce = 4                // subscriptions explained concurrently
	storyLooked = 1000             // later events among which the consequences are searched
	storyLinks  = 100              // consequences that are shown
)

// Kinds of runs.
const (
	runOriginal = "original"
	runRedrive  = "redrive"
	runReplay   = "replay"
)

// eventDeliveries is the outcome of an event for each subscription.
type eventDeliveries struct {
	Event        storyEvent      `json:"event"`
	Causes       []storyEvent    `json:"causes"`       // nearest first
	Consequences []storyEvent    `json:"consequences"` // in the order of the log
	Complete     bool            `json:"complete"`     // all later events were searched for consequences
	Deliveries   []eventDelivery `json:"deliveries"`   // by the IDs of the subscriptions
	NextCursor   string          `json:"next_cursor"`
}

// storyEvent is an event without its data.
type storyEvent struct {
	ID    string      `json:"id"`
	Seq   uint64      `json:"seq"`
	Path  sluice.Path `json:"path"`
	Type  string      `json:"type"`
	Time  time.Time   `json:"time,omitzero"`
	Cause string      `json:"caused_by,omitempty"` // ID of an event
}

func storyOf(ev *sluice.Event) storyEvent {
	return storyEvent{ID: ev.ID, Seq: ev.Seq, Path: ev.Path, Type: ev.Type, Time: ev.Time, Cause: ev.Extensions[sluice.CausationID]}
}

// eventDelivery is the delivery of the event to one subscription.
type eventDelivery struct {
	explain.Delivery

	Subscription string        `json:"subscription"`
	Runs         []deliveryRun `json:"runs"` // oldest first
}

// deliveryRun is the attempts of the original delivery, or of one replay.
type deliveryRun struct {
	Kind     string           `json:"kind"` // original, replay or redrive
	Replay   string           `json:"replay,omitempty"`
	Attempts []sluice.Attempt `json:"attempts"`
}

// listEventDeliveries shows the outcome of an event for every subscription that the caller manages,
// and the causes and consequences of the event. It answers GET
// /v1/namespaces/{ns}/events/{event}/deliveries: a page of push subscriptions by ID, which ends
// early after storyTime. A hidden event looks missing.
func (s *Server) listEventDeliveries(c echo.Context) error {
	p, err := httpkit.PageOf(c)
	if err != nil {
		return err
	}
	name, err := httpkit.Param(c, "event")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), storyTime)
	defer cancel()
	// The rights and the registry take the context of the request; they end with the page, too.
	c.SetRequest(c.Request().WithContext(ctx))
	ev, err := s.findEvent(ctx, c.Param("ns"), name)
	if err != nil {
		return err
	}
	if ok, err := s.rights.Shows(c, sluice.VerbRead, &ev); err != nil || !ok {
		return cmp.Or(err, authz.Concealed())
	}
	story := eventDeliveries{Event: storyOf(&ev), Causes: []storyEvent{}, Consequences: []storyEvent{}, Deliveries: []eventDelivery{}}
	if p.Cursor == "" {
		if err := s.addCauses(c, &ev, &story); err != nil {
			return err
		}
		if err := s.addConsequences(c, &ev, &story); err != nil {
			return err
		}
	}
	page, err := s.opts.Registry.List(ctx, subscription.Query{
		Namespace: ev.Namespace, Mode: sluice.Push, ByID: true, Limit: p.Limit, Cursor: p.Cursor,
		Visible: func(sub *sluice.Subscription) bool { return s.owns(c, sub) == nil && s.knowsOf(c, sub, ev.Path, &ev) },
	})
	if err != nil {
		return err
	}
	story.NextCursor = page.NextCursor
	if err := s.addDeliveries(c, &ev, page.Subscriptions, &story); err != nil {
		return err
	}
	return c.JSON(http.StatusOK, story)
}

// addCauses follows the event's causes as far as they are stored and the caller may see them.
func (s *Server) addCauses(c echo.Context, ev *sluice.Event, story *eventDeliveries) error {
	seen := map[string]bool{ev.ID: true}
	for next := ev.Extensions[sluice.CausationID]; next != "" && !seen[next] && len(seen) <= sluice.MaxHops; {
		seen[next] = true
		cause, err := s.opts.Log.EventByID(c.Request().Context(), ev.Namespace, next)
		if sluice.CodeOf(err) == sluice.NotFound {
			return nil
		}
		if err != nil {
			return err
		}
		if ok, err := s.rights.Shows(c, sluice.VerbRead, &cause); err != nil || !ok {
			return err
		}
		story.Causes = append(story.Causes, storyOf(&cause))
		next = cause.Extensions[sluice.CausationID]
	}
	return nil
}

// addConsequences searches the events after an event for its consequences: those that name it, or
// another consequence, as their cause. It examines up to storyLooked events, and shows up to
// storyLinks consequences.
func (s *Server) addConsequences(c echo.Context, ev *sluice.Event, story *eventDeliveries) error {
	page, err := s.opts.Log.Read(c.Request().Context(), ev.Namespace, model.EventQuery{After: ev.Seq, Limit: storyLooked, Visible: s.rights.Visible(c, sluice.VerbRead)})
	if err != nil {
		return err
	}
	page.Events, err = s.rights.Shown(c, sluice.VerbRead, page.Events)
	if err != nil {
		return err
	}
	caused := map[string]bool{ev.ID: true}
	for i := range page.Events {
		if one := &page.Events[i]; caused[one.Extensions[sluice.CausationID]] && len(story.Consequences) < storyLinks {
			caused[one.ID] = true
			story.Consequences = append(story.Consequences, storyOf(one))
		}
	}
	story.Complete = page.Next == 0 && len(story.Consequences) < storyLinks
	return nil
}

// addDeliveries explains the delivery of the event for each subscription, in order. When storyTime
// is over, the page ends early. Code Unavailable if not even the first was explained in time.
func (s *Server) addDeliveries(c echo.Context, ev *sluice.Event, subs []*sluice.Subscription, story *eventDeliveries) error {
	ctx := c.Request().Context()
	told, errs := make([]*eventDelivery, len(subs)), make([]error, len(subs))
	asker := s.payer(c, ev.Namespace)
	var asking sync.WaitGroup
	free := make(chan struct{}, storyAtOnce)
	for i, sub := range subs {
		free <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		asking.Go(func() {
			defer func() { <-free }()
			told[i], errs[i] = s.eventDelivery(ctx, sub, ev, asker)
		})
	}
	asking.Wait()
	for i := range subs {
		switch {
		case told[i] == nil && ctx.Err() != nil && i > 0:
			story.NextCursor = subscription.Query{ByID: true}.After(subs[i-1])
			return nil
		case errs[i] != nil:
			return errs[i]
		case told[i] == nil:
			return sluice.Errorf(sluice.Unavailable, "the store answers too slowly; try again")
		}
		story.Deliveries = append(story.Deliveries, *told[i])
	}
	return nil
}

// eventDelivery explains the delivery of the event for one subscription, with its attempts by run.
func (s *Server) eventDelivery(ctx context.Context, sub *sluice.Subscription, ev *sluice.Event, asker string) (*eventDelivery, error) {
	d, err := s.opts.Explain.Delivery(ctx, sub, eventName(ev), asker)
	if err != nil {
		return nil, err
	}
	one := &eventDelivery{Delivery: d, Subscription: sub.ID}
	if one.Runs, err = s.runsOf(ctx, sub, d.Attempts); err != nil {
		return nil, err
	}
	one.Attempts = nil
	return one, nil
}

// eventName returns the name by which the explainer finds the event: its sequence, because an ID
// may be missing or ambiguous.
func eventName(ev *sluice.Event) string { return strconv.FormatUint(ev.Seq, 10) }

// runsOf divides attempts, oldest first, among the original delivery and the replays. A run has the
// place of its first attempt.
func (s *Server) runsOf(ctx context.Context, sub *sluice.Subscription, attempts []sluice.Attempt) ([]deliveryRun, error) {
	runs := []deliveryRun{}
	for _, a := range attempts {
		a.Batch = nil // the response is about one event
		i := slices.IndexFunc(runs, func(r deliveryRun) bool { return r.Replay == a.Replay })
		if i < 0 {
			kind, err := s.runKind(ctx, sub, a.Replay)
			if err != nil {
				return nil, err
			}
			runs, i = append(runs, deliveryRun{Kind: kind, Replay: a.Replay}), len(runs)
		}
		runs[i].Attempts = append(runs[i].Attempts, a)
	}
	return runs, nil
}

// runKind returns the kind of a run. The record of an old replay may be gone.
func (s *Server) runKind(ctx context.Context, sub *sluice.Subscription, replay string) (string, error) {
	if replay == "" {
		return runOriginal, nil
	}
	rep, err := s.opts.Registry.GetReplay(ctx, sub.ID, replay)
	switch {
	case err != nil && sluice.CodeOf(err) != sluice.NotFound:
		return "", err
	case err == nil && rep.Kind == sluice.ReplayDeadLetters:
		return runRedrive, nil
	}
	return runReplay, nil
}
