package internal_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFuzz_TestsAreListed checks docs/security.md: it has a row for every fuzz test, and for no
// other.
func TestFuzz_TestsAreListed(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/security.md")
	require.NoError(t, err)
	var listed []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z]+\\.Fuzz[A-Za-z]+)` \\|").FindAllStringSubmatch(string(text), -1) {
		listed = append(listed, row[1])
	}
	slices.Sort(listed)
	require.Equal(t, fuzzTests(t), listed)
}

func fuzzTests(t *testing.T) []string {
	t.Helper()
	var names []string
	declared := regexp.MustCompile(`(?m)^func (Fuzz[A-Za-z0-9_]*)\(`)
	require.NoError(t, filepath.WalkDir("..", func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && !isOurs(path, d.Name()):
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		for _, name := range declared.FindAllStringSubmatch(string(text), -1) {
			names = append(names, filepath.Base(filepath.Dir(path))+"."+name[1])
		}
		return err
	}))
	slices.Sort(names)
	return names
}
