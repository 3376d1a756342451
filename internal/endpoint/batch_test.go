package endpoint_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"

	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/endpoint"
	"github.com/sluice-io/sluice/internal/testkit/hooktest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// batchOf returns an attempt of several events, and the request that it made.
func batchOf(t *testing.T, opts endpoint.Options, events ...*sluice.Event) (sluice.Attempt, hooktest.Request) {
	t.Helper()
	server := hooktest.New(t, nil)
	sub := subscription(server.URL)
	sub.Policy.Batch.Max = 10
	opts.AllowLoopback = true
	a := sender(t, opts).Send(t.Context(), sub, events[0], 1, events[1:]...)
	require.Equal(t, sluice.Delivered, a.Outcome, a.Error)
	return a, server.Wait(1)[0]
}

func numbered(id string, seq uint64) *sluice.Event {
	ev := event()
	ev.ID, ev.Seq = id, seq
	return ev
}

// Issue 18, item 10: the batch format of CloudEvents, and one signature over the whole.
func TestBatch_IsReadByOtherLibraries(t *testing.T) {
	t.Parallel()
	bytesOnly := numbered("b", 14)
	bytesOnly.ContentType, bytesOnly.Data = "image/png", []byte("\x00\xff")
	a, r := batchOf(t, endpoint.Options{}, numbered("a", 12), bytesOnly, numbered("c", 17))
	require.Equal(t, []sluice.EventRef{
		{EventID: "a", Seq: 12, Path: "/maps/7", Type: "map.updated"}, {EventID: "b", Seq: 14, Path: "/maps/7", Type: "map.updated"}, {EventID: "c", Seq: 17, Path: "/maps/7", Type: "map.updated"},
	}, a.Batch)

	hook, err := standardwebhooks.NewWebhook(newSecret)
	require.NoError(t, err)
	require.NoError(t, hook.Verify(r.Body, r.Header))
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader(r.Body))
	req.Header = r.Header
	got, err := cehttp.NewEventsFromHTTPRequest(req)
	require.NoError(t, err)
	require.Len(t, got, 3)
	for i, id := range []string{"a", "b", "c"} {
		require.NoError(t, got[i].Validate())
		require.Equal(t, id, got[i].ID())
		require.Equal(t, "/maps/7", got[i].Extensions()["path"])
	}
	require.JSONEq(t, string(event().Data), string(got[0].Data()))
	require.Equal(t, bytesOnly.Data, got[1].Data())
	require.Equal(t, "00000000000000000017", got[2].Extensions()["sequence"])
}

func TestBatch_OfOneEventIsAnArrayWithItsID(t *testing.T) {
	t.Parallel()
	a, r := batchOf(t, endpoint.Options{}, event())
	require.Empty(t, a.Batch)
	require.Equal(t, "evt-1", r.Header.Get("webhook-id"))
	require.Equal(t, "["+string(event().AppendJSON(nil))+"]", string(r.Body))
	require.Equal(t, "application/cloudevents-batch+json; charset=utf-8", r.Header.Get("Content-Type"))
}

// A receiver recognises a batch that is sent again.
func TestBatch_SameEventsHaveTheSameID(t *testing.T) {
	t.Parallel()
	id := func(events ...*sluice.Event) string {
		_, r := batchOf(t, endpoint.Options{}, events...)
		return r.Header.Get("webhook-id")
	}
	first := id(numbered("a", 1), numbered("b", 2))
	require.Regexp(t, "^batch_[0-9a-f]{32}$", first)
	require.Equal(t, first, id(numbered("a", 1), numbered("b", 2)))
	require.NotEqual(t, first, id(numbered("a", 1), numbered("b", 2), numbered("c", 3)))
	require.NotEqual(t, first, id(numbered("a\x00b", 1), numbered("", 2)))
}

func TestBatch_HasTheEventsThatFit(t *testing.T) {
	t.Parallel()
	one := int64(len(event().AppendJSON(nil)))
	a, r := batchOf(t, endpoint.Options{MaxBody: 2*one + 10}, numbered("evt-1", 12), numbered("evt-2", 12), numbered("evt-3", 12))
	require.Len(t, a.Batch, 2)
	require.LessOrEqual(t, int64(len(r.Body)), 2*one+10)

	server := hooktest.New(t, nil)
	sub := subscription(server.URL)
	sub.Policy.Batch.Max = 10
	a = sender(t, endpoint.Options{AllowLoopback: true, MaxBody: one}).Send(t.Context(), sub, event(), 1, event())
	require.Equal(t, sluice.EventTooLarge, a.Dead, "with the brackets it is too long")
	require.Empty(t, server.Requests())
}
