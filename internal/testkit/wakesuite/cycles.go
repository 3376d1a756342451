package wakesuite

import (
	"net/http"

	"github.com/stretchr/testify/require"
)

// cycleTests cover the states of a consumer and their transitions.
func cycleTests() []test {
	return []test{
		{"many events while a consumer is idle wake it once", "S1-61", quick, manyEventsOneWake},
		{"events while a consumer is waking or live do not wake it again", "S1-62 S1-33", quick, noMoreWakes},
		{"every 2xx means that the notice was received", "S1-29 S1-64 S1-119", quick, everySuccess},
		{"a body that is not done leaves the consumer live and acknowledges nothing", "S1-29 S1-55 S1-64", quick, notDone},
		{"a callback claims a wake while its notice is not answered", "S1-29 S1-39 S1-73", quick, claimedWhileOpen},
		{"claiming the current wake again succeeds", "S1-40 S1-130", quick, claimedAgain},
		{"a wake_id of another wake is refused", "S1-41 S1-88 S1-130", quick, otherWakeID},
		{"an epoch that is over is refused", "S1-37 S1-90 S1-133", quick, epochIsOver},
		{"an epoch that has not come is refused", "S1-72", quick, epochToCome},
		{"done without pending work is idle and stays so", "S1-31 S1-137 S1-77", quick, doneIsIdle},
		{"done with pending work wakes at once, with the next epoch and a new wake_id", "S1-33 S1-36 S1-38 S1-138 S1-60", quick, doneWithMore},
		{"a new wake begins where the last acknowledgement was", "S1-17 S1-50 S1-121", quick, beginsWhereAcked},
		{"every wake has an epoch and a wake_id of its own", "S1-28 S1-36 S1-38 S1-128 S1-129", quick, everyWakeIsNew},
	}
}

func manyEventsOneWake(w *world) {
	s := w.wake(always(answer{}))
	s.rest()
	w.must(http.StatusNoContent, "POST "+w.at(s.path), "[2,3,4,5,6,7,8,9]")
	last := w.append(s.path, "10")
	n := s.hook.notice(2)
	require.EqualValues(w.t, 2, n.Epoch)
	w.report(n, claim(n, fields{"acks": acked(s.path, last), "done": true}))
	s.hook.stays(2, aMoment)
}

func noMoreWakes(w *world) {
	hold := make(chan struct{})
	s := w.wake(inTurn(answer{hold: hold}, answer{}))
	w.append(s.path, "2")
	w.append(s.path, "3")
	close(hold)
	w.report(s.first, claim(s.first, nil))
	last := w.append(s.path, "4")
	s.hook.stays(1, aMoment)
	w.report(s.first, fields{"acks": acked(s.path, last), "done": true})
	w.append(s.path, "5")
	require.EqualValues(w.t, 2, s.hook.notice(2).Epoch, "nothing between woke it")
}

func everySuccess(w *world) {
	hook := w.receive("hook", inTurn(
		answer{status: http.StatusOK}, answer{status: http.StatusCreated}, answer{status: http.StatusAccepted}, answer{status: http.StatusNoContent}))
	w.subscribe(w.path("*"), hook)
	for i := range 4 {
		w.create(w.path(number(i)), "[1]")
		require.Equal(w.t, w.path(number(i)), hook.notice(i+1).Primary)
	}
	hook.stays(4, aMoment)
}

func notDone(w *world) {
	bodies := []string{`{"done":false}`, `{}`, `no JSON`, `{"done":`, `[true]`, `null`, `{"done":true,`}
	hook := w.receive("hook", func(n int) answer { return answer{body: bodies[(n-1)%len(bodies)]} })
	w.subscribe(w.path("*"), hook)
	for i := range bodies {
		path := w.path(number(i))
		w.create(path, "[1]")
		n := hook.notice(i + 1)
		require.Equal(w.t, path, n.Primary, "one notice each")
	}
	hook.stays(len(bodies), aMoment)
	for i, body := range bodies {
		n := hook.notice(i + 1)
		w.shows(w.report(n, claim(n, nil)).Streams, cursor{n.Primary, nothing})
		require.EqualValues(w.t, 1, n.Epoch, body)
	}
}

func claimedWhileOpen(w *world) {
	hold := make(chan struct{})
	s := w.wake(inTurn(answer{hold: hold}, answer{}))
	s.rest()
	w.append(s.path, "2")
	n := s.hook.notice(2)
	require.EqualValues(w.t, 2, n.Epoch)
	require.True(w.t, s.first.request.open(), "it is not waited for")
	close(hold)
	w.shows(w.report(n, claim(n, nil)).Streams, cursor{s.path, s.tail})
}

func claimedAgain(w *world) {
	s := w.wake(always(answer{}))
	for range 3 {
		w.report(s.first, claim(s.first, nil))
	}
	w.report(s.first, claim(s.first, fields{"acks": acked(s.path, s.tail)}))
	s.hook.stays(1, aMoment)
}

func otherWakeID(w *world) {
	s := w.wake(always(answer{}))
	for range 2 {
		o := w.callback(s.first, fields{"wake_id": "w_another", "acks": acked(s.path, s.tail), "done": true})
		w.refuse(o, http.StatusConflict, alreadyClaimed)
		w.shows(w.report(s.first, claim(s.first, nil)).Streams, cursor{s.path, nothing})
	}
}

// next makes the consumer of a scene wake a second time.
func (s scene) next() notice {
	s.t.Helper()
	s.rest()
	s.append(s.path, "2")
	return s.hook.notice(2)
}

func epochIsOver(w *world) {
	s := w.wake(always(answer{}))
	n := s.next()
	w.refuse(w.callback(s.first, nil), http.StatusConflict, staleEpoch)
	w.refuse(w.callback(s.first, claim(s.first, fields{"done": true})), http.StatusConflict, staleEpoch)
	w.refuse(w.callback(s.first, claim(n, nil)), http.StatusConflict, staleEpoch)
	w.shows(w.report(n, claim(n, nil)).Streams, cursor{s.path, s.tail})
	w.refuse(w.callback(s.first, claim(s.first, nil)), http.StatusConflict, staleEpoch)
	s.hook.stays(2, aMoment)
}

func epochToCome(w *world) {
	s := w.wake(always(answer{}))
	o := w.callback(s.first, claim(s.first, fields{"epoch": s.first.Epoch + 1, "acks": acked(s.path, s.tail)}))
	w.refuse(o, http.StatusConflict, staleEpoch)
	w.shows(w.report(s.first, claim(s.first, nil)).Streams, cursor{s.path, nothing})
}

func doneIsIdle(w *world) {
	s := w.wake(always(answer{}))
	w.shows(s.rest().Streams, cursor{s.path, s.tail})
	s.hook.stays(1, aMoment)
	w.append(s.path, "2")
	n := s.hook.notice(2)
	require.EqualValues(w.t, 2, n.Epoch)
	w.shows(n.Streams, cursor{s.path, s.tail})
}

func doneWithMore(w *world) {
	s := w.wake(always(answer{}))
	w.append(s.path, "2")
	s.rest()
	n := s.hook.notice(2)
	require.EqualValues(w.t, 2, n.Epoch)
	require.NotEqual(w.t, s.first.WakeID, n.WakeID)
	require.Equal(w.t, s.first.ConsumerID, n.ConsumerID)
	require.Equal(w.t, []string{s.path}, n.TriggeredBy)
	w.shows(n.Streams, cursor{s.path, s.tail})
	w.report(n, claim(n, fields{"done": true}))
	n = s.hook.notice(3)
	require.EqualValues(w.t, 3, n.Epoch, "nothing was acknowledged")
	w.shows(n.Streams, cursor{s.path, s.tail})
}

func beginsWhereAcked(w *world) {
	s := w.wake(always(answer{}))
	second := w.append(s.path, "2")
	w.append(s.path, "3")
	w.shows(w.report(s.first, claim(s.first, fields{"acks": acked(s.path, s.tail)})).Streams, cursor{s.path, s.tail})
	w.report(s.first, fields{"acks": acked(s.path, second), "done": true})
	n := s.hook.notice(2)
	w.shows(n.Streams, cursor{s.path, second})
	messages, _ := w.read(s.path, n.Streams[0].Offset)
	require.Len(w.t, messages, 1)
	require.Equal(w.t, "3", string(messages[0]))
}

func everyWakeIsNew(w *world) {
	const wakes = 10
	path, hook := w.path("x"), w.ok("hook")
	w.subscribe(path, hook)
	w.create(path, "[]")
	seen := map[string]bool{}
	for i := range wakes {
		tail := w.append(path, number(i))
		n := hook.notice(i + 1)
		require.EqualValues(w.t, i+1, n.Epoch)
		require.False(w.t, seen[n.WakeID], "a wake_id twice")
		seen[n.WakeID] = true
		w.report(n, claim(n, fields{"acks": acked(path, tail), "done": true}))
	}
	hook.stays(wakes, aMoment)
}
