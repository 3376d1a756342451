package action_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/ingest"
	"github.com/sluice-io/sluice/internal/schedule/action"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// world is what a performer works with; it remembers what is published.
type world struct {
	index  *authz.Index
	events []sluice.Event
	asked  []string // who was asked for at the guard of causes
	taken  int
	err    map[string]error // by what it keeps
	now    time.Time
}

func newWorld() *world {
	w := &world{index: authz.NewIndex(), err: map[string]error{}, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	w.index.Set("grant.g1", authz.Record{Grant: &authz.Granted{Grant: sluice.Grant{
		ID: "g1", Principal: "user:ann", Verbs: []sluice.Verb{sluice.VerbPublish}, Object: sluice.Object{Namespace: "acme", Pattern: "/lamps/**"},
		IssuedBy: sluice.Root, IssuedAt: w.now, ExpiresAt: w.now.Add(time.Hour),
	}}}, 1)
	w.index.CaughtUp()
	return w
}

func (w *world) Publish(_ context.Context, _ string, events []sluice.Event) ([]sluice.Stored, error) {
	if err := w.err["log"]; err != nil {
		return nil, err
	}
	w.events = append(w.events, events...)
	return []sluice.Stored{{ID: events[0].ID, Seq: uint64(len(w.events)), Path: events[0].Path}}, nil
}

func (w *world) Check(*sluice.Event) error { return w.err["catalogue"] }

func (w *world) CheckNew(_ context.Context, _, by string, _ []sluice.Event) error {
	w.asked = append(w.asked, by)
	return w.err["causes"]
}

func (w *world) Take(string, int, int, time.Time) error {
	w.taken++
	return w.err["quota"]
}

func (w *world) performer() *action.Performer {
	now := func() time.Time { return w.now }
	return action.New(action.Deps{Access: w.index, Now: now, Ingest: ingest.New(ingest.Deps{Publisher: w, Access: w.index, Catalogue: w, Causes: w, Quota: w, Now: now})})
}

func (w *world) firing() action.Firing {
	act := sluice.Action{Path: "/lamps/1", Type: "lamp.on", Extensions: map[string]string{sluice.AuthID: "root", "room": "hall"}}
	return action.Firing{Creator: sluice.Creator{CreatedBy: "user:ann", Grant: "g1", CreatedAt: w.now}, Event: act.Event("acme", "fire-1")}
}

func TestFire_PublishesInTheCreatorsName(t *testing.T) {
	t.Parallel()
	w := newWorld()
	stored, err := w.performer().Perform(t.Context(), w.firing())
	require.NoError(t, err)
	require.Equal(t, sluice.Stored{ID: "fire-1", Seq: 1, Path: "/lamps/1"}, stored)
	require.Equal(t, map[string]string{sluice.AuthID: "user:ann", sluice.AuthType: "user", "room": "hall"}, w.events[0].Extensions)
	require.Equal(t, []string{"user:ann"}, w.asked)
	require.Equal(t, 1, w.taken)
}

// S2-39: the rights that count are those of the moment at which it fires.
func TestFire_CreatorWithoutTheRightIsForbidden(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*world, *action.Firing){
		"the grant has expired":   func(w *world, _ *action.Firing) { w.now = w.now.Add(time.Hour) },
		"it was for other paths":  func(_ *world, f *action.Firing) { f.Event.Path = "/doors/1" },
		"the grant was forgotten": func(w *world, f *action.Firing) { f.Creator.Grant = "g0"; w.now = w.now.Add(2 * time.Minute) },
		"it was for another log":  func(_ *world, f *action.Firing) { f.Event.Namespace = "other" },
		"the path is the server's": func(_ *world, f *action.Firing) {
			f.Event.Path, f.Creator = "/_sys/x", sluice.Creator{CreatedBy: sluice.Root}
		},
		"it has no creator":         func(_ *world, f *action.Firing) { f.Creator = sluice.Creator{CreatedAt: time.Unix(1, 0)} },
		"its maker has other grant": func(_ *world, f *action.Firing) { f.Creator.Grant, f.Creator.CreatedAt = "", time.Unix(1, 0) },
	} {
		w := newWorld()
		f := w.firing()
		change(w, &f)
		_, err := w.performer().Perform(t.Context(), f)
		require.Equal(t, sluice.Forbidden, sluice.CodeOf(err), name)
		require.Empty(t, w.events, name)
		require.False(t, action.Passing(err), name)
	}
}

func TestFire_WaitsForAFreshGrant(t *testing.T) {
	t.Parallel()
	w := newWorld()
	f := w.firing()
	f.Creator.Grant = "g2"
	_, err := w.performer().Perform(t.Context(), f)
	require.Equal(t, sluice.Unavailable, sluice.CodeOf(err))
	require.True(t, action.Passing(err))
}

func TestFire_RootAndPaidOnesAreNotAskedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld()
	f := w.firing()
	f.Creator, f.Paid = sluice.Creator{CreatedBy: sluice.Root}, true
	_, err := w.performer().Perform(t.Context(), f)
	require.NoError(t, err)
	require.Zero(t, w.taken)
	require.Equal(t, []string{"root"}, w.asked)
}

func TestFire_RefusalHasItsCode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		by      string
		code    sluice.Code
		passing bool
	}{
		{"catalogue", sluice.UnknownEventType, false},
		{"causes", sluice.EventLoopDetected, false},
		{"quota", sluice.QuotaExceeded, true},
		{"log", sluice.Unavailable, true},
		{"log", sluice.NotFound, false},
		{"log", sluice.Conflict, false},
	} {
		w := newWorld()
		w.err[c.by] = sluice.Errorf(c.code, "no")
		_, err := w.performer().Perform(t.Context(), w.firing())
		require.Equal(t, c.code, sluice.CodeOf(err), c.by)
		require.Equal(t, c.passing, action.Passing(err), c.by)
		require.Empty(t, w.events, c.by)
	}
}
