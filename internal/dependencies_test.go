package internal_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDependencies_GuardsArePinned compares the modules that decision 0025 pins with go.mod: an update of one of
// them is read, and its row is changed, in the same commit.
func TestDependencies_GuardsArePinned(t *testing.T) {
	t.Parallel()
	record, err := os.ReadFile("../docs/decisions/0025-small-dependencies-that-guard.md")
	require.NoError(t, err)
	mod, err := os.ReadFile("../go.mod")
	require.NoError(t, err)
	rows := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (v\\S+) \\|").FindAllStringSubmatch(string(record), -1)
	require.Len(t, rows, 5)
	for _, row := range rows {
		line := regexp.MustCompile(`(?m)^\s+` + regexp.QuoteMeta(row[1]) + ` (\S+)$`).FindStringSubmatch(string(mod))
		require.NotNil(t, line, "%s is not in go.mod", row[1])
		require.Equal(t, row[2], line[1], "%s: read what has changed, then change its row in decision 0025", row[1])
	}
}
