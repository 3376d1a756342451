package mirror

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/supervise"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// owner owns everything.
type owner struct{ supervise.Ownership }

func (owner) Owns(string) bool { return true }

// A mirror that becomes due while a caller syncs it is left to the caller. If the caller's time is over before
// the end, the mirror is due again.
func TestEngine_ResumesAfterACallerLeft(t *testing.T) {
	t.Parallel()
	e := New(Deps{Owns: owner{}}, Options{})
	e.change("m", &Stored{Settled: true, Mirror: sluice.Mirror{ID: "m", State: sluice.Active}})
	j := e.mirrors["m"]
	record, at, done := e.enter(j)
	require.NotNil(t, done)
	e.begin(t.Context())
	require.Empty(t, e.queue, "the caller has it")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	e.leave(ctx, j, record, outcome{place: at, err: ctx.Err()})
	require.Equal(t, queue{j}, e.queue)
}
