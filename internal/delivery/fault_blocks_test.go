package delivery_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/testkit/storetest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// crowd is many paths with an event each that always fails, and one behind it.
const crowd = 24

func (k *killer) crowd() *world {
	k.runs++
	w := newWorld(k.t, k.store, fmt.Sprintf("n%d", k.runs), k.policy)
	for i := range crowd {
		w.publish(k.t, sluice.Path(fmt.Sprintf("/a/%d", i)), fmt.Sprintf("doomed%d", i))
		w.publish(k.t, sluice.Path(fmt.Sprintf("/a/%d", i)), fmt.Sprintf("fine%d", i))
		w.endpoint.fails[fmt.Sprintf("doomed%d", i)] = 1000
	}
	w.total = crowd
	return w
}

// once leaves out what is recorded twice: a record whose answer was late is stored again.
func once(all []sluice.Attempt) []sluice.Attempt {
	type record struct {
		seq    uint64
		number int
		at     int64
		replay string
	}
	seen := map[record]bool{}
	return slices.DeleteFunc(all, func(a sluice.Attempt) bool {
		is := record{a.Seq, a.Number, a.StartedAt.UnixNano(), a.Replay}
		was := seen[is]
		seen[is] = true
		return was
	})
}

// numbers returns the attempts in the log: by event, how often each number was recorded.
func (w *world) numbers(t *testing.T) map[string]map[int]int {
	t.Helper()
	all := map[string]map[int]int{}
	for _, a := range w.attempts(t) {
		if all[a.EventID] == nil {
			all[a.EventID] = map[int]int{}
		}
		all[a.EventID][a.Number]++
	}
	return all
}

// Decision 0041: a process that dies while attempts are stored in blocks has those that were not stored repeated, as many as the
// window has at most. Attempts are counted right: an event has those of its policy, and its dead letter says so.
func TestEngine_DeathBetweenBlocksRepeatsAWindow(t *testing.T) { // C01
	t.Parallel()
	var ends sync.WaitGroup
	defer ends.Wait()
	k := newKiller(t, sluice.OrderByPath, &ends)
	k.policy.Window = crowd
	for _, at := range []point{{"attempt", 1, true}, {"attempt", 2, false}, {"attempt", 2, true}, {"attempt", 3, false}, {"attempt", 4, true}} {
		w := k.crowd()
		v := k.start(w, at)
		require.True(t, within(patience, func() bool { return isClosed(v.killed) }), "%+v", at)
		k.bury(v)
		next := &process{store: k.store, deliveries: k.store.Deliveries}
		w.run(t, next)
		require.True(t, within(patience, func() bool {
			status, err := w.deliveries.Status(t.Context(), w.sub)
			return err == nil && status.DeadLetters == crowd && status.Parked == 0 && status.Backlog == 0 && w.endpoint.delivered() == crowd
		}), "%+v", at)
		next.stop()
		numbers, repeated := w.numbers(t), 0
		w.endpoint.mu.Lock()
		for id, n := range w.endpoint.tries {
			want := map[int]int{1: 1}
			if w.endpoint.fails[id] > 0 {
				want = map[int]int{1: 1, 2: 1, 3: 1}
			}
			for number, times := range numbers[id] {
				require.Contains(t, want, number, "%+v: %s", at, id)
				require.LessOrEqual(t, times, 2, "%+v: %s", at, id) // a repeated write of a block that was stored
			}
			require.Len(t, numbers[id], len(want), "%+v: %s", at, id)
			repeated += n - len(want)
		}
		w.endpoint.mu.Unlock()
		require.LessOrEqual(t, repeated, k.policy.Window, "%+v", at)
		letters, _, err := w.deliveries.ListDeadLetters(t.Context(), w.sub, model.DeadLetterQuery{Limit: 2 * crowd})
		require.NoError(t, err)
		for _, d := range letters {
			require.Equal(t, 3, d.Attempts, "%+v: %s", at, d.EventID)
		}
	}
	require.NotZero(t, blocksOf(t, k.store), "no attempts were stored together")
}

// blocksOf returns how many messages have several attempts.
func blocksOf(t *testing.T, store storetest.Rooms) (n int) {
	t.Helper()
	js, err := jetstream.New(store.Conn())
	require.NoError(t, err)
	consumer, err := js.OrderedConsumer(t.Context(), streams.Names{}.Attempts(), jetstream.OrderedConsumerConfig{})
	require.NoError(t, err)
	msgs, err := consumer.FetchNoWait(10_000)
	require.NoError(t, err)
	for msg := range msgs.Messages() {
		lines := 0
		for range streams.SplitBlock(msg.Data()) {
			lines++
		}
		if lines > 1 {
			n++
		}
	}
	return n
}
