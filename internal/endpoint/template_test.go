package endpoint_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/endpoint"
	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/pkg/webhook"
)

// Issue 18, item 10.
func TestTemplate_BodyIsSignedAndAFailureIsNotSent(t *testing.T) {
	t.Parallel()
	hook := hooktest.New(t, nil)
	s := sender(t, endpoint.Options{AllowLoopback: true, MaxBody: 1 << 10, Render: new(filter.Templates).Render})
	sub := subscription(hook.URL)
	sub.Policy.Envelope, sub.Policy.Body = sluice.EnvelopeTemplate, &sluice.Body{CEL: `{"kind": event.type, "a": event.data.a}`}
	for range 2 {
		require.Equal(t, sluice.Delivered, s.Send(t.Context(), sub, event(), 1).Outcome)
	}
	for _, r := range hook.Wait(2) {
		require.JSONEq(t, `{"kind":"map.updated","a":1}`, string(r.Body))
		require.Equal(t, "application/json", r.Header.Get("Content-Type"))
		require.NoError(t, (&webhook.Receiver{Secrets: []string{newSecret}}).Verify(r.Header, r.Body))
	}
	ev := event()
	ev.Data = []byte(`{}`)
	a := s.Send(t.Context(), sub, ev, 1)
	require.Equal(t, sluice.Refused, a.Outcome, "it will never be sent, so it is not retried")
	require.Equal(t, "policy.body.cel: no such key: a", a.Error)
	require.Empty(t, a.Dead)
	sub.Policy.Body = &sluice.Body{CEL: `[event.data, event.data, event.data]`}
	ev.Data = append(append([]byte(`"`), make([]byte, 0, 600)...), '"')
	for range 500 {
		ev.Data = append(ev.Data[:len(ev.Data)-1], 'x', '"')
	}
	a = s.Send(t.Context(), sub, ev, 1)
	require.Equal(t, sluice.EventTooLarge, a.Dead)
	require.Len(t, hook.Requests(), 2)
}
