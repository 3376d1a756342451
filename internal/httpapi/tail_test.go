package httpapi_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// Issue 18, item 3: attempts as they happen.
func TestAttempts_AreFollowedAsTheyHappen(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	id, other := b.subscription(t, hook), b.subscription(t, hook+"/other")
	record := func(sub, event string) {
		b.attempt(t, sluice.Attempt{Subscription: sub, EventID: event, Seq: 1, Path: "/p", Number: 1, StartedAt: time.Now(), Outcome: sluice.Failed, Status: 500, Response: "secret"})
	}
	const list = "GET /v1/namespaces/default/attempts"
	record(id, "before")
	now := b.must(t, http.StatusOK, list, "")
	require.Empty(t, now.list(t, "attempts"), "it begins now")
	after := func(a *answer) string {
		place, ok := a.body["next_after"].(string)
		require.True(t, ok)
		return "?after=" + place
	}

	record(other, "first")
	page := b.must(t, http.StatusOK, list+after(now)+"&wait=30s", "")
	require.Equal(t, []string{"first"}, names(page.list(t, "attempts"), "event_id"))
	require.NotContains(t, page.text, "secret", "endpoints' responses are for their owners")
	record(id, "second")
	record(other, "third")
	all := b.must(t, http.StatusOK, list+after(page), "")
	require.Equal(t, []string{"second", "third"}, names(all.list(t, "attempts"), "event_id"))
	require.Equal(t, []string{"second"}, names(b.must(t, http.StatusOK, list+after(page)+"&limit=1", "").list(t, "attempts"), "event_id"))
	require.Equal(t, []string{"third"}, names(b.must(t, http.StatusOK, list+after(page)+"&subscription="+other, "").list(t, "attempts"), "event_id"))
	none := b.must(t, http.StatusOK, list+after(all)+"&wait=1ms", "")
	require.Empty(t, none.list(t, "attempts"))
	require.Equal(t, after(all), after(none))
	lost := b.must(t, http.StatusOK, list+"?after=9999", "")
	require.Equal(t, after(all), after(lost), "of a log that was made again")

	b.must(t, http.StatusBadRequest, list+"?after=x", "")
	b.must(t, http.StatusBadRequest, list+"?wait=1h", "")
	b.must(t, http.StatusNotFound, list+"?subscription=none", "")
	b.must(t, http.StatusNotFound, "GET /v1/namespaces/none/attempts", "")
}

// Attempts of a former subscription with the same id are not its successor's, in any namespace.
func TestAttempts_OfAFormerSubscriptionAreHidden(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const list, body = "GET /v1/namespaces/default/attempts?after=0", `{"pattern":"/**","endpoint":{"url":"` + hook + `"}}`
	b.must(t, http.StatusCreated, "PUT /v1/subscriptions/again", body)
	b.attempt(t, sluice.Attempt{Subscription: "again", EventID: "e", Seq: 1, Path: "/p", Number: 1, StartedAt: time.Now(), Outcome: sluice.Failed})
	require.Len(t, b.must(t, http.StatusOK, list, "").list(t, "attempts"), 1)
	for _, namespace := range []string{"default", "other"} {
		if namespace != "default" {
			b.must(t, http.StatusCreated, "PUT /v1/namespaces/"+namespace, "{}")
		}
		b.must(t, http.StatusNoContent, "DELETE /v1/subscriptions/again", "")
		b.must(t, http.StatusCreated, "PUT /v1/subscriptions/again", `{"namespace":"`+namespace+`",`+body[1:])
		require.Empty(t, b.must(t, http.StatusOK, list, "").list(t, "attempts"), namespace)
	}
}

// Each request that follows attempts has a consumer: one caller cannot have any number of them.
func TestAttempts_FollowersAreBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx, end := context.WithCancel(t.Context())
	var following sync.WaitGroup
	defer following.Wait()
	defer end()
	const list = "/v1/namespaces/default/attempts?after=0"
	for range 16 {
		following.Go(func() {
			for ctx.Err() == nil { // refused while the request below has the last place
				b.follow(ctx, list+"&wait=30s")
			}
		})
	}
	var refused *answer
	require.Eventually(t, func() bool {
		refused = b.do(t, "GET "+list, "")
		return refused.status != http.StatusOK
	}, time.Minute, 10*time.Millisecond)
	require.Equal(t, http.StatusTooManyRequests, refused.status)
	require.Equal(t, "quota_exceeded", refused.code())
	end()
	require.Eventually(t, func() bool { return b.do(t, "GET "+list, "").status == http.StatusOK }, time.Minute, 10*time.Millisecond)
}

// follow sends a request that ends with its context, and ignores the response.
func (b *bench) follow(ctx context.Context, path string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.http.URL+path, http.NoBody)
	if err != nil {
		return
	}
	req.Header.Set("Authorization", "Bearer "+token)
	if resp, err := b.http.Client().Do(req); err == nil {
		_ = resp.Body.Close()
	}
}
