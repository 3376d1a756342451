package deliverystore_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// announcer remembers the letters that it is told of.
type announcer struct {
	mu    sync.Mutex
	fails bool     // the next letter is refused
	order []uint64 // in which they were told first
	wrong []uint64 // letters that may have been told before, and are said to be new
	known []uint64 // that may have been told before
}

func (a *announcer) tell(_ context.Context, letters []model.BuriedLetter, again bool) error { //nolint:revive // as the store calls it
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, d := range letters { // how many come together depends on the server
		if !again && slices.Contains(a.known, d.Seq) {
			a.wrong = append(a.wrong, d.Seq)
		}
		a.known = append(a.known, d.Seq)
	}
	if a.fails {
		a.fails = false
		return errors.New("no leader")
	}
	for _, d := range letters {
		if !slices.Contains(a.order, d.Seq) {
			a.order = append(a.order, d.Seq)
		}
	}
	return nil
}

// hears waits for letters.
func (a *announcer) hears(t *testing.T, want ...uint64) {
	t.Helper()
	require.Eventually(t, func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return slices.Equal(a.order, want)
	}, patience, time.Millisecond)
}

// follow has it told of the letters of a store.
func (a *announcer) follow(store rooms) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var following sync.WaitGroup
	following.Go(func() { _ = store.FollowLetters(ctx, a.tell) }) // it ends with ctx
	return func() { cancel(); following.Wait() }
}

// C32: letters are told as they are buried, and again if they could not be.
func TestDeadLetters_AreRepeatedUntilAnnounced(t *testing.T) {
	t.Parallel()
	store, server := provisioned(t)
	log, err := store.AttemptLog()
	require.NoError(t, err)
	bury := func(seq uint64) {
		require.NoError(t, log.Bury(t.Context(), sluice.DeadLetter{Subscription: "s", Namespace: sluice.DefaultNamespace, Seq: seq, EventID: strconv.FormatUint(seq, 10), Path: "/a", Reason: sluice.Exhausted, At: time.Now()}))
	}
	bury(1) // before there was an announcer
	_, err = store.core.LettersConsumer(t.Context())
	require.NoError(t, err)
	bury(2)
	bury(3)
	a := &announcer{fails: true}
	stop := a.follow(store)
	a.hears(t, 2, 3)
	stop()
	server.Restart(t)
	bury(4)
	defer a.follow(store)()
	a.hears(t, 2, 3, 4)
	require.Empty(t, a.wrong)
}
