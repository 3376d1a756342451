package wake_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/wake"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// S1-122, S1-128: what is left of a consumer whose stream was deleted, or made anew, says behind which sequence something
// has to be stored for it to come back, and from where it would read then.
func TestStep_OrphanNamesItsRevival(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		since uint64 // of the consumer
		tail  wake.Tail
		want  uint64 // Since of what is left
		acked uint64
	}{
		{"deleted", 1, wake.Tail{Seq: 15, Start: 15, Gone: true}, 15, 15},
		{"deleted, its end behind where it starts", 1, wake.Tail{Seq: 17, Start: 15, Gone: true}, 17, 15},
		{"deleted, and nothing of it is kept", 1, wake.Tail{Start: 15, Gone: true}, 15, 15},
		{"expired, never made", 4, wake.Tail{Seq: 12, Gone: true}, 12, 0},
		{"deleted before the consumer began", 20, wake.Tail{Seq: 15, Start: 15, Gone: true}, 20, 15},
		{"made anew, with a message since", 1, wake.Tail{Seq: 18, Start: 15}, 15, 15},
		{"made anew where the consumer began", 15, wake.Tail{Seq: 18, Start: 15}, 15, 15},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := live(follows(acked(primary, 10), acked(tools, 4)), func(c *wake.Consumer) { c.Since = tt.since })
			got, err := rules().Step(c, look(wake.Tails{primary: tt.tail, tools: {Seq: 9}}), noon)
			require.NoError(t, err)
			require.Equal(t, wake.Consumer{
				Path: primary, Of: "made-1", Since: tt.want, State: sluice.WakeRemoved, Epoch: 3, Streams: []wake.Position{acked(primary, tt.acked)},
			}, got)
			require.Nil(t, got.Back(tt.want))
			back := got.Back(tt.want + 1)
			require.NotNil(t, back)
			require.Equal(t, []wake.Position{acked(primary, tt.acked)}, back.Streams)
			require.EqualValues(t, 3, back.Epoch)
		})
	}
}

// A stream that was deleted before the consumer began, and has messages since, is the consumer's; so is one that never was.
func TestStep_OlderDeletionOrphansNothing(t *testing.T) {
	t.Parallel()
	for since, tail := range map[uint64]wake.Tail{16: {Seq: 18, Start: 15}, 0: {Seq: 18}} {
		c := live(func(c *wake.Consumer) { c.Since = since })
		got, err := rules().Step(c, look(wake.Tails{primary: tail}), noon)
		require.NoError(t, err)
		require.Equal(t, c, got)
	}
}

// S1-30…32: a cycle that ends leaves nothing of it behind, whichever way it ends: no time at which something is due, no
// failures. Epoch and wake id stay, for callbacks that come late.
func TestStep_IdleLeavesNothingOfTheCycle(t *testing.T) {
	t.Parallel()
	failing := failed(2, noon.Add(-time.Minute), noon.Add(time.Hour))
	late := failed(2, noon.Add(-time.Minute), noon)
	for name, tt := range map[string]struct {
		give wake.Consumer
		in   wake.Input
	}{
		"done in a callback, while waking": {waking(failing), call(has(10), wake.Callback{WakeID: "w3", Done: true})},
		"done in a callback, while live":   {live(failing), call(has(10), wake.Callback{Done: true})},
		"done in the answer, while waking": {waking(failing), answer(has(10), wake.Answer{Number: 3, OK: true, Done: true, Sent: has(10)})},
		"done in the answer, while live":   {live(failing), answer(has(10), wake.Answer{Number: 3, OK: true, Done: true, Sent: has(10)})},
		"silent for too long":              {live(late), look(has(10))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := rules().Step(tt.give, tt.in, noon)
			require.NoError(t, err)
			require.Equal(t, idle(), got)
		})
	}
}

// A clock that was set back must not keep a consumer live for long: its silence ends at most two periods ahead.
func TestStep_LiveEndsWhenClockIsSetBack(t *testing.T) { // S1-32
	t.Parallel()
	for ahead, want := range map[time.Duration]sluice.WakeState{
		2 * wake.LiveFor: sluice.WakeLive, 2*wake.LiveFor + 1: sluice.WakeIdle, 1: sluice.WakeLive, 0: sluice.WakeIdle,
	} {
		got, err := rules().Step(live(until(noon.Add(ahead))), look(has(10)), noon)
		require.NoError(t, err)
		require.Equal(t, want, got.State, ahead)
	}
}

// A cycle begins without failures, at a time that is read as it was written.
func TestStep_WakeBeginsAfresh(t *testing.T) {
	t.Parallel()
	got, err := rules().Step(idle(failed(2, noon, noon)), look(has(11)), noon.Add(time.Second).In(time.FixedZone("x", 3600)))
	require.NoError(t, err)
	require.Equal(t, newly(noon.Add(time.Second)), got)
}

// An offset is judged even if its stream is left by the same callback.
func TestStep_JudgesOffsetsOfRemainingStreams(t *testing.T) { // S1-89
	t.Parallel()
	c := live(follows(acked(primary, 10), acked(tools, 5)))
	for path, seq := range map[sluice.Path]uint64{primary: 11, tools: 6} {
		cb := wake.Callback{Acks: acks(acked(path, seq)), Unsubscribe: list(path)}
		_, err := rules().Step(c, call(both(10, 5), cb), noon)
		require.Equal(t, sluice.WakeOffset, sluice.CodeOf(err), path)
	}
}

// Of a stream in which nothing may be seen nothing can be acknowledged: an answer would tell how long it is. What is acknowledged stays so.
func TestStep_NothingHiddenIsAcknowledged(t *testing.T) { // issue 13, attack 10
	t.Parallel()
	hidden := wake.Tail{Seq: 20, Withheld: true}
	partly := wake.Tail{Seq: 20, Withheld: true, Shown: 12}
	for name, tt := range map[string]struct {
		tail wake.Tail
		seq  uint64
		want sluice.Code
	}{
		"beyond the cursor":         {hidden, 11, sluice.WakeOffset},
		"at the cursor":             {hidden, 10, ""},
		"of a stream in part shown": {partly, 15, ""},
		"beyond its end":            {partly, 21, sluice.WakeOffset},
	} {
		cb := wake.Callback{Acks: acks(acked(primary, tt.seq))}
		_, err := rules().Step(live(), call(wake.Tails{primary: tt.tail}, cb), noon)
		require.Equal(t, tt.want, sluice.CodeOf(err), name)
	}
	for _, tail := range []wake.Tail{hidden, {}} { // a hidden stream and none: there is no difference
		cb := wake.Callback{Acks: acks(acked(primary, 15))}
		next, err := rules().Step(live(), upTo(30, call(wake.Tails{primary: tail}, cb)), noon)
		require.NoError(t, err)
		require.Equal(t, acks(acked(primary, 10)), next.Streams)
	}
}
