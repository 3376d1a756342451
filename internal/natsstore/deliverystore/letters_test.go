package deliverystore_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
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

	var mu sync.Mutex
	var order []uint64 // in which they were told first
	follow := func(store rooms, tell func(d model.BuriedLetter, again bool) error) (stop func()) {
		ctx, cancel := context.WithCancel(context.Background())
		var following sync.WaitGroup
		following.Go(func() {
			_ = store.FollowLetters(ctx, func(_ context.Context, letters []model.BuriedLetter, again bool) error { // it ends with ctx
				mu.Lock()
				defer mu.Unlock()
				for _, d := range letters { // how many come together depends on the server
					if err := tell(d, again); err != nil {
						return err
					}
					if !slices.Contains(order, d.Seq) {
						order = append(order, d.Seq)
					}
				}
				return nil
			})
		})
		return func() { cancel(); following.Wait() }
	}
	has := func(want ...uint64) func() bool {
		return func() bool { mu.Lock(); defer mu.Unlock(); return slices.Equal(order, want) }
	}
	failed := false
	stop := follow(store, func(d model.BuriedLetter, again bool) error {
		if !failed {
			failed = true
			assert.EqualValues(t, 2, d.Seq, "not letters from before there was an announcer")
			assert.False(t, again)
			return errors.New("no leader")
		}
		assert.True(t, again || d.Seq != 2, "it may have been told before")
		return nil
	})
	require.Eventually(t, has(2, 3), patience, time.Millisecond)
	stop()
	server.Restart(t)
	bury(4)
	stop = follow(store, func(d model.BuriedLetter, again bool) error {
		assert.True(t, again || d.Seq == 4, "its acknowledgement may be lost with the server")
		return nil
	})
	defer stop()
	require.Eventually(t, has(2, 3, 4), patience, time.Millisecond)
}
