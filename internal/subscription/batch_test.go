package subscription_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/subscription"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// countedLogs counts the questions for ends of logs.
type countedLogs struct {
	subscription.Logs

	asked int
}

func (l *countedLogs) LastSeq(ctx context.Context, namespace string) (uint64, error) {
	l.asked++
	return l.Logs.LastSeq(ctx, namespace)
}

// A batch asks twice a second for the end of a log, so no event after its creation is missed.
func TestForBatch_AsksSeldomForTheEndOfALog(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.makeAcme(t)
	logs, now := &countedLogs{Logs: b.needs.Logs}, time.Now()
	b.needs.Logs, b.needs.Now = logs, func() time.Time { return now }
	r := subscription.New(b.needs).ForBatch()
	create := func(namespace string, i int) uint64 {
		sub, created, err := r.Create(t.Context(), parse(t, fmt.Sprintf(`{"namespace":%q,"pattern":"/%d","endpoint":{"url":%q}}`, namespace, i, url)), "root")
		require.NoError(t, err)
		require.True(t, created)
		return sub.From.Seq
	}
	for i := range 10 {
		require.Equal(t, uint64(1), create("default", i))
		create("acme", i)
	}
	require.Equal(t, 2, logs.asked)
	_, err := b.store.Log.Publish(t.Context(), "default", []sluice.Event{{ID: "1", Path: "/a", Type: "t"}})
	require.NoError(t, err)
	now = now.Add(499 * time.Millisecond)
	require.Equal(t, uint64(1), create("default", 10))
	now = now.Add(time.Millisecond)
	require.Equal(t, uint64(2), create("default", 11))
	_, _, err = r.Create(t.Context(), parse(t, to("/x", `,"namespace":"none"`)), "root")
	requireCode(t, sluice.NotFound, err)
	require.Equal(t, 4, logs.asked)
}
