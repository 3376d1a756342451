package wake_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-io/sluice/internal/wake"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// anyPosition and the rest draw from few values, so that they meet.
func anyPositions(t *rapid.T, name string) []wake.Position {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) wake.Position {
		return acked(anyPath(t), rapid.Uint64Range(0, 6).Draw(t, "acked"))
	}), 0, 3).Draw(t, name)
}

func anyPath(t *rapid.T) sluice.Path {
	return rapid.SampledFrom([]sluice.Path{primary, tools, other}).Draw(t, "path")
}

func anyPaths(t *rapid.T, name string) []sluice.Path {
	return rapid.SliceOfN(rapid.Custom(anyPath), 0, 2).Draw(t, name)
}

// anyTails returns streams that are as long as they are acknowledged, or longer.
func anyTails(t *rapid.T, name string, c *wake.Consumer) wake.Tails {
	tails := wake.Tails{}
	for _, path := range []sluice.Path{primary, tools, other} {
		if rapid.IntRange(0, 9).Draw(t, name+": unknown") == 0 {
			continue
		}
		tail := wake.Tail{Seq: rapid.Uint64Range(0, 5).Draw(t, name+": seq")}
		for _, p := range c.Streams {
			if p.Path == path {
				tail.Seq = max(tail.Seq, p.Acked)
			}
		}
		if rapid.IntRange(0, 5).Draw(t, name+": had another") == 0 {
			tail.Start = rapid.Uint64Range(0, tail.Seq).Draw(t, name+": start")
			tail.Gone = tail.Start == tail.Seq && rapid.Bool().Draw(t, name+": gone")
		}
		tails[path] = tail
	}
	return tails
}

// anyConsumer returns one as Step may have left it.
func anyConsumer(t *rapid.T) wake.Consumer {
	state := rapid.SampledFrom([]sluice.WakeState{sluice.WakeIdle, sluice.WakeIdle, sluice.WakeWaking, sluice.WakeLive}).Draw(t, "state")
	c := consumer(state)
	c.Since = rapid.Uint64Range(1, 4).Draw(t, "since")
	c.Streams = nil
	for _, p := range append([]wake.Position{acked(anyPath(t), 0)}, anyPositions(t, "streams")...) {
		if !c.Follows(p.Path) {
			c.Streams = append(c.Streams, p)
		}
	}
	if state == sluice.WakeWaking && rapid.Bool().Draw(t, "failing") {
		failed(rapid.IntRange(1, 12).Draw(t, "failures"), noon.Add(-71*time.Hour-59*time.Minute), noon)(&c)
	}
	if rapid.IntRange(0, 9).Draw(t, "removed") == 0 {
		return gone()
	}
	return c
}

func anyAnswer(t *rapid.T, c *wake.Consumer) *wake.Answer {
	a := &wake.Answer{WakeID: rapid.SampledFrom([]string{"w3", "w3", "w2"}).Draw(t, "of"), Number: rapid.IntRange(1, 13).Draw(t, "number")}
	a.OK = rapid.Bool().Draw(t, "ok")
	a.Done = a.OK && rapid.Bool().Draw(t, "done")
	if a.Done {
		a.Sent = anyTails(t, "sent", c)
	}
	return a
}

func anyCallback(t *rapid.T) *wake.Callback {
	return &wake.Callback{
		Epoch: rapid.SampledFrom([]uint64{3, 3, 3, 3, 2, 4}).Draw(t, "epoch"), WakeID: rapid.SampledFrom([]string{"w3", "", "w2"}).Draw(t, "wake id"),
		Acks: anyPositions(t, "acks"), Subscribe: anyPaths(t, "subscribe"), Unsubscribe: anyPaths(t, "unsubscribe"), Done: rapid.Bool().Draw(t, "done"),
	}
}

func anyInput(t *rapid.T, c wake.Consumer) wake.Input {
	in := wake.Input{Tails: anyTails(t, "tails", &c), End: rapid.Uint64Range(0, 7).Draw(t, "end")}
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 0:
	case 1:
		in.Answer = anyAnswer(t, &c)
	default:
		in.Callback = anyCallback(t)
	}
	return in
}

func anyMoment(t *rapid.T) time.Time {
	return noon.Add(time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "later")))
}

// forAnyStep tries a property of one step.
func forAnyStep(t *testing.T, holds func(t *rapid.T, before, after wake.Consumer, in wake.Input, err error)) {
	t.Helper()
	rapid.Check(t, func(t *rapid.T) {
		before := anyConsumer(t)
		in := anyInput(t, before)
		after, err := rules().Step(before, in, anyMoment(t))
		holds(t, before, after, in, err)
	})
}

// S1-79: an input that comes twice takes effect once.
func TestStep_IsIdempotent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		before := anyConsumer(t)
		in, now := anyInput(t, before), anyMoment(t)
		r := rules()
		once, refused := r.Step(before, in, now)
		twice, err := r.Step(once, in, now)
		require.Equal(t, once, twice)
		if refused == nil && err != nil { // only for what cannot be otherwise: the consumer went on, or is no more
			require.Contains(t, []sluice.Code{sluice.WakeStale, sluice.WakeGone}, sluice.CodeOf(err))
			require.True(t, once.Epoch > before.Epoch || once.State == sluice.WakeRemoved)
		}
		later, err := r.Step(once, in, now.Add(time.Second))
		if once.State == sluice.WakeLive && err == nil {
			later.Due = once.Due
		}
		if in.Callback != nil || in.Answer != nil { // a look may find that time has passed
			require.Equal(t, once, later)
		}
	})
}

// S1-80: a refused callback has done nothing.
func TestCallback_RefusedOneChangesNothing(t *testing.T) {
	t.Parallel()
	forAnyStep(t, func(t *rapid.T, before, after wake.Consumer, in wake.Input, err error) {
		if err == nil {
			return
		}
		require.NotNil(t, in.Callback, "an error answers a callback")
		if sluice.CodeOf(err) == sluice.WakeGone && after.State == sluice.WakeRemoved {
			return
		}
		require.Equal(t, before, after)
	})
}

// S1-131: of what is followed before and after, no offset goes back.
func TestAck_NeverGoesBack(t *testing.T) {
	t.Parallel()
	forAnyStep(t, func(t *rapid.T, before, after wake.Consumer, _ wake.Input, _ error) {
		if after.State == sluice.WakeRemoved {
			return // what comes back is another one
		}
		for _, was := range before.Streams {
			for _, is := range after.Streams {
				require.False(t, is.Path == was.Path && is.Acked < was.Acked, "%s", was.Path)
			}
		}
	})
}

// S1-36, S1-128, S1-129: one epoch, one wake id; both change together, and only to begin a cycle.
func TestEpoch_HasOneWakeID(t *testing.T) {
	t.Parallel()
	forAnyStep(t, func(t *rapid.T, before, after wake.Consumer, _ wake.Input, _ error) {
		if after.Epoch == before.Epoch {
			require.True(t, after.WakeID == before.WakeID || after.State == sluice.WakeRemoved)
			require.False(t, after.State == sluice.WakeWaking && before.State != sluice.WakeWaking)
			return
		}
		require.Equal(t, before.Epoch+1, after.Epoch)
		require.Equal(t, sluice.WakeWaking, after.State)
		require.Equal(t, "new-1", after.WakeID)
		require.Zero(t, after.Failures)
	})
}

// S1-136: no step leaves a consumer idle over pending work that it was told of.
func TestStep_LeavesNoPendingConsumerIdle(t *testing.T) {
	t.Parallel()
	forAnyStep(t, func(t *rapid.T, _, after wake.Consumer, in wake.Input, err error) {
		require.False(t, err == nil && after.State == sluice.WakeIdle && len(after.Pending(in.Tails)) > 0)
	})
}

// S1-127: nothing brings back what was removed, but a new consumer in its place.
func TestConsumer_RemovedOneStaysRemoved(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := anyInput(t, gone())
		after, err := rules().Step(gone(), in, anyMoment(t))
		require.Equal(t, gone(), after)
		require.Equal(t, in.Callback != nil, sluice.CodeOf(err) == sluice.WakeGone)
	})
}

// A consumer reads back from the store as Step left it.
func TestConsumer_RoundTrips(t *testing.T) {
	t.Parallel()
	forAnyStep(t, func(t *rapid.T, _, after wake.Consumer, _ wake.Input, _ error) {
		data, err := json.Marshal(after)
		require.NoError(t, err)
		var read wake.Consumer
		require.NoError(t, json.Unmarshal(data, &read))
		require.Equal(t, after, read)
	})
}
