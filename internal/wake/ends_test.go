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
func TestStep_OrphanSaysWhatBringsItBack(t *testing.T) {
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
