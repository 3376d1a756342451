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

// checks are all dependencies of an ingest, and what they were asked.
type checks struct {
	denied, looped, unlisted error
	taken                    []time.Time // when the quota was charged
	by                       string      // the publisher that the loop guard was told of
	published                int
}

func (c *checks) Require(sluice.Caller, sluice.Verb, authz.Target, time.Time) error { return c.denied }

func (c *checks) Answers(sluice.Caller, string, time.Time) sluice.Principal { return "user:owner" }

func (c *checks) Shows(sluice.Caller, sluice.Verb, *sluice.Event, time.Time) model.Decision {
	return model.Undecided
}

func (c *checks) AuthType(sluice.Caller) string { return sluice.AuthAgent }

func (c *checks) Take(_ string, _, _ int, now time.Time) error {
	c.taken = append(c.taken, now)
	return nil
}

func (c *checks) Check(*sluice.Event) error { return c.unlisted }

func (c *checks) CheckNew(_ context.Context, _, by string, _ []sluice.Event) error {
	c.by = by
	return c.looped
}

func (c *checks) Publish(context.Context, string, []sluice.Event) ([]sluice.Stored, error) {
	return []sluice.Stored{{ID: "e", Seq: 7}}, errShort
}

func (c *checks) Published(_ string, events []sluice.Event, stored []sluice.Stored) {
	c.published += len(events) + len(stored)
}

func (c *checks) Taken(_ string, stored []sluice.Stored) { c.published += len(stored) }

var errShort = errors.New("only some were stored")

func event() []sluice.Event { return []sluice.Event{{ID: "e", Path: "/a"}} }

var (
	ann    = sluice.Caller{Principal: "user:ann", Grant: "g"}
	byAnn  = ingest.Request{Caller: ann, Namespace: "acme"}
	byRoot = ingest.Request{Caller: sluice.Caller{Principal: sluice.Root}, Namespace: "acme"}
)

// Without checks root may publish, and no other caller; the producer is known all the same.
func TestAdmit_WithoutChecksOnlyRoot(t *testing.T) {
	t.Parallel()
	in, events := ingest.New(ingest.Deps{}), event()
	require.NoError(t, in.Admit(t.Context(), byRoot, events))
	require.Equal(t, []string{"acme", sluice.AuthSystem}, []string{events[0].Namespace, events[0].Extensions[sluice.AuthType]})
	require.NoError(t, in.May(byRoot, event()))
	require.Equal(t, sluice.Unavailable, sluice.CodeOf(in.Admit(t.Context(), byAnn, event())))

	guard := &checks{}
	for _, r := range []ingest.Request{byRoot, byAnn} {
		require.NoError(t, ingest.New(ingest.Deps{Causes: guard}).Admit(t.Context(), r, nil))
		require.Equal(t, string(r.Caller.Principal), guard.by)
	}
}

// An id that the server gives to the event at a place of the namespace is chosen by no publisher.
func TestAdmit_RefusesIDsOfPlaces(t *testing.T) {
	t.Parallel()
	in := ingest.New(ingest.Deps{})
	for _, refuses := range []func([]sluice.Event) error{
		func(events []sluice.Event) error { return in.Admit(t.Context(), byRoot, events) },
		func(events []sluice.Event) error { return in.May(byRoot, events) },
	} {
		err := refuses([]sluice.Event{{ID: "_acme-1", Path: "/a"}})
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err))
		require.ErrorContains(t, err, `"_acme-1" has the form of ids that the server gives`)
		err = refuses([]sluice.Event{{ID: "_other-1", Path: "/a"}, {ID: "_acme-1", Path: "/a"}})
		require.ErrorContains(t, err, "event [1] of the batch: ")
		require.NoError(t, refuses([]sluice.Event{{ID: "_other-1", Path: "/a"}, {ID: "acme-1", Path: "/a"}}))
	}
}

// The quota is charged once, at the time of the ingest's clock.
func TestAdmit_ChargesUnlessPaid(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	quota := &checks{}
	in := ingest.New(ingest.Deps{Access: quota, Quota: quota, Now: func() time.Time { return noon }})
	require.NoError(t, in.Admit(t.Context(), byAnn, event()))
	paid := byAnn
	paid.Paid = true
	require.NoError(t, in.Admit(t.Context(), paid, event()))
	require.NoError(t, in.May(byAnn, event()))
	require.Equal(t, []time.Time{noon}, quota.taken)

	require.NoError(t, ingest.New(ingest.Deps{Access: quota, Quota: quota}).Admit(t.Context(), byAnn, event()))
	require.WithinDuration(t, time.Now(), quota.taken[1], time.Hour, "the clock of the machine")
}

// The loop guard is told of the principal that is responsible for the caller, and of root itself.
func TestAdmit_TellsTheResponsiblePrincipal(t *testing.T) {
	t.Parallel()
	all := &checks{}
	in, events := ingest.New(ingest.Deps{Access: all, Causes: all}), event()
	require.NoError(t, in.Admit(t.Context(), byAnn, events))
	require.Equal(t, []string{"user:owner", "user:ann", sluice.AuthAgent}, []string{all.by, events[0].Extensions[sluice.AuthID], events[0].Extensions[sluice.AuthType]})
	require.NoError(t, in.Admit(t.Context(), byRoot, event()))
	require.Equal(t, string(sluice.Root), all.by)
}

// May refuses as Admit does, with neither charge nor loop check.
func TestMay_RefusesAsAdmit(t *testing.T) {
	t.Parallel()
	for _, all := range []*checks{{denied: errors.New("no")}, {unlisted: errors.New("no")}} {
		in := ingest.New(ingest.Deps{Access: all, Catalogue: all, Causes: all})
		want := in.Admit(t.Context(), byAnn, event())
		require.Error(t, want)
		require.Equal(t, want, in.May(byAnn, event()))
		require.Empty(t, all.by)
	}
}

// C14: only the copy that the caller gets lacks the chain, and an error without a chain is passed on as it is.
func TestAdmit_RemovesTheChainFromACopy(t *testing.T) {
	t.Parallel()
	loop := sluice.Errorf(sluice.EventLoopDetected, "event loop").With("chain", []sluice.Link{{Path: "/secret"}}).With("hops", 1)
	all := &checks{looped: loop}
	in := ingest.New(ingest.Deps{Access: readers{all}, Causes: all})
	err := in.Admit(t.Context(), byAnn, event())
	is, ok := errors.AsType[*sluice.Error](err)
	require.True(t, ok)
	require.Equal(t, map[string]any{"hops": 1}, is.Details)
	require.Contains(t, loop.Details, "chain")

	all.looped = fmt.Errorf("look: %w", model.PermissionsUnknown())
	require.Equal(t, all.looped, in.Admit(t.Context(), byAnn, event()))
}

// readers lets callers publish and not read.
type readers struct{ *checks }

func (r readers) Require(_ sluice.Caller, v sluice.Verb, _ authz.Target, _ time.Time) error {
	if v == sluice.VerbRead {
		return model.PermissionsUnknown()
	}
	return nil
}

// The loop guard and the metrics learn of the stored events, also when not all were stored.
func TestPublishers_TellOfStoredEvents(t *testing.T) {
	t.Parallel()
	for want, through := range map[int]func(*checks) ingest.Publisher{
		2: func(c *checks) ingest.Publisher { return ingest.Remembered{Publisher: c, Guard: c} },
		1: func(c *checks) ingest.Publisher { return ingest.Counted{Publisher: c, Metrics: c} },
	} {
		c := &checks{}
		stored, err := ingest.New(ingest.Deps{Publisher: through(c)}).Store(t.Context(), "acme", event())
		require.ErrorIs(t, err, errShort)
		require.Equal(t, []sluice.Stored{{ID: "e", Seq: 7}}, stored)
		require.Equal(t, want, c.published)
	}
}
