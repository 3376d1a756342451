package streamsub_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/streamsub"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// However long the names of streams are and however many there are, what is told of them at once can be acknowledged at
// once, and all are told of: a record has no room for as many as these.
func TestStream_LongNamesAreAllAcknowledged(t *testing.T) {
	t.Parallel()
	const count = 320
	b := newBench(t)
	for i := range count {
		b.publish(t, sluice.Path(fmt.Sprintf("/events/%s%04d", strings.Repeat("<", 490), i)))
	}
	b.publish(t, "/other")
	p := b.process(t, "one", true)
	p.subscribe(t, webhook())
	for i := range count {
		b.publish(t, sluice.Path(fmt.Sprintf("/events/%s%04d", strings.Repeat("<", 490), i)))
	}
	told := map[string]bool{}
	for n := 1; len(told) < count; n++ {
		require.Less(t, n, 100)
		one := b.wait(t, n)[n-1]
		for _, s := range one.Streams {
			if s.Pending {
				told[s.Path] = true
			}
		}
		call := done(one)
		call.Done = false
		_, err := p.Call(context.Background(), key, call)
		require.NoError(t, err)
		_, err = p.Call(context.Background(), key, done(one))
		require.NoError(t, err)
	}
	var long []string
	for i := range 1000 {
		long = append(long, fmt.Sprintf("%s%04d", strings.Repeat("<", 490), i))
	}
	require.Equal(t, streamsub.InvalidRequest, code(p.Link(t.Context(), key, long)))
}
