package main

import (
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
)

// A flag with a value that is not one of its own is refused with these, and not with that for no flag.
func TestRun_NamesTheValuesOfAFlag(t *testing.T) {
	t.Parallel()
	parser, err := kong.New(&cli{}, kong.Vars{})
	require.NoError(t, err)
	found := 0
	for _, leaf := range parser.Model.Leaves(false) {
		name := commandName(leaf)
		for _, flag := range leaf.Flags {
			if flag.Enum == "" {
				continue
			}
			found++
			status, _, stderr := runUntil(t.Context(), "", append(strings.Fields(name), "--"+flag.Name+"=nonsense")...)
			require.Equal(t, 2, status, name)
			require.Contains(t, stderr, "--"+flag.Name+" \"nonsense\": use ", name)
			require.NotContains(t, stderr, `""`, name)
			for _, value := range flag.EnumSlice() {
				require.Contains(t, stderr, value, name)
			}
		}
	}
	require.Greater(t, found, 15)
	_, _, stderr := runUntil(t.Context(), "", "mirror", "export", "low", "dir", "--depth", "x")
	require.Contains(t, stderr, `--depth "x": use catalog, summary or full`)
}
