package quota

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Receivers that were not sent to for a while cost no memory; those in debt are remembered.
func TestPaces_ForgetIdleReceivers(t *testing.T) {
	t.Parallel()
	p, now := NewPaces(), time.Unix(0, 0)
	receiver := func(i int) Receiver { return Receiver{URL: "https://a.example/" + strconv.Itoa(i), PerMinute: 1} }
	for i := range 2 * maxBuckets {
		now = now.Add(time.Second)
		require.Zero(t, p.Take(receiver(i), now))
		require.LessOrEqual(t, len(p.all), maxBuckets)
	}
	require.NotZero(t, p.Take(receiver(2*maxBuckets-1), now))
}
