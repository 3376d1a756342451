package subscription_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/subscription"
	"github.com/sluice-io/sluice/internal/sysevent"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// noConsumers makes none.
type noConsumers struct{}

func (noConsumers) Expect(*sluice.Subscription) {}

func (noConsumers) Ensure(context.Context, *sluice.Subscription) error { return nil }
func (noConsumers) Remove(context.Context, *sluice.Subscription) error { return nil }

func (noConsumers) Place(context.Context, *sluice.Subscription) (uint64, error) { return 1, nil }

// BenchmarkCreate creates subscriptions 16 at a time, as a batch does, with all that is stored and published except consumers.
func BenchmarkCreate(b *testing.B) {
	for _, named := range []bool{true, false} {
		b.Run(fmt.Sprintf("named=%t", named), func(b *testing.B) {
			bench := newBench(b)
			bench.needs.Consumers = noConsumers{}
			bench.needs.Announce = sysevent.New(bench.store.Log, sysevent.Options{Outbox: bench.store.Outbox()})
			r := subscription.New(bench.needs).ForBatch()
			var next atomic.Int64
			b.SetParallelism(8)
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					i := next.Add(1)
					id := ""
					if named {
						id = fmt.Sprintf(`"id":"s%d",`, i)
					}
					req, err := subscription.ParseRequest(fmt.Appendf(nil, `{%s"pattern":"/customers/%d/**","endpoint":{"url":%q}}`, id, i, url))
					if err == nil {
						_, _, err = r.Create(b.Context(), req, "root")
					}
					require.NoError(b, err)
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "subscriptions/s")
		})
	}
}
