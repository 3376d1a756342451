package e2e_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/datadir"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestQuota_OfTheConfigurationIsTheDefault(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), func(c *config.Config) { c.Events.Quota = config.Quota{EventsPerSecond: 0.01, Burst: 2} })
	for _, ns := range []string{"default", "acme"} {
		if ns == "acme" {
			_, err := s.api.PutNamespace(t.Context(), ns, client.NamespaceSpec{})
			require.NoError(t, err)
		}
		line := "POST /v1/namespaces/" + ns + "/events"
		eventually(t, func() bool { return s.call(t, line, `{"path":"/a"}`).status == http.StatusTooManyRequests }, "there is a bound")
		refused := s.must(t, http.StatusTooManyRequests, line, `{"path":"/a"}`)
		require.NotEmpty(t, refused.header.Get("Retry-After"))
		require.Equal(t, "quota_exceeded", refused.field(t, "error.code"))
	}
	_, err := s.api.PutNamespace(t.Context(), "acme", client.NamespaceSpec{Quota: sluice.Quota{EventsPerSecond: -1}})
	require.NoError(t, err)
	for range 10 {
		s.must(t, http.StatusCreated, "POST /v1/namespaces/acme/events", `{"path":"/a"}`)
	}
	s.must(t, http.StatusTooManyRequests, "POST /v1/namespaces/default/events", `{"path":"/a"}`)
}

// Two servers on one NATS: what one is told, the other knows.
func TestQuota_ChangeHoldsOnEveryServer(t *testing.T) {
	t.Parallel()
	one := start(t, t.TempDir(), nil)
	other := start(t, t.TempDir(), func(c *config.Config) {
		c.NATS.User, c.NATS.Password = tester.Name, testerPassword
		c.NATS.URL, c.Secrets.KeyFile = one.at.NATS, filepath.Join(one.dir, datadir.SecretsKeyFile)
	})
	_, err := one.api.PutNamespace(t.Context(), "acme", client.NamespaceSpec{Quota: sluice.Quota{EventsPerSecond: 0.01, Burst: 5}})
	require.NoError(t, err)
	eventually(t, func() bool {
		return other.call(t, "POST /v1/namespaces/acme/events", `{"path":"/a"}`).status == http.StatusTooManyRequests
	}, "the other refuses")
}

func TestQuota_BoundsTheNumberOfSubscriptions(t *testing.T) {
	t.Parallel()
	dir, hook := t.TempDir(), hooktest.New(t, nil)
	few := func(c *config.Config) { c.Limits.SubscriptionsPerNamespace = 2 }
	s := start(t, dir, few)
	for i := range 2 {
		s.must(t, http.StatusCreated, fmt.Sprintf("PUT /v1/subscriptions/s%d", i), wish(hook.URL, fmt.Sprintf(`"description":"%d"`, i)))
	}
	s.stop(t)
	s = start(t, dir, few)
	s.must(t, http.StatusOK, "PUT /v1/subscriptions/s1", wish(hook.URL, `"description":"1"`))
	refused := s.must(t, http.StatusTooManyRequests, "PUT /v1/subscriptions/s2", wish(hook.URL))
	require.Equal(t, "quota_exceeded", refused.field(t, "error.code"))
	s.must(t, http.StatusNoContent, "DELETE /v1/subscriptions/s0", "")
	eventually(t, func() bool { return s.call(t, "PUT /v1/subscriptions/s2", wish(hook.URL)).status == http.StatusCreated }, "there is room again")
}

// An event that cannot be sent is a dead letter with that reason, and what follows it arrives.
func TestLimit_OversizedEventIsADeadLetter(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), func(c *config.Config) { c.Webhooks.MaxBody = 2000 })
	hook := hooktest.New(t, nil)
	sub := subscribe(t, s.api, wish(hook.URL, `"id":"narrow"`))
	_, err := s.api.Publish(t.Context(), "default", sluice.Event{Path: "/a", ID: "large", Type: "t", Data: []byte(`"` + strings.Repeat("x", 3000) + `"`)})
	require.NoError(t, err)
	put(t, s.api, "/a", 1, 1)
	statusOf(t, s.api, sub.ID, func(st sluice.Status) bool { return idle(st) && st.DeadLetters == 1 })
	require.Equal(t, numbers("a", 1), idsOf(hook.Requests()))
	delivery := s.must(t, http.StatusOK, "GET /v1/subscriptions/narrow/deliveries/large", "")
	require.Contains(t, delivery.text, `"dead":"too_large"`)
	require.Contains(t, delivery.text, "webhooks.max_body, 2000 bytes")
}

// A full disk is told to who publishes, and seen by who operates.
func TestFullStore_IsReported(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), func(c *config.Config) { c.NATS.MaxStore = 2 << 20 })
	body := `{"path":"/a","data":"` + strings.Repeat("x", 200_000) + `"}`
	var last reply
	eventually(t, func() bool {
		last = s.call(t, "POST /v1/namespaces/default/events", body)
		return last.status != http.StatusCreated
	}, "it is full")
	require.Equal(t, http.StatusServiceUnavailable, last.status)
	require.Equal(t, "30", last.header.Get("Retry-After"))
	require.Contains(t, last.text, "nats.max_store")
	storage, err := s.api.Storage(t.Context())
	require.NoError(t, err)
	require.Equal(t, uint64(2<<20), storage.LimitBytes)
	require.Greater(t, storage.UsedBytes, storage.LimitBytes*8/10)
	eventually(t, func() bool {
		return strings.Contains(s.must(t, http.StatusOK, "GET /metrics", "").text, "sluice_storage_limit_bytes 2.097152e+06\n")
	}, "the gauge")
}
