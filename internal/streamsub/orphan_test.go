package streamsub_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/natsstore"
	"github.com/sluice-io/sluice/internal/streamsub"
	"github.com/sluice-io/sluice/pkg/sluice"
	"github.com/sluice-io/sluice/streams"
)

// A subscription that was stored while its namespace was deleted is removed, idle or in a wake that no worker claims; those of other
// namespaces stay.
func TestOrphan_IsRemovedWithoutAnEvent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := b.process(t, "one", true)
	p.subscribe(t, pull())
	all := records{natsstore.OpenBucket[streamsub.Subscription](b.store.Store, streams.StreamWakes)}
	waking := &streamsub.Wake{ID: "w", Trigger: "events/a", Snapshot: map[string]uint64{"events/a": 1}}
	for id, wake := range map[string]*streamsub.Wake{"idle": nil, "waking": waking} {
		s := streamsub.Subscription{Key: streamsub.Key{Namespace: "gone", ID: id}, Config: pull(), Incarnation: id, Principal: "user:a", Wake: wake}
		s.Config.Lease = time.Minute
		_, err := all.Put(t.Context(), s.String(), s, 0)
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			_, _, err := all.Get(t.Context(), s.String())
			return sluice.CodeOf(err) == sluice.NotFound
		}, patience, 10*time.Millisecond, id)
	}
	require.Equal(t, "s", p.stored(t).ID)
}
