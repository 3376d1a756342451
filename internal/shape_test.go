package internal_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Bars of issue 14.
const (
	mostLines  = 6000 // of a package, without tests
	mostWiring = 1300 // of internal/app
	mostFields = 25   // of a struct

	fewestComments, mostComments = 12, 20 // percent of the lines that are not blank
)

// Issue 14, bar: packages and structs stay small enough for one reader.
func TestShape_KeepsTheBars(t *testing.T) {
	t.Parallel()
	lines := map[string]int{}
	var large []string
	for path, data := range sourceFiles(t) {
		lines[filepath.Dir(path)] += bytes.Count(data, []byte("\n"))
		for name, fields := range structs(t, path, data) {
			if path == "cmd/sluice/cli.go" && name == "cli" {
				continue // the tree of commands, which kong reads from one struct
			}
			if fields > mostFields {
				large = append(large, fmt.Sprintf("%s in %s has %d fields", name, path, fields))
			}
		}
	}
	require.NotEmpty(t, lines)
	for dir, n := range lines {
		most := mostLines
		if dir == "internal/app" {
			most = mostWiring
		}
		if n > most {
			large = append(large, fmt.Sprintf("%s has %d lines", dir, n))
		}
	}
	require.Empty(t, large)
}

// Issue 14, bar: contracts and reasons are written down, and comments do not crowd out the code.
func TestShape_HasEnoughComments(t *testing.T) {
	t.Parallel()
	lines, comments := 0, 0
	for _, data := range sourceFiles(t) {
		for line := range bytes.Lines(data) {
			line = bytes.TrimSpace(line)
			if len(line) > 0 {
				lines++
			}
			if bytes.HasPrefix(line, []byte("//")) {
				comments++
			}
		}
	}
	percent := 100 * float64(comments) / float64(lines)
	require.GreaterOrEqual(t, percent, float64(fewestComments))
	require.LessOrEqual(t, percent, float64(mostComments))
}

// sourceFiles returns the Go files of the module without tests, by their paths in it.
func sourceFiles(t *testing.T) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for _, top := range []string{"cmd", "config", "internal", "pkg", "streams"} {
		require.NoError(t, fs.WalkDir(os.DirFS(".."), top, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			all[path], err = os.ReadFile(filepath.Join("..", path))
			return err
		}))
	}
	return all
}

// structs returns the number of fields of each struct type in a file, by its name.
func structs(t *testing.T, path string, data []byte) map[string]int {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, data, parser.SkipObjectResolution)
	require.NoError(t, err)
	all := map[string]int{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		if s, ok := spec.Type.(*ast.StructType); ok {
			for _, f := range s.Fields.List {
				all[spec.Name.Name] += max(1, len(f.Names))
			}
		}
		return true
	})
	return all
}
