package endpoint

import (
	"maps"
	"strconv"
	"strings"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// reduced reports whether the subscription gets less than the complete data.
func reduced(sub *sluice.Subscription) bool {
	return sub.Policy.Projection == sluice.ProjectionSummary || sub.Policy.Projection == sluice.ProjectionNone
}

// project returns the event in the subscription's projection (register C10): with all of its data;
// or with a summary, or no data, and the extension dataref, which refers to the complete event. An
// event without a summary has no data. project does not change ev. The result is ev itself if
// nothing is left out; do not change it.
func (s *Sender) project(sub *sluice.Subscription, ev *sluice.Event) *sluice.Event {
	if !reduced(sub) {
		return ev
	}
	less := *ev
	less.Data, less.ContentType = nil, jsonType
	if sub.Policy.Projection == sluice.ProjectionSummary && s.opts.Summary != nil {
		less.Data = s.opts.Summary(ev)
	}
	less.Extensions = maps.Clone(ev.Extensions)
	if less.Extensions == nil {
		less.Extensions = map[string]string{}
	}
	delete(less.Extensions, sluice.DataRef) // the publisher's reference is to the complete data
	if ref := s.reference(ev); ref != "" {
		less.Extensions[sluice.DataRef] = ref
	}
	return &less
}

// reference returns the URL of the complete event; "" if the public URL is unknown, or the event is
// not stored.
func (s *Sender) reference(ev *sluice.Event) string {
	if ev.Seq == 0 || s.opts.PublicURL == "" {
		return ""
	}
	return strings.TrimSuffix(s.opts.PublicURL, "/") + "/v1/namespaces/" + ev.Namespace + "/events/" + strconv.FormatUint(ev.Seq, 10)
}

// dataRef returns the reference to the complete event, for envelopes that have no extensions; "" if
// the event has all of its data.
func dataRef(sub *sluice.Subscription, ev *sluice.Event) string {
	if !reduced(sub) {
		return ""
	}
	return ev.Extensions[sluice.DataRef]
}
