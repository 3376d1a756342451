package wakesuite

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/require"
)

// crowdTests are about many consumers at a time.
func crowdTests() []test {
	return []test{
		{"a thousand streams that are appended to at once wake a consumer each, once", "S1-10 S1-61 S1-119 S1-136", heavy, aThousand},
		{"endpoints that hang do not delay one that lives", "S1-11 S1-136", heavy, hangingOnes},
		{"endpoints that are dead do not delay one that lives", "S1-11 S1-116 S1-136", heavy, deadOnes},
	}
}

func aThousand(w *world) {
	const streams = 1000
	hook := w.receive("hook", always(done()))
	w.subscribe(w.path("**"), hook)
	w.each(streams, "PUT", "[]")
	require.Empty(w.t, hook.all())
	began := time.Now()
	w.each(streams, "POST", "1")
	appended := time.Since(began)
	w.until(patience, func() bool { return len(hook.all()) >= streams && len(hook.wakes()) >= streams }, "each has a wake")
	w.t.Logf("appended in %s; all were woken %s after the last was", appended, time.Since(began)-appended)
	w.quiet(aMoment)
	consumers, all := map[string]bool{}, hook.all()
	for _, req := range all {
		n, err := hook.read(req)
		require.NoError(w.t, err)
		require.EqualValues(w.t, 1, n.Epoch)
		consumers[n.ConsumerID] = true
	}
	require.Len(w.t, consumers, streams)
	require.Len(w.t, hook.wakes(), streams, "exactly one wake each")
	require.Less(w.t, len(all), streams*3/2, "a busy server repeats few notices, whose answers it sees late")
}

// each sends the same request to many streams, 32 at a time. Their paths are the numbers from 1. A
// failure fails the test, but ends only one of the senders.
func (w *world) each(streams int64, method, body string) {
	w.t.Helper()
	var next atomic.Int64
	var sending sync.WaitGroup
	for range 32 {
		sending.Go(func() {
			for i := next.Add(1); i <= streams; i = next.Add(1) {
				if r, err := w.once(method+" "+w.at(w.path(number(int(i)))), body); err != nil || r.status >= 300 {
					w.t.Errorf("%s %d: %v %s", method, i, err, r)
					return
				}
			}
		})
	}
	sending.Wait()
}

// once is try with retries while a server under load answers 503. The server may have executed such
// a request: an append names a producer, so that its repetition stores nothing.
func (w *world) once(line, body string) (r reply, err error) {
	var headers []string
	if strings.HasPrefix(line, http.MethodPost) {
		headers = []string{"Producer-Id", "crowd", "Producer-Epoch", "0", "Producer-Seq", "0"}
	}
	for began := time.Now(); ; {
		r, err = w.try(w.t.Context(), line, body, headers...)
		if err != nil || r.status != http.StatusServiceUnavailable || time.Since(began) > patience {
			return r, err
		}
		w.quiet(aMoment)
	}
}

// among creates many subscriptions with broken endpoints, and waits until still holds for all of
// them. It then checks that a working endpoint gets its notice. The endpoints stay broken until the
// test ends.
func (w *world) among(says script, still func(*receiver) bool) {
	w.t.Helper()
	const endpoints = 48
	hooks := make([]*receiver, endpoints)
	for i := range hooks {
		hooks[i] = w.receive("dead"+number(i), says)
		w.subscribe(w.path("*"), hooks[i])
	}
	w.create(w.path("stream"), "[1]") // one event sends a notice to each endpoint
	for _, hook := range hooks {
		hook.wait(1)
	}
	live := w.receive("live", always(done()))
	w.subscribe(w.path("*"), live)
	w.create(w.path("live"), "[1]")
	require.Equal(w.t, w.path("live"), live.notice(1).Primary)
	for _, hook := range hooks {
		require.True(w.t, still(hook), "%s did not work all the time", hook.name)
	}
	for i := range 5 {
		w.append(w.path("live"), number(i))
		live.wait(i + 2)
	}
}

func hangingOnes(w *world) {
	w.among(always(answer{hold: make(chan struct{})}), func(r *receiver) bool {
		_, gone := r.all()[0].givenUp() // given up after 30 seconds (S1-115), which may pass on a busy machine
		return gone || r.all()[0].open()
	})
}

func deadOnes(w *world) {
	w.among(inTurn(answer{cut: true}, answer{status: http.StatusBadGateway}), func(r *receiver) bool { return len(r.all()) > 0 })
}
