package e2e_test

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/config"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
)

// sending is a way to make a subscription whose events, or notices, are sent to a URL.
type sending struct {
	name    string
	line    string // of the request, with a place for a number
	body    string // with a place for the URL, and for more of the endpoint
	refused int    // the status of a request whose endpoint does not agree
}

// sendings is every mode and protocol that sends, for what is stored below /a.
func sendings() []sending {
	return []sending{
		{"push", "PUT /v1/subscriptions/push%d", `{"pattern":"/a/**","endpoint":{"url":"%s"%s}}`, http.StatusUnprocessableEntity},
		{"wake", "PUT /v1/subscriptions/wake%d", `{"mode":"wake","pattern":"/a/**","endpoint":{"url":"%s"%s}}`, http.StatusUnprocessableEntity},
		{"wake in the shape of S1", "PUT /streams/default/a/**?subscription=s1-%d", `{"webhook":"%s"%s}`, http.StatusUnprocessableEntity},
		{"__ds", "PUT /streams/default/__ds/subscriptions/ds%d", `{"type":"webhook","pattern":"a/**","webhook":{"url":"%s"%s}}`, http.StatusBadRequest},
	}
}

func (w sending) at(n int) string                 { return fmt.Sprintf(w.line, n) }
func (w sending) to(url, endpoint string) string  { return fmt.Sprintf(w.body, url, endpoint) }
func (w sending) asked(url string) (shook string) { return w.to(url, `,"handshake":true`) }

// Issue 13, attack 9: in every mode nothing is made, or sent, before the endpoint agrees.
func TestHandshake_EveryModeHasToAgree(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), func(c *config.Config) { c.HTTP.PublicURL = "https://events.example.com" })
	s.marked(t, "/a/old", "m") // so that the stream is there
	for i, w := range sendings() {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			no := agreeing(t, http.StatusMethodNotAllowed, "*", "")
			refused := s.must(t, w.refused, w.at(i), w.asked(no.URL))
			require.Contains(t, refused.field(t, "error.message"), "the response to OPTIONS was 405")
			require.Len(t, no.Requests(), 1)
			require.Equal(t, http.MethodOptions, no.Requests()[0].Method)

			yes := agreeing(t, http.StatusOK, "events.example.com", "90")
			made := s.must(t, http.StatusCreated, w.at(i), w.asked(yes.URL))
			require.Contains(t, made.text, `"rate_per_minute":90`)
			require.Equal(t, "events.example.com", yes.Wait(1)[0].Header.Get("WebHook-Request-Origin"))
			require.Contains(t, s.must(t, http.StatusOK, w.at(i), w.asked(yes.URL)).text, `"handshake":true`)
			require.Equal(t, 1, optionsOf(yes), "it has agreed")
			s.must(t, http.StatusConflict, w.at(i), w.to(yes.URL, ""))
			s.marked(t, "/a/"+strconv.Itoa(i), "m")
			eventually(t, func() bool { return len(yes.Requests()) > optionsOf(yes) }, "it is delivered")
			require.Len(t, no.Requests(), 1, "nothing was made for the other one")
		})
	}
}

// optionsOf returns how often an endpoint was asked whether it agrees. Events of other subtests arrive there as well.
func optionsOf(hook *hooktest.Server) (n int) {
	for _, r := range hook.Requests() {
		if r.Method == http.MethodOptions {
			n++
		}
	}
	return n
}

// Issue 13, attack 9: what a principal may have sent to one host is one sum over all modes, in any order, and over restarts;
// endpoints that agreed and workers that come by themselves do not count.
func TestCounts_OneHostOverAllModes(t *testing.T) {
	t.Parallel()
	dir, all := t.TempDir(), sendings()
	few := func(c *config.Config) {
		c.Limits.SubscriptionsPerHost, c.Limits.SubscriptionsPerPrincipal = 3, 6
		c.Durable.Anonymous = []string{"default"}
	}
	s := start(t, dir, few)
	const victim = "https://victim.example/hook"
	for i := range all {
		eve := s.grant(t, "user:eve"+strconv.Itoa(i), "path:default/**", "subscribe read publish")
		for n := range all {
			w := all[(i+n)%len(all)]
			answer := s.call(t, w.at(i), w.to(victim+"?"+strconv.Itoa(n), ""), as(eve.token)...)
			want := http.StatusCreated
			if n == 3 {
				want = http.StatusTooManyRequests
			}
			require.Equal(t, want, answer.status, "%s: %s", w.name, answer.text)
		}
	}
	s.stop(t)
	s = start(t, dir, few)
	eve := s.grant(t, "user:eve1", "path:default/**", "subscribe read publish") // who has one of __ds among the three
	for _, w := range all {
		require.Equal(t, http.StatusTooManyRequests, s.call(t, w.at(99), w.to(victim, ""), as(eve.token)...).status, w.name)
	}
	for i, w := range all[:2] {
		s.must(t, http.StatusCreated, w.at(50+i), w.asked(agreeing(t, http.StatusOK, "*", "*").URL), as(eve.token)...)
	}
	pull := `{"type":"pull-wake","pattern":"a/**","wake_stream":"a/wake"}`
	s.must(t, http.StatusCreated, "PUT /streams/default/__ds/subscriptions/pull", pull, as(eve.token)...)
	for _, w := range all {
		refused := s.call(t, w.at(98), w.to("https://other.example/hook", ""), as(eve.token)...)
		require.Equal(t, http.StatusTooManyRequests, refused.status, "%s: as many as a principal may", w.name)
	}
	s.must(t, http.StatusNoContent, "DELETE /streams/default/__ds/subscriptions/pull", "", as(eve.token)...)
	eventually(t, func() bool {
		return s.call(t, all[0].at(98), all[0].to("https://other.example/hook", ""), as(eve.token)...).status == http.StatusCreated
	}, "there is room again")
}

// Issue 13, attack 9: strangers in a namespace that is open to them have a principal's bounds, all together.
func TestCounts_BoundStrangers(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), func(c *config.Config) {
		c.Limits.SubscriptionsPerHost = 2
		c.Durable.Anonymous = []string{"default"}
	})
	const victim = "https://victim.example/hook"
	for n, w := range []sending{sendings()[2], sendings()[3], sendings()[2], sendings()[3]} {
		want := http.StatusCreated
		if n >= 2 {
			want = http.StatusTooManyRequests
		}
		answer := s.call(t, w.at(n), w.to(victim, ""), "Authorization", "")
		require.Equal(t, want, answer.status, "%s: %s", w.name, answer.text)
	}
}

// Issue 13, attack 9: a handshake is a request that the caller chose the receiver of, so it counts as a test does, whether the
// endpoint agrees or not, and in every mode.
func TestSends_CountHandshakes(t *testing.T) {
	t.Parallel()
	for _, w := range sendings() {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, t.TempDir(), func(c *config.Config) { c.Limits.SendsPerPrincipal = 3 })
			eve := s.grant(t, "user:eve", "path:default/**", "subscribe read publish")
			hook := agreeing(t, http.StatusForbidden, "", "")
			for n := range 6 {
				answer := s.call(t, w.at(n), w.asked(hook.URL), as(eve.token)...)
				want := w.refused
				if n >= 3 {
					want = http.StatusTooManyRequests
				}
				require.Equal(t, want, answer.status, answer.text)
			}
			require.Len(t, hook.Requests(), 3)
		})
	}
}

// Issue 13, attack 9: what arrives at a receiver, from all subscriptions of a principal in all modes, replays and tests, is at
// most what it allowed: a bucket of a fiftieth, refilled at the rest of the rate. The time is the receiver's own since before
// the first request could be sent, so a slow machine only makes the bound wider.
func TestHandshake_AllowedRateHoldsInSum(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	const perMinute, atOnce = 600, 12
	hook := agreeing(t, http.StatusOK, "*", strconv.Itoa(perMinute))
	for i, w := range sendings() {
		s.must(t, http.StatusCreated, w.at(i), w.asked(hook.URL))
	}
	const agreed = 4
	hook.Wait(agreed)
	begun := time.Now()
	for i := range 30 {
		s.marked(t, fmt.Sprintf("/a/%d", i), "m")
	}
	s.must(t, http.StatusAccepted, "POST /v1/subscriptions/push0/replay", `{"from":"-1"}`)
	for range 5 {
		s.call(t, "POST /v1/subscriptions/push0/test", "")
	}
	arrived := hook.Wait(agreed + 50)[agreed:]
	for i, r := range arrived {
		most := atOnce + float64(perMinute-atOnce+1)/60*r.At.Sub(begun).Seconds()
		require.LessOrEqual(t, float64(i+1), most, "after %s", r.At.Sub(begun))
	}
}
