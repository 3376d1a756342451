package delivery_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/delivery"
	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// dear costs some thousands on list(40), and exhausts its allowance on list(400); both are let through, and so is an
// event without a list. What has "no" in its data is not.
const dear = `event.data.l.map(x, event.data.l.map(y, x + y)).size() >= 0 && !has(event.data.no)`

func list(length int) string {
	return `{"l":[` + strings.TrimSuffix(strings.Repeat("1,", length), ",") + `]}`
}

func filtered(sub *sluice.Subscription) { sub.Filter = sluice.Filter{CEL: dear} }

func (g *gated) delivered() (ids []string) {
	for _, a := range g.attempts() {
		if a.Outcome == sluice.Delivered {
			ids = append(ids, a.EventID)
		}
	}
	slices.Reverse(ids) // the newest attempt comes first
	return ids
}

func (g *gated) stored() *sluice.Subscription {
	g.t.Helper()
	sub, _, err := g.store.Subscriptions().Get(g.t.Context(), g.sub.ID)
	require.NoError(g.t, err)
	return sub
}

// change stores what f makes of the subscription.
func (g *gated) change(f func(*sluice.Subscription)) {
	g.t.Helper()
	sub := g.stored()
	f(sub)
	_, err := g.store.Subscriptions().Put(g.t.Context(), sub.ID, sub, sub.Revision)
	require.NoError(g.t, err)
}

func (g *gated) letters() []model.BuriedLetter {
	g.t.Helper()
	letters, err := g.deliveries.DeadLetters(g.t.Context(), g.sub, 1, 1<<62, 100)
	require.NoError(g.t, err)
	return letters
}

// Issue 13, attack 3: a filter that costs too much again and again suspends its subscription; what it has not got waits.
func TestFilter_SuspendsAfterExhaustion(t *testing.T) {
	t.Parallel()
	g := newGated(t, sluice.Policy{Window: 8}, nil, filtered)
	for i := range 8 {
		g.publishData("/a/1", fmt.Sprint("e", i), list(400))
	}
	g.start()
	g.eventually("it is suspended", func() bool { return g.stored().State == sluice.Suspended })
	require.Contains(t, g.stored().Reason, "5 consecutive events")
	require.Len(t, g.letters(), 4)
	g.change(func(sub *sluice.Subscription) { sub.State, sub.Filter = sluice.Active, sluice.Filter{} })
	g.eventually("the others arrive", func() bool { return len(g.delivered()) == 4 })
	require.Equal(t, []string{"e4", "e5", "e6", "e7"}, g.delivered())
	require.Len(t, g.letters(), 4)
}

// Issue 13, attack 3: one event that can be evaluated ends the row.
func TestFilter_GoesOnAfterSomeExhaustion(t *testing.T) {
	t.Parallel()
	g := newGated(t, sluice.Policy{Window: 8, Ordering: sluice.OrderAll}, nil, filtered)
	for i := range 12 {
		length := 400
		if i%4 == 3 {
			length = 40
		}
		g.publishData("/a/1", fmt.Sprint("e", i), list(length))
	}
	g.start()
	g.eventually("the last arrives", func() bool { return len(g.delivered()) == 3 })
	require.Len(t, g.letters(), 9)
	require.Equal(t, sluice.Active, g.stored().State)
}

// Issue 13, attack 3, S0-63: that a filter exhausts its allowance on events that are withheld is not to be seen.
func TestFilter_WithheldEventsDoNotSuspend(t *testing.T) {
	t.Parallel()
	g := newGated(t, sluice.Policy{Window: 8}, nil, filtered)
	g.gate.script(func(_ *sluice.Subscription, ev *sluice.Event) model.Decision {
		if strings.HasPrefix(ev.ID, "no") {
			return model.Withhold
		}
		return model.Pass
	})
	for i := range 8 {
		g.publishData("/a/1", fmt.Sprint("no", i), list(400))
	}
	g.publishData("/a/1", "last", list(40))
	g.start()
	g.eventually("the last arrives", func() bool { return len(g.delivered()) == 1 })
	require.Empty(t, g.letters())
	require.Equal(t, sluice.Active, g.stored().State)
}

// Issue 13, attack 3: events whose filter is dear are delivered in the order of their path, with those that are not, also
// those that were parked; what is not wanted is not delivered.
func TestFilter_KeepsOrderWhenDear(t *testing.T) {
	t.Parallel()
	failed := 0
	g := newGated(t, sluice.Policy{Window: 8, Retry: steps(20*time.Millisecond, 20)}, func(r hooktest.Request) hooktest.Answer {
		if r.Number%5 == 0 {
			failed++
			return hooktest.Answer{Status: 500}
		}
		return hooktest.Answer{}
	}, filtered)
	want := map[string][]string{}
	for i := range 60 {
		path, id, data := fmt.Sprint("/a/", i%3), strconv.Itoa(i), list(40)
		switch i % 7 {
		case 1, 2:
			data = `{"l":[1]}`
		case 3:
			data = `{"no":1,"l":[` + strings.Repeat("1,", 39) + `1]}`
		}
		if i%7 != 3 {
			want[path] = append(want[path], id)
		}
		g.publishData(sluice.Path(path), id, data)
	}
	g.start()
	total := len(want["/a/0"]) + len(want["/a/1"]) + len(want["/a/2"])
	g.eventually("all arrive", func() bool { return len(g.delivered()) == total })
	got := map[string][]string{}
	for _, id := range g.delivered() {
		var i int
		_, err := fmt.Sscan(id, &i)
		require.NoError(t, err)
		path := fmt.Sprint("/a/", i%3)
		got[path] = append(got[path], id)
	}
	require.Equal(t, want, got)
	require.Positive(t, failed)
}

// frugal gives each subscription's filters next to nothing.
func frugal(p *delivery.Deps) {
	p.Filters = filter.NewPool(filter.Rates{Principal: 1})
	_, _ = p.Filters.CompileNow(sluice.Filter{CEL: dear}, nil) // without a payer
	p.Payer = func(sub *sluice.Subscription) string { return sub.ID }
}

// Issue 13, attack 3: a lane whose filter is over its payer's rate waits unacknowledged, and holds up neither other lanes
// nor other subscriptions; with a filter that is cheaper it goes on.
func TestFilter_OverdrawnLaneWaitsAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, connect(t), "frugal", sluice.Policy{Window: 16})
	w.ports = frugal
	w.sub.Filter = sluice.Filter{CEL: dear}
	beside := *w.sub
	beside.ID, beside.Pattern = "beside", "/b/**"
	_, err := w.store.Subscriptions().Put(t.Context(), beside.ID, &beside, 0)
	require.NoError(t, err)
	w.beside = &one{sub: &beside}
	publish := func(path sluice.Path, id, data string) {
		_, err := w.store.Log.Publish(context.Background(), w.sub.Namespace, []sluice.Event{{Path: path, ID: id, Type: "t", Source: "/test", Time: time.Now(), Data: []byte(data)}})
		require.NoError(t, err)
	}
	publish("/a/dear", "dear0", list(40)) // alone: the lookout, too, asks about events, and must not spend the rate on another one
	defer w.start(t).stop()
	eventually(t, "the first dear one arrives", func() bool { return w.endpoint.delivered() == 1 })
	for i := 1; i < 3; i++ {
		publish("/a/dear", fmt.Sprint("dear", i), list(40+i))
	}
	publish("/a/cheap", "cheap", `{"l":[1]}`)
	publish("/b/dear", "beside", list(40))
	eventually(t, "others arrive", func() bool { return w.endpoint.delivered() == 3 })
	require.Less(t, w.status(t).AckFloor, uint64(3), "what is not evaluated is not acknowledged")
	w.watch.change(func(sub *sluice.Subscription) { sub.Filter.CEL = `event.seq > 0` })
	eventually(t, "what waited arrives", func() bool { return w.endpoint.delivered() == 5 })
}

// Issue 13, attack 3: a subscription whose expression is to be compiled waits for its payer's turn, and holds up no other.
func TestFilter_CompilingIsPaidFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, connect(t), "compiling", sluice.Policy{Window: 16})
	pool := filter.NewPool(filter.Rates{Principal: 1})
	w.ports = func(p *delivery.Deps) {
		p.Filters = pool
		p.Payer = func(sub *sluice.Subscription) string { return sub.ID }
	}
	_, err := pool.Compile(t.Context(), filter.Payer{Principal: w.sub.ID, Namespace: w.sub.Namespace}, sluice.Filter{CEL: "event.seq > 0"}, nil)
	require.NoError(t, err)
	w.sub.Filter = sluice.Filter{CEL: "event.seq > 1"} // which its payer cannot pay for now
	beside := *w.sub
	beside.ID, beside.Pattern, beside.Filter.CEL = "beside", "/b/**", "event.seq > 2"
	_, err = w.store.Subscriptions().Put(t.Context(), beside.ID, &beside, 0)
	require.NoError(t, err)
	w.beside = &one{sub: &beside}
	for i, path := range []sluice.Path{"/a/x", "/a/y", "/b/x"} {
		w.publish(t, path, strconv.Itoa(i))
	}
	defer w.start(t).stop()
	eventually(t, "the other's event arrives", func() bool { return w.endpoint.delivered() == 1 })
	w.watch.change(func(sub *sluice.Subscription) { sub.Filter.CEL = "event.seq > 0" })
	eventually(t, "its own arrive with an expression that is compiled", func() bool { return w.endpoint.delivered() == 3 })
}
