package natsstore_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/internal/testkit/natstest"
	"github.com/sluice-io/sluice/pkg/sluice"
)

// A saved response needs its key until it expires: the key counts as used, and without it a repeated
// request is not executed again.
func TestSeal_SavedResponsesNeedTheirKey(t *testing.T) {
	t.Parallel()
	server := natstest.New(t)
	old := ringOf(t, 1).First()
	_, err := sealing(t, server, ringOf(t, 1)).Answers().Put(t.Context(), "a", model.KeptAnswer{Status: 201}, 0)
	require.NoError(t, err)
	status, err := sealing(t, server, ringOf(t, 2, 1)).Sealing(t.Context())
	require.NoError(t, err)
	require.Equal(t, sluice.SealingKey{ID: old, Known: true, Records: 1}, status.Keys[1])
	without := sealing(t, server, ringOf(t, 2))
	_, _, err = without.Answers().Get(t.Context(), "a")
	require.Equal(t, sluice.Unavailable, sluice.CodeOf(err))
	_, err = without.Answers().Put(t.Context(), "a", model.KeptAnswer{}, 0)
	require.Equal(t, sluice.Conflict, sluice.CodeOf(err))
}
