package wakesuite

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every statement of S1 has a test, or a reason why it has none here.
func TestStatements_HaveATestOrAReason(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, x := range tests() {
		require.NotEmpty(t, x.rows, x.name)
		for row := range strings.FieldsSeq(x.rows) {
			require.Regexp(t, `^S1-\d{2,3}$`, row, x.name)
			require.NotContains(t, unseen(), row, x.name)
			seen[row] = true
		}
	}
	for n := 1; n <= 148; n++ {
		row := fmt.Sprintf("S1-%02d", n)
		require.True(t, seen[row] || unseen()[row] != "", "%s has neither a test nor a reason", row)
		delete(seen, row)
	}
	require.Empty(t, seen, "rows of other statements")
}

func TestSuite_TestsHaveNames(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, x := range tests() {
		require.False(t, names[x.name], "%s: twice", x.name)
		names[x.name] = true
	}
	for _, rule := range broken() {
		require.True(t, names[rule], "no test is called %q", rule)
	}
}
