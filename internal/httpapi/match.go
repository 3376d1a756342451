package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/cloudevent"
	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/strictjson"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// matchLooked is the number of the namespace's latest events among which the names of a filter are searched.
const matchLooked = 1000

// matchRequest names or contains the event on which a filter is tried. Without an event, only the
// names in the filter are checked.
type matchRequest struct {
	EventID string          `json:"event_id"`
	Event   json.RawMessage `json:"event"` // a CloudEvent, or the short form
}

// matchReply says whether the event would be delivered.
type matchReply struct {
	Matches     *bool    `json:"matches,omitempty"` // nil without an event
	Reason      string   `json:"reason,omitempty"`  // if not: pattern, filter or filter_error
	Explanation string   `json:"explanation,omitempty"`
	Body        string   `json:"body,omitempty"` // the result of policy.body for the event
	ContentType string   `json:"content_type,omitempty"`
	Examined    int      `json:"examined"` // latest events on the pattern's paths
	Warnings    []string `json:"warnings"` // about names that none of the examined events has
}

// matchSubscription tries a subscription's pattern and filter on an event. Nothing is sent.
func (s *Server) matchSubscription(c echo.Context) error {
	var req matchRequest
	if err := httpkit.Bind(c, &req); err != nil {
		return err
	}
	sub := subscriptionOf(c)
	ev, given, err := s.eventToMatch(c, sub, &req)
	if err != nil {
		return err
	}
	leave, err := s.enterTrial(c, sub.Namespace)
	if err != nil {
		return err
	}
	defer leave()
	var is matchReply
	if given {
		m, err := s.opts.Explain.Match(c.Request().Context(), sub, &ev, s.payer(c, sub.Namespace))
		if err != nil {
			return err
		}
		is.Matches, is.Reason, is.Explanation = &m.Matches, m.Reason, m.Explanation
		if err := is.render(sub, &ev); err != nil {
			return err
		}
	}
	if is.Examined, is.Warnings, err = s.unseen(c, sub); err != nil {
		return err
	}
	return c.JSON(http.StatusOK, is)
}

// maxRendered limits the body that is shown.
const maxRendered = 64 << 10

// render adds the body that the subscription's template yields.
func (is *matchReply) render(sub *sluice.Subscription, ev *sluice.Event) error {
	if sub.Policy.Body == nil || !*is.Matches {
		return nil
	}
	template, err := filter.CompileTemplate(sub.Policy.Body)
	if err != nil {
		return err
	}
	body, contentType, err := template.Render(ev, maxRendered)
	is.Body, is.ContentType = string(body), contentType
	return err
}

// eventToMatch returns the event of a request, if it has one. A stored event must be visible to the
// caller.
func (s *Server) eventToMatch(c echo.Context, sub *sluice.Subscription, req *matchRequest) (ev sluice.Event, given bool, err error) {
	switch {
	case req.EventID != "" && req.Event != nil:
		return ev, false, sluice.Errorf(sluice.InvalidRequest, "event_id names a stored event, and event is one; send one of them").With("field", "event")
	case req.EventID != "":
		if ev, err = s.findEvent(c.Request().Context(), sub.Namespace, req.EventID); err == nil {
			err = s.seesThis(c, &ev)
		}
		return ev, true, err
	case req.Event == nil:
		return ev, false, nil
	}
	ev, err = cloudevent.ParseLine(req.Event)
	ev.Namespace = sub.Namespace
	return ev, true, err
}

// unseen returns warnings about names in a subscription's filter that occur neither in the latest
// events on its paths nor in the catalogue, and the number of events examined. It examines only
// events that the caller may see.
func (s *Server) unseen(c echo.Context, sub *sluice.Subscription) (examined int, warnings []string, err error) {
	events, err := s.latest(c, sub)
	if err != nil {
		return 0, nil, err
	}
	catalogue, err := s.catalogued(c.Request().Context(), sub)
	if err != nil {
		return 0, nil, err
	}
	warnings = []string{}
	if len(events) == 0 {
		return 0, warnings, nil
	}
	types := map[string]bool{}
	for _, t := range catalogue {
		types[t.Type] = true
	}
	for i := range events {
		types[events[i].Type] = true
	}
	for _, one := range sub.Filter.Types {
		if warning := unseenType(one, types, len(events)); warning != "" {
			warnings = append(warnings, warning)
		}
	}
	return len(events), append(warnings, unseenFields(sub, events, catalogue)...), nil
}

// latest returns the latest events of the namespace that are on a subscription's paths and visible
// to the caller.
func (s *Server) latest(c echo.Context, sub *sluice.Subscription) ([]sluice.Event, error) {
	ctx := c.Request().Context()
	end, err := s.opts.Log.Read(ctx, sub.Namespace, model.EventQuery{Since: "now", Limit: 1})
	if err != nil {
		return nil, err
	}
	page, err := s.opts.Log.Read(ctx, sub.Namespace, model.EventQuery{
		Pattern: sub.Pattern, After: end.After - min(end.After, matchLooked), Limit: matchLooked, Visible: s.rights.Visible(c, sluice.VerbSubscribe),
	})
	if err != nil {
		return nil, err
	}
	return s.rights.Shown(c, sluice.VerbSubscribe, page.Events)
}

// catalogued returns the types of the catalogue that a subscription's filter permits.
func (s *Server) catalogued(ctx context.Context, sub *sluice.Subscription) ([]sluice.EventType, error) {
	if s.opts.EventTypes == nil {
		return nil, nil
	}
	all, err := s.opts.EventTypes.List(ctx, sub.Namespace)
	return slices.DeleteFunc(all, func(t sluice.EventType) bool {
		return len(sub.Filter.Types) > 0 && !sluice.MatchType(sub.Filter.Types, t.Type)
	}), err
}

// unseenType returns a warning unless a type, or a pattern of types, matches one of the known
// types.
func unseenType(of string, known map[string]bool, examined int) string {
	names := make([]string, 0, len(known))
	for one := range known {
		if sluice.MatchType([]string{of}, one) {
			return ""
		}
		names = append(names, one)
	}
	slices.Sort(names)
	return fmt.Sprintf("filter.types: none of the latest %d events on these paths has the type %q%s", examined, of, didYouMean("", of, names))
}

// unseenFields returns a warning for each field that the expression reads but that occurs neither
// in the data of the events nor in a schema of the catalogue.
func unseenFields(sub *sluice.Subscription, events []sluice.Event, catalogue []sluice.EventType) (warnings []string) {
	fields, known, err := filter.Unseen(sub.Filter, events)
	if err != nil { // the expression was checked when it was stored
		return nil
	}
	for _, one := range fields {
		if !slices.ContainsFunc(catalogue, func(t sluice.EventType) bool { return declares(t.Schema, strings.Split(one, ".")) }) {
			warnings = append(warnings, fmt.Sprintf("filter.cel: none of the latest %d events on these paths has event.data.%s%s",
				len(events), one, didYouMean("event.data.", one, known)))
		}
	}
	return warnings
}

// didYouMean returns the known name that is most similar to a name, for the end of a message.
func didYouMean(prefix, name string, known []string) string {
	if near := strictjson.Neighbour(name, known); near != "" {
		return fmt.Sprintf("; did you mean %s%s?", prefix, near)
	}
	return ""
}

// declares reports whether a JSON Schema has a property within its properties.
func declares(schema json.RawMessage, path []string) bool {
	if len(path) == 0 {
		return true
	}
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(schema, &s) != nil {
		return false
	}
	one, ok := s.Properties[path[0]]
	return ok && declares(one, path[1:])
}
