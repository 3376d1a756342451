package httpkit

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A place that is freed wakes those that wait, and leaves no record of its key.
func TestPlaces_ForgetKeysWithoutPlaces(t *testing.T) {
	t.Parallel()
	p := NewPlaces(2, 1)
	require.Nil(t, p.Take("a"))
	freed := p.Take("a")
	require.NotNil(t, freed, "each key has one place")
	require.Nil(t, p.Take("b"))
	require.NotNil(t, p.Take("c"), "both places are taken")
	p.Leave("a")
	<-freed
	p.Leave("b")
	require.Zero(t, p.used)
	require.Empty(t, p.of)
}
