package subscription_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/subscription"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// losing is access that is lost once it was asked for.
type losing struct{ asked int }

func (l *losing) MaySubscribe(context.Context, *sluice.Subscription) error {
	if l.asked++; l.asked > 1 {
		return sluice.Errorf(sluice.CapabilityRequired, "it was revoked")
	}
	return nil
}

func (*losing) Owns(context.Context, *sluice.Subscription) bool { return false }

func (*losing) Shows(context.Context, *sluice.Event) bool { return false }

// S0-64: after the answer to a revocation there is no subscription that was made under the grant meanwhile.
func TestCreate_RevokedGrantLeavesNoSubscription(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.needs.Access = &losing{}
	b.Registry = subscription.New(b.needs)
	_, _, err := b.Put(t.Context(), "late", parse(t, minimal), "user:ann")
	requireCode(t, sluice.CapabilityRequired, err)
	_, err = b.Get(t.Context(), "late")
	requireCode(t, sluice.SubscriptionMissing, err)
	require.False(t, b.hasConsumer(t, "late"))
}

// A subscription whose endpoint or filter an admin changes is held under the admin's grant; a new description does not move it.
func TestPatch_EndpointChangeTakesTheCallersGrant(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	as := func(grant string) context.Context {
		return model.WithCaller(t.Context(), sluice.Caller{Principal: "user:ann", Grant: grant})
	}
	sub, _, err := b.Put(as("first"), "s", parse(t, minimal), "user:ann")
	require.NoError(t, err)
	require.Equal(t, "first", sub.Grant)
	for _, c := range []struct{ grant, patch, is string }{
		{"second", `{"description":"x"}`, "first"},
		{"second", `{"endpoint":{"url":"` + url + `/other"}}`, "second"},
		{"third", `{"filter":{"types":["t"]}}`, "third"},
		{"fourth", `{"filter":{"types":["t"]}}`, "third"}, // it is so already
	} {
		sub, err = b.Patch(as(c.grant), "s", []byte(c.patch), 0, "user:ann")
		require.NoError(t, err)
		require.Equal(t, c.is, sub.Grant, c.patch)
	}
	sub, err = b.Patch(model.WithCaller(t.Context(), sluice.Caller{Principal: sluice.Root}), "s", []byte(`{"filter":{"types":["u"]}}`), 0, "root")
	require.NoError(t, err)
	require.Equal(t, "third", sub.Grant, "root does not free it of what bounds it")
}
