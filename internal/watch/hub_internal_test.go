package watch

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// endless is a log of events of a kilobyte each.
type endless struct{ Log }

func (endless) Ends(context.Context, string) (first, last uint64, err error) { return 1, 0, nil }

func (endless) Tail(ctx context.Context, _ string, after uint64, each func(sluice.Event) error) error {
	for seq := after + 1; seq <= 1000; seq++ {
		if err := each(sluice.Event{Seq: seq, Data: make([]byte, 1<<10)}); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

// Issue 13: watches of many namespaces take no more memory for events than those of some.
func TestRings_AreBoundedTogether(t *testing.T) {
	t.Parallel()
	const all = 200 << 10
	hubs := newHubs(endless{}, Options{AllBytes: all, Log: slog.New(slog.DiscardHandler)}.filled())
	ctx, cancel := context.WithCancel(t.Context())
	hubs.Begin(ctx)
	for i := range 10 {
		_, leave, err := hubs.Enter(t.Context(), fmt.Sprint("ns", i))
		require.NoError(t, err)
		defer leave()
	}
	require.Eventually(t, func() bool {
		weight, read := 0, true
		for _, one := range hubs.Tails() {
			weight += one.Ring().Weight()
			read = read && one.Ring().Last() == 1000
		}
		return read && weight > all/2 && weight <= all
	}, time.Minute, time.Millisecond)
	cancel()
}
