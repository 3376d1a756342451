package streams_test

import (
	"crypto/rand"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/streams"
)

// S3-40: a log from before this release has an incarnation, too, the same whenever it is asked for.
func TestIncarnation_OfAnOlderLogIsDerived(t *testing.T) {
	t.Parallel()
	made := time.Date(2026, 3, 1, 12, 0, 0, 5, time.UTC)
	old := streams.Incarnation("EVENTS_a", made, nil)
	require.Len(t, old, len(rand.Text()))
	require.Equal(t, old, streams.Incarnation("EVENTS_a", made.In(time.FixedZone("", 3600)), map[string]string{"other": "1"}))
	require.NotEqual(t, old, streams.Incarnation("EVENTS_a", made.Add(1), nil), "made again")
	require.NotEqual(t, old, streams.Incarnation("EVENTS_b", made, nil))
}

// S3-40: a restored log keeps the rest of its metadata, and names the log of the backup.
func TestWithIncarnation_ReplacesOnlyTheIncarnation(t *testing.T) {
	t.Parallel()
	first := map[string]string{"other": "1"}
	second := streams.WithIncarnation(first, "")
	third := streams.WithIncarnation(second, streams.GivenIncarnation(second))
	fourth := streams.WithIncarnation(third, "")
	require.Equal(t, map[string]string{"other": "1"}, first)
	require.Equal(t, "1", third["other"])
	require.Empty(t, streams.FormerIncarnation(second))
	require.Equal(t, streams.GivenIncarnation(second), streams.FormerIncarnation(third))
	require.Empty(t, streams.FormerIncarnation(fourth))
	made := time.Now()
	ids := map[string]bool{}
	for _, metadata := range []map[string]string{first, second, third, fourth} {
		ids[streams.Incarnation("EVENTS_a", made, metadata)] = true
	}
	require.Len(t, ids, 4)
}
