package internal_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// statements returns how many statements each specification has. They are numbered from 1.
func statements() map[string]int {
	return map[string]int{"S0": 87, "S1": 148, "S2": 147, "S3": 149, "S4": 92}
}

// TestRequirements_HaveTheirTests checks docs/requirements.md: every statement has one row, every test that a row names
// exists, and a row without one says that it is not yet, or that no test can see it.
func TestRequirements_HaveTheirTests(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/requirements.md")
	require.NoError(t, err)
	tests := listTests(t)
	rows := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 6 || !strings.HasPrefix(cells[1], " S") {
			continue
		}
		id := strings.TrimSpace(cells[1])
		require.False(t, rows[id], "%s has two rows", id)
		rows[id] = true
		named := names(cells[3])
		for _, name := range named {
			require.True(t, tests[name], "%s names %s, which does not exist", id, name)
		}
		if len(named) == 0 {
			require.Regexp(t, "^ (not yet|not testable): ", cells[4], "%s has neither a test nor a reason why not", id)
		}
	}
	for spec, statements := range statements() {
		for n := 1; n <= statements; n++ {
			id := fmt.Sprintf("%s-%02d", spec, n)
			require.True(t, rows[id], "%s has no row", id)
			delete(rows, id)
		}
	}
	require.Empty(t, rows, "rows of other statements")
}

// listTests returns the test and fuzz functions of the module as "package.Test", the package being
// the name of its directory.
func listTests(tb testing.TB) map[string]bool {
	tb.Helper()
	found := map[string]bool{}
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && !isOurs(name, d.Name()):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && isTest(f.Name.Name) {
				found[filepath.Base(filepath.Dir(name))+"."+f.Name.Name] = true
			}
		}
		return nil
	})
	require.NoError(tb, err)
	suites, err := filepath.Glob("../scripts/interop/*.test.mjs")
	require.NoError(tb, err)
	for _, name := range suites {
		text, err := os.ReadFile(name)
		require.NoError(tb, err)
		for _, m := range interopTest.FindAllStringSubmatch(string(text), -1) {
			found["interop: "+m[1]] = true
		}
	}
	return found
}

// interopTest is the beginning of a test in JavaScript, with its name.
var interopTest = regexp.MustCompile(`(?m)^test\('([^']+)'`)

func isTest(name string) bool {
	return strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz")
}
