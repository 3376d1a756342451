package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/natsd"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
)

// Idempotency-Key on every POST that creates. The first answer is given again, with the secrets in it, by any replica.
func TestIdempotencyKey_GivesTheFirstAnswerAgain(t *testing.T) {
	t.Parallel()
	shared := natstest.NewWith(t, natsd.Options{})
	outside := func(c *config.Config) { c.NATS.URL = shared.ClientURL() }
	one, other := start(t, t.TempDir(), outside), start(t, t.TempDir(), outside)
	key := func(token, key string) []string { return append(as(token), "Idempotency-Key", key) }
	grant := fmt.Sprintf(`{"principal":"user:ann","object":"scope:default","verbs":["read","publish"],"expires_at":%q}`, deadline.Format(time.RFC3339))
	first := one.must(t, http.StatusCreated, "POST /v1/grants", grant, key(one.token, "k1")...)
	require.Empty(t, first.header.Get("Idempotent-Replayed"))
	again := other.must(t, http.StatusCreated, "POST /v1/grants", grant, key(other.token, "k1")...)
	require.Equal(t, first.text, again.text, "the token, which is shown once, too")
	require.Equal(t, "true", again.header.Get("Idempotent-Replayed"))
	require.Equal(t, first.header.Get("Location"), again.header.Get("Location"))

	r := other.must(t, http.StatusUnprocessableEntity, "POST /v1/grants", strings.Replace(grant, "ann", "eve", 1), key(other.token, "k1")...)
	require.Contains(t, r.text, "another request")
	second := other.must(t, http.StatusCreated, "POST /v1/grants", grant, key(other.token, "k2")...)
	require.NotEqual(t, first.text, second.text)
	for _, bad := range []string{"", "a b", strings.Repeat("k", 256)} {
		one.must(t, http.StatusBadRequest, "POST /v1/grants", grant, key(one.token, bad)...)
	}

	const events = "POST /v1/namespaces/default/events"
	token, _ := first.field(t, "token").(string)
	stored := one.must(t, http.StatusCreated, events, `{"path":"/a"}`, key(token, "k1")...)
	require.Equal(t, stored.text, other.must(t, http.StatusCreated, events, `{"path":"/a"}`, key(token, "k1")...).text)
	require.NotEqual(t, stored.text, one.must(t, http.StatusCreated, events, `{"path":"/a"}`, key(one.token, "k1")...).text, "a key is its caller's")
	require.Len(t, one.logOf(t, "/a"), 2)

	one.must(t, http.StatusBadRequest, events, `{"path":"a"}`, key(token, "k3")...)
	one.must(t, http.StatusBadRequest, events, `{"path":"a"}`, key(token, "k3")...)
	one.must(t, http.StatusCreated, events, `{"path":"/b"}`, key(token, "k3")...)
	require.NotContains(t, everything(t, dial(t, shared.ClientURL())), token, "what is kept is sealed")
}

func TestIdempotencyKey_AtOnceIsServedOnce(t *testing.T) {
	t.Parallel()
	shared := natstest.NewWith(t, natsd.Options{})
	outside := func(c *config.Config) { c.NATS.URL = shared.ClientURL() }
	replicas := []*running{start(t, t.TempDir(), outside), start(t, t.TempDir(), outside)}
	var mu sync.Mutex
	var all sync.WaitGroup
	answers, statuses := map[string]int{}, map[int]int{}
	for i := range 16 {
		all.Go(func() {
			s := replicas[i%2]
			r := s.call(t, "POST /v1/namespaces/default/events", `{"path":"/once"}`, append(as(s.token), "Idempotency-Key", "k")...)
			mu.Lock()
			defer mu.Unlock()
			if statuses[r.status]++; r.status == http.StatusCreated {
				answers[r.text]++
			}
		})
	}
	all.Wait()
	require.Len(t, answers, 1, statuses)
	require.Equal(t, 16, statuses[http.StatusCreated]+statuses[http.StatusConflict], statuses)
	require.Len(t, replicas[0].logOf(t, "/once"), 1)
}
