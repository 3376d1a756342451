package subscription_test

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/quota"
	"github.com/sluice-io/sluice/internal/subscription"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// bound lets every namespace have so many subscriptions.
func (b *bench) bound(most int) *quota.Counts {
	counts := quota.NewCounts(quota.Most{Namespace: most})
	counts.CaughtUp()
	b.needs.Quota = counts
	b.Registry = subscription.New(b.needs)
	return counts
}

func (b *bench) records(t *testing.T, bucket string) uint64 {
	t.Helper()
	kv, err := b.js.KeyValue(t.Context(), bucket)
	require.NoError(t, err)
	status, err := kv.Status(t.Context())
	require.NoError(t, err)
	return status.Values()
}

// A namespace that has as many subscriptions as it may gets no more; what is there is still found.
func TestQuota_BoundsTheNumberOfSubscriptions(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.makeAcme(t)
	counts := b.bound(2)
	first := b.create(t, minimal)
	_, created, err := b.Put(t.Context(), "second", parse(t, `{"pattern":"/b","endpoint":{"url":"`+url+`"}}`), "root")
	require.NoError(t, err)
	require.True(t, created)
	reservations := b.records(t, "reservations")

	third := `{"pattern":"/c","endpoint":{"url":"` + url + `"}}`
	_, _, err = b.Create(t.Context(), parse(t, third), "root")
	requireCode(t, sluice.QuotaExceeded, err)
	_, _, err = b.Put(t.Context(), "third", parse(t, third), "root")
	requireCode(t, sluice.QuotaExceeded, err)
	require.Equal(t, reservations, b.records(t, "reservations"), "nothing was reserved")

	same, created, err := b.Create(t.Context(), parse(t, minimal), "root")
	require.NoError(t, err)
	require.False(t, created)
	require.Equal(t, first.ID, same.ID)
	_, created, err = b.Put(t.Context(), "second", parse(t, `{"pattern":"/b","endpoint":{"url":"`+url+`"}}`), "root")
	require.NoError(t, err)
	require.False(t, created)
	_, _, err = b.Put(t.Context(), "second", parse(t, third), "root")
	requireCode(t, sluice.SubscriptionDiffers, err)

	b.create(t, `{"namespace":"acme","pattern":"/c","endpoint":{"url":"`+url+`"}}`)
	require.NoError(t, b.Delete(t.Context(), first.ID, "root"))
	counts.Remove(first.ID) // as the watcher of subscriptions does
	b.create(t, third)
}

// What NATS will not allow as things are leaves nothing behind: no record, no reservation, no consumer.
func TestCreate_RefusedConsumerLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*jetstream.StreamConfig){
		"max_consumers":   func(c *jetstream.StreamConfig) { c.MaxConsumers = 1 }, // of two
		"max_ack_pending": func(c *jetstream.StreamConfig) { c.ConsumerLimits.MaxAckPending = 10 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			stream, err := b.js.Stream(t.Context(), "EVENTS_default")
			require.NoError(t, err)
			before := stream.CachedInfo().Config
			limited := before
			change(&limited)
			_, err = b.js.UpdateStream(t.Context(), limited)
			require.NoError(t, err)

			_, _, err = b.Create(t.Context(), parse(t, minimal), "root")
			require.ErrorContains(t, err, name)
			_, _, err = b.Put(t.Context(), "mine", parse(t, minimal), "root")
			require.ErrorContains(t, err, name)
			page, err := b.List(t.Context(), subscription.Query{})
			require.NoError(t, err)
			require.Empty(t, page.Subscriptions)
			info, err := stream.Info(t.Context())
			require.NoError(t, err)
			require.Zero(t, info.State.Consumers)

			_, err = b.js.UpdateStream(t.Context(), before)
			require.NoError(t, err)
			b.create(t, minimal)
		})
	}
}
