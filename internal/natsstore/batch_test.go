package natsstore_test

import (
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// C18, S2-59, S2-60: of publishers at once each has its batches in one piece and in order, whatever others publish meanwhile.
func TestBatchesOfManyPublishersAtOnceStayInOnePiece(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	batchesStayInOnePiece(t, store)
}

// publishers is how many publish at once: more than JetStream has batches open in a stream.
const publishers = 64

func batchesStayInOnePiece(t *testing.T, store *natsstore.Store) {
	t.Helper()
	const name, rounds = "batches", 4
	_, _, err := store.PutNamespace(t.Context(), sluice.Namespace{Name: name})
	require.NoError(t, err)
	var publishing sync.WaitGroup
	errs := make([]error, publishers)
	total := 0
	for p := range publishers {
		for round := range rounds {
			total += 1 + (p*7+round*13)%40
		}
		publishing.Go(func() {
			for round := range rounds {
				events := make([]sluice.Event, 1+(p*7+round*13)%40) // some of one event
				for i := range events {
					events[i] = sluice.Event{
						ID: fmt.Sprintf("%d-%d-%d", p, round, i), Path: sluice.Path("/p/" + strconv.Itoa(i%5)), Type: fmt.Sprintf("of.%d", len(events)),
						Extensions: map[string]string{"causationid": fmt.Sprintf("%d-%d-0", p, round)},
					}
				}
				stored, err := store.Publish(t.Context(), name, events)
				if err == nil && stored[len(stored)-1].Seq-stored[0].Seq != uint64(len(events)-1) {
					err = fmt.Errorf("batch %d-%d lies at %d to %d", p, round, stored[0].Seq, stored[len(stored)-1].Seq)
				}
				if err != nil {
					errs[p] = err
					return
				}
			}
		})
	}
	publishing.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	requireInOnePiece(t, store, name, total)
}

// requireInOnePiece reads the log: every event that is not the first of its batch follows the one before it.
func requireInOnePiece(t *testing.T, store *natsstore.Store, name string, total int) {
	t.Helper()
	q := natsstore.EventQuery{Since: "-1", Limit: 1000}
	var before sluice.Event
	for seen := 0; seen < total; {
		page, err := store.Events(t.Context(), name, q)
		require.NoError(t, err)
		require.NotEmpty(t, page.Events)
		for _, ev := range page.Events {
			var p, round, i int
			_, err := fmt.Sscanf(ev.ID, "%d-%d-%d", &p, &round, &i)
			require.NoError(t, err)
			if i > 0 {
				require.Equal(t, []any{fmt.Sprintf("%d-%d-%d", p, round, i-1), ev.Seq - 1}, []any{before.ID, before.Seq})
			}
			before = ev
			seen++
		}
		q.After = before.Seq
	}
	last, err := store.LastSeq(t.Context(), name)
	require.NoError(t, err)
	require.Equal(t, uint64(total), last)
}
