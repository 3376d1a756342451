package internal_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAttacks_HaveTheirTests checks docs/security.md: every row of an attack names a test that shows
// its defence, and every test that is named exists.
func TestAttacks_HaveTheirTests(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/security.md")
	require.NoError(t, err)
	tests, attacks, rows := listTests(t), false, 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		shown := cells[max(0, len(cells)-2)]
		switch {
		case len(cells) < 3:
			attacks = false
		case strings.TrimSpace(shown) == "shown by":
			attacks = true
		case attacks && !strings.HasPrefix(cells[1], " ---"):
			rows++
			require.NotEmpty(t, names(shown), "no test shows the defence: %s", line)
			for _, name := range names(shown) {
				require.True(t, tests[name], "%s does not exist: %s", name, line)
			}
		}
	}
	require.Greater(t, rows, 70, "the tables are read")
}
