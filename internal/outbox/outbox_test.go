package outbox_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/outbox"
)

// S2-05, S2-111: what is told is what was written, and it is told afterwards.
func TestWriteThenPublish_AnnouncesTheWrittenState(t *testing.T) {
	t.Parallel()
	var did []string
	got, err := outbox.WriteThenPublish(t.Context(), func(context.Context) (int, error) {
		did = append(did, "write")
		return 7, nil
	}, func(_ context.Context, written int) {
		require.Equal(t, 7, written)
		did = append(did, "tell")
	})
	require.NoError(t, err)
	require.Equal(t, 7, got)
	require.Equal(t, []string{"write", "tell"}, did)
}

func TestWriteThenPublish_FailedWriteIsNotAnnounced(t *testing.T) {
	t.Parallel()
	failed := errors.New("another writer was faster")
	_, err := outbox.WriteThenPublish(t.Context(), func(context.Context) (int, error) { return 7, failed },
		func(context.Context, int) { require.Fail(t, "it is told") })
	require.ErrorIs(t, err, failed)
}
