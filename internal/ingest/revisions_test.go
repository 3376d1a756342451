package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/ingest"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// writers lets its caller publish on one path, or everywhere, and see events that are not secret. It
// also is the log, and counts the lookups.
type writers struct {
	*checks

	path   sluice.Path // "": everywhere
	err    error       // of each lookup
	looked []string
}

var errNoRight = sluice.Errorf(sluice.CapabilityRequired, "no right")

func (w *writers) Require(_ sluice.Caller, _ sluice.Verb, t authz.Target, _ time.Time) error {
	if w.path == "" || t.Path == w.path {
		return nil
	}
	return errNoRight
}

func (w *writers) Shows(_ sluice.Caller, _ sluice.Verb, ev *sluice.Event, _ time.Time) model.Decision {
	switch ev.Extensions[sluice.AttributeClassification] {
	case "":
		return model.Pass
	case "SECRET":
		return model.Withhold
	}
	return model.Undecided
}

func (w *writers) EventByID(_ context.Context, _, id string) (sluice.Event, error) {
	w.looked = append(w.looked, id)
	ev := sluice.Event{ID: id, Path: "/own", Seq: 1}
	switch id {
	case "secret":
		ev.Extensions = map[string]string{sluice.AttributeClassification: "SECRET"}
	case "undecided":
		ev.Extensions = map[string]string{sluice.AttributeClassification: "?"}
	case "elsewhere":
		ev.Path = "/payroll"
	case "unknown":
		return sluice.Event{}, sluice.Errorf(sluice.NotFound, "no %s", id)
	}
	return ev, w.err
}

// revising returns events on /own with the ids e0, e1 …, each of which revises another one.
func revising(ids ...string) []sluice.Event {
	events := make([]sluice.Event, len(ids))
	for i, of := range ids {
		events[i] = sluice.Event{ID: fmt.Sprint("e", i), Path: "/own", Extensions: map[string]string{sluice.RevisionOf: of}}
	}
	return events
}

// A revision replaces its original in mirrors, so its publisher needs the right to the original's path,
// and must be permitted to see the original. The refusal tells nothing else.
func TestAdmit_RevisionNeedsBothRights(t *testing.T) {
	t.Parallel()
	w := &writers{checks: &checks{}, path: "/own"}
	in := ingest.New(ingest.Deps{Access: w, Originals: w})
	admit := func(ids ...string) error { return in.Admit(t.Context(), byAnn, revising(ids...)) }
	require.NoError(t, admit("mine"))
	for _, of := range []string{"elsewhere", "secret", "unknown", "\x00"} {
		require.EqualError(t, admit(of), fmt.Sprintf("revisionof: the event %q is unknown, or you may not revise it", of))
		require.Equal(t, sluice.Forbidden, sluice.CodeOf(admit(of)))
		require.ErrorContains(t, admit("mine", of), "event [1] of the batch: revisionof: ")
	}
	require.Equal(t, sluice.Unavailable, sluice.CodeOf(admit("undecided")))
	w.err = errors.New("away")
	require.ErrorIs(t, admit("mine"), w.err)
}

// A batch looks each original up once, only few of them, and none that is an earlier event of it.
func TestAdmit_LooksFewOriginalsUp(t *testing.T) {
	t.Parallel()
	w := &writers{checks: &checks{}, path: "/own"}
	in := ingest.New(ingest.Deps{Access: w, Originals: w})
	require.NoError(t, in.Admit(t.Context(), byAnn, revising("a", "a", "", "e1", "b", "e2")))
	require.Equal(t, []string{"a", "b"}, w.looked)

	many := make([]string, 17)
	for i := range many {
		many[i] = fmt.Sprint("of", i)
	}
	require.NoError(t, in.Admit(t.Context(), byAnn, revising(many[:16]...)))
	require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(in.Admit(t.Context(), byAnn, revising(many...))))

	w.path, w.looked = "", nil
	require.NoError(t, in.Admit(t.Context(), byAnn, revising(append(many, "unknown")...)), "a right to the whole namespace")
	require.NoError(t, in.Admit(t.Context(), byRoot, revising("unknown")))
	require.Empty(t, w.looked)
}

// A module revises events on paths that it declares, within the rights of its approver.
func TestAdmit_ModuleRevisesOnDeclaredPaths(t *testing.T) {
	t.Parallel()
	w := &writers{checks: &checks{}}
	in := ingest.New(ingest.Deps{Access: w, Originals: w})
	of := &model.Handling{Module: "m", Namespace: "acme", Publish: []sluice.Publishable{{Pattern: "/own"}}}
	for _, by := range []ingest.Request{byRoot, byAnn} {
		by.For = of
		require.NoError(t, in.Admit(t.Context(), by, revising("mine")))
		for _, id := range []string{"elsewhere", "unknown"} {
			require.Equal(t, sluice.Forbidden, sluice.CodeOf(in.Admit(t.Context(), by, revising(id))), id)
		}
		secret := in.Admit(t.Context(), by, revising("secret"))
		require.Equal(t, by.Caller.Unbounded(), secret == nil)
	}
}
