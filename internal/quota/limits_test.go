package quota_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/quota"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func noon() time.Time { return time.Date(2025, 1, 2, 12, 0, 0, 0, time.UTC) }

// quotas returns the quotas of a server with one namespace, "acme".
func quotas(q sluice.Quota) *quota.Quotas {
	all := quota.NewQuotas()
	all.Set(sluice.Namespace{Name: "acme", Revision: 2, Quota: q})
	return all
}

func requireRefused(t *testing.T, err error, code sluice.Code, details map[string]any) {
	t.Helper()
	e, ok := errors.AsType[*sluice.Error](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, code, e.Code)
	require.Equal(t, details, e.Details, e.Message)
}

func TestBucket_AllowsItsBurstThenItsRate(t *testing.T) {
	t.Parallel()
	q := quotas(sluice.Quota{EventsPerSecond: 10, Burst: 30})
	now := noon()
	require.NoError(t, q.Take("acme", 25, 0, now))
	requireRefused(t, q.Take("acme", 6, 0, now), sluice.QuotaExceeded,
		map[string]any{"limit": 10.0, "unit": "events", "allowed": 5, "retry_after": 1})
	require.NoError(t, q.Take("acme", 5, 0, now), "what was refused was not paid for")
	requireRefused(t, q.Take("acme", 25, 0, now), sluice.QuotaExceeded,
		map[string]any{"limit": 10.0, "unit": "events", "allowed": 0, "retry_after": 3})
	require.NoError(t, q.Take("acme", 25, 0, now.Add(3*time.Second)), "the wait that was named was enough")
	now = now.Add(time.Hour)
	require.NoError(t, q.Take("acme", 30, 0, now))
	require.Error(t, q.Take("acme", 1, 0, now), "no more than the burst is saved up")
}

func TestBucket_BatchBeyondTheBurstNeverPasses(t *testing.T) {
	t.Parallel()
	q := quotas(sluice.Quota{EventsPerSecond: 10, Burst: 30, BytesPerSecond: 1000})
	requireRefused(t, q.Take("acme", 31, 0, noon()), sluice.TooLarge, map[string]any{"limit": 30, "unit": "events"})
	requireRefused(t, q.Take("acme", 1, 1001, noon()), sluice.TooLarge, map[string]any{"limit": 1000, "unit": "bytes"})
}

func TestBucket_CountsBytesAndEvents(t *testing.T) {
	t.Parallel()
	q := quotas(sluice.Quota{EventsPerSecond: 2, Burst: 2, BytesPerSecond: 1000})
	now := noon()
	require.NoError(t, q.Take("acme", 1, 900, now))
	requireRefused(t, q.Take("acme", 1, 300, now), sluice.QuotaExceeded,
		map[string]any{"limit": 1000.0, "unit": "bytes", "allowed": 100, "retry_after": 1})
	require.NoError(t, q.Take("acme", 1, 100, now), "the events of what was refused were not paid for either")
}

// A quota may bound one of the two alone.
func TestQuotas_BoundOneOfTwo(t *testing.T) {
	t.Parallel()
	q := quotas(sluice.Quota{BytesPerSecond: 100})
	require.NoError(t, q.Take("acme", 1000, 100, noon()))
	requireRefused(t, q.Take("acme", 1, 1, noon()), sluice.QuotaExceeded, map[string]any{"limit": 100.0, "unit": "bytes", "allowed": 0, "retry_after": 1})
	q = quotas(sluice.Quota{EventsPerSecond: 1, Burst: 2})
	require.NoError(t, q.Take("acme", 2, 1<<30, noon()))
	require.Error(t, q.Take("acme", 1, 0, noon()))
}

func TestQuota_AbsentOneRefusesNothing(t *testing.T) {
	t.Parallel()
	for _, q := range []*quota.Quotas{quotas(sluice.Quota{}), quotas(sluice.Quota{EventsPerSecond: -1, BytesPerSecond: -1}), quota.NewQuotas()} {
		for range 100 {
			require.NoError(t, q.Take("acme", 1000, 1<<20, noon()))
		}
	}
}

func TestQuota_ChangeHoldsAtOnce(t *testing.T) {
	t.Parallel()
	q := quotas(sluice.Quota{EventsPerSecond: 1, Burst: 1})
	now := noon()
	require.NoError(t, q.Take("acme", 1, 0, now))
	q.Set(sluice.Namespace{Name: "acme", Revision: 3, Quota: sluice.Quota{EventsPerSecond: 1, Burst: 1}})
	require.Error(t, q.Take("acme", 1, 0, now), "it is the same quota")
	q.Set(sluice.Namespace{Name: "acme", Revision: 4, Quota: sluice.Quota{EventsPerSecond: 1, Burst: 5}})
	q.Set(sluice.Namespace{Name: "acme", Revision: 3, Quota: sluice.Quota{EventsPerSecond: 1, Burst: 1}})
	require.NoError(t, q.Take("acme", 5, 0, now), "news that come late change nothing")
	q.Remove("acme")
	require.NoError(t, q.Take("acme", 1000, 0, now))
}

func sub(id, namespace string) *sluice.Subscription {
	return &sluice.Subscription{ID: id, Namespace: namespace, Lifecycle: sluice.Lifecycle{CreatedBy: string(sluice.Root)}}
}

func madeBy(id, grant, principal string) *sluice.Subscription {
	return &sluice.Subscription{ID: id, Namespace: "acme", Lifecycle: sluice.Lifecycle{Grant: grant, CreatedBy: principal}}
}

// Issue 13, attack 3: a principal has no more subscriptions than it may, with any names of parts of its grant; the
// operator's are not counted.
func TestCounts_BoundPrincipals(t *testing.T) {
	t.Parallel()
	c := quota.NewCounts(quota.Most{Principal: 2, Answers: func(who sluice.Caller, _ string) sluice.Principal {
		if strings.HasPrefix(who.Grant, "ann") {
			return "user:ann"
		}
		return who.Principal
	}})
	c.Set(madeBy("a", "ann", "user:ann"))
	c.Set(madeBy("b", "ann/part", "user:part"))
	c.Set(madeBy("b", "ann/part", "user:part")) // it changed
	c.CaughtUp()
	requireRefused(t, c.Enter(t.Context(), madeBy("c", "ann/other", "user:other")), sluice.QuotaExceeded,
		map[string]any{"limit": 2, "unit": "subscriptions", "allowed": 0})
	require.NoError(t, c.Enter(t.Context(), madeBy("a", "ann", "user:ann")), "it is there already")
	require.NoError(t, c.Enter(t.Context(), madeBy("d", "eve", "user:eve")))
	for i := range 10 {
		require.NoError(t, c.Enter(t.Context(), sub("root"+strconv.Itoa(i), "acme")))
	}
	require.NoError(t, c.Enter(t.Context(), madeBy("operator", "", "user:ann")), "no grant bounds it")
	c.Remove("b")
	require.NoError(t, c.Enter(t.Context(), madeBy("c", "ann/other", "user:other")))
	c.Leave("c")
	require.NoError(t, c.Enter(t.Context(), madeBy("e", "ann", "user:ann")), "c was not stored")
	require.Error(t, c.Enter(t.Context(), madeBy("f", "ann", "user:ann")))
}

// Issue 13, attack 9: a principal has no more subscriptions that send to one host than it may, unless the host agreed,
// however it writes the host, and after any change; this machine does not count, nor what the operator makes.
func TestCounts_BoundOneHost(t *testing.T) {
	t.Parallel()
	c := quota.NewCounts(quota.Most{Host: 2})
	c.CaughtUp()
	to := func(id, grant, url string) *sluice.Subscription {
		return &sluice.Subscription{ID: id, Namespace: "acme", Lifecycle: sluice.Lifecycle{Grant: grant, CreatedBy: "user:" + grant}, Endpoint: sluice.Endpoint{URL: url}}
	}
	enter := func(id, grant, url string) error { return c.Enter(t.Context(), to(id, grant, url)) }
	require.NoError(t, enter("a", "eve", "https://victim.example/1"))
	require.NoError(t, enter("b", "eve", "https://Victim.example.:444/2?x"))
	requireRefused(t, enter("c", "eve", "https://victim.example/3"), sluice.QuotaExceeded, map[string]any{"limit": 2, "unit": "subscriptions", "allowed": 0})
	require.NoError(t, enter("d", "ann", "https://victim.example/3"))
	require.NoError(t, enter("e", "eve", "https://other.example/"))
	require.Error(t, c.Move(to("e", "eve", "https://victim.example/4")), "it sends there now")
	require.NoError(t, c.Move(to("a", "eve", "https://victim.example/5")), "it did before")
	agreed := to("f", "eve", "https://victim.example/6")
	agreed.Endpoint.Handshake = true
	require.NoError(t, c.Enter(t.Context(), agreed))
	require.NoError(t, c.Move(to("a", "eve", "https://other.example/5")))
	require.NoError(t, enter("c", "eve", "https://victim.example/3"), "there is room again")
	require.NoError(t, enter("x", "eve", "http://192.0.2.7/1"))
	require.NoError(t, enter("y", "eve", "http://192.0.2.7/2"))
	require.Error(t, enter("z", "eve", "http://192.0.2.7/3"), "an address is a host")
	with := func(id, tokenURL string) *sluice.Subscription {
		sub := to(id, "bob", "https://own.example/"+id)
		sub.Endpoint.Handshake, sub.Endpoint.Auth = true, &sluice.EndpointAuth{TokenURL: tokenURL}
		return sub
	}
	require.NoError(t, c.Enter(t.Context(), with("t1", "https://login.example/1")))
	require.NoError(t, c.Enter(t.Context(), with("t2", "https://login.example/2")))
	require.Error(t, c.Enter(t.Context(), with("t3", "https://login.example/3")), "a token endpoint did not agree to anything")
	require.NoError(t, c.Move(with("t2", "https://login.example/4")))
	c.Remove("t1")
	require.NoError(t, c.Enter(t.Context(), with("t3", "https://login.example/3")))
	for i := range 5 {
		require.NoError(t, enter("here"+strconv.Itoa(i), "eve", "http://127.0.0.1/hook"))
		require.NoError(t, enter("name"+strconv.Itoa(i), "eve", "http://Localhost:8080/hook"))
		require.NoError(t, enter("no url"+strconv.Itoa(i), "eve", "http://[::1"), "who reads it refuses it")
		require.NoError(t, enter("root"+strconv.Itoa(i), "", "https://victim.example/"))
	}
}

// Without a bound for hosts there can be any number of them.
func TestCounts_WithoutABoundForHosts(t *testing.T) {
	t.Parallel()
	c := quota.NewCounts(quota.Most{})
	c.CaughtUp()
	one := madeBy("a", "eve", "user:eve")
	one.Endpoint.URL = "https://victim.example/"
	require.NoError(t, c.Enter(t.Context(), one))
}

func TestCounts_RefusesOneSubscriptionTooMany(t *testing.T) {
	t.Parallel()
	c := quota.NewCounts(quota.Most{Namespace: 2})
	c.Set(sub("a", "acme"))
	c.Set(sub("x", "other"))
	c.CaughtUp()
	require.NoError(t, c.Enter(t.Context(), sub("b", "acme")))
	requireRefused(t, c.Enter(t.Context(), sub("c", "acme")), sluice.QuotaExceeded, map[string]any{"limit": 2, "unit": "subscriptions", "allowed": 0})
	require.NoError(t, c.Enter(t.Context(), sub("a", "acme")), "it is there already")
	c.Leave("b")
	require.NoError(t, c.Enter(t.Context(), sub("c", "acme")), "b was not stored")
	c.Set(sub("c", "acme"))
	c.Leave("c")
	require.Error(t, c.Enter(t.Context(), sub("d", "acme")), "c was stored, though its creator got an error")
	c.Remove("a")
	c.Remove("a")
	require.NoError(t, c.Enter(t.Context(), sub("d", "acme")))
}

func TestCounts_ConcurrentCallersStayWithinTheLimit(t *testing.T) {
	t.Parallel()
	c := quota.NewCounts(quota.Most{Namespace: 10})
	c.CaughtUp()
	var let atomic.Int32
	var creators sync.WaitGroup
	for i := range 100 {
		creators.Go(func() {
			if c.Enter(t.Context(), sub(strconv.Itoa(i), "acme")) == nil {
				let.Add(1)
			}
		})
	}
	creators.Wait()
	require.Equal(t, int32(10), let.Load())
}

func TestCounts_RefusesBeforeItIsComplete(t *testing.T) {
	t.Parallel()
	c := quota.NewCounts(quota.Most{Namespace: 1})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, c.Enter(ctx, sub("a", "acme")), context.Canceled)
	refused := make(chan error, 1)
	go func() { refused <- c.Enter(t.Context(), sub("b", "acme")) }()
	c.Set(sub("a", "acme"))
	c.CaughtUp()
	c.CaughtUp()
	require.Equal(t, sluice.QuotaExceeded, sluice.CodeOf(<-refused))
}

// A trial counts what it would enter, for every limit, and keeps nothing from others.
func TestCounts_TrialKeepsNothingFromOthers(t *testing.T) {
	t.Parallel()
	c := quota.NewCounts(quota.Most{Namespace: 4, Principal: 3, Host: 2})
	c.Set(sub("stored", "acme"))
	c.CaughtUp()
	sent := func(id, host string) *sluice.Subscription {
		one := madeBy(id, "ann", "user:ann")
		one.Endpoint.URL = "https://" + host + "/hook"
		return one
	}
	try := c.Trial()
	require.NoError(t, try(t.Context(), sub("stored", "acme")), "it is there already")
	require.NoError(t, try(t.Context(), sent("a", "one.example")))
	require.NoError(t, try(t.Context(), sent("a", "one.example")), "it is tried already")
	require.NoError(t, try(t.Context(), sent("b", "one.example")))
	require.ErrorContains(t, try(t.Context(), sent("c", "one.example")), "send to this host")
	require.NoError(t, try(t.Context(), sent("c", "two.example")))
	requireRefused(t, try(t.Context(), sub("d", "acme")), sluice.QuotaExceeded, map[string]any{"limit": 4, "unit": "subscriptions", "allowed": 0})
	elsewhere := sent("e", "three.example")
	elsewhere.Namespace = "other"
	requireRefused(t, try(t.Context(), elsewhere), sluice.QuotaExceeded, map[string]any{"limit": 3, "unit": "subscriptions", "allowed": 0})
	for _, id := range []string{"f", "g", "h"} {
		require.NoError(t, c.Enter(t.Context(), sub(id, "acme")))
	}
	require.Error(t, c.Enter(t.Context(), sub("i", "acme")))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, quota.NewCounts(quota.Most{}).Trial()(ended, sub("a", "acme")), context.Canceled)
}
