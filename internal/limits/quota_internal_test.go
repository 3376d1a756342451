package limits

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestBucketsOfNamespacesThatAreIdleOrDeletedGo(t *testing.T) {
	t.Parallel()
	q, now := NewQuotas(), time.Unix(0, 0)
	for i := range 100 {
		q.Set(sluice.Namespace{Name: fmt.Sprint("n", i), Quota: sluice.Quota{EventsPerSecond: 1, Burst: 10}})
		require.NoError(t, q.Take(fmt.Sprint("n", i), 1, 0, now))
	}
	require.NoError(t, q.Take("unknown", 1, 0, now))
	require.Len(t, q.buckets, 100)
	now = now.Add(sweepEvery)
	require.NoError(t, q.Take("n0", 10, 0, now))
	q.Remove("n1")
	require.Len(t, q.buckets, 99)
	q.Set(sluice.Namespace{Name: "n1", Quota: sluice.Quota{EventsPerSecond: 1, Burst: 10}})
	require.NoError(t, q.Take("n1", 1, 0, now))
	require.Len(t, q.buckets, 2, "n0, which has no tokens left, and n1")
}
