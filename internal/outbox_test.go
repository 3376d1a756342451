package internal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The methods of the announcer: those about stored changes, which go through outbox.WriteThenPublish, and the others.
var (
	tellsOfWrites  = []string{"Subscription", "Namespace", "Held", "Unsafe"}
	tellsOfWhatIs  = []string{"StillHeld", "StillFailing", "StillUntold", "Damaged"} // that another writer stored
	tellsOfMoments = []string{"Throttled", "Turned", "Failing", "Server", "Orphaned", "Run"}
)

// TestOutbox_AnnouncesOnlyAfterTheWrite checks that a package that announces a stored change leaves the order to outbox.WriteThenPublish
// (S2-111): the announcer's methods are its last argument, or are called by functions that are nothing else.
func TestOutbox_AnnouncesOnlyAfterTheWrite(t *testing.T) {
	t.Parallel()
	require.ElementsMatch(t, slices.Concat(tellsOfWrites, tellsOfWhatIs, tellsOfMoments), methodsOf(t, "sysevent", "Announcer"),
		"the lists above are all that an announcer does")
	sites := 0
	for dir, files := range parsedPackages(t) {
		if dir == "sysevent" {
			continue
		}
		found := look(files)
		sites += len(found.announced)
		for _, at := range found.announced {
			within := found.enclosing(at)
			ok := found.isTeller(at) || within != "" && found.tellers[within] > 0 && found.tellers[within] == found.uses[within]
			require.True(t, ok, "%s: %s announces without outbox.WriteThenPublish", dir, found.positions.Position(at))
		}
	}
	require.Equal(t, 5, sites, "subscriptions (two), namespaces, held lanes, producers")
}

// found is what was found in a package.
type found struct {
	positions *token.FileSet
	announced []token.Pos        // uses of the announcer
	given     map[token.Pos]bool // of these, those that are outbox.WriteThenPublish's last argument
	tellers   map[string]int     // functions of the package that are outbox.WriteThenPublish's last argument, and how often
	uses      map[string]int     // how often functions are used at all
	functions []*ast.FuncDecl
}

func (f *found) isTeller(at token.Pos) bool { return f.given[at] }

func (f *found) enclosing(at token.Pos) string {
	for _, fn := range f.functions {
		if fn.Pos() <= at && at < fn.End() {
			return fn.Name.Name
		}
	}
	return ""
}

func look(parsed parsedPackage) *found {
	f := &found{positions: parsed.positions, given: map[token.Pos]bool{}, tellers: map[string]int{}, uses: map[string]int{}}
	for _, file := range parsed.files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				f.functions = append(f.functions, n)
			case *ast.CallExpr:
				f.call(n)
			case *ast.SelectorExpr:
				f.uses[n.Sel.Name]++
				if isAnnouncer(n.X) && slices.Contains(tellsOfWrites, n.Sel.Name) {
					f.announced = append(f.announced, n.Pos())
				}
			}
			return true
		})
	}
	return f
}

// call notes what outbox.WriteThenPublish tells with.
func (f *found) call(c *ast.CallExpr) {
	fn, ok := c.Fun.(*ast.SelectorExpr)
	if !ok || fn.Sel.Name != "WriteThenPublish" || len(c.Args) != 3 {
		return
	}
	if pkg, ok := fn.X.(*ast.Ident); !ok || pkg.Name != "outbox" {
		return
	}
	if teller, ok := c.Args[2].(*ast.SelectorExpr); ok {
		f.given[teller.Pos()] = true
		f.tellers[teller.Sel.Name]++
	}
}

// isAnnouncer reports whether an expression is called what announcers are called.
func isAnnouncer(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.Ident:
		return strings.Contains(strings.ToLower(x.Name), "announce")
	case *ast.SelectorExpr:
		return strings.Contains(strings.ToLower(x.Sel.Name), "announce")
	}
	return false
}

type parsedPackage struct {
	positions *token.FileSet
	files     []*ast.File
}

// parsedPackages returns the packages below this one, by directory, without their tests.
func parsedPackages(t *testing.T) map[string]parsedPackage {
	t.Helper()
	all := map[string]parsedPackage{}
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return err
		}
		dir := filepath.Dir(file)
		p, ok := all[dir]
		if !ok {
			p.positions = token.NewFileSet()
		}
		parsed, err := parser.ParseFile(p.positions, file, nil, parser.SkipObjectResolution)
		p.files = append(p.files, parsed)
		all[dir] = p
		return err
	})
	require.NoError(t, err)
	return all
}

// methodsOf returns the exported methods of a type.
func methodsOf(t *testing.T, dir, name string) (methods []string) {
	t.Helper()
	for _, file := range parsedPackages(t)[dir].files {
		for _, d := range file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil || !fn.Name.IsExported() {
				continue
			}
			if of, ok := fn.Recv.List[0].Type.(*ast.StarExpr); ok && of.X.(*ast.Ident).Name == name {
				methods = append(methods, fn.Name.Name)
			}
		}
	}
	return methods
}
