package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// EventTypes stores the catalogues.
type EventTypes interface {
	// Put creates or updates an event type and returns it, and whether it is new. A revision must
	// be the current one: code RevisionMismatch. By is the principal of the change.
	Put(ctx context.Context, t sluice.EventType, by string) (sluice.EventType, bool, error)
	// Get returns an event type. Code NotFound if there is none.
	Get(ctx context.Context, namespace, eventType string) (sluice.EventType, error)
	// List returns the event types of a namespace, in no order. Code NotFound for the namespace.
	List(ctx context.Context, namespace string) ([]sluice.EventType, error)
	// Delete removes an event type. Codes NotFound; RevisionMismatch.
	Delete(ctx context.Context, namespace, eventType string, revision uint64, by string) error
}

// Catalogue holds the rules for events.
type Catalogue interface {
	// All returns the event types of all namespaces, in no order.
	All() []sluice.EventType
	// Labels returns the labels of an event's type; callers must not change them.
	Labels(ev *sluice.Event) map[string]string
}

// eventTypeRequest is the body of a PUT of an event type.
type eventTypeRequest struct {
	Description   string            `json:"description"`
	Schema        json.RawMessage   `json:"schema"`
	SummaryFields []string          `json:"summary_fields"`
	StaticLabels  map[string]string `json:"static_labels"`
}

// putEventType answers PUT /v1/namespaces/{ns}/event-types/{type} for admins: 201 for a new type,
// else 200. All fields are replaced. If-Match fences it: RevisionMismatch.
func (s *Server) putEventType(c echo.Context) error {
	var req eventTypeRequest
	if err := httpkit.Bind(c, &req); err != nil {
		return err
	}
	revision, err := httpkit.IfMatch(c)
	if err != nil {
		return err
	}
	name, err := httpkit.Param(c, "type")
	if err != nil {
		return err
	}
	stored, created, err := s.opts.EventTypes.Put(c.Request().Context(), sluice.EventType{
		Namespace: c.Param("ns"), Type: name, Description: req.Description, Schema: req.Schema,
		SummaryFields: req.SummaryFields, StaticLabels: req.StaticLabels, Revision: revision,
	}, httpkit.By(c))
	if err != nil {
		return err
	}
	httpkit.SetETag(c, stored.Revision)
	if created {
		return c.JSON(http.StatusCreated, stored)
	}
	return c.JSON(http.StatusOK, stored)
}

// getEventType answers GET …/event-types/{type} for callers that may know the namespace.
func (s *Server) getEventType(c echo.Context) error {
	name, err := httpkit.Param(c, "type")
	if err != nil {
		return err
	}
	t, err := s.opts.EventTypes.Get(c.Request().Context(), c.Param("ns"), name)
	if err != nil {
		return err
	}
	httpkit.SetETag(c, t.Revision)
	return c.JSON(http.StatusOK, t)
}

// deleteEventType answers DELETE …/event-types/{type} for admins. Stored events stay; a strict
// catalogue refuses further ones (S4-64). Codes NotFound; RevisionMismatch.
func (s *Server) deleteEventType(c echo.Context) error {
	revision, err := httpkit.IfMatch(c)
	if err != nil {
		return err
	}
	name, err := httpkit.Param(c, "type")
	if err != nil {
		return err
	}
	if err := s.opts.EventTypes.Delete(c.Request().Context(), c.Param("ns"), name, revision, httpkit.By(c)); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

// eventTypeList is one page of event types.
type eventTypeList struct {
	EventTypes []sluice.EventType `json:"event_types"`
	NextCursor string             `json:"next_cursor"`
}

// listEventTypes lists event types, newest first; the cursor is the name of the last one on the
// previous page.
func (s *Server) listEventTypes(c echo.Context) error {
	p, err := httpkit.PageOf(c)
	if err != nil {
		return err
	}
	all, err := s.opts.EventTypes.List(c.Request().Context(), c.Param("ns"))
	if err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b sluice.EventType) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), strings.Compare(b.Type, a.Type))
	})
	page, next, err := httpkit.Paginate(p, all, func(one *sluice.EventType) string { return one.Type })
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, eventTypeList{page, next})
}
