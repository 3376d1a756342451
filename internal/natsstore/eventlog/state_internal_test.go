package eventlog

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// waysToRead are all ways to read a state: which is taken depends on how many paths there are, and what it reads does not.
func waysToRead() map[string]func(*stateReader, context.Context) error {
	return map[string]func(*stateReader, context.Context) error{
		"few": (*stateReader).few, "listed": (*stateReader).listed, "walked": (*stateReader).walk,
	}
}

// crowded returns a store with two events on each of so many paths, and where the last ones lie.
func crowded(tb testing.TB, paths int) (*Log, map[sluice.Path]uint64) {
	tb.Helper()
	core, err := natsstore.Connect(tb.Context(), natsstore.Options{Conn: natstest.New(tb)})
	require.NoError(tb, err)
	tb.Cleanup(core.Close)
	store := New(tb.Context(), core)
	require.NoError(tb, core.Provision(tb.Context()))
	want := map[sluice.Path]uint64{}
	for round := range 2 {
		var events []sluice.Event
		for i := range paths {
			events = append(events, sluice.Event{Path: crowdPath(i), ID: fmt.Sprintf("%d-%d", round, i)})
		}
		for len(events) > 0 {
			part := events[:min(len(events), 500)]
			stored, err := store.Publish(tb.Context(), sluice.DefaultNamespace, part)
			require.NoError(tb, err)
			for _, one := range stored {
				want[one.Path] = one.Seq
			}
			events = events[len(part):]
		}
	}
	return store, want
}

func crowdPath(i int) sluice.Path { return sluice.Path("/p/" + strconv.Itoa(i)) }

// Pages that are read while others publish, erase and delete are of one moment, in whichever way they are read (S2-86, S2-87).
func TestState_PagesAreOfOneMoment(t *testing.T) {
	t.Parallel()
	const paths = 600
	for name, read := range waysToRead() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, want := crowded(t, paths)
			stored, err := store.Publish(t.Context(), sluice.DefaultNamespace, []sluice.Event{{Path: "/q", ID: "q"}})
			require.NoError(t, err)
			got, erased, turn := map[sluice.Path]uint64{}, map[sluice.Path]bool{}, 0
			q := model.StateQuery{Pattern: "/p/*", Limit: 70}
			for more := true; more; more = q.After > 0 {
				r, err := store.newStateReader(t.Context(), sluice.DefaultNamespace, q)
				require.NoError(t, err)
				require.NoError(t, read(r, t.Context()))
				page := r.page()
				require.Equal(t, stored[0].Seq, page.Seq)
				for _, e := range page.Events {
					require.NotContains(t, got, e.Path, "a path is in one page")
					got[e.Path] = e.Seq
				}
				q.At, q.After = page.Seq, page.Next
				meddle(t, store, want, erased, turn)
				turn++
			}
			require.Greater(t, turn, paths/70)
			require.Subset(t, want, got)
			for path := range erased { // before its page was read, or after
				delete(want, path)
			}
			require.Subset(t, got, want)
		})
	}
}

// meddle publishes on paths old and new, and erases one.
func meddle(t *testing.T, store *Log, want map[sluice.Path]uint64, erased map[sluice.Path]bool, turn int) {
	t.Helper()
	var events []sluice.Event
	for i := range 40 {
		events = append(events, sluice.Event{Path: crowdPath((turn*977 + i*61) % (len(want) + 50)), ID: fmt.Sprintf("turn %d-%d", turn, i)})
	}
	_, err := store.Publish(t.Context(), sluice.DefaultNamespace, events)
	require.NoError(t, err)
	path := crowdPath(turn * 53 % len(want))
	require.NoError(t, store.ErasePath(t.Context(), sluice.DefaultNamespace, path, want[path]))
	erased[path] = true
}

// A reader of pages that retention overtakes is told so, and gets no state with holes.
func TestState_OvertakenByRetentionFails(t *testing.T) {
	t.Parallel()
	for name, read := range waysToRead() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, _ := crowded(t, 60)
			stream, err := store.core.JetStream().Stream(t.Context(), streams.Names{}.EventsStream(sluice.DefaultNamespace))
			require.NoError(t, err)
			q := model.StateQuery{Limit: 20}
			next := func() (model.StatePage, error) {
				r, err := store.newStateReader(t.Context(), sluice.DefaultNamespace, q)
				require.NoError(t, err)
				err = read(r, t.Context())
				return r.page(), err
			}
			page, err := next()
			require.NoError(t, err)
			require.Len(t, page.Events, 20)
			q.At, q.After = page.Seq, page.Next
			require.NoError(t, stream.Purge(t.Context(), jetstream.WithPurgeSequence(page.Next+1)))
			again, err := next()
			require.NoError(t, err, "what was read already is not missed")
			require.Equal(t, page.Next+1, again.Events[0].Seq)
			require.NoError(t, stream.Purge(t.Context(), jetstream.WithPurgeSequence(page.Next+5)))
			_, err = next()
			require.Equal(t, sluice.WindowExceeded, sluice.CodeOf(err), "%v", err)
		})
	}
}

// What tells a replica that is behind from one that has nothing: asked for what is as of a sequence that it has not reached, it
// finds nothing, not even what lies before.
func TestState_LaggingReplicaFindsNothing(t *testing.T) {
	t.Parallel()
	store, want := crowded(t, 3)
	ask := func(upTo uint64) natsstore.DirectAnswer {
		body, err := json.Marshal(natsstore.DirectRequest{
			Seq: 1, Batch: 10, MaxBytes: natsstore.DirectMaxBytes, UpTo: upTo, Lasts: []string{streams.Names{}.Subject(sluice.DefaultNamespace, "/p/0")},
		})
		require.NoError(t, err)
		answer, err := store.core.DirectOnce(t.Context(), sluice.DefaultNamespace, body, 11)
		require.NoError(t, err)
		return answer
	}
	last := uint64(2 * len(want))
	require.Len(t, ask(last).Msgs, 1)
	behind := ask(last + 1)
	require.True(t, behind.None)
	require.Empty(t, behind.Msgs)
}

// JetStream returns the last messages of 1,024 subjects at most.
func TestState_MayHaveAnyNumberOfPaths(t *testing.T) {
	t.Parallel()
	store, want := crowded(t, 1100)
	got, q := map[sluice.Path]uint64{}, model.StateQuery{Limit: 1000}
	for more := true; more; more = q.After > 0 {
		page, err := store.State(t.Context(), sluice.DefaultNamespace, q)
		require.NoError(t, err)
		for _, e := range page.Events {
			got[e.Path] = e.Seq
		}
		q.At, q.After = page.Seq, page.Next
	}
	require.Equal(t, want, got)
}
