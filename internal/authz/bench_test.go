package authz_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/authz"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

const crowd = 10_000

// crowded is an index with 10,000 grants, each narrowed once, and as many lines of an access list and
// clearances; and a subscription of one of them, made under the narrowed grant.
func crowded(tb testing.TB) (*world, *sluice.Subscription) {
	tb.Helper()
	w := newWorld(tb)
	var last *authz.Granted
	w.label(sluice.Label{Level: sluice.LevelSecret, Compartments: []string{"finance"}})
	for i := range crowd / 2 {
		p, q := sluice.Principal(fmt.Sprintf("user:%d", i)), sluice.Principal(fmt.Sprintf("ai_agent:%d", i))
		id := fmt.Sprintf("018f3a2e-7a53-7000-8000-%012d", i)
		w.grant(id, p, "path:acme/orders/**", "read", "subscribe")
		last = w.part(id+"p", id, q, "path:acme/orders/*/items/**", "subscribe")
		for _, who := range []sluice.Principal{p, q} {
			w.clear(who, sluice.Label{Level: sluice.LevelTopSecret, Compartments: []string{"finance", "legal"}})
			w.acl(who, line(sluice.TierExistence, "/**"), line(sluice.TierRead, "/orders/**"))
		}
	}
	return w, subscriptionOf(last, "/orders/*/items/**")
}

// BenchmarkGate is what the gate costs a delivery: the aim is 2 µs and no allocation.
func BenchmarkGate(b *testing.B) {
	w, sub := crowded(b)
	plain := event("/orders/4711/items/3", 9)
	raised := event("/orders/4711/items/3", 9)
	raised.Extensions = map[string]string{sluice.AttributeClassification: "SECRET/finance"}
	for name, ev := range map[string]*sluice.Event{"plain": plain, "labelled": raised} {
		b.Run(name, func(b *testing.B) {
			require.Equal(b, model.Pass, w.Decide(sub, ev, w.now))
			b.ReportAllocs()
			for b.Loop() {
				w.Decide(sub, ev, w.now)
			}
		})
	}
}

// The gate allocates nothing: it is asked for every attempt.
func TestGate_AllocatesNothing(t *testing.T) { //nolint:paralleltest // it counts allocations of the process
	w, sub := crowded(t)
	for _, label := range []string{"", "SECRET/finance", "no label"} {
		ev := event("/orders/4711/items/3", 9)
		if label != "" {
			ev.Extensions = map[string]string{sluice.AttributeClassification: label}
		}
		n := testing.AllocsPerRun(100, func() { w.Decide(sub, ev, w.now) })
		if label != "no label" {
			require.Zero(t, n, label)
		}
	}
}
