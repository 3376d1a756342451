package e2e_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/pkg/client"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/pkg/webhook"
)

// S0-39, S0-46, S4-20, S4-47, S4-52, S4-55, C01, C02, C06: any status but 2xx is tried again, under
// the same id, by the timetable, and never again after a 2xx.
func TestAttempt_FailedOneIsRetried(t *testing.T) {
	t.Parallel()
	api, _ := serve(t, nil)
	codes := []int{http.StatusInternalServerError, http.StatusNotFound, http.StatusBadGateway, http.StatusNoContent}
	hook := hooktest.New(t, func(r hooktest.Request) hooktest.Answer {
		if idOf(r) != "a-1" {
			return hooktest.Answer{}
		}
		return hooktest.Answer{Status: codes[r.Number-1], Body: "sorry"}
	})
	sub := subscribe(t, api, wish(hook.URL, `"policy":{"retry":{"preset":"custom","steps":["100ms","200ms"],"max_attempts":4}}`))
	put(t, api, "/a", 1, 1)
	hook.Wait(4)
	st := statusOf(t, api, sub.ID, idle)
	require.Zero(t, st.DeadLetters)
	put(t, api, "/a", 2, 2)
	requests := hook.Wait(5)
	require.Equal(t, []string{"a-1", "a-1", "a-1", "a-1", "a-2"}, idsOf(requests))
	for i, wait := range []int64{100, 200, 200} {
		require.GreaterOrEqual(t, requests[i+1].At.Sub(requests[i].At).Milliseconds(), wait)
		require.Equal(t, strconv.Itoa(i+2), requests[i+1].Header.Get(webhook.HeaderAttempt))
		require.Equal(t, string(requests[0].Body), string(requests[i+1].Body))
	}
	d, err := api.Delivery(t.Context(), sub.ID, "a-1")
	require.NoError(t, err)
	require.Equal(t, "delivered", d.State)
	require.Len(t, d.Attempts, 4)
	for i, a := range d.Attempts {
		require.Equal(t, codes[i], a.Status)
		require.Equal(t, i+1, a.Number)
		require.Len(t, a.PayloadHash, 64)
	}
	require.Equal(t, "sorry", d.Attempts[0].Response)
}

// S0-44, S4-52, S4-53, S4-84…87, C07: when no attempt is left the delivery becomes a dead letter
// and its lane goes on.
func TestAttempt_ExhaustedDeliveryIsADeadLetter(t *testing.T) {
	t.Parallel()
	api, at := serve(t, nil)
	hook := hooktest.New(t, status(http.StatusTeapot, func(r hooktest.Request) bool { return idOf(r) == "a-1" }))
	sub := subscribe(t, api, wish(hook.URL, `"id":"dying"`, `"policy":{"retry":{"preset":"custom","steps":["100ms"],"max_attempts":3}}`))
	put(t, api, "/a", 1, 2)
	require.Equal(t, []string{"a-1", "a-1", "a-1", "a-2"}, idsOf(hook.Wait(4)))
	statusOf(t, api, sub.ID, func(st sluice.Status) bool { return idle(st) && st.DeadLetters == 1 })
	page, err := api.Deliveries(t.Context(), sub.ID, client.DeliveriesQuery{State: "dead"})
	require.NoError(t, err)
	require.Len(t, page.Items, 1)
	require.Equal(t, []any{"a-1", sluice.Exhausted, 3, http.StatusTeapot},
		[]any{page.Items[0].EventID, page.Items[0].Reason, page.Items[0].AttemptCount, page.Items[0].LastStatus})

	stream, err := dial(t, at.NATS).Stream(t.Context(), jsNames(t).DeadLetters())
	require.NoError(t, err)
	msg, err := stream.GetLastMsgForSubject(t.Context(), jsNames(t).DeadLettersSubject("default", "dying"))
	require.NoError(t, err)
	var letter sluice.DeadLetter
	require.NoError(t, json.Unmarshal(msg.Data, &letter))
	require.Equal(t, []any{"a-1", 3, sluice.Exhausted, "status 418"}, []any{letter.EventID, letter.Attempts, letter.Reason, letter.LastError})
	require.WithinDuration(t, time.Now(), letter.At, patience)
	require.JSONEq(t, `{"n":1}`, string(letter.Event.Data))
}

// S0-49, S0-77, C06: an endpoint that is gone ends its subscription for good.
func TestEndpoint_GoneCancelsTheSubscription(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir(), nil)
	hook := hooktest.New(t, func(hooktest.Request) hooktest.Answer { return hooktest.Answer{Status: http.StatusGone} })
	sub := subscribe(t, s.api, wish(hook.URL, `"id":"gone"`))
	put(t, s.api, "/a", 1, 3)
	hook.Wait(1)
	eventually(t, func() bool {
		var err error
		sub, err = s.api.Subscription(t.Context(), sub.ID)
		return err == nil && sub.State == sluice.Cancelled
	}, "it is cancelled")
	require.Equal(t, "endpoint_gone", sub.Reason)
	require.NotNil(t, sub.CancelledAt)
	require.False(t, sub.Enabled)
	require.Equal(t, []string{"root subscription.create gone done", "system subscription.cancel gone done"},
		actions(s.entries(t, client.AuditQuery{Resource: "gone"})))
	eventually(t, func() bool {
		d, err := s.api.Delivery(t.Context(), sub.ID, "a-1")
		return err == nil && d.State == "dead" && d.Reason == sluice.EndpointGone
	}, "its attempt is recorded")
	status, err := s.api.Status(t.Context(), sub.ID)
	require.NoError(t, err)
	require.Equal(t, uint64(1), status.DeadLetters)
	js := dial(t, s.at.NATS)
	s.served(t, "gone", nil)
	eventually(t, func() bool {
		_, err := js.Consumer(t.Context(), jsNames(t).EventsStream("default"), "gone")
		return errors.Is(err, jetstream.ErrConsumerNotFound)
	}, "its consumer is removed")
	put(t, s.api, "/a", 4, 4)
	_, err = s.api.ResumeSubscription(t.Context(), sub.ID)
	require.Equal(t, sluice.Conflict, sluice.CodeOf(err))
	require.Equal(t, []string{"a-1"}, idsOf(hook.Requests()), "nothing follows")
	page, err := s.api.Subscriptions(t.Context(), client.SubscriptionsQuery{State: sluice.Cancelled})
	require.NoError(t, err)
	require.Len(t, page.Items, 1)
}

// C06: a redirect is a failure, and is not followed.
func TestRedirect_IsNotFollowed(t *testing.T) {
	t.Parallel()
	api, _ := serve(t, nil)
	elsewhere := hooktest.New(t, nil)
	hook := hooktest.New(t, func(r hooktest.Request) hooktest.Answer {
		if r.Number < 3 {
			return hooktest.Answer{Status: []int{0, http.StatusFound, http.StatusTemporaryRedirect}[r.Number], Header: map[string]string{"Location": elsewhere.URL + "/secret?x=1"}}
		}
		return hooktest.Answer{}
	})
	sub := subscribe(t, api, wish(hook.URL, quick))
	put(t, api, "/a", 1, 1)
	hook.Wait(3)
	statusOf(t, api, sub.ID, idle)
	d, err := api.Delivery(t.Context(), sub.ID, "a-1")
	require.NoError(t, err)
	require.Len(t, d.Attempts, 3)
	require.Equal(t, "redirect to "+elsewhere.URL+"/secret not followed", d.Attempts[0].Error)
	require.Empty(t, elsewhere.Requests())
}

// C02: an endpoint may ask for more time.
func TestRetryAfter_RaisesTheWait(t *testing.T) {
	t.Parallel()
	api, _ := serve(t, nil)
	hook := hooktest.New(t, func(r hooktest.Request) hooktest.Answer {
		if r.Number == 1 {
			return hooktest.Answer{Status: http.StatusServiceUnavailable, Header: map[string]string{"Retry-After": "1"}}
		}
		return hooktest.Answer{}
	})
	subscribe(t, api, wish(hook.URL, `"policy":{"retry":{"preset":"custom","steps":["100ms","5s"]}}`))
	put(t, api, "/a", 1, 1)
	requests := hook.Wait(2)
	require.GreaterOrEqual(t, requests[1].At.Sub(requests[0].At), time.Second)
}

// S0-47, S0-48, S4-50, C03: an endpoint that does not answer in time has failed, and so has one that
// is not there.
func TestAttempt_TimeoutIsAFailure(t *testing.T) {
	t.Parallel()
	api, _ := serve(t, nil)
	hook := hooktest.New(t, func(r hooktest.Request) hooktest.Answer {
		return hooktest.Answer{Hang: r.Number == 1, Cut: r.Number == 2}
	})
	sub := subscribe(t, api, wish(hook.URL, `"policy":{"timeout":"10s","retry":{"preset":"custom","steps":["100ms"],"max_attempts":5}}`))
	put(t, api, "/a", 1, 1)
	hook.Wait(3)
	statusOf(t, api, sub.ID, idle)
	d, err := api.Delivery(t.Context(), sub.ID, "a-1")
	require.NoError(t, err)
	require.Len(t, d.Attempts, 3)
	require.Equal(t, "timeout after 10s", d.Attempts[0].Error)
	require.Equal(t, sluice.Failed, d.Attempts[1].Outcome)
	require.Equal(t, "delivered", d.State)
}

// An endpoint that only fails is left alone until an operator resumes it.
func TestDisableAfter_DisablesOnContinuousFailure(t *testing.T) {
	t.Parallel()
	api, _ := serve(t, nil)
	board := refusing("a-1")
	hook := hooktest.New(t, status(http.StatusInternalServerError, board.refuses))
	sub := subscribe(t, api, wish(hook.URL, strings.Replace(quick, `{"retry"`, `{"disable_after":"150ms","retry"`, 1)))
	put(t, api, "/a", 1, 2)
	st := statusOf(t, api, sub.ID, func(st sluice.Status) bool { return st.State == sluice.Disabled })
	require.Contains(t, st.Reason, "every attempt has failed since")
	board.accept()
	sub, err := api.ResumeSubscription(t.Context(), sub.ID)
	require.NoError(t, err)
	require.Equal(t, sluice.Active, sub.State)
	require.Empty(t, sub.Reason)
	statusOf(t, api, sub.ID, idle)
	ids := idsOf(hook.Requests())
	require.Equal(t, []string{"a-1", "a-2"}, ids[len(ids)-2:])
}
