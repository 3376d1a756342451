package explain

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/filter"
	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// Issue 13, attack 4: a page of events whose filter is not evaluated in time is refused; it is not a page with less on it.
func TestEvents_RefusedWhenFilterIsOverItsRate(t *testing.T) {
	t.Parallel()
	m, err := filter.Compile(sluice.Filter{CEL: `event.data.l.map(x, event.data.l.map(y, x + y)).size() >= 0`})
	require.NoError(t, err)
	c := &choice{e: New(nil, nil, Options{}), sub: &sluice.Subscription{}, matches: m} // its time is over
	ev := &sluice.Event{Seq: 1, ContentType: "application/json", Data: []byte(`{"l":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15]}`)}
	require.True(t, c.wants(t.Context(), ev))
	require.Equal(t, sluice.QuotaExceeded, sluice.CodeOf(c.over))
	require.True(t, c.wants(t.Context(), &sluice.Event{Seq: 2}), "later events are not examined")
}

// trails is a history with one event.
type trails struct {
	History

	event *sluice.Event
}

func (h trails) Trail(context.Context, *sluice.Subscription, string) (model.Trail, error) {
	return model.Trail{EventID: h.event.ID, Seq: h.event.Seq, Path: h.event.Path, Event: h.event, Handed: 9, Settled: 9}, nil
}

// Issue 13, attack 3: why an event was not delivered is evaluated in the turns of who asks, and the asker pays for it.
func TestDelivery_ChargesTheCaller(t *testing.T) {
	t.Parallel()
	pool := filter.NewPool(filter.Rates{Principal: 1})
	ev := &sluice.Event{
		Seq: 1, Namespace: "n", Path: "/a", ContentType: "application/json", Stored: time.Now(),
		Data: []byte(`{"l":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15]}`),
	}
	e := New(trails{event: ev}, nil, Options{Filters: pool, Payer: func(*sluice.Subscription) string { return "user:owner" }})
	sub := &sluice.Subscription{Namespace: "n", Pattern: "/**", Lifecycle: sluice.Lifecycle{State: sluice.Active}}
	sub.Filter.CEL = `event.data.l.map(x, event.data.l.map(y, x + y)).size() < 0`
	got, err := e.Delivery(t.Context(), sub, "1", "user:asker")
	require.NoError(t, err)
	require.Equal(t, []any{NotWanted, reasonFilter}, []any{got.State, got.Reason})

	again := *sub
	again.Filter.CEL += " "                                                // another expression: what an equal one yields is known
	over, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond) // it owes minutes
	defer cancel()
	_, err = e.Delivery(over, &again, "1", "user:asker")
	require.Equal(t, sluice.QuotaExceeded, sluice.CodeOf(err), "the first is not paid for yet")
	got, err = e.Delivery(t.Context(), &again, "1", "user:other")
	require.NoError(t, err)
	require.Equal(t, NotWanted, got.State, "others have an account of their own")
}
