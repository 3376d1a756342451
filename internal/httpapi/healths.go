package httpapi

import (
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/health"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// healthList is one page of the health of subscriptions.
type healthList struct {
	Subscriptions []sluice.SubscriptionHealth `json:"subscriptions"`
	Counts        map[sluice.Health]int       `json:"counts"` // of all that the caller may see, by health
	NextCursor    string                      `json:"next_cursor"`
}

// listHealth lists the subscriptions that the caller manages by their health, worst first. It
// answers GET /v1/health/subscriptions. Callers share one view of the store, which may be seconds
// old.
func (s *Server) listHealth(c echo.Context) error {
	p, err := httpkit.PageOf(c)
	if err != nil {
		return err
	}
	q := health.Query{Namespace: c.QueryParam("namespace"), Limit: p.Limit, Cursor: p.Cursor}
	if q.Health, err = healthsOf(c.QueryParam("health")); err != nil {
		return err
	}
	if err := httpkit.OneOf(c, "sparkline", "true", "false"); err != nil {
		return err
	}
	q.Sparkline = c.QueryParam("sparkline") == "true"
	if s.opts.Health == nil {
		return sluice.Errorf(sluice.Unavailable, "this server does not support the health of subscriptions")
	}
	whole := map[string]bool{} // subscriptions that show their URLs in full
	q.Visible = func(sub *sluice.Subscription) bool {
		if s.owns(c, sub) != nil {
			return false
		}
		whole[sub.ID] = s.hideURL(c, sub) == sub
		return true
	}
	page, err := s.opts.Health.List(c.Request().Context(), q)
	if err != nil {
		return err
	}
	for i := range page.Subscriptions {
		if row := &page.Subscriptions[i]; !whole[row.ID] {
			row.URL = sluice.HideURL(row.URL)
		}
	}
	return c.JSON(http.StatusOK, healthList{page.Subscriptions, page.Counts, page.Next})
}

// healthsOf parses a filter: values separated by commas. An empty text is no filter. Code
// InvalidRequest for an unknown value.
func healthsOf(text string) (all []sluice.Health, err error) {
	if text == "" {
		return nil, nil
	}
	for name := range strings.SplitSeq(text, ",") {
		if !slices.Contains(sluice.Healths(), sluice.Health(name)) {
			return nil, sluice.Errorf(sluice.InvalidRequest, "health %q: use one or more of %s, separated by commas", name, joined(sluice.Healths())).With("field", "health")
		}
		all = append(all, sluice.Health(name))
	}
	return all, nil
}

// joined returns the values for a message, separated by commas.
func joined(all []sluice.Health) string {
	names := make([]string, len(all))
	for i, h := range all {
		names[i] = string(h)
	}
	return strings.Join(names, ", ")
}
