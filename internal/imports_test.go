package internal_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestImports_MatchTheTable checks that every package imports exactly what its row in README.md names, and
// that the table has a row for every package and a package for every row. What only tests
// import is not checked.
func TestImports_MatchTheTable(t *testing.T) {
	t.Parallel()
	rows := readTable(t)
	for _, p := range listPackages(t) {
		row, ok := rows[p.name]
		delete(rows, p.name)
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			require.True(t, ok, "the table has no row for %s", p.name)
			for _, imp := range p.imports {
				switch ours, ok := strings.CutPrefix(imp, module); {
				case ok && !slices.Contains(row.ours, "*"):
					require.Contains(t, row.ours, path.Base(ours), "%s imports %s", p.name, ours)
				case !ok && isForeign(imp):
					require.True(t, row.allows(imp), "%s imports %s", p.name, imp)
				}
			}
			require.Empty(t, row.unused(p.imports), "the row of %s names what it does not import", p.name)
		})
	}
	require.Empty(t, rows, "the table has rows for packages that do not exist")
}

type row struct{ ours, others []string }

// allows reports whether one of the names in the last column is an element of the import path.
func (r row) allows(imp string) bool {
	elements := strings.Split(imp, "/")
	return slices.ContainsFunc(r.others, func(o string) bool { return slices.Contains(elements, o) })
}

// unused returns the names of the row that are in none of the import paths.
func (r row) unused(imports []string) []string {
	used := map[string]bool{"*": true}
	for _, imp := range imports {
		switch ours, ok := strings.CutPrefix(imp, module); {
		case ok:
			used[path.Base(ours)] = true
		case isForeign(imp):
			for element := range strings.SplitSeq(imp, "/") {
				used[element] = true
			}
		}
	}
	return slices.DeleteFunc(slices.Concat(r.ours, r.others), func(name string) bool { return used[name] })
}

// isForeign reports whether the import path begins with a host, as the standard library's do not.
func isForeign(imp string) bool {
	host, _, _ := strings.Cut(imp, "/")
	return strings.Contains(host, ".")
}

var code = regexp.MustCompile("`([^`]+)`")

// readTable returns the rows of README.md by package: | `package` | contains | `ours` … | `others` … |.
func readTable(tb testing.TB) map[string]row {
	tb.Helper()
	text, err := os.ReadFile("README.md")
	require.NoError(tb, err)
	rows := map[string]row{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 6 || !strings.HasPrefix(cells[1], " `") {
			continue
		}
		name := names(cells[1])
		require.Len(tb, name, 1, line)
		require.NotContains(tb, rows, name[0], "two rows")
		rows[name[0]] = row{ours: names(cells[3]), others: names(cells[4])}
	}
	require.NotEmpty(tb, rows)
	return rows
}

func names(cell string) []string {
	var found []string
	for _, m := range code.FindAllStringSubmatch(cell, -1) {
		found = append(found, m[1])
	}
	return found
}

const module = "github.com/sluice-io/sluice/"

type goPackage struct {
	name    string // below the module
	imports []string
}

// listPackages returns the packages of the module, those that consist of tests only left out.
// It reads the files itself, under any build constraint, so that a cached result of
// this test is one about the same files.
func listPackages(tb testing.TB) []goPackage {
	tb.Helper()
	imports := map[string][]string{}
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && !isOurs(name, d.Name()):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		dir := filepath.ToSlash(filepath.Dir(name))[len("../"):]
		paths := imports[dir]
		for _, spec := range file.Imports {
			paths = append(paths, strings.Trim(spec.Path.Value, `"`))
		}
		imports[dir] = paths
		return nil
	})
	require.NoError(tb, err)
	var packages []goPackage
	for name, paths := range imports {
		packages = append(packages, goPackage{name: name, imports: paths})
	}
	return packages
}

// isOurs reports whether a directory can hold packages of this module.
func isOurs(dir, base string) bool {
	if base == "testdata" || base == "node_modules" || base == "scripts" {
		return false
	}
	return dir == ".." || !strings.HasPrefix(base, ".")
}
