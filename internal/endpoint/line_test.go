package endpoint_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// heavy is an event that no buffer on the way holds, with a word in each kilobyte.
func heavy() *sluice.Event {
	ev := event()
	ev.Data = []byte(`"` + strings.Repeat("content"+strings.Repeat("-", 1017), 8<<10) + `"`)
	return ev
}

// interrupt makes an attempt, interrupts it once begun says so, and returns when it has ended.
func interrupt(t *testing.T, url string, ev *sluice.Event, begun func() bool) sluice.Attempt {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := local(t)
	ended := make(chan sluice.Attempt, 1)
	sub := subscription(url)
	sub.Policy.Timeout = sluice.Duration(time.Hour)
	go func() { ended <- s.Send(ctx, sub, ev, 1) }()
	require.Eventually(t, begun, time.Minute, time.Millisecond, "the attempt is under way")
	cancel()
	select {
	case a := <-ended:
		return a
	case <-time.After(time.Minute):
		require.Fail(t, "an interrupted attempt goes on")
		return sluice.Attempt{}
	}
}

// requireSilent requires that nothing more comes than what the endpoint's own kernel has.
func requireSilent(t *testing.T, tap *hooktest.Tap) {
	t.Helper()
	tap.Hear()
	last := -1
	require.Eventually(t, func() bool {
		settled := tap.Len() == last
		last = tap.Len()
		return settled
	}, time.Minute, 500*time.Millisecond)
	require.Less(t, last, 512<<10, "what our kernel held of the eight megabytes has come too")
}

func TestSend_InterruptedAttemptSendsNothingLater(t *testing.T) { // S0-60, C43
	t.Parallel()
	server, tap := hooktest.NewTapped(t, nil)
	tap.Deafen()
	began := time.Now()
	a := interrupt(t, server.URL, heavy(), func() bool { return time.Since(began) > 300*time.Millisecond }) // the buffers are full
	require.Equal(t, sluice.Failed, a.Outcome)
	require.Equal(t, "interrupted", a.Error)
	requireSilent(t, tap)
}

func TestSend_TimedOutAttemptSendsNothingLater(t *testing.T) { // S0-60
	t.Parallel()
	server, tap := hooktest.NewTapped(t, nil)
	tap.Deafen()
	sub := subscription(server.URL)
	sub.Policy.Timeout = sluice.Duration(500 * time.Millisecond)
	a := local(t).Send(t.Context(), sub, heavy(), 1)
	require.Equal(t, "timeout after 500ms", a.Error)
	requireSilent(t, tap)
}

func TestSend_InterruptsWhileDialling(t *testing.T) { // S0-60, C43
	t.Parallel()
	url, accept := hooktest.NewBusy(t)
	began := time.Now()
	a := interrupt(t, url, event(), func() bool { return time.Since(began) > 100*time.Millisecond })
	require.Equal(t, "interrupted", a.Error)
	require.NotContains(t, string(accept()), "content-type")
}

func TestSend_InterruptsWhileWaitingForTheAnswer(t *testing.T) { // C43
	t.Parallel()
	for name, answer := range map[string]hooktest.Answer{
		"none": {Hang: true},
		"slow": {Body: strings.Repeat("x", 1000), Drip: 50 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := hooktest.New(t, func(hooktest.Request) hooktest.Answer { return answer })
			a := interrupt(t, server.URL, event(), func() bool { return len(server.Requests()) == 1 })
			require.Equal(t, []any{sluice.Failed, "interrupted"}, []any{a.Outcome, a.Error})
		})
	}
}

// A connection that was answered is others' to use: ending the context afterwards is nothing to it.
func TestSend_FinishedAttemptKeepsItsConnection(t *testing.T) {
	t.Parallel()
	server := hooktest.New(t, nil)
	s := local(t)
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		require.Equal(t, sluice.Delivered, s.Send(ctx, subscription(server.URL), event(), 1).Outcome)
		cancel()
	}
	seen := server.Wait(3)
	require.Equal(t, seen[0].RemoteAddr, seen[2].RemoteAddr)
}
