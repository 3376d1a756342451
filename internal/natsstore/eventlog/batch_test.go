package eventlog_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// C18, S2-59, S2-60: of publishers at once each has its batches in one piece and in order, with any other events meanwhile.
func TestBatch_ConcurrentOnesStayContiguous(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	batchesStayInOnePiece(t, store)
}

// publishers is how many publish at once: more than JetStream has batches open in a stream.
const publishers = 64

func batchesStayInOnePiece(t *testing.T, store rooms) {
	t.Helper()
	const name, rounds = "batches", 4
	_, _, err := store.core.Namespaces().Put(t.Context(), sluice.Namespace{Name: name})
	require.NoError(t, err)
	var publishing sync.WaitGroup
	errs := make([]error, publishers)
	total := 0
	for p := range publishers {
		for round := range rounds {
			total += len(family(p, round))
		}
		publishing.Go(func() {
			for round := 0; round < rounds && errs[p] == nil; round++ {
				errs[p] = publishFamily(t.Context(), store, name, family(p, round))
			}
		})
	}
	publishing.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	requireInOnePiece(t, store, name, total)
}

// family returns a batch of which the first event is the cause of the others; some have one only.
func family(publisher, round int) []sluice.Event {
	events := make([]sluice.Event, 1+(publisher*7+round*13)%40)
	for i := range events {
		events[i] = sluice.Event{
			ID: fmt.Sprintf("%d-%d-%d", publisher, round, i), Path: sluice.Path("/p/" + strconv.Itoa(i%5)), Type: "t",
			Extensions: map[string]string{sluice.CausationID: fmt.Sprintf("%d-%d-0", publisher, round)},
		}
	}
	return events
}

func publishFamily(ctx context.Context, store rooms, name string, events []sluice.Event) error {
	stored, err := store.Publish(ctx, name, events)
	if err != nil {
		return err
	}
	if first, last := stored[0].Seq, stored[len(stored)-1].Seq; last-first != uint64(len(events)-1) {
		return fmt.Errorf("batch %s lies at %d to %d", events[0].ID, first, last)
	}
	return nil
}

// requireInOnePiece reads the log: every event that is not the first of its batch follows the one before it.
func requireInOnePiece(t *testing.T, store rooms, name string, total int) {
	t.Helper()
	q := model.EventQuery{Since: "-1", Limit: 1000}
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

// Attack 7: batches that a publisher on NATS begins and never commits keep no other from publishing batches.
func TestBatch_OpenOnesBlockNoOther(t *testing.T) {
	t.Parallel()
	store, broker := provisioned(t)
	require.Equal(t, 200, openBatches(t, natstest.JetStream(t, broker).Conn(), 200), "there is room for all of them")
	_, err := store.Publish(t.Context(), "default", pairOfEvents())
	require.NoError(t, err)
}

// Where all batches that NATS allows are open, the publisher is told to come back, nothing is stored, and single
// events are.
func TestBatch_TooManyOpenAreRefused(t *testing.T) {
	t.Parallel()
	url := natstest.Custom(t, func(o *server.Options) { o.JetStreamLimits.MaxBatchTimeout = time.Hour })
	store := connected(t, natsstore.Options{URL: url})
	require.NoError(t, store.core.Provision(t.Context()))
	nc := natstest.Connect(t, url)
	require.Equal(t, 50, openBatches(t, nc, 60))
	tries, err := nc.SubscribeSync("events.default.a")
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	_, err = store.Publish(t.Context(), "default", pairOfEvents())
	requireCode(t, sluice.QuotaExceeded, err)
	_, err = tries.NextMsgWithContext(t.Context()) // NATS may refuse it before others see it
	require.NoError(t, err)
	require.NoError(t, nc.Flush())
	more, _, err := tries.Pending()
	require.NoError(t, err)
	require.Zero(t, more, "it is refused at once, not tried again")
	stored, err := store.Publish(t.Context(), "default", pairOfEvents()[:1])
	require.NoError(t, err)
	require.Equal(t, uint64(1), stored[0].Seq)
}

func pairOfEvents() []sluice.Event {
	return []sluice.Event{{ID: "1", Path: "/a", Type: "t"}, {ID: "2", Path: "/a", Type: "t"}}
}

// openBatches begins batches and returns how many there is room for.
func openBatches(t *testing.T, nc *nats.Conn, n int) (open int) {
	t.Helper()
	for i := range n {
		header := nats.Header{"Nats-Batch-Id": {strconv.Itoa(i)}, "Nats-Batch-Sequence": {"1"}}
		answer, err := nc.RequestMsgWithContext(t.Context(), &nats.Msg{Subject: "events.default.open", Header: header})
		require.NoError(t, err)
		if len(answer.Data) == 0 {
			open++
		}
	}
	return open
}

// Of batches that are stored together each has its own answer: what is there already, in part or as a whole, and an id that
// belongs to another event, concern no other.
func TestBatch_ConcurrentOnesHaveTheirOwnAnswers(t *testing.T) {
	t.Parallel()
	store, _ := provisioned(t)
	batch := func(name string, path sluice.Path) []sluice.Event {
		return []sluice.Event{{ID: name + "-1", Path: path, Type: "t"}, {ID: name + "-2", Path: path, Type: "t"}}
	}
	before, err := store.Publish(t.Context(), "default", append(batch("known", "/a"), batch("taken", "/b")...))
	require.NoError(t, err)
	answers := make([][]sluice.Stored, publishers)
	errs := make([]error, publishers)
	var publishing sync.WaitGroup
	for p := range publishers {
		events := [][]sluice.Event{batch("known", "/a"), batch("taken", "/elsewhere"), batch("same", "/a"), batch(strconv.Itoa(p), "/a")}[p%4]
		publishing.Go(func() { answers[p], errs[p] = store.Publish(t.Context(), "default", events) })
	}
	publishing.Wait()
	var first int // of the same events
	for p, got := range answers {
		if p%4 == 1 {
			requireCode(t, sluice.Conflict, errs[p])
			continue
		}
		require.NoError(t, errs[p])
		require.Equal(t, got[0].Seq+1, got[1].Seq)
		require.Equal(t, got[0].Duplicate, got[1].Duplicate)
		switch p % 4 {
		case 0:
			require.Equal(t, before[0].Seq, got[0].Seq)
			require.True(t, got[0].Duplicate)
		case 2:
			require.Equal(t, answers[2][0].Seq, got[0].Seq)
			if !got[0].Duplicate {
				first++
			}
		case 3:
			require.False(t, got[0].Duplicate)
		}
	}
	require.Equal(t, 1, first)
	last, err := store.LastSeq(t.Context(), "default")
	require.NoError(t, err)
	require.Equal(t, uint64(4+2+2*publishers/4), last, "each event once")
}

// A batch with an event that NATS does not take is not begun: those that are open would keep others out for ten seconds.
func TestBatch_TooLargeOnesLeaveNoneOpen(t *testing.T) {
	t.Parallel()
	url := natstest.Custom(t, func(o *server.Options) {
		o.JetStreamLimits.MaxBatchTimeout, o.JetStreamLimits.MaxBatchInflightPerStream = time.Hour, 2
	})
	store := connected(t, natsstore.Options{URL: url})
	require.NoError(t, store.core.Provision(t.Context()))
	events := pairOfEvents()
	events[1].Data = make([]byte, 2<<20)
	for range 3 {
		_, err := store.Publish(t.Context(), "default", events)
		requireCode(t, sluice.TooLarge, err)
	}
	_, err := store.Publish(t.Context(), "default", pairOfEvents())
	require.NoError(t, err)
}
