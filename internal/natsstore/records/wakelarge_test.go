package records_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/internal/wake"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// A consumer whose streams have names that do not fit into its record all together is told so, and goes on as it was.
func TestCallback_RefusesStreamsBeyondTheRecord(t *testing.T) { // S1-80, S1-85
	t.Parallel()
	store := storeOn(t, natstest.New(t))
	s := openSite(t, store, "n", sluice.Policy{}, 1)
	notices := s.notices(t, "")
	node, err := s.node(store, true, nil)
	require.NoError(t, err)
	defer node.stop()
	_, err = s.append("/a/1")
	require.NoError(t, err)
	n := <-notices
	call := func(unit string) error {
		var paths []string
		for i := range wake.MaxStreams - 1 {
			paths = append(paths, fmt.Sprintf("/%s/%04d", strings.Repeat(unit, 500/len(unit)), i))
		}
		body, err := json.Marshal(map[string]any{"epoch": n.Epoch, "wake_id": n.WakeID, "subscribe": paths})
		require.NoError(t, err)
		_, err = node.engine.Call(t.Context(), "n", n.ConsumerID, n.Token, body)
		return err
	}
	require.Equal(t, sluice.WakeInvalid, sluice.CodeOf(call("<")))
	require.Len(t, s.record("/a/1").Streams, 1)
	require.NoError(t, call("x"))
	require.Len(t, s.record("/a/1").Streams, wake.MaxStreams)
}
