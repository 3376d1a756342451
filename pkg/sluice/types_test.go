package sluice_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sluice-io/sluice/pkg/sluice"
)

// S2-140: a type is chosen by its name, or by what its name begins with.
func TestEventType_IsChosenByNameOrPrefix(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		pattern, eventType string
		want               bool
	}{
		{"order.paid", "order.paid", true},
		{"order.paid", "order.paid.late", false},
		{"order.*", "order.paid", true},
		{"order.*", "order.paid.late", true},
		{"order.*", "order.", false},
		{"order.*", "order", false},
		{"order.*", "orders.paid", false},
		{"order*", "order.paid", false},
		{"order.", "order.paid", false},
		{"", "order", false},
		{"*", "order", true},
	} {
		require.Equal(t, tt.want, sluice.MatchType([]string{"other", tt.pattern}, tt.eventType), "%s %s", tt.pattern, tt.eventType)
	}
	require.False(t, sluice.MatchType(nil, "order"))
}
