package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
)

// bulk is a batch of subscriptions to paths of their own.
func bulk(n int) string {
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprintf(`{"pattern":"/a/%d","endpoint":{"url":"http://127.0.0.1:9/"}}`, i)
	}
	return "[" + strings.Join(items, ",") + "]"
}

// The whole batch has one Idempotency-Key: its answer comes again, with the secrets. Each subscription is in the ledger.
func TestBulk_RepeatedBatchGetsTheFirstAnswer(t *testing.T) {
	t.Parallel()
	const n = 60
	var s *running
	var first reply
	for try := 0; ; try++ { // one that waits for NATS for ten seconds fails, and the others do not
		s = start(t, t.TempDir(), nil)
		first = s.must(t, http.StatusOK, "POST /v1/subscriptions/batch", bulk(n), "Idempotency-Key", "once")
		if try == 3 || !strings.Contains(first.text, `"unavailable"`) {
			break
		}
		s.stop(t)
	}
	require.InDelta(t, n, first.field(t, "created"), 0, first.text)
	again := s.must(t, http.StatusOK, "POST /v1/subscriptions/batch", bulk(n), "Idempotency-Key", "once")
	require.Equal(t, first.text, again.text)
	s.must(t, http.StatusUnprocessableEntity, "POST /v1/subscriptions/batch", bulk(n-1), "Idempotency-Key", "once")
	other := s.must(t, http.StatusOK, "POST /v1/subscriptions/batch", bulk(n))
	require.InDelta(t, n, other.field(t, "exists"), 0, other.text)
	require.NotContains(t, other.text, "whsec_")
	entries := s.must(t, http.StatusOK, "GET /v1/audit?action=subscription.create&limit=1000", "")
	require.Equal(t, n, strings.Count(entries.text, `"resource"`))
	require.NotContains(t, entries.text, "whsec_")
}

// Of a principal's batch as many are created as the limit allows, which a dry run says before.
func TestBulk_KeepsThePrincipalsLimit(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), func(c *config.Config) { c.Limits.SubscriptionsPerPrincipal = 5 })
	token := s.grant(t, "user:ann", "path:default/a/**", "subscribe").token
	body := strings.TrimSuffix(bulk(8), "]") + `,{"pattern":"/b","endpoint":{"url":"http://127.0.0.1:9/"}}]`
	for _, query := range []string{"?dry_run=true", "?dry_run=true", ""} {
		a := s.must(t, http.StatusOK, "POST /v1/subscriptions/batch"+query, body, as(token)...)
		require.InDelta(t, 5, a.field(t, "created"), 0, a.text)
		require.Equal(t, 3, strings.Count(a.text, `"code":"quota_exceeded"`), a.text)
		require.Equal(t, 1, strings.Count(a.text, `"code":"capability_required"`), a.text)
	}
	list := s.must(t, http.StatusOK, "GET /v1/subscriptions", "", as(token)...)
	require.Equal(t, 5, strings.Count(list.text, `"created_by":"user:ann"`))
}
