package wake_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/wake"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func list(paths ...sluice.Path) []sluice.Path { return paths }

func acks(all ...wake.Position) []wake.Position { return all }

// upTo is a callback at a time at which the log ends at a sequence.
func upTo(end uint64, in wake.Input) wake.Input {
	in.End = end
	return in
}

// S1-37…44, S1-72…81, S1-88…90, S1-94…101, S1-130…133.
func TestCallback_KnownEffects(t *testing.T) {
	t.Parallel()
	second := noon.Add(46 * time.Second)
	two := follows(acked(primary, 10), acked(tools, 4))
	awaited := wake.Position{Path: tools, Acked: 5, Await: true}
	deletedTools := wake.Tails{primary: {Seq: 10}, tools: {Seq: 5, Start: 5, Gone: true}}
	try(t, []step{
		{"any callback of a live consumer resets the clock", "S1-42, S1-44, S1-81", live(), call(has(11), wake.Callback{}), time.Second, live(until(second)), ""},
		{"even one that comes after 45 unnoticed seconds", "S1-42", live(), call(has(11), wake.Callback{}), time.Minute, live(until(noon.Add(105 * time.Second))), ""},
		{"claiming what is claimed already succeeds", "S1-40, S1-130", live(), call(has(11), wake.Callback{WakeID: "w3"}), time.Second, live(until(second)), ""},
		{"claiming a wake that is over succeeds, and revives nothing", "S1-40, S1-130", idle(), call(has(10), wake.Callback{WakeID: "w3"}), time.Second, idle(), ""},
		{"without the wake id nothing is claimed", "S1-39, S1-73", waking(), call(has(11), wake.Callback{Acks: acks(acked(primary, 11))}), time.Second, waking(follows(acked(primary, 11))), ""},
		{"without the wake id it can be done all the same", "S1-77", waking(), call(has(10), wake.Callback{Done: true}), time.Second, idle(), ""},
		{"done a second time is what it was the first time", "S1-79", idle(), call(has(10), wake.Callback{Done: true}), time.Second, idle(), ""},

		{"an acknowledgement moves the offset on", "S1-74, S1-96", live(), call(has(15), wake.Callback{Acks: acks(acked(primary, 12))}), time.Second, live(until(second), follows(acked(primary, 12))), ""},
		{"up to the end of the stream", "S1-89", live(), call(has(15), wake.Callback{Acks: acks(acked(primary, 15))}), time.Second, live(until(second), follows(acked(primary, 15))), ""},
		{"never back", "S1-89, S1-131", live(), call(has(15), wake.Callback{Acks: acks(acked(primary, 9))}), time.Second, live(until(second)), ""},
		{"not even to -1", "S1-131", live(), call(has(15), wake.Callback{Acks: acks(acked(primary, 0))}), time.Second, live(until(second)), ""},
		{"of several of one stream the farthest counts", "S1-131", live(), call(has(15), wake.Callback{Acks: acks(acked(primary, 12), acked(primary, 14), acked(primary, 11))}), time.Second, live(until(second), follows(acked(primary, 14))), ""},
		{"what was acknowledged before stays acknowledged when the end is not known", "S1-79", live(), call(wake.Tails{}, wake.Callback{Acks: acks(acked(primary, 10))}), time.Second, live(until(second)), ""},
		{"of events that were erased since they count as the end", "S1-89", live(), upTo(12, call(has(0), wake.Callback{Acks: acks(acked(primary, 12))})), time.Second, live(until(second)), ""},
		{"also if older ones that were acknowledged are left", "S1-89", live(two), upTo(12, call(both(11, 4), wake.Callback{Acks: acks(acked(tools, 12), acked(primary, 11)), Done: true})), time.Second, idle(follows(acked(primary, 11), acked(tools, 4))), ""},
		{"late acknowledgements of the last cycle count", "S1-79", idle(), call(has(10), wake.Callback{Acks: acks(acked(primary, 10))}), time.Minute, idle(), ""},

		{"a stream that is subscribed to begins at its end", "S1-75, S1-97", live(), call(both(10, 7), wake.Callback{Subscribe: list(tools)}), time.Second, live(until(second), follows(acked(primary, 10), acked(tools, 7))), ""},
		{"one that does not exist yet at its beginning", "S1-98, (g)", live(), call(has(10), wake.Callback{Subscribe: list(tools)}), time.Second, live(until(second), follows(acked(primary, 10), acked(tools, 0))), ""},
		{"one that was deleted is waited for", "S1-98", live(), call(deletedTools, wake.Callback{Subscribe: list(tools)}), time.Second, live(until(second), follows(acked(primary, 10), awaited)), ""},
		{"one that is followed keeps its offset", "S1-79", live(two), call(both(10, 7), wake.Callback{Subscribe: list(tools, tools)}), time.Second, live(until(second), two), ""},
		{"a stream can be left", "S1-76, S1-100", live(two), call(both(10, 7), wake.Callback{Unsubscribe: list(tools)}), time.Second, live(until(second)), ""},
		{"the primary one too", "S1-100, C29", live(two), call(both(10, 7), wake.Callback{Unsubscribe: list(primary)}), time.Second, live(until(second), follows(acked(tools, 4))), ""},
		{"leaving what is not followed does nothing", "S1-79", live(), call(both(10, 7), wake.Callback{Unsubscribe: list(tools)}), time.Second, live(until(second)), ""},
		{"leaving all removes the consumer, and that callback succeeds", "S1-34, S1-101, S1-124, (e)", live(two), call(both(10, 7), wake.Callback{Unsubscribe: list(tools, primary)}), time.Second, gone(), ""},
		{"though there is pending work, and it is done", "S1-101", live(two), call(both(15, 7), wake.Callback{Unsubscribe: list(tools, primary), Done: true}), time.Second, gone(), ""},
		{"one stream can be taken for another", "S1-80", live(), call(both(10, 7), wake.Callback{Subscribe: list(tools), Unsubscribe: list(primary)}), time.Second, live(until(second), follows(acked(tools, 7))), ""},
		{"what is left and acknowledged can be left and acknowledged again", "S1-79", live(), call(has(10), wake.Callback{Acks: acks(acked(tools, 7)), Unsubscribe: list(tools)}), time.Second, live(until(second)), ""},

		{"an old epoch is refused", "S1-37, S1-90, S1-133", live(), wake.Input{Tails: has(11), Callback: &wake.Callback{Epoch: 2, WakeID: "w3", Done: true}}, time.Second, live(), sluice.WakeStale},
		{"one that is yet to come is refused as well", "S1-72", live(), wake.Input{Tails: has(11), Callback: &wake.Callback{Epoch: 4, WakeID: "w3"}}, time.Second, live(), sluice.WakeStale},
		{"the epoch is looked at before the wake id", "S1-90", live(), wake.Input{Tails: has(11), Callback: &wake.Callback{Epoch: 2, WakeID: "w2"}}, time.Second, live(), sluice.WakeStale},
		{"another wake id is refused", "S1-41, S1-88, S1-130", waking(), call(has(11), wake.Callback{WakeID: "w2", Done: true}), time.Second, waking(), sluice.WakeTaken},
		{"an offset beyond the end is refused", "S1-89", live(), call(has(11), wake.Callback{Acks: acks(acked(primary, 12))}), time.Second, live(), sluice.WakeOffset},
		{"also up to the end of the log, while something is pending", "S1-89", live(), upTo(12, call(has(11), wake.Callback{Acks: acks(acked(primary, 12))})), time.Second, live(), sluice.WakeOffset},
		{"and beyond the end of the log, though nothing is pending", "S1-89", live(), upTo(12, call(has(0), wake.Callback{Acks: acks(acked(primary, 13))})), time.Second, live(), sluice.WakeOffset},
		{"so is one of a stream that is not followed", "S1-89", live(), call(both(11, 7), wake.Callback{Acks: acks(acked(tools, 7))}), time.Second, live(), sluice.WakeOffset},
		{"though it is subscribed to right then", "S1-89", live(), call(both(11, 7), wake.Callback{Acks: acks(acked(tools, 7)), Subscribe: list(tools)}), time.Second, live(), sluice.WakeOffset},
		{"a refusal ends no cycle and claims nothing", "S1-80", waking(), call(has(11), wake.Callback{WakeID: "w3", Acks: acks(acked(primary, 12)), Done: true}), time.Second, waking(), sluice.WakeOffset},
		{"of a refused callback nothing is done", "S1-80", live(two), call(both(11, 7), wake.Callback{Acks: acks(acked(primary, 11), acked(tools, 8)), Subscribe: list(other), Unsubscribe: list(primary)}), time.Second, live(two), sluice.WakeOffset},
	})
}

// C29, S1-126.
func TestConsumer_DropsDeletedStreams(t *testing.T) {
	t.Parallel()
	two := follows(acked(primary, 10), acked(tools, 4))
	deleted := wake.Tails{primary: {Seq: 10}, tools: {Seq: 5, Start: 5, Gone: true}}
	anew := wake.Tails{primary: {Seq: 10}, tools: {Seq: 6, Start: 5}}
	awaited := follows(acked(primary, 10), wake.Position{Path: tools, Acked: 5, Await: true})
	try(t, []step{
		{"it is dropped, and what was pending in it with it", "C29", idle(two), look(deleted), 0, idle(), ""},
		{"of a live consumer too", "C29", live(two), look(deleted), 0, live(), ""},
		{"a callback that acknowledges it meanwhile succeeds", "C29", live(two), call(deleted, wake.Callback{Acks: acks(acked(tools, 5))}), 0, live(), ""},
		{"one that acknowledges it after it was dropped succeeds too", "S1-79", live(), call(deleted, wake.Callback{Acks: acks(acked(tools, 5))}), 0, live(), ""},
		{"subscribed to at that moment it is waited for", "S1-98", live(two), call(deleted, wake.Callback{Subscribe: list(tools)}), 0, live(awaited), ""},
		{"a consumer without another stream is removed", "C29, S1-101", live(follows(acked(tools, 4))), look(deleted), 0, gone(), ""},
		{"what had been deleted when it was subscribed to is waited for", "S1-98", idle(awaited), look(deleted), 0, idle(awaited), ""},
		{"and read from its beginning when it comes", "S1-98, (g)", idle(awaited), look(anew), time.Minute, newly(noon.Add(time.Minute), follows(acked(primary, 10), acked(tools, 5))), ""},
	})
}

// S1-79: 1,000 streams, subscribed to in two callbacks that both come twice.
func TestCallback_StreamLimitCountsFollowedStreams(t *testing.T) {
	t.Parallel()
	some := func(from, to int) (paths []sluice.Path) {
		for i := from; i < to; i++ {
			paths = append(paths, sluice.Path(fmt.Sprintf("/tools/%d", i)))
		}
		return paths
	}
	c := live()
	for _, paths := range [][]sluice.Path{some(0, 600), some(0, 600), some(600, wake.MaxStreams-1), some(600, wake.MaxStreams-1)} {
		var err error
		c, err = rules().Step(c, call(has(10), wake.Callback{Subscribe: paths}), noon)
		require.NoError(t, err)
	}
	require.Len(t, c.Streams, wake.MaxStreams)
	after, err := rules().Step(c, call(has(10), wake.Callback{Subscribe: list("/one/more")}), noon)
	require.Equal(t, sluice.WakeInvalid, sluice.CodeOf(err))
	require.Equal(t, c, after)
	after, err = rules().Step(c, call(has(10), wake.Callback{Subscribe: list("/one/more"), Unsubscribe: list(primary)}), noon)
	require.NoError(t, err)
	require.Len(t, after.Streams, wake.MaxStreams)
}

// S1-129, S1-117…119, S1-125: one cycle, three days, an endpoint that never answers well.
func TestCycle_KeepsItsWakeIDThroughThreeFailingDays(t *testing.T) {
	t.Parallel()
	r := rules()
	c, err := r.Step(wake.NewConsumer(primary, "made-1", 1, 0), look(has(1)), noon)
	require.NoError(t, err)
	id, now := c.WakeID, noon
	for range 10_000 {
		if c.State != sluice.WakeWaking {
			break
		}
		require.Equal(t, id, c.WakeID)
		require.Equal(t, uint64(1), c.Epoch)
		require.False(t, c.Due.Before(now))
		require.LessOrEqual(t, c.Due.Sub(now), time.Minute)
		now = c.Due
		c, err = r.Step(c, wake.Input{Tails: has(1), Answer: &wake.Answer{WakeID: id, Number: c.Failures + 1, Error: "refused"}}, now)
		require.NoError(t, err)
	}
	require.Equal(t, sluice.WakeRemoved, c.State)
	require.InDelta(t, 72*time.Hour, now.Sub(noon), float64(time.Minute))
	require.Equal(t, uint64(1), c.Epoch)
}
