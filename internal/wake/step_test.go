package wake_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/wake"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	primary = sluice.Path("/agents/1")
	tools   = sluice.Path("/tools/1")
	other   = sluice.Path("/tools/2")
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// rules are those of S1, without jitter; wake ids are new-1, new-2 and so on.
func rules() wake.Rules {
	made := 0
	return wake.Rules{
		Retry:  sluice.Retry{Preset: sluice.PresetPersistent},
		Random: func() float64 { return 0 },
		NewWakeID: func() string {
			made++
			return fmt.Sprintf("new-%d", made)
		},
	}
}

type edit = func(*wake.Consumer)

// consumer returns one in its third cycle, woken at noon, that has the first ten messages of its stream.
func consumer(state sluice.WakeState, edits ...edit) wake.Consumer {
	c := wake.NewConsumer(primary, "made-1", 1, 10)
	c.State, c.Epoch, c.WakeID, c.Woken = state, 3, "w3", noon
	switch state {
	case sluice.WakeWaking:
		c.Due = noon
	case sluice.WakeLive:
		c.Due = noon.Add(wake.LiveFor)
	case sluice.WakeIdle, sluice.WakeRemoved:
	}
	for _, e := range edits {
		e(&c)
	}
	return c
}

func idle(edits ...edit) wake.Consumer   { return consumer(sluice.WakeIdle, edits...) }
func waking(edits ...edit) wake.Consumer { return consumer(sluice.WakeWaking, edits...) }
func live(edits ...edit) wake.Consumer   { return consumer(sluice.WakeLive, edits...) }

// gone is what is left of the consumer that is removed.
func gone() wake.Consumer {
	return wake.Consumer{Path: primary, Of: "made-1", Since: 1, State: sluice.WakeRemoved, Epoch: 3}
}

func acked(path sluice.Path, seq uint64) wake.Position { return wake.Position{Path: path, Acked: seq} }

func follows(all ...wake.Position) edit {
	return func(c *wake.Consumer) { c.Streams = all }
}

func failed(n int, since, due time.Time) edit {
	return func(c *wake.Consumer) { c.Failures, c.FailingSince, c.Due, c.LastError = n, since, due, "status 500" }
}

func until(due time.Time) edit { return func(c *wake.Consumer) { c.Due = due } }

// newly is a consumer in the cycle after the third, begun at a time.
func newly(at time.Time, edits ...edit) wake.Consumer {
	return waking(append([]edit{func(c *wake.Consumer) { c.Epoch, c.WakeID, c.Due, c.Woken = 4, "new-1", at, at }}, edits...)...)
}

// has says that the primary stream ends at a sequence.
func has(seq uint64) wake.Tails { return wake.Tails{primary: {Seq: seq}} }

func both(seq, ofTools uint64) wake.Tails {
	return wake.Tails{primary: {Seq: seq}, tools: {Seq: ofTools}}
}

func look(tails wake.Tails) wake.Input { return wake.Input{Tails: tails} }

func answer(tails wake.Tails, a wake.Answer) wake.Input {
	a.WakeID = "w3"
	return wake.Input{Tails: tails, Answer: &a}
}

func refusal(number int) wake.Answer { return wake.Answer{Number: number, Error: "status 500"} }

func call(tails wake.Tails, cb wake.Callback) wake.Input {
	cb.Epoch = 3
	return wake.Input{Tails: tails, Callback: &cb}
}

// step is a row of a table: what becomes of a consumer at a time after noon.
type step struct {
	name  string
	rows  string
	give  wake.Consumer
	in    wake.Input
	after time.Duration
	want  wake.Consumer
	code  sluice.Code
}

func try(t *testing.T, steps []step) {
	t.Helper()
	for _, s := range steps {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			before := text(t, s.give)
			got, err := rules().Step(s.give, s.in, noon.Add(s.after))
			require.Equal(t, s.code, codeOf(err), s.rows)
			if got.State == sluice.WakeRemoved { // from where it goes on has tests of its own
				got.Since, got.Streams = s.want.Since, nil
			}
			require.Equal(t, s.want, got, s.rows)
			require.Equal(t, before, text(t, s.give), "Step wrote into what it was given")
		})
	}
}

func codeOf(err error) sluice.Code {
	if err == nil {
		return ""
	}
	return sluice.CodeOf(err)
}

func text(t *testing.T, c wake.Consumer) string {
	t.Helper()
	data, err := json.Marshal(c)
	require.NoError(t, err)
	return string(data)
}

// S1-27…36, S1-43, S1-55…65, S1-136…138; settled (a), (b), (d), (f).
func TestStep_TransitionsOfS1(t *testing.T) {
	t.Parallel()
	minute := noon.Add(time.Minute)
	try(t, []step{
		{"an idle consumer with nothing pending stays idle", "S1-16, S1-28", idle(), look(has(10)), time.Minute, idle(), ""},
		{"pending work wakes an idle consumer: a new epoch, a new wake id, due at once", "S1-28, S1-33, S1-36, S1-38, S1-136", idle(), look(has(11)), time.Minute, newly(minute), ""},
		{"a secondary stream's pending work wakes it too", "S1-11, S1-16", idle(follows(acked(primary, 10), acked(tools, 4))), look(both(10, 5)), time.Minute, newly(minute, follows(acked(primary, 10), acked(tools, 4))), ""},
		{"many events that come at once are one wake", "S1-61", idle(), look(has(500)), time.Minute, newly(minute), ""},
		{"an event while it is waking does not wake", "S1-62", waking(), look(has(500)), time.Minute, waking(), ""},
		{"an event while it is live does not wake", "S1-62", live(), look(has(500)), 44 * time.Second, live(), ""},

		{"a 2xx makes a waking consumer live for 45 seconds", "S1-29, S1-64, S1-119", waking(), answer(has(11), wake.Answer{Number: 1, OK: true}), time.Minute, live(until(minute.Add(wake.LiveFor))), ""},
		{"a 2xx of any attempt of the cycle counts, however many failed since", "S1-65, C27, (a)", waking(failed(3, noon, minute)), answer(has(11), wake.Answer{Number: 1, OK: true}), time.Second, live(until(noon.Add(46 * time.Second))), ""},
		{"a 2xx does not prolong the life of what is live", "S1-43", live(), answer(has(11), wake.Answer{Number: 1, OK: true}), 20 * time.Second, live(), ""},
		{"a 2xx after the cycle ended means nothing", "S1-64", idle(), answer(has(10), wake.Answer{Number: 1, OK: true}), time.Minute, idle(), ""},
		{"the wake id claims", "S1-29, S1-39, S1-73", waking(), call(has(11), wake.Callback{WakeID: "w3"}), time.Minute, live(until(minute.Add(wake.LiveFor))), ""},
		{"a claim stops retries", "S1-35, S1-63", waking(failed(2, noon, minute)), call(has(11), wake.Callback{WakeID: "w3"}), time.Second, live(until(noon.Add(46 * time.Second))), ""},

		{"a failed attempt is tried again by the timetable: the same epoch and wake id", "S1-35, S1-116, S1-117, S1-129", waking(), answer(has(11), refusal(1)), time.Second, waking(failed(1, noon.Add(time.Second), noon.Add(1200*time.Millisecond))), ""},
		{"the second failure waits longer, and the first is remembered", "S1-117", waking(failed(1, noon, noon)), answer(has(11), refusal(2)), time.Second, waking(failed(2, noon, noon.Add(1400*time.Millisecond))), ""},
		{"after ten failures it waits a minute", "S1-118", waking(failed(10, noon, noon)), answer(has(11), refusal(11)), time.Second, waking(failed(11, noon, noon.Add(61*time.Second))), ""},
		{"an attempt that failed for its silence and then fails indeed has failed once", "C27, (a)", waking(failed(1, noon, minute)), answer(has(11), refusal(1)), time.Second, waking(failed(1, noon, minute)), ""},
		{"a failure after a claim means nothing", "S1-65", live(), answer(has(11), refusal(1)), time.Second, live(), ""},
		{"a failure after the cycle ended means nothing", "S1-35", idle(), answer(has(10), refusal(1)), time.Second, idle(), ""},
		{"after three days of failures it is removed", "S1-125", waking(failed(90, noon.Add(-72*time.Hour), noon)), answer(has(11), refusal(91)), 0, gone(), ""},
		{"before three days of failures it is not", "S1-125", waking(failed(90, noon.Add(-71*time.Hour), noon)), answer(has(11), refusal(91)), 0, waking(failed(91, noon.Add(-71*time.Hour), noon.Add(time.Minute))), ""},

		{"done on an answer acknowledges what there was when the notice was sent", "S1-30, S1-55…58, C26, (d)", waking(), answer(has(12), wake.Answer{Number: 1, OK: true, Done: true, Sent: has(12)}), time.Minute, idle(follows(acked(primary, 12))), ""},
		{"what came after that notice wakes again at once", "S1-59, S1-60, C26, (d)", waking(), answer(has(13), wake.Answer{Number: 1, OK: true, Done: true, Sent: has(12)}), time.Minute, newly(minute, follows(acked(primary, 12))), ""},
		{"done acknowledges every stream of that notice", "S1-57", waking(follows(acked(primary, 10), acked(tools, 4))), answer(both(12, 7), wake.Answer{Number: 1, OK: true, Done: true, Sent: both(12, 7)}), time.Minute, idle(follows(acked(primary, 12), acked(tools, 7))), ""},
		{"done never takes an acknowledgement back", "S1-131", live(follows(acked(primary, 15))), answer(has(15), wake.Answer{Number: 1, OK: true, Done: true, Sent: has(12)}), time.Second, idle(follows(acked(primary, 15))), ""},
		{"done on the answer of a live consumer ends the cycle", "S1-56, S1-60", live(), answer(has(12), wake.Answer{Number: 1, OK: true, Done: true, Sent: has(12)}), time.Second, idle(follows(acked(primary, 12))), ""},
		{"done that comes after the cycle ended still acknowledges", "S1-57", idle(), answer(has(12), wake.Answer{Number: 1, OK: true, Done: true, Sent: has(12)}), time.Second, idle(follows(acked(primary, 12))), ""},
		{"done of another cycle means nothing", "(b)", waking(), wake.Input{Tails: has(12), Answer: &wake.Answer{WakeID: "w2", Number: 1, OK: true, Done: true, Sent: has(12)}}, time.Second, waking(), ""},
		{"a 2xx of another cycle means nothing", "(b), S1-129", waking(), wake.Input{Tails: has(12), Answer: &wake.Answer{WakeID: "w2", Number: 1, OK: true}}, time.Second, waking(), ""},
		{"a failure of another cycle means nothing", "(b), S1-129", waking(), wake.Input{Tails: has(12), Answer: &wake.Answer{WakeID: "w2", Number: 1, Error: "late"}}, time.Second, waking(), ""},

		{"done without pending work ends in idle, without a wake", "S1-31, S1-137", live(), call(has(12), wake.Callback{Acks: []wake.Position{acked(primary, 12)}, Done: true}), time.Second, idle(follows(acked(primary, 12))), ""},
		{"done with pending work is a new cycle at once", "S1-33, S1-36, S1-138", live(), call(has(12), wake.Callback{Acks: []wake.Position{acked(primary, 11)}, Done: true}), time.Minute, newly(minute, follows(acked(primary, 11))), ""},
		{"claim, acknowledgement and done may be one callback", "S1-60, S1-80", waking(), call(has(12), wake.Callback{WakeID: "w3", Acks: []wake.Position{acked(primary, 12)}, Done: true}), time.Second, idle(follows(acked(primary, 12))), ""},
		{"44 seconds of silence are not yet too long", "S1-43", live(), look(has(11)), wake.LiveFor - time.Nanosecond, live(), ""},
		{"45 seconds of silence end the cycle", "S1-32, S1-43", live(), look(has(10)), wake.LiveFor, idle(), ""},
		{"with pending work they wake again at once", "S1-32, S1-121, (f)", live(), look(has(11)), wake.LiveFor, newly(noon.Add(wake.LiveFor)), ""},
	})
}

// S1-16…19, (c).
func TestPending_LiesBehindTheAcknowledgedOffset(t *testing.T) {
	t.Parallel()
	fresh := func(acked uint64) wake.Consumer { return wake.NewConsumer(primary, "made-1", 1, acked) }
	for _, c := range []struct {
		name  string
		give  wake.Consumer
		tails wake.Tails
		want  []sluice.Path
	}{
		{"nothing is acknowledged, something is there", fresh(0), has(1), []sluice.Path{primary}},
		{"the last one is acknowledged", fresh(7), has(7), nil},
		{"one is behind the acknowledged one", fresh(7), has(8), []sluice.Path{primary}},
		{"an empty stream", fresh(0), has(0), nil},
		{"an empty stream whose path had another one before", fresh(0), wake.Tails{primary: {Seq: 5, Start: 5}}, nil},
		{"a stream with a message whose path had another one before", fresh(0), wake.Tails{primary: {Seq: 6, Start: 5}}, []sluice.Path{primary}},
		{"a stream that is gone", fresh(0), wake.Tails{primary: {Seq: 5, Start: 5, Gone: true}}, nil},
		{"a stream of which nothing is known", fresh(0), wake.Tails{}, nil},
		{"two of three streams", idle(follows(acked(primary, 10), acked(tools, 4), acked(other, 2))), wake.Tails{primary: {Seq: 11}, tools: {Seq: 4}, other: {Seq: 3}}, []sluice.Path{primary, other}},
	} {
		require.Equal(t, c.want, c.give.Pending(c.tails), c.name) // S1-51
	}
}

// S1-10, S1-98, S1-139, S1-140.
func TestConsumer_BeginsIdleAtItsStart(t *testing.T) {
	t.Parallel()
	c := wake.NewConsumer(primary, "made-1", 1, 10)
	require.Equal(t, sluice.WakeIdle, c.State)
	require.Zero(t, c.Epoch)
	after, err := rules().Step(c, look(has(10)), noon)
	require.NoError(t, err)
	require.Equal(t, c, after, "events before the subscription do not wake")
	after, err = rules().Step(c, look(has(11)), noon)
	require.NoError(t, err)
	require.Equal(t, sluice.WakeWaking, after.State)
	require.Equal(t, uint64(1), after.Epoch)
	require.Equal(t, []wake.Position{acked(primary, 10)}, after.Streams)
}

// S1-128, (i).
func TestEpoch_ContinuesAfterRemoval(t *testing.T) {
	t.Parallel()
	r := rules()
	removed, err := r.Step(live(), look(wake.Tails{primary: {Seq: 10, Start: 10, Gone: true}}), noon)
	require.NoError(t, err)
	require.Equal(t, sluice.WakeRemoved, removed.State)
	require.Nil(t, removed.Back(10), "what lies up to its deletion was its own")
	back := removed.Back(11)
	require.Equal(t, sluice.WakeIdle, back.State)
	woken, err := r.Step(*back, look(wake.Tails{primary: {Seq: 11, Start: 10}}), noon)
	require.NoError(t, err)
	require.Equal(t, uint64(4), woken.Epoch)
	require.Equal(t, "new-1", woken.WakeID)
	require.Equal(t, []wake.Position{acked(primary, 10)}, woken.Streams, "a new stream is read from its beginning")
}

// S1-101, S1-125: what a worker left was processed up to then; what failed for three days was not.
func TestConsumer_ReturningOneResumesAtItsPlace(t *testing.T) {
	t.Parallel()
	left, err := rules().Step(live(), call(has(15), wake.Callback{Unsubscribe: []sluice.Path{primary}}), noon)
	require.NoError(t, err)
	require.Nil(t, left.Back(15))
	require.Equal(t, []wake.Position{acked(primary, 15)}, left.Back(16).Streams)

	failing := waking(failed(30, noon.Add(-73*time.Hour), noon))
	given, err := rules().Step(failing, answer(has(15), wake.Answer{Number: 31, Error: "500"}), noon)
	require.NoError(t, err)
	require.Equal(t, sluice.WakeRemoved, given.State)
	require.Nil(t, given.Back(15), "it comes back for what is new")
	require.Equal(t, failing.Streams, given.Back(16).Streams, "and has all that it did not get")
}

// S1-127, S1-134: it has the epoch of the one before it until it is woken, and that one's worker may live on.
func TestConsumer_ReturningOneTakesNoPriorCallback(t *testing.T) {
	t.Parallel()
	left := live()
	left.State = sluice.WakeRemoved
	back := *left.Back(11)
	tails := wake.Tails{primary: {Seq: 10, Start: 10}}
	for _, cb := range []wake.Callback{{}, {WakeID: "w3"}, {Done: true}, {Unsubscribe: []sluice.Path{primary}}} {
		after, err := rules().Step(back, call(tails, cb), noon)
		require.Equal(t, sluice.WakeGone, sluice.CodeOf(err))
		require.Equal(t, back, after)
	}
	tails[primary] = wake.Tail{Seq: 11, Start: 10}
	woken, err := rules().Step(back, look(tails), noon)
	require.NoError(t, err)
	_, err = rules().Step(woken, call(tails, wake.Callback{Done: true}), noon)
	require.Equal(t, sluice.WakeStale, sluice.CodeOf(err))
}

// S1-34, S1-122, S1-134, C29.
func TestConsumer_EndsWithItsPrimaryStream(t *testing.T) {
	t.Parallel()
	deleted := wake.Tails{primary: {Seq: 11, Start: 11, Gone: true}, tools: {Seq: 9}}
	anew := wake.Tails{primary: {Seq: 12, Start: 11}, tools: {Seq: 9}}
	done := answer(deleted, wake.Answer{Number: 1, OK: true, Done: true, Sent: has(11)})
	elsewhere := follows(acked(tools, 4))
	try(t, []step{
		{"an idle one", "S1-122", idle(), look(deleted), 0, gone(), ""},
		{"a waking one", "S1-122", waking(failed(3, noon, noon)), look(deleted), 0, gone(), ""},
		{"a live one", "S1-122", live(), look(deleted), 0, gone(), ""},
		{"one that does not follow it any more", "C29", live(elsewhere), look(deleted), 0, gone(), ""},
		{"though another stream came in its place", "S1-122", live(), look(anew), 0, gone(), ""},
		{"an answer finds it gone", "S1-122", waking(), done, 0, gone(), ""},
		{"a callback finds it gone, and is told so", "S1-91, S1-127, S1-134", live(), call(deleted, wake.Callback{Done: true}), 0, gone(), sluice.WakeGone},
		{"a callback with an old epoch is told that it is gone as well", "S1-134", live(), wake.Input{Tails: deleted, Callback: &wake.Callback{Epoch: 1}}, 0, gone(), sluice.WakeGone},
		{"one that was removed stays removed", "S1-127", gone(), look(has(99)), 0, gone(), ""},
		{"one that was removed takes no answer", "S1-127", gone(), answer(has(99), wake.Answer{OK: true, Number: 1}), 0, gone(), ""},
		{"one that was removed takes no callback", "S1-91, S1-127", gone(), call(has(99), wake.Callback{WakeID: "w3"}), 0, gone(), sluice.WakeGone},
	})
}
