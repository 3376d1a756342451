package sysevent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/sysevent"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/internal/testkit/storetest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// refusing is a log that takes nothing.
type refusing struct{}

func (refusing) Publish(context.Context, string, []sluice.Event) ([]sluice.Stored, error) {
	return nil, errors.New("no leader")
}

// tell announces a change of a namespace. A call that takes too long leaves it to a later one.
func tell(t *testing.T, said *sysevent.Announcer, store storetest.Rooms, kind string, ns *sluice.Namespace) {
	t.Helper()
	require.Eventually(t, func() bool {
		said.Namespace(t.Context(), kind, ns, nil, nil)
		_, marks, err := store.Namespaces().Revisions(t.Context())
		return err == nil && marks[ns.Name] >= ns.Revision
	}, time.Minute, time.Millisecond)
}

// S2-04, C32: what a server that died, or a log that refused, left untold of namespaces is announced by the next process that looks: that there is one, that it is
// another, that it is gone; each once, and nothing of a namespace that was never made, or that was there before changes were noted.
func TestNamespace_UnannouncedChangesAreAnnouncedLater(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	store := storetest.Connect(t, natsstore.Options{Conn: server})
	require.NoError(t, store.Provision(t.Context()))
	ctx := t.Context()
	put := func(name, description string) sluice.Namespace {
		ns, _, err := store.Namespaces().Put(ctx, sluice.Namespace{Name: name, Description: description})
		require.NoError(t, err)
		return ns
	}
	said := sysevent.New(store.Log, sysevent.Options{Namespaces: store.Namespaces()})
	mute := sysevent.New(refusing{}, sysevent.Options{Namespaces: store.Namespaces()})

	old := put("before", "")
	require.NoError(t, store.Namespaces().Told(ctx, "never", 0))
	require.NoError(t, store.Namespaces().Told(ctx, "made", 0))
	made := put("made", "")
	require.NoError(t, store.Namespaces().Told(ctx, "told", 0))
	told := put("told", "")
	tell(t, said, store, sluice.TypeNamespaceCreated, &told)
	require.NoError(t, store.Namespaces().Told(ctx, "changed", 0))
	changed := put("changed", "")
	tell(t, said, store, sluice.TypeNamespaceCreated, &changed)
	changed = put("changed", "otherwise")
	mute.Namespace(ctx, sluice.TypeNamespaceUpdated, &changed, nil, nil)
	require.NoError(t, store.Namespaces().Told(ctx, "gone", 0))
	gone := put("gone", "")
	tell(t, said, store, sluice.TypeNamespaceCreated, &gone)
	require.NoError(t, store.Namespaces().Delete(ctx, "gone"))

	a := sysevent.New(store.Log, sysevent.Options{Outbox: store.Outbox(), Namespaces: store.Namespaces(), Sweep: 20 * time.Millisecond})
	stop := run(t, a)
	defer stop()
	lines := func() (lines []string) {
		page, err := store.Log.Events(ctx, sluice.DefaultNamespace, model.EventQuery{Pattern: "/_sys/namespaces/*", Limit: 100})
		require.NoError(t, err)
		for _, ev := range page.Events {
			var data struct{ Revision uint64 }
			require.NoError(t, json.Unmarshal(ev.Data, &data))
			lines = append(lines, fmt.Sprintf("%s %s %d", ev.Path, ev.Type, data.Revision))
		}
		return lines
	}
	require.Eventually(t, func() bool { return len(lines()) >= 6 }, time.Minute, 5*time.Millisecond)
	require.Eventually(t, func() bool {
		is, marks, err := store.Namespaces().Revisions(ctx)
		return err == nil && len(marks) == len(is) && marks["before"] == old.Revision
	}, time.Minute, 5*time.Millisecond)
	require.ElementsMatch(t, []string{
		fmt.Sprintf("/_sys/namespaces/told namespace.created %d", told.Revision),
		fmt.Sprintf("/_sys/namespaces/changed namespace.created %d", told.Revision+1),
		fmt.Sprintf("/_sys/namespaces/gone namespace.created %d", gone.Revision),
		fmt.Sprintf("/_sys/namespaces/made namespace.created %d", made.Revision),
		fmt.Sprintf("/_sys/namespaces/changed namespace.updated %d", changed.Revision),
		fmt.Sprintf("/_sys/namespaces/gone namespace.deleted %d", gone.Revision),
	}, lines())
}

// S2-04, C32: of several changes that a process made and did not tell each is told, with its fields, in order: by who makes the next one, by who looks, or
// before the namespace is deleted.
func TestNamespace_EachMissedChangeIsAnnounced(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	store := storetest.Connect(t, natsstore.Options{Conn: server})
	require.NoError(t, store.Provision(t.Context()))
	ctx := t.Context()
	said := sysevent.New(store.Log, sysevent.Options{Namespaces: store.Namespaces()})
	put := func(name, description string) sluice.Namespace {
		ns, _, err := store.Namespaces().PutAfter(ctx, sluice.Namespace{Name: name, Description: description}, func(was, is *sluice.Namespace) (sluice.Announcement, error) {
			if was == nil {
				return sluice.Announcement{Type: sluice.TypeNamespaceCreated, At: time.Now()}, store.Namespaces().Told(ctx, name, 0)
			}
			quoted := func(text string) json.RawMessage { return fmt.Appendf(nil, `{"description":%q}`, text) }
			return sluice.Announcement{Type: sluice.TypeNamespaceUpdated, At: time.Now(), Old: quoted(was.Description), New: quoted(is.Description)}, nil
		})
		require.NoError(t, err)
		return ns
	}
	lines := func(name string) (lines []string) {
		page, err := store.Log.Events(ctx, sluice.DefaultNamespace, model.EventQuery{Pattern: sluice.Pattern(sluice.NamespacePath(name)), Limit: 100})
		require.NoError(t, err)
		for _, ev := range page.Events {
			var data struct{ Old, New struct{ Description string } }
			require.NoError(t, json.Unmarshal(ev.Data, &data))
			lines = append(lines, fmt.Sprintf("%s %s>%s", ev.Type, data.Old.Description, data.New.Description))
		}
		return lines
	}
	all := []string{"namespace.created >", "namespace.updated 1>2", "namespace.updated 2>3"}
	for _, name := range []string{"next", "found", "gone"} {
		put(name, "1")
		put(name, "2") // by a process that dies before it tells
	}
	next := put("next", "3")
	tell(t, said, store, sluice.TypeNamespaceUpdated, &next)
	require.Equal(t, all, lines("next"))

	put("gone", "3")
	require.Eventually(t, func() bool {
		said.StillUntold(ctx, "gone")
		left, err := store.Namespaces().Untold(ctx, "gone")
		return err == nil && len(left) == 0
	}, time.Minute, time.Millisecond)
	require.Equal(t, all, lines("gone"))
	said.StillUntold(ctx, "gone")
	require.NoError(t, store.Namespaces().Delete(ctx, "gone"))

	put("found", "3")
	a := sysevent.New(store.Log, sysevent.Options{Outbox: store.Outbox(), Namespaces: store.Namespaces(), Sweep: 20 * time.Millisecond})
	defer run(t, a)()
	require.Eventually(t, func() bool {
		_, marks, err := store.Namespaces().Revisions(ctx)
		left, errLeft := store.Namespaces().Untold(ctx, "found")
		return err == nil && errLeft == nil && len(left) == 0 && marks["gone"] == 0
	}, time.Minute, 5*time.Millisecond)
	require.Equal(t, all, lines("found"))
	require.Equal(t, append(all, "namespace.deleted >"), lines("gone"))
	require.Equal(t, all, lines("next"))
}
