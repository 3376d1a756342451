package breaker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestOpened_GoesOnWithProbes(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	b := Opened(now.Add(time.Minute), 4*time.Second)
	require.Equal(t, sluice.BreakerOpen, b.State())
	require.Equal(t, []time.Duration{4 * time.Second, 8 * time.Second}, []time.Duration{b.Pause(), b.NextPause()})
	require.Equal(t, []uint64{1, 1}, []uint64{b.Epoch(), b.Spell()}, "answers to requests of an earlier process do not count")
	may, at := b.Admits(now)
	require.Equal(t, None, may)
	require.Equal(t, b.ProbeAt(), at)
	may, _ = b.Admits(b.ProbeAt())
	require.Equal(t, Probe, may)
}

func TestHold_IsEndedByAnOperatorsProbe(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	b := Opened(now.Add(time.Minute), 0).Hold(now.Add(time.Hour))
	may, at := b.Admits(now)
	require.Equal(t, None, may)
	require.Equal(t, b.Held(), at)
	require.Equal(t, now.Add(time.Hour), at)
	may, _ = b.Hasten(now).Admits(now)
	require.Equal(t, Probe, may)
	require.Zero(t, b.Hasten(now).Held())
}

// A request outside the deliveries proves that the endpoint works, as a probe does.
func TestProved_CountsWhileOpenOnly(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	b := Opened(now.Add(time.Minute), 0).Hold(now.Add(time.Hour)).Proved(2, now)
	require.Equal(t, sluice.BreakerHalfOpen, b.State())
	require.Zero(t, b.Held())
	require.Equal(t, b, b.Proved(2, now), "it is half-open")
	require.True(t, Opened(now, 0).Proved(1, now).Closed())
	require.Equal(t, Breaker{}, Breaker{}.Proved(2, now), "it is closed")
}
