package explain

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/filter"
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
	require.True(t, c.wants(t.Context(), &sluice.Event{Seq: 2}), "nobody looks further")
}
