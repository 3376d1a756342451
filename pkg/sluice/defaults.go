package sluice

import (
	"cmp"
	"time"
)

// DefaultSignatureHeader is the header of SchemeHeader unless a subscription names another (S4-49).
const DefaultSignatureHeader = "X-Fole-Signature"

// The projections: the part of an event's data that is sent (register C10). If not all data is
// sent, the extension DataRef links to the whole event.
const (
	ProjectionFull    = "full"
	ProjectionSummary = "summary" // the catalogue's summary_fields
	ProjectionNone    = "none"
)

// DataRef is the extension attribute with the URL of an event's data (the CloudEvents extension
// dataref).
const DataRef = "dataref"

// RelatedSubjects is the extension attribute with further subjects of an event, separated by
// spaces. A filter for one of them matches the event.
const RelatedSubjects = "relatedsubjects"

// SetDefaults sets the defaults of zero fields, and canonicalizes the pattern if it is set. It does
// not set Enabled: only the decoder of the request can tell whether a missing "enabled" means true.
func (s *Subscription) SetDefaults() {
	if canonical, err := ParsePattern(string(s.Pattern)); err == nil {
		s.Pattern = canonical
	}
	s.Mode = cmp.Or(s.Mode, Push)
	s.Start = cmp.Or(s.Start, StartNew)
	s.ReplayWindow = cmp.Or(s.ReplayWindow, Duration(time.Hour))
	if s.Mode == Wake {
		s.Policy.setWakeDefaults()
	}
	s.Policy.setDefaults()
}

// setWakeDefaults sets the defaults of S1. A notice is small, and workers often hold its request
// open during the work (S1-65), so that many notices are in flight at once.
func (p *Policy) setWakeDefaults() {
	p.Retry.Preset = cmp.Or(p.Retry.Preset, PresetPersistent)
	p.Timeout = cmp.Or(p.Timeout, Duration(30*time.Second))
	p.Window = cmp.Or(p.Window, MaxWindow)
	p.Envelope = cmp.Or(p.Envelope, EnvelopeNotice)
	p.Projection = cmp.Or(p.Projection, ProjectionNone)
	p.Signature.Scheme = cmp.Or(p.Signature.Scheme, SchemeT)
	p.OnGone = cmp.Or(p.OnGone, GoneRetries)
}

func (p *Policy) setDefaults() {
	p.Retry.Preset = cmp.Or(p.Retry.Preset, PresetStandard)
	p.Timeout = cmp.Or(p.Timeout, Duration(15*time.Second))
	p.Window = cmp.Or(p.Window, 64)
	if p.Batch.Max > 0 {
		p.Ordering = cmp.Or(p.Ordering, OrderAll)
	}
	p.Ordering = cmp.Or(p.Ordering, OrderByPath)
	if p.Body != nil {
		p.Envelope = cmp.Or(p.Envelope, EnvelopeTemplate)
	}
	p.Envelope = cmp.Or(p.Envelope, EnvelopeCloudEvents)
	p.Projection = cmp.Or(p.Projection, ProjectionFull)
	p.Signature.Scheme = cmp.Or(p.Signature.Scheme, SchemeStandard)
	if p.Signature.Scheme == SchemeHeader {
		p.Signature.Name = cmp.Or(p.Signature.Name, DefaultSignatureHeader)
	}
	p.OnGone = cmp.Or(p.OnGone, GoneCancels)
	p.OnDead = cmp.Or(p.OnDead, DeadContinues)
	p.DisableAfter = cmp.Or(p.DisableAfter, Duration(120*time.Hour))
}
