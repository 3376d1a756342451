package streams_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/streams"
)

func TestBlock_HoldsItsAttemptsInLines(t *testing.T) {
	t.Parallel()
	one, two := []byte(`{"seq":1,"error":"a\nb"}`), []byte(`{"seq":2}`)
	require.Equal(t, one, streams.JoinBlock([][]byte{one}), "one attempt is the message")
	require.Equal(t, [][]byte{one}, slices.Collect(streams.SplitBlock(one)))
	both := streams.JoinBlock([][]byte{one, two})
	require.Equal(t, string(one)+"\n"+string(two), string(both))
	require.Equal(t, [][]byte{one, two}, slices.Collect(streams.SplitBlock(both)))
}
