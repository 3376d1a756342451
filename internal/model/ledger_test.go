package model_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/internal/model"
	"github.com/sluice-io/sluice/pkg/sluice"
)

func TestAction_IsChecked(t *testing.T) {
	t.Parallel()
	for _, action := range []string{sluice.ActionSubscriptionPause, "subscription.*", "a.b.c", "grant.re_voke", "x", strings.Repeat("a", 64)} {
		require.NoError(t, model.CheckAction(action), action)
	}
	for _, action := range []string{"", "*", ".*", "a..b", "a.", "A.b", "a b", "a.>", "sub*", "a.*.b", strings.Repeat("a", 65)} {
		require.Equal(t, sluice.InvalidRequest, sluice.CodeOf(model.CheckAction(action)), "%q", action)
	}
}

func TestRequestID_TravelsWithItsContext(t *testing.T) {
	t.Parallel()
	require.Empty(t, model.RequestID(t.Context()))
	require.Equal(t, "r-1", model.RequestID(model.WithRequestID(t.Context(), "r-1")))
}
