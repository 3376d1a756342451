package sluice

import (
	"cmp"
	"strings"
)

// BodyPreset names the form of a chat service's webhooks.
type BodyPreset string

// The presets.
const (
	BodySlack   BodyPreset = "slack"   // {"text": …}
	BodyDiscord BodyPreset = "discord" // {"content": …}
)

// Body is the template of a request's body, for the envelope template.
type Body struct {
	// CEL is an expression over "event". Its value is encoded as JSON; with a preset or another
	// content type, it must be a string.
	CEL         string     `json:"cel,omitempty"`
	Preset      BodyPreset `json:"preset,omitempty"`
	ContentType string     `json:"content_type,omitempty"` // default: application/json
}

const jsonContent = "application/json"

// IsJSON reports whether the body is JSON.
func (b *Body) IsJSON() bool {
	kind, _, _ := strings.Cut(cmp.Or(b.ContentType, jsonContent), ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	return kind == jsonContent || strings.HasSuffix(kind, "+json")
}

func (p *Policy) checkBody() error {
	b := p.Body
	switch {
	case b == nil && p.Envelope == EnvelopeTemplate:
		return bodyError("policy.body", "policy.envelope %q requires policy.body", EnvelopeTemplate)
	case b == nil:
		return nil
	case p.Envelope != EnvelopeTemplate:
		return bodyError("policy.envelope", "policy.body requires the envelope %q; omit policy.envelope", EnvelopeTemplate)
	case p.Projection != ProjectionFull:
		return bodyError("policy.projection", "policy.projection cannot be set with policy.body, which says what is sent; omit it")
	case b.CEL == "" && b.Preset == "":
		return bodyError("policy.body.cel", "policy.body requires cel or preset")
	case b.Preset != "" && b.ContentType != "":
		return bodyError("policy.body.content_type", "policy.body.preset sets the content type; omit content_type")
	}
	kind, _, _ := strings.Cut(b.ContentType, ";")
	if strings.ContainsFunc(b.ContentType, func(r rune) bool { return r < ' ' || r > '~' }) || !b.IsJSON() && strings.TrimSpace(strings.ToLower(kind)) != "text/plain" {
		return bodyError("policy.body.content_type", "policy.body.content_type %q: use application/json, another type that ends in +json, or text/plain", b.ContentType)
	}
	return cmp.Or(
		text("policy.body.cel", b.CEL, MaxCEL),
		text("policy.body.content_type", b.ContentType, MaxScope),
		oneOf("policy.body.preset", cmp.Or(b.Preset, BodySlack), BodySlack, BodyDiscord),
	)
}

func bodyError(field, format string, args ...any) error {
	return Errorf(InvalidRequest, format, args...).With("field", field)
}
