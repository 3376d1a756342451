package httpapi

import (
	"maps"
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/cloudevent"
	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/internal/httpapi/httpkit"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// wireVersion is the version of the API's paths and bodies.
const wireVersion = "v1"

// capabilityList lists the features of this server; absent features are not supported.
type capabilityList struct {
	WireVersion string           `json:"wire_version"`
	Version     string           `json:"version"`
	Features    map[string]bool  `json:"features"`
	Limits      map[string]int64 `json:"limits"`
	NATS        NATS             `json:"nats"`

	// CoalesceLabels has the names of the static labels of each event type.
	CoalesceLabels map[string][]string `json:"coalesce_labels"`
}

// NATS says how events are published over NATS.
type NATS struct {
	Prefix  string `json:"prefix"`  // the prefix of all streams, buckets and subjects
	Subject string `json:"subject"` // begins all subjects of events; namespace and path follow
}

// capabilities answers GET /v1/capabilities for every authenticated caller: the features and limits
// by which clients decide. It names no namespace that the caller may not see.
func (s *Server) capabilities(c echo.Context) error {
	labels, err := s.coalesceLabels(c)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, capabilityList{
		WireVersion: wireVersion, Version: s.opts.Version, Features: s.features(), Limits: s.limits(), NATS: s.opts.NATS, CoalesceLabels: labels,
	})
}

// features returns the features of this server. A feature that is off is absent.
func (s *Server) features() map[string]bool {
	all := map[string]bool{
		"push":                 true, // S0-03
		"cloudevents_binary":   true,
		"cloudevents_batch":    true,
		"scope_subscriptions":  true,
		"entity_subscriptions": true,
		"secret_rotation":      true,
		"cel_filters":          true,
		"dead_letters":         true,
		"replay":               true,
		"seek":                 true,
		"breaker":              true,
		"audit":                true,
		"system_events":        true,
		"loop_detection":       true,
		"catalogue":            true,
		"projection":           true,
		"state":                true,
		"feed":                 s.opts.Feeds != nil,
		"feed_tickets":         s.opts.Feeds != nil && s.opts.Authority != nil,
		"scheduled_events":     s.opts.Schedules.Scheduled != nil,
		"appointments":         s.opts.Schedules.Appointments != nil,
		"watches":              s.opts.Watches != nil,
		"wake":                 s.opts.Wakes != nil,
		"durable_streams":      s.opts.Streams.Engine != nil,
	}
	maps.DeleteFunc(all, func(_ string, can bool) bool { return !can })
	return all
}

// limits returns the limits by name. Units are bytes, counts, hops and the cost of CEL;
// secret_bytes is a minimum, the others are maxima.
func (s *Server) limits() map[string]int64 {
	limits := map[string]int64{
		"path_bytes":      sluice.MaxPathBytes,
		"path_segments":   sluice.MaxPathSegments,
		"event_id_bytes":  sluice.MaxIDBytes,
		"attribute_bytes": sluice.MaxAttribute,
		"batch_events":    cloudevent.MaxBatch,
		"body_bytes":      s.opts.MaxBody,
		"page_elements":   httpkit.MaxLimit,
		"window":          sluice.MaxWindow,
		"secret_bytes":    sluice.MinSecretBytes,
		"causation_hops":  sluice.MaxHops,
		"event_types":     sluice.MaxEventTypes,
		"schema_bytes":    sluice.MaxSchema,
		"live_cel_cost":   filter.LiveLimit,
	}
	if s.opts.Feeds != nil {
		most, perCaller := s.opts.Feeds.Limits()
		limits["feeds"], limits["feeds_per_principal"] = int64(most), int64(perCaller)
	}
	return limits
}

// coalesceLabels returns the names of the static labels of the event types in all visible
// catalogues, or in that of one namespace. Labels from an event's data are not known in advance
// (S2-65, S2-72).
func (s *Server) coalesceLabels(c echo.Context) (map[string][]string, error) {
	labels := map[string][]string{}
	only := c.QueryParam("namespace")
	if only != "" {
		if err := s.rights.Sees(c, only); err != nil {
			return nil, err
		}
		if _, err := s.opts.Namespaces.Namespace(c.Request().Context(), only); err != nil {
			return nil, err
		}
	}
	if s.opts.Catalogue == nil {
		return labels, nil
	}
	seen := map[string]bool{}
	for _, t := range s.opts.Catalogue.All() {
		sees, asked := seen[t.Namespace]
		if !asked {
			sees = s.rights.Sees(c, t.Namespace) == nil
			seen[t.Namespace] = sees
		}
		if !sees || only != "" && only != t.Namespace {
			continue
		}
		all := slices.AppendSeq(labels[t.Type], maps.Keys(t.StaticLabels))
		slices.Sort(all)
		labels[t.Type] = append([]string{}, slices.Compact(all)...) // [] if there are none
	}
	return labels, nil
}
