package e2e_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// S2-140, C19: a feed's filter may be written as a subscription's is, and says the same on replay and live.
func TestFeed_TakesASubscriptionsFilter(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	published := `[{"path":"/o/1","type":"order.paid","source":"/shop","subject":"urn:o:1","data":{"region":"eu","total":5}},
		{"path":"/o/2","type":"order.sent","source":"/till","data":{"region":"us","total":50}},
		{"path":"/end","type":"end","source":"/shop","subject":"urn:o:1","data":{"region":"eu","total":500}}]`
	publish := func() { s.must(t, http.StatusCreated, "POST /v1/namespaces/default/events", published) }
	publish()
	want := map[string]string{
		`{}`: "/o/1 /o/2 /end",
		`{"types":["order.*","end"],"sources":["/shop"]}`:                                      "/o/1 /end",
		`{"labels":{"region":["eu","x"]},"subjects":["urn:o:1"],"cel":"event.data.total > 1"}`: "/o/1 /end",
		`{"cel":"event.data.total > 100"}&types=order.*,end`:                                   "/end",
		`{"types":["order.*"]}&labels=region=us&cel=event.data.total%3E1&sources=/till`:        "/o/2",
	}
	readers := map[string]*feedReader{}
	for query, paths := range want {
		text, more, _ := strings.Cut(query, "&")
		readers[query], _ = s.feed(t, "since=-1&filter="+url.QueryEscape(text)+"&"+more)
		require.Equal(t, paths, readers[query].paths(len(strings.Fields(paths))), query)
	}
	publish()
	for query, paths := range want {
		require.Equal(t, paths, readers[query].paths(len(strings.Fields(paths))), query)
	}
	for query, code := range map[string]string{
		`{"colour":["red"]}`:              "unknown_filter",
		`{"Types":["order.*"]}`:           "unknown_filter",
		`{"types":"order.*"}`:             "invalid_request",
		`{"types":["o*r"]}`:               "invalid_request",
		`{"types":["a"],"types":["b"]}`:   "invalid_request",
		`{"types":["a"]}&types=b`:         "invalid_request",
		`{"labels":{"a":["b"]}}&labels=c`: "invalid_request",
		`{"cel":"1+"}`:                    "invalid_request",
		`types`:                           "invalid_request",
		`{} {}`:                           "invalid_request",
		`{}&filter={}`:                    "invalid_request",
	} {
		text, more, _ := strings.Cut(query, "&")
		status := map[string]int{"unknown_filter": 422, "invalid_request": 400}[code]
		r := s.must(t, status, "GET "+feedAt+"?filter="+url.QueryEscape(text)+"&"+more, "")
		require.Equal(t, code, r.field(t, "error.code"), query)
	}
}

// S2-141: a feed of one subject has the events about it and those that affect it, on any path.
func TestFeed_OfASubjectHasRelatedEvents(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	publish := func() {
		_, err := s.api.Publish(t.Context(), "default",
			sluice.Event{Path: "/a", Type: "subject.forgotten", Subject: "urn:x:1"},
			sluice.Event{Path: "/b", Type: "relation.rewritten", Subject: "urn:x:2", Extensions: map[string]string{"relatedsubjects": "urn:x:3 urn:x:1"}},
			sluice.Event{Path: "/c", Type: "subject.merged", Subject: "urn:x:2", Extensions: map[string]string{"relatedsubjects": "urn:x:11"}},
			sluice.Event{Path: "/end", Type: "end", Extensions: map[string]string{"relatedsubjects": "urn:x:1"}},
		)
		require.NoError(t, err)
	}
	publish()
	queries := []string{"subjects=urn:x:1", "target=entity:urn:x:1", "subjects=urn:none&subjects=urn:x:1", `filter={"subjects":["urn:x:1"]}`, "target=scope:default&subjects=urn:x:1"}
	var readers []*feedReader
	for _, query := range queries {
		r, _ := s.feed(t, "since=-1&"+query)
		readers = append(readers, r)
		require.Equal(t, "/a /b /end", r.paths(3), query)
	}
	publish()
	for i, r := range readers {
		require.Equal(t, "/a /b /end", r.paths(3), queries[i])
	}
	for _, bad := range []string{"target=entity:", "target=scope:other", "target=x", "target=entity:a&subjects=b"} {
		s.must(t, http.StatusBadRequest, "GET "+feedAt+"?"+bad, "")
	}
}
