package delivery

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// S4-19: what lanes hold read ahead is bounded for the whole process.
func TestBudget_BoundsReadingAhead(t *testing.T) {
	t.Parallel()
	var shared atomic.Int64
	one, two := budget{shared: &shared}, budget{shared: &shared}
	batches := 0
	for one.take() {
		batches++
	}
	require.Equal(t, aheadLimit/aheadBatch, batches)
	require.False(t, two.take(), "the other runner's lanes read one event at a time")

	events := []model.ReadEvent{{Event: sluice.Event{Data: make([]byte, 1000)}}, {Event: sluice.Event{Data: make([]byte, 24)}}}
	require.Equal(t, int64(1024+2*aheadEvent), one.settle(events))
	require.Equal(t, int64(aheadLimit-aheadBatch+1024+2*aheadEvent), shared.Load())
	one.give(1024 + 2*aheadEvent)
	require.True(t, two.take())
	one.reset()
	require.Equal(t, int64(aheadBatch), shared.Load(), "the other's")
	two.reset()
	require.Zero(t, shared.Load())
}
