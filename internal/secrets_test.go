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

// secretName matches the names of values that must not be guessed byte by byte.
var secretName = regexp.MustCompile(`(?i)(token|secret|signature|password|nonce|hmac|^mac|^sig|digest)s?$`)

// harmless are names that match and are none: a name, a length, a setting or a position.
var harmless = regexp.MustCompile(`(?i)(scheme|hint|file|scanner|kind|name|prefix|bytes$)`)

// comparisons are functions that stop at the first difference.
var comparisons = map[string]bool{
	"bytes.Equal": true, "bytes.Compare": true, "bytes.HasPrefix": true, "bytes.HasSuffix": true, "bytes.Contains": true, "bytes.EqualFold": true,
	"strings.Compare": true, "strings.EqualFold": true, "strings.HasPrefix": true, "strings.HasSuffix": true, "strings.Contains": true,
	"slices.Equal": true, "slices.Compare": true, "slices.Contains": true, "slices.Index": true, "reflect.DeepEqual": true, "cmp.Compare": true,
}

// TestSecrets_AreComparedInConstantTime checks that no code but a test's compares a value that is named
// like a secret with ==, in a switch, as the key of a map, or with a function that stops at the first
// difference: how long that takes tells how much was right. To compare with a constant ("", a
// prefix) tells nothing. Use hmac.Equal, or subtle.ConstantTimeCompare over hashes. What is
// meant otherwise says so in a comment "// not a secret: why" on its line.
func TestSecrets_AreComparedInConstantTime(t *testing.T) {
	t.Parallel()
	files := 0
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && !isOurs(name, d.Name()):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		source, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		files++
		require.Empty(t, leaks(t, name, string(source)))
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, files, 100, "the module's files are found")
}

func TestSecrets_CheckFindsComparisons(t *testing.T) {
	t.Parallel()
	for statement, found := range map[string]int{
		`_ = token == given`: 1, `_ = given != sub.Secret`: 1, `_ = bytes.Equal(mac, given)`: 1, `_ = strings.EqualFold(s.Token, given)`: 1,
		`_ = string(signature) == string(given)`: 1, `_ = secrets[0] == given`: 1, `_ = bytes.Equal(signature[:], given)`: 1, `_ = s.opts.RootToken == given`: 1,
		`switch given { case secret: }`: 1, `_ = slices.Contains(given, password)`: 1, `_ = secret.Value == given`: 1,
		`_ = strings.HasPrefix(secret, given)`: 1,
		`_ = token == ""`:                      0, `_ = len(token) == len(given)`: 0, `_ = hmac.Equal(mac, given)`: 0, `_ = secret != nil`: 0, `_ = strings.HasPrefix(secret, "whsec_")`: 0,
		`_ = token[0] == 'a'`: 0, `_ = given == other`: 0, `_ = subtle.ConstantTimeCompare(token, given) == 1`: 0,
		`_ = token == given // not a secret: of a subject`: 0, `_ = scheme == SchemeSecret`: 0, `_ = strings.HasPrefix(secret, SecretPrefix)`: 0,
	} {
		require.Len(t, leaks(t, "x.go", "package x\nfunc f() {\n"+statement+"\n}\n"), found, statement)
	}
}

// leaks returns the comparisons of a file that take as long as there is agreement.
func leaks(t *testing.T, name, source string) []string {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, source, parser.ParseComments)
	require.NoError(t, err)
	meant := map[int]bool{}
	for _, group := range file.Comments {
		for _, c := range group.List {
			meant[set.Position(c.Pos()).Line] = strings.HasPrefix(c.Text, "// not a secret: ")
		}
	}
	var found []string
	ast.Inspect(file, func(n ast.Node) bool {
		for _, pair := range compared(n) {
			line := set.Position(pair[0].Pos()).Line
			if isLeak(pair) && !meant[line] {
				found = append(found, fmt.Sprintf("%s:%d compares a secret in a time that tells how much is right", name, line))
			}
		}
		return true
	})
	return found
}

// compared returns the operands that a node compares.
func compared(n ast.Node) [][2]ast.Expr {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		if n.Op == token.EQL || n.Op == token.NEQ {
			return [][2]ast.Expr{{n.X, n.Y}}
		}
	case *ast.CallExpr:
		if len(n.Args) == 2 && comparisons[dotted(n.Fun)] {
			return [][2]ast.Expr{{n.Args[0], n.Args[1]}}
		}
	case *ast.SwitchStmt:
		return cases(n)
	}
	return nil
}

// cases returns what a switch compares its value with.
func cases(n *ast.SwitchStmt) (pairs [][2]ast.Expr) {
	if n.Tag == nil {
		return nil
	}
	for _, clause := range n.Body.List {
		for _, value := range clause.(*ast.CaseClause).List {
			pairs = append(pairs, [2]ast.Expr{n.Tag, value})
		}
	}
	return pairs
}

// isLeak reports whether one operand is a secret and none is a constant.
func isLeak(pair [2]ast.Expr) bool {
	return !isConstant(pair[0]) && !isConstant(pair[1]) && (isSecret(pair[0]) || isSecret(pair[1]))
}

// isConstant reports whether the value is public: a literal, a sentinel, a number, or a constant
// of ours, which is named like one.
func isConstant(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		return true
	case *ast.Ident:
		return e.Name == "nil" || strings.HasSuffix(e.Name, "Prefix")
	case *ast.CallExpr:
		name := dotted(e.Fun)
		return name == "len" || strings.HasPrefix(name, "subtle.")
	case *ast.CompositeLit:
		return true
	}
	return strings.HasSuffix(dotted(e), "Prefix")
}

// isSecret reports whether a value, or what it is a part of, is named like a secret.
func isSecret(e ast.Expr) bool {
	name := dotted(e)
	for part := range strings.SplitSeq(name, ".") {
		if secretName.MatchString(part) && !harmless.MatchString(name) {
			return true
		}
	}
	return false
}

// dotted returns an expression's names, without indices, conversions and arguments.
func dotted(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return dotted(e.X) + "." + e.Sel.Name
	case *ast.IndexExpr:
		return dotted(e.X)
	case *ast.SliceExpr:
		return dotted(e.X)
	case *ast.ParenExpr:
		return dotted(e.X)
	case *ast.StarExpr:
		return dotted(e.X)
	case *ast.UnaryExpr:
		return dotted(e.X)
	case *ast.CallExpr:
		if id, ok := e.Fun.(*ast.Ident); ok && id.Name == "string" && len(e.Args) == 1 {
			return dotted(e.Args[0])
		}
		if array, ok := e.Fun.(*ast.ArrayType); ok && array.Len == nil && len(e.Args) == 1 {
			return dotted(e.Args[0])
		}
		return dotted(e.Fun)
	}
	return ""
}
