package model

import (
	"context"
	"slices"
	"strings"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Handling is the handling of an event by a module's program. The events that the program publishes
// name the handled event as their cause, stay in its namespace, where loops are detected, and must
// be declared in the manifest.
type Handling struct {
	Module       string
	Handler      string // ID
	Subscription string // ID
	Namespace    string // of the handled event
	Event        string // ID of the handled event
	Correlation  string
	By           sluice.Caller // the approver; the program has at most the approver's rights

	Publish []sluice.Publishable
	Read    []sluice.Pattern
	Test    bool // the event is not stored, and nothing is published for it
}

// HandlingPrefix is the prefix of the tokens of programs; recognizable by secret scanners.
const HandlingPrefix = "mod_"

// OfProgram reports whether a bearer token has the form of that of a program.
func OfProgram(text string) bool { return strings.HasPrefix(text, HandlingPrefix) }

type handlingKey struct{}

// WithHandling returns a context for a request of a handling's program. It carries the handling.
func WithHandling(ctx context.Context, h *Handling) context.Context {
	return context.WithValue(ctx, handlingKey{}, h)
}

// HandlingFrom returns the handling whose program makes the context's request; nil if no program
// makes it.
func HandlingFrom(ctx context.Context) *Handling {
	h, _ := ctx.Value(handlingKey{}).(*Handling)
	return h
}

// Producer returns the producer of the program's events.
func (h *Handling) Producer() sluice.Principal { return sluice.ModuleProducer(h.Module) }

// Admits returns an error (Forbidden) unless the module declares that it publishes the event.
func (h *Handling) Admits(e *sluice.Event) error {
	_, scheduled := e.Extensions[sluice.AttributeDeliverAt]
	switch {
	case e.Namespace != "" && e.Namespace != h.Namespace:
		return sluice.Errorf(sluice.Forbidden, "module %q handles an event of the namespace %s, and publishes nothing in %s", h.Module, h.Namespace, e.Namespace)
	case scheduled:
		return sluice.Errorf(sluice.Forbidden, "module %q publishes while it handles an event; %s is not allowed", h.Module, sluice.AttributeDeliverAt)
	case !slices.ContainsFunc(h.Publish, func(p sluice.Publishable) bool { return p.Covers(e) }):
		return sluice.Errorf(sluice.Forbidden, "module %q does not declare that it publishes %s on %s (publish in its manifest)", h.Module, e.Type, e.Path)
	}
	return nil
}

// Stamp overwrites the causation and correlation of an event, and sets its source if it has none.
func (h *Handling) Stamp(e *sluice.Event) {
	if e.Extensions == nil {
		e.Extensions = map[string]string{}
	}
	e.Extensions[sluice.CausationID], e.Extensions[sluice.CorrelationID] = h.Event, h.Correlation
	if e.Source == "" {
		e.Source = "/modules/" + h.Module
	}
}

// AuthType returns the authtype of the program's events from that of its approver. An agent stays
// an agent and an unknown stays unknown; otherwise a module is a service.
func (*Handling) AuthType(approver string) string {
	if approver == sluice.AuthAgent || approver == sluice.AuthUnknown {
		return approver
	}
	return sluice.AuthService
}

// Writes reports whether the module declares that it publishes on a path.
func (h *Handling) Writes(path sluice.Path) bool {
	return slices.ContainsFunc(h.Publish, func(p sluice.Publishable) bool { return p.Pattern.Match(path) })
}

// Shows reports whether the module declares that it reads a path.
func (h *Handling) Shows(path sluice.Path) bool {
	return !path.Reserved() && slices.ContainsFunc(h.Read, func(p sluice.Pattern) bool { return p.Match(path) })
}
