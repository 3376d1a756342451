package eventlog

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsd"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// damaged returns a store with two events on each of so many paths, of which the last one of some cannot be read, and where the
// others lie.
func damaged(t *testing.T, paths int, lost ...int) (*Log, map[sluice.Path]uint64) {
	t.Helper()
	dir := t.TempDir()
	server := natstest.NewWith(t, natsd.Options{StoreDir: dir, DontListen: true})
	core, err := natsstore.Connect(t.Context(), natsstore.Options{Conn: server})
	require.NoError(t, err)
	t.Cleanup(core.Close)
	store := New(t.Context(), core)
	require.NoError(t, core.Provision(t.Context()))
	want := map[sluice.Path]uint64{}
	for round := range 2 {
		var events []sluice.Event
		for i := range paths {
			id := fmt.Sprintf("%d-%d", round, i)
			events = append(events, sluice.Event{Path: crowdPath(i), ID: id, Data: []byte(`"data ` + id + `"`)})
		}
		stored, err := store.Publish(t.Context(), sluice.DefaultNamespace, events)
		require.NoError(t, err)
		for _, one := range stored {
			want[one.Path] = one.Seq
		}
	}
	server.Stop(t)
	blocks, err := filepath.Glob(filepath.Join(dir, "jetstream", "*", "streams", streams.Names{}.EventsStream(sluice.DefaultNamespace), "msgs", "*.blk"))
	require.NoError(t, err)
	require.Len(t, blocks, 1)
	data, err := os.ReadFile(blocks[0])
	require.NoError(t, err)
	for _, i := range lost {
		at := bytes.Index(data, fmt.Appendf(nil, `"data 1-%d"`, i))
		require.Positive(t, at)
		data[at+1] ^= 1
		delete(want, crowdPath(i))
	}
	require.NoError(t, os.WriteFile(blocks[0], data, 0o600))
	server.Start(t)
	require.Eventually(t, func() bool { return core.Ready(t.Context()) == nil }, time.Minute, time.Millisecond)
	return store, want
}

// Issue 13, F5: paths whose last event is damaged are left out of a state, and the others are in it.
func TestState_LeavesOutDamagedEvents(t *testing.T) {
	t.Parallel()
	store, want := damaged(t, 200, 0, 7, 8, 150)
	ways := waysToRead()
	ways["whole"] = func(r *stateReader, ctx context.Context) error {
		page, err := store.State(ctx, sluice.DefaultNamespace, r.q)
		r.events, r.after = page.Events, page.Next
		if page.Next == 0 {
			r.after = r.at
		}
		return err
	}
	delete(ways, "few")
	for name, read := range ways {
		for _, limit := range []int{30, 1000} {
			got, q := map[sluice.Path]uint64{}, model.StateQuery{Limit: limit}
			for more := true; more; more = q.After > 0 {
				r, err := store.newStateReader(t.Context(), sluice.DefaultNamespace, q)
				require.NoError(t, err)
				require.NoError(t, read(r, t.Context()), name)
				page := r.page()
				for _, e := range page.Events {
					require.NotContains(t, got, e.Path, "a path is in one page")
					got[e.Path] = e.Seq
				}
				q.At, q.After = page.Seq, page.Next
			}
			require.Equal(t, want, got, name)
		}
	}
	one, err := store.State(t.Context(), sluice.DefaultNamespace, model.StateQuery{Path: crowdPath(7)})
	require.NoError(t, err)
	require.Empty(t, one.Events)
}

// Issue 13, F5: a path ends at its last event that can be read.
func TestPathTail_PassesDamagedEvents(t *testing.T) {
	t.Parallel()
	const paths = 20
	store, want := damaged(t, paths, 0, 7, paths-1)
	for i := range paths {
		tail, err := store.PathTail(t.Context(), sluice.DefaultNamespace, crowdPath(i))
		require.NoError(t, err)
		at := want[crowdPath(i)]
		if at == 0 {
			at = uint64(i) + 1
		}
		require.Equal(t, at, tail, "path %d", i)
	}
	tail, err := store.PathTail(t.Context(), sluice.DefaultNamespace, "/none")
	require.NoError(t, err)
	require.Zero(t, tail)
}
