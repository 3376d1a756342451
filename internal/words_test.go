package internal_test

import (
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

// retired are words that the code does not use any more in a name, each with the term that replaced it (decision 0036).
var retired = map[string]string{
	"appoint":  "appointment",
	"dsub":     "streamsub",
	"entomb":   "erase",
	"heed":     "apply",
	"hogs":     "monopolizes",
	"instruct": "action",
	"newsroom": "path notifier",
	"peep":     "clock check",
	"puzzled":  "back off",
	"tailing":  "log tail",
	"telling":  "outbox",
	"underway": "in flight",
	"vault":    "seal",
	"wonder":   "backoff",
}

// retiredPackages are directories that moved: no text names them any more.
var retiredPackages = regexp.MustCompile("`internal/(access|announce|appoint|authority|bench|causes|certs|dsub|due|faulttest|hooktest|instruct|later|limits|" +
	"natstest|passes|push|registry|ring|room|shares|socket|sockettest|stored|tailing|telling|timers|turns|underway|vault|wakesuite|waketest)[/`]")

var camel = regexp.MustCompile(`[A-Z]?[a-z]+|[A-Z]+`)

// wordsOf returns the words of an identifier, in lower case.
func wordsOf(name string) (all []string) {
	for _, word := range camel.FindAllString(name, -1) {
		all = append(all, strings.ToLower(word))
	}
	return all
}

// declared returns the names that a file declares: its package, types, functions, fields, variables.
func declared(file *ast.File) (all []*ast.Ident) {
	all = append(all, file.Name)
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			all = append(all, n.Name)
		case *ast.TypeSpec:
			all = append(all, n.Name)
		case *ast.Field:
			all = append(all, n.Names...)
		case *ast.ValueSpec:
			all = append(all, n.Names...)
		}
		return true
	})
	return all
}

func TestWords_NoneIsRetired(t *testing.T) {
	t.Parallel()
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && !isOurs(name, d.Name()):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(name) != ".go":
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, id := range declared(file) {
			for _, word := range wordsOf(id.Name) {
				if term, ok := retired[word]; ok {
					t.Errorf("%s: %s: %q is retired; use %q", name, id.Name, word, term)
				}
			}
		}
		return nil
	})
	require.NoError(t, err)
}

func TestWords_NoTextNamesAMovedPackage(t *testing.T) {
	t.Parallel()
	err := filepath.WalkDir("../docs", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(name) != ".md" {
			return err
		}
		text, err := os.ReadFile(name)
		if err == nil {
			require.Empty(t, retiredPackages.FindAllString(string(text), -1), name)
		}
		return err
	})
	require.NoError(t, err)
}
