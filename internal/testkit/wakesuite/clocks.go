package wakesuite

import (
	"net/http"
	"time"

	"github.com/stretchr/testify/require"
)

// The clocks of S1, and how much earlier than a clock an event may come.
const (
	claimClock    = 10 * time.Second
	requestClock  = 30 * time.Second
	livenessClock = 45 * time.Second
	early         = time.Second
)

// clockTests wait for the clocks. An event may come up to early before its clock, and late without
// a limit, because a server may be busy.
func clockTests() []test {
	return []test{
		{"a wake that nobody answers is repeated after ten seconds", "S1-35 S1-63 S1-129", slow, repeatedUnanswered},
		{"a request that is not answered is given up after thirty seconds", "S1-115 S1-65 S1-116", slow, givenUp},
		{"a late 2xx of an earlier request makes the consumer live", "S1-63 S1-65 S1-119", slow, lateSuccess},
		{"a claim ends the repeats while the request stays open", "S1-29 S1-63 S1-65", slow, claimedAndOpen},
		{"a 2xx ends the repeats though nobody claims", "S1-63 S1-64 S1-119", slow, receivedAndSilent},
		{"who is silent for 45 seconds is idle, and is woken again when work is pending", "S1-32 S1-43 S1-121 S1-133 S1-136", slow, silentWithWork},
		{"every callback starts the 45 seconds anew", "S1-42 S1-44 S1-81", slow, aliveByCallbacks},
		{"a refused callback does not keep a consumer alive", "S1-42", slow, deadByRefusals},
		{"who is silent for 45 seconds without work is woken by the next event", "S1-32 S1-43", slow, silentWithoutWork},
	}
}

func repeatedUnanswered(w *world) {
	hold := make(chan struct{})
	s := w.wake(always(answer{hold: hold}))
	n := s.hook.notice(2)
	require.True(w.t, s.first.request.open(), "it is repeated while the first is open")
	require.GreaterOrEqual(w.t, n.request.at.Sub(s.first.request.at), claimClock-early)
	require.Equal(w.t, s.first.WakeID, n.WakeID)
	require.Equal(w.t, s.first.Epoch, n.Epoch)
	w.shows(w.report(n, claim(n, nil)).Streams, cursor{s.path, nothing})
	close(hold)
	s.hook.stays(2, claimClock+2*aMoment)
}

func givenUp(w *world) {
	s := w.wake(always(answer{hold: make(chan struct{})}))
	most := 0
	w.until(2*patience, func() bool {
		open := 0
		for _, req := range s.hook.all() {
			if req.open() {
				open++
			}
		}
		most = max(most, open)
		_, gone := s.first.request.givenUp()
		return gone
	}, "the sender gives up")
	at, _ := s.first.request.givenUp()
	require.GreaterOrEqual(w.t, at.Sub(s.first.request.at), requestClock-early)
	require.LessOrEqual(w.t, most, 2, "requests of one wake that are open at a time")
	all := len(s.hook.all())
	n := s.hook.notice(all + 1)
	require.Equal(w.t, s.first.WakeID, n.WakeID)
	require.Equal(w.t, s.first.Epoch, n.Epoch)
}

func lateSuccess(w *world) {
	hold := make(chan struct{})
	s := w.wake(inTurn(answer{hold: hold}, answer{hold: make(chan struct{})}))
	s.hook.wait(2)
	close(hold)
	s.hook.stays(2, claimClock+3*aMoment)
	w.shows(w.report(s.first, claim(s.first, nil)).Streams, cursor{s.path, nothing})
}

func claimedAndOpen(w *world) {
	hold := make(chan struct{})
	s := w.wake(inTurn(answer{hold: hold, body: `{"done":true}`}, answer{}))
	w.report(s.first, claim(s.first, nil))
	s.hook.stays(1, claimClock+2*aMoment)
	require.True(w.t, s.first.request.open(), "the worker may hold it open")
	close(hold)
	w.until(patience, func() bool {
		at, _ := offset(w.report(s.first, nil).Streams, s.path)
		return at == s.tail
	}, "its late answer is heard")
	w.append(s.path, "2")
	require.EqualValues(w.t, 2, s.hook.notice(2).Epoch)
}

func receivedAndSilent(w *world) {
	s := w.wake(always(answer{}))
	s.hook.stays(1, claimClock+2*aMoment)
	s.rest()
}

// again waits until the liveness clock has woken the consumer a second time, and returns the
// notice.
func (s scene) again() notice {
	s.t.Helper()
	s.hook.waitFor(2, livenessClock+patience)
	n := s.hook.notice(2)
	require.EqualValues(s.t, 2, n.Epoch)
	require.NotEqual(s.t, s.first.WakeID, n.WakeID)
	return n
}

func silentWithWork(w *world) {
	s := w.wake(always(answer{}))
	w.append(s.path, "2")
	spoke := time.Now()
	w.report(s.first, claim(s.first, fields{"acks": acked(s.path, s.tail)}))
	n := s.again()
	require.GreaterOrEqual(w.t, n.request.at.Sub(spoke), livenessClock-early)
	w.shows(n.Streams, cursor{s.path, s.tail})
	w.refuse(w.callback(s.first, nil), http.StatusConflict, staleEpoch)
	w.refuse(w.callback(s.first, claim(s.first, fields{"done": true})), http.StatusConflict, staleEpoch)
	w.report(n, claim(n, nil))
}

func aliveByCallbacks(w *world) {
	s := w.wake(always(answer{}))
	w.report(s.first, claim(s.first, nil))
	w.quiet(livenessClock / 4)
	spoke := time.Now()
	w.report(s.first, nil)
	n := s.again()
	require.GreaterOrEqual(w.t, n.request.at.Sub(spoke), livenessClock-early)
}

func deadByRefusals(w *world) {
	s := w.wake(always(answer{}))
	spoke := time.Now()
	w.report(s.first, claim(s.first, nil))
	w.quiet(livenessClock * 2 / 3)
	w.refuse(w.raw(s.first, "nonsense", bodyOf(s.first, nil)), http.StatusUnauthorized, tokenInvalid)
	w.refuse(w.callback(s.first, fields{"wake_id": "w_another"}), http.StatusConflict, alreadyClaimed)
	refused := time.Now()
	n := s.again()
	require.GreaterOrEqual(w.t, n.request.at.Sub(spoke), livenessClock-early)
	require.Less(w.t, n.request.at.Sub(refused), livenessClock-early, "they did not start it anew")
}

func silentWithoutWork(w *world) {
	s := w.wake(always(answer{}))
	w.report(s.first, claim(s.first, fields{"acks": acked(s.path, s.tail)}))
	s.hook.stays(1, livenessClock+2*aMoment)
	w.append(s.path, "2")
	n := s.again()
	w.shows(n.Streams, cursor{s.path, s.tail})
}
