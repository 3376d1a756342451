package streamsub_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/streamsub"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Issue 13, attack 9: a subscription that is refused leaves nothing behind: no record, no count, no line of the ledger.
func TestCreate_RefusedLeavesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.process(t, "one", true)
	shaking := webhook()
	shaking.Lease, shaking.Handshake = 30*time.Second, true
	b.disagreed = sluice.Errorf(sluice.Unprocessable, "the response to OPTIONS was 405")
	create := func(id string, c streamsub.Config) (streamsub.Subscription, error) {
		k := streamsub.Key{Namespace: "default", ID: id}
		s, _, err := p.Create(t.Context(), k, c, sluice.Caller{Principal: sluice.Root}, func(*streamsub.Subscription) bool { return true })
		return s, err
	}
	_, err := create("no", shaking)
	require.Equal(t, streamsub.URLRejected, code(err))
	b.change(func() { b.disagreed = sluice.Errorf(sluice.QuotaExceeded, "too many") })
	_, err = create("no", shaking)
	require.Equal(t, sluice.QuotaExceeded, sluice.CodeOf(err))
	_, err = p.Get(t.Context(), streamsub.Key{Namespace: "default", ID: "no"})
	require.Equal(t, streamsub.NotFound, code(err))
	b.change(func() {
		require.Empty(t, b.entered)
		require.Empty(t, b.book)
		require.Equal(t, []string{"http://x", "http://x"}, b.shaken)
		b.disagreed, b.agreed, b.most = nil, &sluice.Agreement{RatePerMinute: 90}, 1
	})

	made, err := create("yes", shaking)
	require.NoError(t, err)
	require.Equal(t, 90, made.Agreed.RatePerMinute)
	again, err := create("yes", shaking)
	require.NoError(t, err)
	require.Equal(t, made.Agreed, again.Agreed)
	plain := webhook()
	plain.Lease = 30 * time.Second
	_, err = create("yes", plain)
	require.Equal(t, streamsub.Exists, code(err), "it was made with a handshake")
	_, err = create("second", shaking)
	require.Equal(t, sluice.QuotaExceeded, sluice.CodeOf(err))
	b.change(func() {
		require.Len(t, b.shaken, 3, "one that is there has agreed, and one too many is not asked")
		require.Len(t, b.entered, 1)
	})
	worker := pull()
	worker.Handshake = true
	worker, err = worker.Normal(streamsub.Key{ID: "x"})
	require.Error(t, err, "no lease")
	worker.Lease = time.Second
	worker, err = worker.Normal(streamsub.Key{ID: "x"})
	require.NoError(t, err)
	require.False(t, worker.Handshake, "a worker comes by itself")
}

// Issue 13, attack 9: a wake waits for the rate that its webhook agreed to, and is sent then.
func TestAttempt_WaitsForTheAgreedRate(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.agreed, b.pace = &sluice.Agreement{RatePerMinute: 60}, 10*time.Millisecond
	p := b.process(t, "one", true)
	c := webhook()
	c.Handshake = true
	p.subscribe(t, c)
	b.publish(t, "/events/a")
	require.Eventually(t, func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.held > 3
	}, patience, time.Millisecond)
	require.Empty(t, b.all())
	require.True(t, p.stored(t).Wake.Send)
	b.change(func() { b.pace = 0 })
	require.Equal(t, uint64(1), b.wait(t, 1)[0].Generation)
	require.Zero(t, p.stored(t).Failures)
}

// A webhook that agreed to no rate is sent to at any.
func TestAttempt_WithoutARateIsNotHeldUp(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.agreed, b.pace = &sluice.Agreement{}, time.Hour
	p := b.process(t, "one", true)
	c := webhook()
	c.Handshake = true
	p.subscribe(t, c)
	b.publish(t, "/events/a")
	b.wait(t, 1)
	require.Zero(t, b.held)
}

// A wake that is being sent is looked at again when it was sent, not all the time meanwhile: a webhook that hangs costs no
// processor.
func TestAttempt_HangingIsNotLookedAtAllTheTime(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.answer = func(ctx context.Context, _ notice) streamsub.Answer {
		<-ctx.Done() // until the lease is over
		return streamsub.Answer{Error: "timeout"}
	}
	p := b.process(t, "one", true)
	c := webhook()
	c.Lease = streamsub.MinLease
	p.subscribe(t, c)
	b.publish(t, "/events/a")
	b.wait(t, 1)
	begun, before := time.Now(), 0
	b.change(func() { before = b.looks })
	b.wait(t, 2)
	b.change(func() {
		sweeps := int(time.Since(begun) / sweepEvery)
		require.Less(t, b.looks-before, 100+10*sweeps)
	})
}
