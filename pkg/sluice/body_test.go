package sluice_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestBody_IsRefusedUnlessItCanBeSent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(s *sluice.Subscription)
		fails  string
	}{
		"cel":      {func(s *sluice.Subscription) { s.Policy.Body.CEL = "event" }, ""},
		"a preset": {func(s *sluice.Subscription) { s.Policy.Body.Preset = sluice.BodySlack }, ""},
		"JSON": {func(s *sluice.Subscription) {
			*s.Policy.Body = sluice.Body{CEL: "1", ContentType: "application/a+JSON; charset=utf-8"}
		}, ""},
		"text": {func(s *sluice.Subscription) { *s.Policy.Body = sluice.Body{CEL: "''", ContentType: "text/plain"} }, ""},
		"HTML": {func(s *sluice.Subscription) { *s.Policy.Body = sluice.Body{CEL: "''", ContentType: "text/html"} }, `policy.body.content_type "text/html": use application/json, another type that ends in +json, or text/plain`},
		"a second header": {func(s *sluice.Subscription) {
			*s.Policy.Body = sluice.Body{CEL: "''", ContentType: "text/plain;\r\nx: y"}
		}, `policy.body.content_type "text/plain;\r\nx: y": use application/json, another type that ends in +json, or text/plain`},
		"nothing":          {func(*sluice.Subscription) {}, "policy.body requires cel or preset"},
		"preset and type":  {func(s *sluice.Subscription) { *s.Policy.Body = sluice.Body{Preset: "slack", ContentType: "text/plain"} }, "policy.body.preset sets the content type; omit content_type"},
		"unknown preset":   {func(s *sluice.Subscription) { s.Policy.Body.Preset = "teams" }, `policy.body.preset "teams": use slack, discord`},
		"another envelope": {func(s *sluice.Subscription) { s.Policy.Envelope = sluice.EnvelopeRaw }, `policy.body requires the envelope "template"; omit policy.envelope`},
		"no body":          {func(s *sluice.Subscription) { s.Policy.Envelope, s.Policy.Body = sluice.EnvelopeTemplate, nil }, `policy.envelope "template" requires policy.body`},
		"a projection":     {func(s *sluice.Subscription) { s.Policy.Body.CEL, s.Policy.Projection = "1", sluice.ProjectionNone }, "policy.projection cannot be set with policy.body, which says what is sent; omit it"},
	} {
		s := &sluice.Subscription{Namespace: "acme", Pattern: "/a", Endpoint: sluice.Endpoint{URL: "https://a.example/"}, Policy: sluice.Policy{Body: &sluice.Body{}}}
		c.change(s)
		s.SetDefaults()
		if c.fails == "" {
			require.NoError(t, s.Validate(), name)
			require.Equal(t, sluice.EnvelopeTemplate, s.Policy.Envelope)
			continue
		}
		require.EqualError(t, s.Validate(), c.fails, name)
	}
}
