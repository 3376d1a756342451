package deliverystore_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// C32: letters are told as they are buried, and again if they could not be.
func TestDeadLetters_AreRepeatedUntilAnnounced(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	log, err := store.AttemptLog()
	require.NoError(t, err)
	bury := func(seq uint64) {
		require.NoError(t, log.Bury(t.Context(), sluice.DeadLetter{Subscription: "s", Namespace: sluice.DefaultNamespace, Seq: seq, EventID: strconv.FormatUint(seq, 10), Path: "/a", Reason: sluice.Exhausted, At: time.Now()}))
	}
	bury(1)
	_, err = store.core.LettersConsumer(t.Context())
	require.NoError(t, err)
	bury(2)
	bury(3)

	type call struct {
		seqs  []uint64
		again bool
	}
	var mu sync.Mutex
	var calls []call
	follow := func(store rooms, tell func(n int) error) (stop func()) {
		ctx, cancel := context.WithCancel(context.Background())
		var following sync.WaitGroup
		following.Go(func() {
			_ = store.FollowLetters(ctx, func(_ context.Context, letters []model.BuriedLetter, again bool) error { // it ends with ctx
				mu.Lock()
				defer mu.Unlock()
				c := call{again: again}
				for _, d := range letters {
					c.seqs = append(c.seqs, d.Seq)
				}
				calls = append(calls, c)
				return tell(len(calls))
			})
		})
		return func() { cancel(); following.Wait() }
	}
	made := func(n int) func() bool {
		return func() bool { mu.Lock(); defer mu.Unlock(); return len(calls) >= n }
	}
	stop := follow(store, func(n int) error {
		if n == 1 {
			return errors.New("no leader")
		}
		return nil
	})
	require.Eventually(t, made(2), 10*time.Second, time.Millisecond)
	stop()
	server.Restart(t)
	bury(4)
	stop = follow(store, func(int) error { return nil })
	defer stop()
	require.Eventually(t, made(3), 20*time.Second, time.Millisecond)
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, []call{{[]uint64{2, 3}, false}, {[]uint64{2, 3}, true}, {[]uint64{4}, false}}, calls, "not letters from before there was an announcer")
}
