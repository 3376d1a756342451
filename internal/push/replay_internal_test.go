package push

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// beside is what a replay's runner works with besides its own: it notes what reaches the subscription's.
type beside struct {
	disabled, cancelled []string
	buried              []sluice.DeadLetter
	recorded            []sluice.Attempt
	failing, held       int
	stored              sluice.Replay
}

func (b *beside) Cancel(_ context.Context, _, reason string) error {
	b.cancelled = append(b.cancelled, reason)
	return nil
}

func (b *beside) Disable(_ context.Context, _, reason string) error {
	b.disabled = append(b.disabled, reason)
	return nil
}

func (b *beside) Suspend(_ context.Context, _, reason string) error {
	b.disabled = append(b.disabled, reason)
	return nil
}

func (b *beside) Record(a *sluice.Attempt, _ string, done func(error)) {
	b.recorded = append(b.recorded, *a)
	done(nil)
}

func (b *beside) Recover(context.Context, *sluice.Subscription) (map[uint64]sluice.Progress, error) {
	return nil, sluice.Errorf(sluice.Conflict, "the live deliveries' own")
}

func (b *beside) Bury(_ context.Context, d sluice.DeadLetter) error {
	b.buried = append(b.buried, d)
	return nil
}

func (b *beside) Held(*sluice.Subscription, *sluice.DeadLetter)      { b.held++ }
func (b *beside) Throttled(*sluice.Subscription, string)             {}
func (b *beside) Failing(*sluice.Subscription, int, time.Time)       { b.failing++ }
func (b *beside) StillHeld(*sluice.Subscription, *sluice.DeadLetter) {}
func (b *beside) StillFailing(*sluice.Subscription, int, time.Time)  {}
func (b *beside) Health(context.Context, *sluice.Subscription) (sluice.Health, error) {
	return sluice.Health{Breaker: sluice.BreakerOpen}, nil
}

func (b *beside) PutHealth(context.Context, *sluice.Subscription, sluice.Health) error {
	b.failing++
	return nil
}

// The replays' own store.
type replayStore struct {
	Replays

	b *beside
}

func (s replayStore) Progress(_ context.Context, _ sluice.Replay, change func(*sluice.Replay)) error {
	change(&s.b.stored)
	return nil
}

func (s replayStore) Recover(context.Context, *sluice.Subscription, string) (map[uint64]sluice.Progress, error) {
	return map[uint64]sluice.Progress{7: {EventID: "e"}}, nil
}

// replayRunner returns the ports of a replay's runner, and what stands behind them.
func replayRunner(t *testing.T, kind sluice.ReplayKind) (*replaying, Ports, *beside) {
	t.Helper()
	b := &beside{stored: sluice.Replay{To: 9}}
	ports := Ports{Log: b, Healths: b, Registry: b, Announce: b, Replays: replayStore{b: b}}
	rep := newReplaying(sluice.Replay{ID: "r", Kind: kind, From: 1, To: 9, State: sluice.ReplayRunning}, ports, slog.New(slog.DiscardHandler))
	run := rep.runner(&sluice.Subscription{ID: "s"}, New(nil, nil, ports, Options{}))
	return rep, run.ports, b
}

// How the endpoint does is for the live deliveries to say: a replay neither disables its subscription nor warns of it, nor
// stops at its breaker. That the endpoint is gone ends the subscription all the same.
func TestReplay_DoesNotDisableItsSubscription(t *testing.T) { // decision 0009
	t.Parallel()
	_, ports, b := replayRunner(t, sluice.ReplayRange)
	sub := &sluice.Subscription{ID: "s"}
	require.NoError(t, ports.Registry.Disable(t.Context(), "s", "failing"))
	require.NoError(t, ports.Registry.Suspend(t.Context(), "s", "filter"))
	require.Equal(t, sluice.ReplayCancelled, b.stored.State, "it ends the replay alone")
	ports.Announce.Failing(sub, 50, time.Now())
	require.NoError(t, ports.Healths.PutHealth(t.Context(), sub, sluice.Health{Breaker: sluice.BreakerOpen}))
	is, err := ports.Healths.Health(t.Context(), sub)
	require.NoError(t, err)
	require.Zero(t, is)
	require.Equal(t, []int{0, 0}, []int{len(b.disabled), b.failing})

	require.NoError(t, ports.Registry.Cancel(t.Context(), "s", "endpoint_gone"))
	require.Equal(t, []string{"endpoint_gone"}, b.cancelled)
	ports.Announce.Held(sub, &sluice.DeadLetter{})
	require.Equal(t, 1, b.held)
}

// Attempts and dead letters of a replay carry its mark, and are counted in its record.
func TestReplay_MarksWhatItLeaves(t *testing.T) { // decision 0009
	t.Parallel()
	rep, ports, b := replayRunner(t, sluice.ReplayRange)
	require.False(t, rep.counted())
	require.NoError(t, ports.Log.Bury(t.Context(), sluice.DeadLetter{EventID: "e", Reason: sluice.Expired}))
	for _, outcome := range []sluice.Outcome{sluice.Delivered, sluice.Failed, sluice.Delivered} {
		ports.Log.Record(&sluice.Attempt{Seq: 3, Outcome: outcome}, "n", func(err error) { require.NoError(t, err) })
	}
	require.Equal(t, "r", b.buried[0].Replay)
	for _, a := range b.recorded {
		require.Equal(t, "r", a.Replay)
	}
	require.True(t, rep.counted())
	require.NoError(t, rep.save(t.Context(), 5))
	require.Equal(t, []uint64{5, 2, 1}, []uint64{b.stored.Next, b.stored.Sent, b.stored.Dead})
	require.False(t, rep.counted(), "it is stored")
	require.NoError(t, rep.save(t.Context(), 4))
	require.EqualValues(t, 5, b.stored.Next, "never back")

	before, err := ports.Log.Recover(t.Context(), &sluice.Subscription{ID: "s"})
	require.NoError(t, err)
	require.Equal(t, map[uint64]sluice.Progress{7: {EventID: "e"}}, before, "of the replay's own attempts")

	rep.goOn(sluice.Replay{Sent: 40, Dead: 0})
	require.NoError(t, rep.finish(t.Context(), sluice.ReplayCancelled, "why"))
	require.Equal(t, []any{sluice.ReplayCancelled, "why", uint64(5), uint64(40), uint64(1)}, []any{b.stored.State, b.stored.Reason, b.stored.Next, b.stored.Sent, b.stored.Dead})
	require.NotNil(t, b.stored.EndedAt)
	require.NoError(t, rep.finish(t.Context(), sluice.ReplayDone, ""))
	require.EqualValues(t, 10, b.stored.Next)
}

// A letter that an operator discarded while a lane of its redrive waited is not written again.
func TestReplay_OfLettersBuriesNoneThatWasDiscarded(t *testing.T) {
	t.Parallel()
	_, ports, b := replayRunner(t, sluice.ReplayDeadLetters)
	require.NoError(t, ports.Log.Bury(t.Context(), sluice.DeadLetter{EventID: "e", Reason: sluice.Expired}))
	require.Empty(t, b.buried)
	require.NoError(t, ports.Log.Bury(t.Context(), sluice.DeadLetter{EventID: "e", Reason: sluice.Exhausted}))
	require.Equal(t, "r", b.buried[0].Replay)
}

// A replay ends where it was told to; one of letters ends with them.
func TestReplay_WantsUpToItsEnd(t *testing.T) {
	t.Parallel()
	rep, _, _ := replayRunner(t, sluice.ReplayRange)
	require.True(t, rep.wants(&sluice.Event{Seq: 9}))
	require.False(t, rep.wants(&sluice.Event{Seq: 10}))
	letters, _, _ := replayRunner(t, sluice.ReplayDeadLetters)
	require.True(t, letters.wants(&sluice.Event{Seq: 1 << 40}))
}
