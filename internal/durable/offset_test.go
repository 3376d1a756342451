package durable_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/durable"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func everything(*sluice.Event) (bool, error) { return true, nil }

// A reader that begins behind all that the log ever had is told so: an empty answer would have it skip what comes next.
func TestRead_RefusesOffsetBeyondLog(t *testing.T) {
	t.Parallel()
	u := newSpace(t, 0).user()
	u.create(t, durable.Create{Body: []byte("a")})
	end, err := u.engine.Read(t.Context(), u.key(), durable.Place{}, everything)
	require.NoError(t, err)
	last, err := u.space.store.Log.LastSeq(t.Context(), u.space.name)
	require.NoError(t, err)
	for _, after := range []uint64{last + 1, 9_999_999_999_999_999} {
		_, err = u.engine.Read(t.Context(), u.key(), durable.Place{After: after}, everything)
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err), "%d: %v", after, err)
		_, err = u.engine.Await(t.Context(), u.key(), durable.Place{After: after}, everything)
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(err), "%d: %v", after, err)
	}
	page, err := u.engine.Read(t.Context(), u.key(), durable.Place{After: end.Next}, everything)
	require.NoError(t, err)
	require.Empty(t, page.Messages)
}

// An offset that was given out stays good when the events up to it are gone: the reader gets what comes next.
func TestRead_GoesOnAfterEventsAreGone(t *testing.T) {
	t.Parallel()
	u := newSpace(t, 0).user()
	u.create(t, durable.Create{Body: []byte("a")})
	_, err := u.append(t.Context(), durable.Append{Body: []byte("b")})
	require.NoError(t, err)
	end, err := u.engine.Read(t.Context(), u.key(), durable.Place{}, everything)
	require.NoError(t, err)
	stream, err := u.space.js.Stream(t.Context(), "EVENTS_"+u.space.name)
	require.NoError(t, err)
	purge(t, stream, "events."+u.space.name+".s")
	page, err := u.engine.Read(t.Context(), u.key(), durable.Place{After: end.Next}, everything)
	require.NoError(t, err)
	require.Empty(t, page.Messages)
	_, err = u.append(t.Context(), durable.Append{Body: []byte("c")})
	require.NoError(t, err)
	for _, after := range []uint64{end.Next, page.Next} {
		page, err := u.engine.Read(t.Context(), u.key(), durable.Place{After: after}, everything)
		require.NoError(t, err)
		require.Equal(t, [][]byte{[]byte("c")}, page.Messages)
	}
}
