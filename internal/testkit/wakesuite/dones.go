package wakesuite

import (
	"net/http"

	"github.com/stretchr/testify/require"
)

// doneTests are about notices that are answered with {"done":true}.
func doneTests() []test {
	return []test{
		{"an answer of done acknowledges everything and is idle", "S1-30 S1-55 S1-56 S1-57 S1-58 S1-59", quick, answeredDone},
		{"an answer of done acknowledges every stream", "S1-57 S1-60", quick, answeredDoneForAll},
		{"what arrives while a notice is answered with done is not acknowledged unseen", "S1-30 S1-57 S1-59 S1-60", quick, arrivesMeanwhile},
		{"an answer of done counts for a wake that a callback has claimed", "S1-56 S1-65", quick, doneAfterClaim},
		{"an answer of done counts for its own epoch alone", "S1-37 S1-58", quick, doneForAnotherEpoch},
		{"an answer of done that is no 2xx is a failure", "S1-55 S1-116", quick, doneButFailed},
		{"after an answer of done, a late claim of that wake finds everything acknowledged", "S1-40 S1-56 S1-57", quick, claimedAfterDone},
	}
}

func answeredDone(w *world) {
	s := w.wake(always(done()))
	s.hook.stays(1, aMoment)
	last := w.append(s.path, "2")
	n := s.hook.notice(2)
	require.EqualValues(w.t, 2, n.Epoch)
	require.NotEqual(w.t, s.first.WakeID, n.WakeID)
	w.shows(n.Streams, cursor{s.path, s.tail})
	s.hook.stays(2, aMoment)
	w.append(s.path, "3")
	w.shows(s.hook.notice(3).Streams, cursor{s.path, last})
}

func answeredDoneForAll(w *world) {
	other := w.path("other")
	s := w.wake(inTurn(answer{}, done(), answer{}))
	w.report(s.first, claim(s.first, fields{"subscribe": []string{other}, "acks": acked(s.path, s.tail), "done": true}))
	tail := w.create(other, "[1]")
	n := s.hook.notice(2)
	require.Equal(w.t, []string{other}, n.TriggeredBy)
	w.shows(n.Streams, cursor{s.path, s.tail}, cursor{other, nothing})
	s.hook.stays(2, aMoment)
	w.append(s.path, "2")
	n = s.hook.notice(3)
	require.Equal(w.t, []string{s.path}, n.TriggeredBy)
	w.shows(n.Streams, cursor{s.path, s.tail}, cursor{other, tail})
}

// The answer covers the events at the time of the notice: later ones cause another wake at once.
func arrivesMeanwhile(w *world) {
	hold := make(chan struct{})
	s := w.wake(inTurn(answer{body: `{"done":true}`, hold: hold}, done()))
	w.append(s.path, "2")
	close(hold)
	n := s.hook.notice(2)
	require.EqualValues(w.t, 2, n.Epoch)
	w.shows(n.Streams, cursor{s.path, s.tail})
	require.Equal(w.t, []string{s.path}, n.TriggeredBy)
	s.hook.stays(2, aMoment)
}

func doneAfterClaim(w *world) {
	hold := make(chan struct{})
	s := w.wake(inTurn(answer{body: `{"done":true}`, hold: hold}, answer{}))
	w.shows(w.report(s.first, claim(s.first, nil)).Streams, cursor{s.path, nothing})
	close(hold)
	w.until(patience, func() bool {
		at, _ := offset(w.report(s.first, nil).Streams, s.path)
		return at == s.tail
	}, "its events are acknowledged")
	w.append(s.path, "2")
	n := s.hook.notice(2)
	require.EqualValues(w.t, 2, n.Epoch)
	w.shows(n.Streams, cursor{s.path, s.tail})
}

func doneForAnotherEpoch(w *world) {
	hold := make(chan struct{})
	s := w.wake(inTurn(answer{body: `{"done":true}`, hold: hold}, answer{}))
	n := s.next()
	w.report(n, claim(n, nil))
	close(hold)
	w.quiet(aMoment)
	w.shows(w.report(n, nil).Streams, cursor{s.path, s.tail})
	w.append(s.path, "3")
	s.hook.stays(2, aMoment) // the consumer is live: nothing has ended its wake
}

func doneButFailed(w *world) {
	s := w.wake(inTurn(answer{status: http.StatusInternalServerError, body: `{"done":true}`}, answer{}))
	n := s.hook.notice(2)
	require.Equal(w.t, s.first.WakeID, n.WakeID)
	require.Equal(w.t, s.first.Epoch, n.Epoch)
	w.shows(w.report(n, claim(n, nil)).Streams, cursor{s.path, nothing})
}

func claimedAfterDone(w *world) {
	s := w.wake(always(done()))
	w.until(patience, func() bool {
		at, _ := offset(w.report(s.first, claim(s.first, nil)).Streams, s.path)
		return at == s.tail
	}, "its events are acknowledged")
	w.append(s.path, "2")
	require.EqualValues(w.t, 2, s.hook.notice(2).Epoch)
}
