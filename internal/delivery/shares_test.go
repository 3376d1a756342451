package delivery_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/delivery"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// hung lets the attempts of one subscription wait until it is opened, and counts them.
type hung struct {
	*endpoint

	id   string
	open chan struct{}
	now  atomic.Int32
	most atomic.Int32
}

func (h *hung) Send(ctx context.Context, sub *sluice.Subscription, ev *sluice.Event, number int, more ...*sluice.Event) sluice.Attempt {
	if now := h.now.Add(1); now > h.most.Load() {
		h.most.Store(now)
	}
	defer h.now.Add(-1)
	if sub.ID == h.id {
		<-h.open
	}
	return h.endpoint.Send(ctx, sub, ev, number, more...)
}

// An endpoint that hangs, with a window that is larger than what the process may send at once,
// keeps no other from sending; and what waited is sent when it is well again.
func TestShare_HungEndpointLeavesPlacesToOthers(t *testing.T) {
	t.Parallel()
	const events, places = 200, 8
	store := connect(t)
	w := newWorld(t, store, "slow", sluice.Policy{Window: 1000, Retry: quickRetries, Ordering: sluice.OrderNone})
	quick := newWorld(t, store, "quick", sluice.Policy{Window: 64, Retry: quickRetries, Ordering: sluice.OrderNone})
	h := &hung{endpoint: w.endpoint, id: w.sub.ID, open: make(chan struct{})}
	w.beside, w.places = quick.watch, places
	w.ports = func(p *delivery.Deps) { p.Sender = h }
	proc := w.start(t)
	defer proc.stop()
	for i := range events {
		w.publish(t, "/a", fmt.Sprint("slow", i))
	}
	require.Eventually(t, func() bool { return h.now.Load() >= places*3/4 }, patience, time.Millisecond, "it fills its share")
	for i := range events {
		quick.publish(t, "/a", fmt.Sprint("quick", i))
	}
	require.Eventually(t, func() bool { return w.endpoint.delivered() == events }, time.Minute, time.Millisecond, "the other one delivers")
	require.Less(t, h.now.Load(), int32(places))
	close(h.open)
	require.Eventually(t, func() bool { return w.endpoint.delivered() == 2*events }, time.Minute, time.Millisecond)
	require.LessOrEqual(t, h.most.Load(), int32(places))
	require.Empty(t, quick.endpoint.all)
}

// Programs of modules that hang, and hold every permit of programs, take none from requests.
func TestShare_HangingProgramsTakeNoneOfRequests(t *testing.T) {
	t.Parallel()
	const events = 20
	store := connect(t)
	w := newWorld(t, store, "program", sluice.Policy{Window: 8, Retry: quickRetries})
	w.sub.Endpoint, w.sub.Module = sluice.Endpoint{Exec: []string{"handlers/run"}}, "m"
	quick := newWorld(t, store, "request", sluice.Policy{Window: 8, Retry: quickRetries})
	h := &hung{endpoint: w.endpoint, id: w.sub.ID, open: make(chan struct{})}
	w.beside, w.places = quick.watch, 1
	w.ports = func(p *delivery.Deps) { p.Sender = h }
	proc := w.start(t)
	defer proc.stop()
	w.publish(t, "/a", "program")
	require.Eventually(t, func() bool { return h.now.Load() == 1 }, patience, time.Millisecond, "it hangs")
	for i := range events {
		quick.publish(t, "/a", fmt.Sprint("request", i))
	}
	require.Eventually(t, func() bool { return w.endpoint.delivered() == events }, time.Minute, time.Millisecond)
	close(h.open)
	require.Eventually(t, func() bool { return w.endpoint.delivered() == events+1 }, time.Minute, time.Millisecond)
}
