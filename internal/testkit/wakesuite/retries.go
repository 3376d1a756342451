package wakesuite

import (
	"net"
	"net/http"
	"time"

	"github.com/stretchr/testify/require"
)

// retryTests are about notices that are not received.
func retryTests() []test {
	return []test{
		{"every answer but 2xx is a failure and is tried again", "S1-116 S1-117 S1-119", quick, everyFailure},
		{"a retry repeats the wake_id and the epoch", "S1-38 S1-117 S1-129", quick, retryRepeats},
		{"retries come in growing distances", "S1-117", slow, growingDistances},
		{"a connection that is cut or refused is a failure", "S1-116 S1-120", quick, noConnection},
		{"a claim ends the retries", "S1-29 S1-39 S1-119", quick, claimEndsRetries},
		{"what arrives between retries is one wake with what was there", "S1-62 S1-129", quick, arrivesBetweenRetries},
	}
}

func everyFailure(w *world) {
	statuses := []int{300, 302, 304, 400, 401, 403, 404, 405, 409, 410, 413, 422, 429, 500, 501, 502, 503, 504}
	hooks := make([]*receiver, len(statuses))
	for i, status := range statuses {
		hooks[i] = w.receive("h"+number(status), inTurn(answer{status: status}, answer{status: status}, done()))
		w.subscribe(w.path("*"), hooks[i])
	}
	w.create(w.path("x"), "[1]")
	for i, hook := range hooks {
		first, last := hook.notice(1), hook.notice(3)
		require.Equal(w.t, first.WakeID, last.WakeID, "%d", statuses[i])
		require.Equal(w.t, first.Epoch, last.Epoch, "%d", statuses[i])
	}
	w.quiet(aMoment)
	for i, hook := range hooks {
		require.Len(w.t, hook.all(), 3, "%d: 2xx ends it", statuses[i])
	}
}

func retryRepeats(w *world) {
	failed := answer{status: http.StatusServiceUnavailable}
	s := w.wake(inTurn(failed, failed, failed, done(), answer{}))
	for i := range 3 {
		n := s.hook.notice(i + 2)
		require.Equal(w.t, s.first.WakeID, n.WakeID)
		require.Equal(w.t, s.first.Epoch, n.Epoch)
		require.Equal(w.t, s.first.ConsumerID, n.ConsumerID)
		require.Equal(w.t, s.first.Streams, n.Streams)
	}
	w.append(s.path, "2")
	n := s.hook.notice(5)
	require.NotEqual(w.t, s.first.WakeID, n.WakeID)
	require.EqualValues(w.t, 2, n.Epoch, "retries are no wakes")
}

// The nth retry comes 2^n × 100 ms after the failure, and up to a second more.
func growingDistances(w *world) {
	const retries = 6
	s := w.wake(func(n int) answer {
		if n <= retries {
			return answer{status: http.StatusInternalServerError}
		}
		return done()
	})
	all := s.hook.wait(retries + 1)
	for n := 1; n <= retries; n++ {
		gap, least := all[n].at.Sub(all[n-1].at), 100*time.Millisecond<<n
		require.GreaterOrEqual(w.t, gap, least-20*time.Millisecond, "retry %d", n)
		require.Less(w.t, gap, least+30*time.Second, "retry %d, on a machine that is busy", n)
	}
	s.hook.stays(retries+1, aMoment)
}

func noConnection(w *world) {
	cut := w.receive("cut", inTurn(answer{cut: true}, answer{cut: true}, done()))
	l, err := (&net.ListenConfig{}).Listen(w.t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(w.t, err)
	address := l.Addr().String()
	require.NoError(w.t, l.Close())
	w.subscribe(w.path("*"), cut)
	r := w.ask(w.path("*"), w.id("closed"), wish("http://"+address+"/hook"))
	require.Equal(w.t, http.StatusCreated, r.status, "%s", r)
	w.create(w.path("x"), "[1]")
	require.Equal(w.t, cut.notice(1).WakeID, cut.notice(3).WakeID, "the other side cut it twice")
	l, err = (&net.ListenConfig{}).Listen(w.t.Context(), "tcp", address)
	require.NoError(w.t, err)
	opened := w.receiveOn(l, "opened", always(done()))
	opened.know(decode[subscription](w, r.body))
	n := opened.notice(1)
	require.EqualValues(w.t, 1, n.Epoch, "nobody heard the first attempts")
	cut.stays(3, aMoment)
}

func claimEndsRetries(w *world) {
	s := w.wake(always(answer{status: http.StatusInternalServerError}))
	w.report(s.first, claim(s.first, nil))
	before := len(s.hook.all())
	w.quiet(2 * aMoment)
	require.LessOrEqual(w.t, len(s.hook.all()), before+1, "but for one that was on its way")
	w.shows(w.report(s.first, nil).Streams, cursor{s.path, nothing})
	for _, req := range s.hook.all() {
		n, err := s.hook.read(req)
		require.NoError(w.t, err)
		require.Equal(w.t, s.first.WakeID, n.WakeID)
	}
}

func arrivesBetweenRetries(w *world) {
	failed := answer{status: http.StatusInternalServerError}
	s := w.wake(inTurn(failed, failed, answer{}, answer{}))
	last := w.append(s.path, "2")
	n := s.hook.notice(3)
	require.Equal(w.t, s.first.WakeID, n.WakeID)
	w.report(n, claim(n, fields{"acks": acked(s.path, last), "done": true}))
	s.hook.stays(3, aMoment)
}
