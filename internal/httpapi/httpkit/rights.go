package httpkit

import (
	"time"

	"github.com/labstack/echo/v4"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Rights decides about the access of a request's caller. Each check is made now, against the index
// of this replica. Its codes are NotFound for a namespace that the caller may not see, else
// Forbidden or CapabilityRequired, and Unavailable before permissions have loaded.
type Rights struct {
	Index *authz.Index // nil: only root
}

// Some returns an error unless the caller has a verb on some path of a namespace.
func (r Rights) Some(c echo.Context, v sluice.Verb, namespace string) error {
	if who := acting(c); !who.Unbounded() {
		return r.Index.Some(who, v, namespace, time.Now())
	}
	return nil
}

// acting returns the caller whose rights apply: for a module's program, the approver of the module.
func acting(c echo.Context) sluice.Caller {
	if h := program(c); h != nil {
		return h.By
	}
	return Caller(c)
}

// program returns the handling during which a module's program makes the request; nil: the caller
// is no such program.
func program(c echo.Context) *model.Handling { return model.HandlingFrom(c.Request().Context()) }

// Same reports whether the caller acts in a namespace under the given grant or one with the same
// rights.
func (r Rights) Same(c echo.Context, grant, namespace string) bool {
	return r.Index.Same(Caller(c), grant, sluice.Object{Namespace: namespace}, time.Now())
}

// Require returns an error unless the caller has a verb for a target.
func (r Rights) Require(c echo.Context, v sluice.Verb, t authz.Target) error {
	if who := Caller(c); !who.Unbounded() {
		return r.Index.Require(who, v, t, time.Now())
	}
	return nil
}

// Sees returns an error unless the caller may see a namespace.
func (r Rights) Sees(c echo.Context, namespace string) error {
	if who := Caller(c); !who.Unbounded() {
		return r.Index.Sees(who, namespace, time.Now())
	}
	return nil
}

// Shown returns the events that the caller may see, in the array of events. Code Unavailable if
// that cannot be decided yet.
func (r Rights) Shown(c echo.Context, v sluice.Verb, events []sluice.Event) ([]sluice.Event, error) {
	kept := events[:0]
	for i := range events {
		ok, err := r.Shows(c, v, &events[i])
		if err != nil {
			return nil, err
		}
		if ok {
			kept = append(kept, events[i])
		}
	}
	return kept, nil
}

// Visible returns a filter for the events of a page while the store reads it, so that neither the
// length of the page nor its end reveals hidden events. It passes events about which it cannot
// decide yet; Shown decides about them. A nil filter passes all events.
func (r Rights) Visible(c echo.Context, v sluice.Verb) func(*sluice.Event) bool {
	who, h := acting(c), program(c)
	if h == nil && who.Unbounded() || r.Index == nil {
		return nil
	}
	return func(ev *sluice.Event) bool {
		if h != nil && !h.Shows(ev.Path) {
			return false
		}
		d := r.Index.Shows(who, v, ev, time.Now())
		return d == model.Pass || d == model.Undecided
	}
}

// Granted returns the pattern of the caller's grant; "" for all paths.
func (r Rights) Granted(c echo.Context) sluice.Pattern {
	g, _ := r.Index.Grant(acting(c).Grant)
	return g.Object.Pattern
}

// Shows reports whether the caller may see an event.
func (r Rights) Shows(c echo.Context, v sluice.Verb, ev *sluice.Event) (bool, error) {
	if h := program(c); h != nil && (v != sluice.VerbRead || !h.Shows(ev.Path)) {
		return false, nil
	}
	if r.Index == nil {
		return true, nil
	}
	return passes(r.Index.Shows(acting(c), v, ev, time.Now()))
}

// Erased reports whether an event was erased.
func (r Rights) Erased(ev *sluice.Event) bool { return r.Index != nil && r.Index.Erased(ev) }

func passes(d model.Decision) (bool, error) {
	if d == model.Undecided {
		return false, model.PermissionsUnknown()
	}
	return d == model.Pass, nil
}

// ServerAdmin requires an admin of everything.
func (r Rights) ServerAdmin(c echo.Context) error {
	return r.Require(c, sluice.VerbAdmin, authz.Target{})
}

// NamespaceAdmin requires an admin of the namespace in the path.
func (r Rights) NamespaceAdmin(c echo.Context) error {
	return r.Require(c, sluice.VerbAdmin, authz.Target{Namespace: c.Param("ns")})
}

// OnSomePath requires a verb on some path of the namespace in the URL; the handler checks the path
// itself.
func (r Rights) OnSomePath(v sluice.Verb) echo.HandlerFunc {
	return func(c echo.Context) error { return r.Some(c, v, c.Param("ns")) }
}

// SeesNamespace requires that the caller may see the namespace in the URL.
func (r Rights) SeesNamespace(c echo.Context) error { return r.Sees(c, c.Param("ns")) }
