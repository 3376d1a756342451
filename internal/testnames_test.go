package internal_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	// testName is the form of a test's name: the unit, one underscore, the behaviour.
	testName = regexp.MustCompile(`^Test[A-Z][A-Za-z0-9]*_[A-Z][A-Za-z0-9]*$`)
	// pronoun is a word in the place of the noun that a test's name has to say.
	pronoun = regexp.MustCompile(`(Who|Whose|Whom|Whoever|What|Whatever|(No|Some|Any|Every)body|NoOne)([A-Z0-9_]|$)`)
)

// A test's name says in at most ten words which unit does what.
func TestNames_HaveUnitAndBehaviour(t *testing.T) {
	t.Parallel()
	for qualified := range listTests(t) {
		_, name, _ := strings.Cut(qualified, ".")
		if !strings.HasPrefix(name, "Test") || name == "TestMain" {
			continue
		}
		require.Regexp(t, testName, name, qualified)
		require.NotRegexp(t, pronoun, name, qualified)
		require.LessOrEqual(t, len(wordsOf(name))-1, 10, "words of %s", qualified)
	}
}
