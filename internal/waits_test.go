package internal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// timed are the waits of tests whose subject is how long something takes.
var timed = []string{"stopBound"} // a server that is told to end does so within shutdown_grace, not minutes later

// leastPatience is how long a test waits at least for what has to come: a machine with much else to do is no failure.
const leastPatience = time.Minute

// Tests wait for conditions, and for so long that a slow machine makes none of them fail.
func TestWaits_LastOnSlowMachines(t *testing.T) {
	t.Parallel()
	files := token.NewFileSet()
	var wrong []string
	seen := 0
	for _, parsed := range testFiles(t, files) {
		limits := durations(parsed)
		for _, file := range parsed {
			ast.Inspect(file, func(n ast.Node) bool {
				limit, is := waitOf(n, limits)
				if is {
					seen++
				}
				if is && limit < leastPatience {
					wrong = append(wrong, files.Position(n.Pos()).String()+": "+limit.String())
				}
				return true
			})
		}
	}
	require.Positive(t, seen)
	require.Empty(t, wrong, "a condition is waited for %s at least; that nothing happens (Never, 0s) is shown by what happens instead", leastPatience)
}

// waitOf returns how long a statement waits until it fails, if it is one that waits.
func waitOf(n ast.Node, limits map[string]time.Duration) (time.Duration, bool) {
	switch n := n.(type) {
	case *ast.CallExpr:
		f, ok := n.Fun.(*ast.SelectorExpr)
		switch {
		case !ok || len(n.Args) < 3:
		case f.Sel.Name == "Never":
			return 0, true
		case strings.HasPrefix(f.Sel.Name, "Eventually"):
			return durationOf(n.Args[2], limits)
		}
	case *ast.CommClause:
		received, ok := n.Comm.(*ast.ExprStmt)
		if !ok || !fails(n.Body) {
			break
		}
		from, ok := received.X.(*ast.UnaryExpr)
		if !ok {
			break
		}
		if after, ok := from.X.(*ast.CallExpr); ok && types.ExprString(after.Fun) == "time.After" {
			return durationOf(after.Args[0], limits)
		}
	}
	return 0, false
}

// fails reports whether statements say that the test has failed.
func fails(body []ast.Stmt) (does bool) {
	for _, stmt := range body {
		ast.Inspect(stmt, func(n ast.Node) bool {
			if call, ok := n.(*ast.SelectorExpr); ok {
				does = does || strings.HasPrefix(call.Sel.Name, "Fail") || strings.HasPrefix(call.Sel.Name, "Fatal")
			}
			return true
		})
	}
	return does
}

// testFiles returns the syntax of all test files, by directory.
func testFiles(t *testing.T, files *token.FileSet) map[string][]*ast.File {
	t.Helper()
	all := map[string][]*ast.File{}
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(files, path, text, parser.SkipObjectResolution)
		all[filepath.Dir(path)] = append(all[filepath.Dir(path)], file)
		return err
	})
	require.NoError(t, err)
	return all
}

// durations returns the constants of a package's tests that are durations.
func durations(parsed []*ast.File) map[string]time.Duration {
	known := map[string]time.Duration{}
	for _, file := range parsed {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Names) != len(spec.Values) {
				return true
			}
			for i, name := range spec.Names {
				if d, ok := durationOf(spec.Values[i], nil); ok {
					known[name.Name] = d
				}
			}
			return true
		})
	}
	return known
}

// durationOf evaluates an expression of numbers, units of time and known constants.
func durationOf(e ast.Expr, known map[string]time.Duration) (time.Duration, bool) {
	switch e := e.(type) {
	case *ast.BinaryExpr:
		x, ok := durationOf(e.X, known)
		y, right := durationOf(e.Y, known)
		if e.Op == token.MUL && ok && right {
			return time.Duration(int64(x) * int64(y)), true
		}
	case *ast.BasicLit:
		n, err := strconv.ParseInt(strings.ReplaceAll(e.Value, "_", ""), 10, 64)
		return time.Duration(n), err == nil
	case *ast.Ident:
		d, ok := known[e.Name]
		return d, ok && !slices.Contains(timed, e.Name)
	case *ast.SelectorExpr:
		unit, ok := map[string]time.Duration{
			"time.Millisecond": time.Millisecond, "time.Second": time.Second, "time.Minute": time.Minute, "time.Hour": time.Hour,
		}[types.ExprString(e)]
		return unit, ok
	}
	return 0, false
}
