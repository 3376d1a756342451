package e2e_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/natsd"
	"github.com/sluice-io/sluice/internal/testkit/faulttest"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Issue 13, F4: where an external NATS server has no room left, publishers and operators are told what to do about it, and all goes on
// without a restart once there is room.
func TestFullStore_ElsewhereIsToldAndHeals(t *testing.T) { // S4-17, S4-22
	t.Parallel()
	shared := natstest.NewWith(t, natsd.Options{MaxStore: 8 << 20})
	s := start(t, t.TempDir(), func(c *config.Config) { c.NATS.URL = shared.ClientURL() })
	hook := hooktest.New(t, nil)
	s.subscribe(t, "s", hook.URL)
	granted := s.grant(t, "user:ann", "scope:default", "read")
	large, taken := strings.Repeat("x", 200_000), 0
	var full reply
	for full.status == 0 {
		r := s.call(t, "POST /v1/namespaces/default/events", `{"path":"/a/1","type":"t","data":"`+large+`"}`)
		if r.status != http.StatusCreated {
			full = r
			continue
		}
		taken++
		require.Less(t, taken, 100)
	}
	notReady := func() string {
		r := s.call(t, "GET /readyz", "")
		return map[bool]string{true: r.text}[r.status == http.StatusServiceUnavailable]
	}
	eventually(t, func() bool { return strings.Contains(notReady(), "max_file_store") }, "the server is not ready, and says what to do")
	storage, err := s.api.Storage(t.Context())
	require.NoError(t, err)
	require.Equal(t, sluice.StorageBroken, storage.Level)
	require.NotEmpty(t, storage.Problem)
	revoke := "POST /v1/grants/" + granted.id + "/revoke"
	for _, route := range []string{"", "POST /v1/subscriptions/s/pause", revoke, "DELETE /v1/subscriptions/s"} {
		refused := full
		if route != "" {
			refused = s.must(t, http.StatusServiceUnavailable, route, "")
		}
		require.Equal(t, sluice.ReasonStorage, refused.field(t, "error.details.reason"), route)
		require.Contains(t, refused.field(t, "error.message"), "max_file_store", route)
	}

	stream, err := dial(t, shared.ClientURL()).Stream(t.Context(), jsNames(t).EventsStream("default"))
	require.NoError(t, err)
	require.NoError(t, stream.Purge(t.Context())) // of what is not delivered, too: attempts cannot be recorded, so few are made
	eventually(t, func() bool { return s.call(t, "GET /readyz", "").status == http.StatusOK }, "it is ready again")
	eventually(t, func() bool { return s.call(t, revoke, "").status == http.StatusOK }, "rights are taken again")
	eventually(t, func() bool {
		return s.call(t, "POST /v1/namespaces/default/events", `{"path":"/a/1","type":"t","data":"later"}`).status == http.StatusCreated
	}, "events are taken again")
	eventually(t, func() bool {
		return slices.ContainsFunc(hook.Requests(), func(r hooktest.Request) bool { return strings.Contains(string(r.Body), "later") })
	}, "and delivered")
	s.must(t, http.StatusOK, "POST /v1/subscriptions/s/pause", "")
	s.must(t, http.StatusNoContent, "DELETE /v1/subscriptions/s", "")
}

// Issue 13, F4: the limit of an account, or of the settings, has a reserve at a NATS server elsewhere, too.
func TestFullStore_ElsewhereIsAdministered(t *testing.T) { // S4-17, S4-22
	t.Parallel()
	const most = 32 << 20
	for name, tt := range map[string]func(t *testing.T) (url string, change func(*config.Config), login nats.Option){
		"account": func(t *testing.T) (string, func(*config.Config), nats.Option) {
			t.Helper()
			operator, limits := natstest.NewOperator(t), natstest.Unlimited()
			limits.DiskStorage = most
			creds := operator.Account(t, "SLUICE", limits).Creds(t)
			return natstest.Custom(t, operator.Trust), func(c *config.Config) { c.NATS.Credentials = creds }, nats.UserCredentials(creds)
		},
		"nats.max_store": func(t *testing.T) (string, func(*config.Config), nats.Option) {
			t.Helper()
			shared := natstest.NewWith(t, natsd.Options{MaxStore: 4 * most})
			return shared.ClientURL(), func(c *config.Config) { c.NATS.MaxStore = most }, asTester()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, change, login := tt(t)
			s := &fullStore{running: start(t, t.TempDir(), func(c *config.Config) { c.NATS.URL = url; change(c) })}
			s.js = dial(t, url, login)
			s.fillUp(t)
			storage := s.level(t, sluice.StorageTight)
			require.EqualValues(t, most, storage.LimitBytes)
			refused := s.must(t, http.StatusServiceUnavailable, "POST /v1/namespaces/default/events", `{"id":"more","path":"/a","data":{}}`)
			require.Equal(t, sluice.ReasonStorage, refused.field(t, "error.details.reason"))
			require.Contains(t, s.must(t, http.StatusOK, "GET /readyz", "").field(t, "problem"), "refuses events")
			s.goesOn(t, func() {})
			s.empties(t)
		})
	}
}

// Issue 13, F4: where a NATS server elsewhere is full and no limit is known, nothing that was taken is lost, and all is delivered
// without a restart once there is room.
func TestFullStore_ElsewhereLosesNothing(t *testing.T) { // S4-17, S4-22
	t.Parallel()
	shared := natstest.NewWith(t, natsd.Options{MaxStore: 16 << 20})
	s := start(t, t.TempDir(), func(c *config.Config) { c.NATS.URL = shared.ClientURL() })
	var open atomic.Bool
	got, sent := faulttest.NewArrivals(), map[string][]string{}
	hook := hooktest.New(t, func(r hooktest.Request) hooktest.Answer {
		if !open.Load() {
			return hooktest.Answer{Status: http.StatusServiceUnavailable}
		}
		id := r.Header.Get("Webhook-Id")
		got.Try("/a/1", id)
		got.Take(id)
		return hooktest.Answer{Status: http.StatusOK}
	})
	subscribe(t, s.api, fmt.Sprintf(`{"id":"s","namespace":"default","pattern":"/a/1","endpoint":{"url":%q},%s}`, hook.URL, patient))
	publish := func() int {
		id := fmt.Sprint("e", len(sent["/a/1"]))
		r := s.call(t, "POST /v1/namespaces/default/events", fmt.Sprintf(`{"id":%q,"path":"/a/1","type":"t","data":1}`, id))
		if r.status == http.StatusCreated {
			sent["/a/1"] = append(sent["/a/1"], id)
		}
		return r.status
	}
	for range 20 {
		require.Equal(t, http.StatusCreated, publish())
	}
	hook.Wait(1)
	watch := faulttest.Begin(t, "full-elsewhere")
	lift := others(t, dial(t, shared.ClientURL()), func(err error) bool { return err != nil })
	eventually(t, func() bool { return s.call(t, "GET /readyz", "").status == http.StatusServiceUnavailable }, "it is noticed")
	refused := s.must(t, http.StatusServiceUnavailable, "POST /v1/subscriptions/s/pause", "")
	require.Equal(t, sluice.ReasonStorage, refused.field(t, "error.details.reason"))
	open.Store(true)
	lift()
	watch.Recovered()
	eventually(t, func() bool { return got.Taken() > 0 }, "deliveries go on")
	watch.Resumed()
	eventually(t, func() bool { return publish() == http.StatusCreated }, "events are taken again")
	eventually(t, func() bool { return got.Taken() == len(sent["/a/1"]) }, "all are delivered")
	watch.End(got.Compare(sent), "pausing and publishing answer 503 with the remedy meanwhile; no restart")
}
