package deliverystore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

func TestAttemptsAfter_WaitsForOne(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	log := runLog(t, store)
	q := model.TailQuery{Namespace: sluice.DefaultNamespace, Limit: 10, Wait: patience}
	type page struct {
		found []sluice.Attempt
		err   error
	}
	pages := make(chan page, 1)
	go func() {
		found, _, err := store.AttemptsAfter(t.Context(), q)
		pages <- page{found, err}
	}()
	js := natstest.JetStream(t, server)
	require.Eventually(t, func() bool {
		stream, err := js.Stream(t.Context(), streams.Names{}.Attempts())
		return err == nil && stream.CachedInfo().State.Consumers == 1
	}, patience, 5*time.Millisecond)
	require.Empty(t, pages)
	done := make(chan error, 1)
	log.Record(attempted("s", 7), "other", func(err error) { done <- err })
	recorded(t, done, 1)
	log.Record(attempted("s", 8), sluice.DefaultNamespace, func(err error) { done <- err })
	recorded(t, done, 1)
	one := <-pages
	require.NoError(t, one.err)
	require.Len(t, one.found, 1)
	require.EqualValues(t, 8, one.found[0].Seq, "of this namespace")

	q.After, q.Wait = 2, time.Nanosecond
	found, place, err := store.AttemptsAfter(t.Context(), q)
	require.NoError(t, err, "the end of the wait is none")
	require.Empty(t, found)
	require.EqualValues(t, 2, place)
}
