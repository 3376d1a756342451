package internal_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestImports checks that no package imports what its row in README.md does not name, and
// that the table has a row for every package and a package for every row. What only tests
// import is not checked.
func TestImports(t *testing.T) {
	t.Parallel()
	rows := readTable(t)
	for _, p := range listPackages(t) {
		row, ok := rows[p.name()]
		delete(rows, p.name())
		t.Run(p.name(), func(t *testing.T) {
			t.Parallel()
			require.True(t, ok, "the table has no row for %s", p.name())
			for _, imp := range p.Imports {
				switch ours, ok := strings.CutPrefix(imp, p.Module.Path+"/"); {
				case ok && !slices.Contains(row.ours, "*"):
					require.Contains(t, row.ours, path.Base(ours), "%s imports %s", p.name(), ours)
				case !ok && isForeign(imp):
					require.True(t, row.allows(imp), "%s imports %s", p.name(), imp)
				}
			}
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

// isForeign reports whether the import path begins with a host, as the standard library's do not.
func isForeign(imp string) bool {
	host, _, _ := strings.Cut(imp, "/")
	return strings.Contains(host, ".")
}

var code = regexp.MustCompile("`([^`]+)`")

// readTable returns the rows of README.md by package: | `package` | knows | `ours` … | `others` … |.
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

type goPackage struct {
	ImportPath string
	GoFiles    []string
	Imports    []string
	Module     struct{ Path string }
}

func (p goPackage) name() string { return strings.TrimPrefix(p.ImportPath, p.Module.Path+"/") }

// listPackages returns the packages of the module, those that consist of tests only left out.
func listPackages(tb testing.TB) []goPackage {
	tb.Helper()
	cmd := exec.CommandContext(tb.Context(), "go", "list", "-e", "-json=ImportPath,GoFiles,Imports,Module", "./...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	require.NoError(tb, err)
	var packages []goPackage
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages
		}
		require.NoError(tb, err)
		if len(p.GoFiles) > 0 {
			packages = append(packages, p)
		}
	}
}
