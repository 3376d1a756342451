package delivery_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/sluice-io/sluice/internal/delivery"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// budget is how long a model is tried, after a few runs; SLUICE_LONG=1 makes it longer than any of them needs for rapid's hundred.
func budget() time.Duration {
	if os.Getenv("SLUICE_LONG") != "" {
		return 10 * time.Minute
	}
	return 3 * time.Second
}

// checkWithin checks a model, whose runs are numbered from 1, until it has had its time and, however slow the machine
// is, a few runs.
func checkWithin(t *testing.T, run func(rt *rapid.T, n int)) {
	t.Helper()
	const few = 4
	n, began := 0, time.Now()
	rapid.Check(t, func(rt *rapid.T) {
		if n < few || time.Since(began) <= budget() {
			n++
			run(rt, n)
		}
	})
}

// TestEngine_RandomOutagesKeepEveryOrdering drives crashes, restarts of NATS, pauses and
// changes of the window, with every ordering. A restart of NATS repeats nothing: what it makes
// the server forget is known from the attempt log.
func TestEngine_RandomOutagesKeepEveryOrdering(t *testing.T) { // S0-41, S4-17, S4-20, S4-45, C01
	t.Parallel()
	server := natstest.New(t)
	store := connectTo(t, server)
	checkWithin(t, func(rt *rapid.T, checks int) {
		ordering := rapid.SampledFrom([]sluice.Ordering{sluice.OrderByPath, sluice.OrderNone, sluice.OrderAll}).Draw(rt, "ordering")
		w := newWorld(rt, store, fmt.Sprintf("n%d", checks), sluice.Policy{Window: 8, Retry: quickRetries, Ordering: ordering})
		proc := w.start(rt)
		defer func() { proc.stop() }()
		state := func(s sluice.State) func(*sluice.Subscription) {
			return func(sub *sluice.Subscription) { sub.State = s }
		}
		rt.Repeat(map[string]func(*rapid.T){
			"publish": w.publishSome,
			"crash": func(rt *rapid.T) {
				proc.crash()
				w.crashes++
				proc = w.start(rt)
			},
			"NATS": func(rt *rapid.T) {
				if rapid.IntRange(0, 3).Draw(rt, "restart") == 0 {
					server.Restart(t)
				}
			},
			"pause": func(*rapid.T) {
				w.watch.change(state(sluice.Paused))
			},
			"resume": func(*rapid.T) { w.watch.change(state(sluice.Active)) },
			"window": func(rt *rapid.T) {
				window := rapid.IntRange(1, 8).Draw(rt, "window")
				w.watch.change(func(sub *sluice.Subscription) { sub.Policy.Window = window })
			},
		})
		w.watch.change(state(sluice.Active))
		w.settle(rt)
		w.unpark(rt)
		proc.stop()
		w.check(rt)
		if ordering == sluice.OrderAll {
			require.IsIncreasing(rt, w.endpoint.all)
		}
	})
}

// buryCrash crashes its process instead of writing a dead letter, once.
type buryCrash struct {
	*process

	crashed chan struct{}
}

func (b buryCrash) Bury(ctx context.Context, d sluice.DeadLetter) error {
	select {
	case <-b.crashed:
		return b.process.Bury(ctx, d)
	default:
	}
	b.dead.Store(true)
	close(b.crashed)
	return errCut
}

// A crash between the last attempt and its dead letter loses neither.
func TestDeadLetter_IsWrittenAfterACrash(t *testing.T) { // S4-23, C01
	t.Parallel()
	for _, fails := range []int{1, 3} { // a live lane's head, a parked lane's
		t.Run(fmt.Sprint(fails, " attempts"), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, connect(t), "n", sluice.Policy{Window: 8, Retry: sluice.Retry{
				Preset: sluice.PresetCustom, Steps: []sluice.Duration{sluice.Duration(time.Millisecond)}, MaxAttempts: fails,
			}})
			w.endpoint.fails["doomed"] = 100
			w.publish(t, "/a/1", "doomed")
			crashed := make(chan struct{})
			w.ports = func(p *delivery.Deps) {
				if proc, ok := p.Log.(*process); ok {
					p.Log = buryCrash{proc, crashed}
				}
			}
			proc := w.start(t)
			<-crashed
			proc.stop()
			proc = w.start(t)
			defer proc.stop()
			require.Eventually(t, func() bool {
				status, err := w.deliveries.Status(t.Context(), w.sub)
				return err == nil && status.DeadLetters == 1
			}, time.Minute, 10*time.Millisecond, "the dead letter is written")
		})
	}
}

// A shutdown does not wait for a store that is gone for longer than a fail-over takes.
func TestShutdown_IsShortWithoutTheStore(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	w := newWorld(t, connectTo(t, server), "n", sluice.Policy{Window: 8, Retry: quickRetries})
	reached, answer := w.endpoint.hold()
	for i := range 4 {
		w.publish(t, sluice.Path(fmt.Sprintf("/a/%d", i)), strconv.Itoa(i))
	}
	proc := w.start(t)
	for range 4 {
		<-reached
	}
	server.Stop(t)
	close(answer)
	began := time.Now()
	proc.stop()
	require.Less(t, time.Since(began), 45*time.Second, "an attempt may take longer than that")

	server.Start(t)
	proc = w.start(t)
	defer proc.stop()
	require.Eventually(t, func() bool { return w.endpoint.delivered() == 4 }, patience, 10*time.Millisecond)
}

// counting counts how often a source is opened.
type counting struct {
	delivery.Sources

	opened *atomic.Int64
}

func (c counting) Open(ctx context.Context, sub *sluice.Subscription) (delivery.Source, error) {
	src, err := c.Sources.Open(ctx, sub)
	if err == nil {
		c.opened.Add(1)
	}
	return src, err
}

// What was accepted while the store took no records is not sent again by the next run of its subscription in the same
// process, even if the last run gave up waiting for the records.
func TestOutage_UnrecordedAttemptsAreNotRepeated(t *testing.T) { // C01
	t.Parallel()
	withConsumers(t) // its changed window ends their source
	server := natstest.New(t)
	w := newWorld(t, connectTo(t, server), "n", sluice.Policy{Window: 4, Retry: quickRetries})
	reached, answer := w.endpoint.hold()
	for i := range 3 {
		w.publish(t, sluice.Path(fmt.Sprintf("/a/%d", i)), strconv.Itoa(i))
	}
	var opened atomic.Int64
	w.ports = func(p *delivery.Deps) { p.Sources = counting{p.Sources, &opened} }
	proc := w.start(t)
	defer proc.stop()
	for range 3 {
		<-reached
	}
	lift := newOperator(t, server).fill(streams.Names{}.Attempts())
	close(answer)
	require.True(t, within(patience, func() bool { return w.endpoint.delivered() == 3 }))
	w.watch.change(func(sub *sluice.Subscription) { sub.Policy.Window = 5 }) // its source ends
	require.True(t, within(patience, func() bool { return opened.Load() == 2 }), "the run gives up, and another begins")
	lift()
	require.True(t, within(patience, func() bool { return inFlight(t, w) == 0 }))
	require.Equal(t, 3, w.endpoint.attempts())
}
