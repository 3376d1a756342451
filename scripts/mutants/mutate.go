package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
)

// mutant is one change. Its id is its number in the package, from 1.
type mutant struct {
	id        int
	key       string // package, function, changed code: the same as long as that code is
	file      string
	line, end int
}

// insert is text that goes into a file. Those of an outer node enclose those of an inner one.
type insert struct {
	at    int
	text  string
	other int // where the other half of it goes
	order int
}

// source is a file with every change in it. plant can be called once: it changes text.
type source struct {
	path    string
	text    []byte
	fset    *token.FileSet
	pkg     string
	fn      string
	inserts []insert
	seen    map[string]int
	found   []mutant
	next    func() int
	skip    map[int]bool // changes that do not compile
}

// plant returns the file with all its changes in it, each of them off, and the changes.
func (s *source) plant() ([]byte, []mutant, error) {
	file, err := parser.ParseFile(s.fset, s.path, s.text, parser.ParseComments)
	if err != nil {
		return nil, nil, err
	}
	for _, d := range file.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		s.fn = fn.Name.Name
		if fn.Recv != nil {
			s.fn = strings.TrimLeft(s.of(fn.Recv.List[0].Type), "*") + "." + s.fn
		}
		ast.PreorderStack(fn.Body, nil, func(n ast.Node, stack []ast.Node) bool {
			s.visit(n, stack)
			return true
		})
	}
	return s.render(), s.found, nil
}

func (s *source) offset(p token.Pos) int { return s.fset.Position(p).Offset }

// of returns the text of a node, in one line.
func (s *source) of(n ast.Node) string {
	return strings.Join(strings.Fields(string(s.text[s.offset(n.Pos()):s.offset(n.End())])), " ")
}

// wrap puts a change around a node. In before, %d stands for its number. It returns false for a
// change that is skipped, which takes a number and a key nevertheless; the caller must then change
// nothing.
func (s *source) wrap(n ast.Node, what, before, after string) (added bool) {
	const longest = 160
	text := s.of(n)
	if len(text) > longest {
		text = text[:longest] + "…"
	}
	key := fmt.Sprintf("%s %s: %s: %s", s.pkg, s.fn, what, text)
	if s.seen[key]++; s.seen[key] > 1 {
		key += fmt.Sprintf(" (%d)", s.seen[key])
	}
	id := s.next()
	if s.skip[id] {
		return false
	}
	from, to := s.offset(n.Pos()), s.offset(n.End())
	order := len(s.inserts)
	s.inserts = append(s.inserts, insert{from, fmt.Sprintf(before, id), to, order}, insert{to, after, from, order})
	s.found = append(s.found, mutant{id, key, s.path, s.fset.Position(n.Pos()).Line, s.fset.Position(n.End()).Line})
	return true
}

// replace puts text in the place of a token. The length of the text stays, so that all positions
// remain valid.
func (s *source) replace(at token.Pos, length int, text string) {
	from := s.offset(at)
	for i := range length {
		s.text[from+i] = ' '
	}
	s.inserts = append(s.inserts, insert{from, text, from, 1 << 30})
}

// render returns the text with the insertions. Insertions at one place are ordered so that those of
// inner nodes are within those of outer ones.
func (s *source) render() []byte {
	slices.SortStableFunc(s.inserts, func(a, b insert) int {
		aEnds, bEnds := a.other < a.at, b.other < b.at
		switch {
		case a.at != b.at:
			return cmp.Compare(a.at, b.at)
		case aEnds != bEnds: // ends go before beginnings
			if aEnds {
				return -1
			}
			return 1
		case a.other != b.other: // of the beginnings the longest first, of the ends the shortest
			return cmp.Compare(b.other, a.other)
		case aEnds:
			return cmp.Compare(b.order, a.order)
		}
		return cmp.Compare(a.order, b.order)
	})
	var out []byte
	last := 0
	for _, i := range s.inserts {
		out = append(append(out, s.text[last:i.at]...), i.text...)
		last = i.at
	}
	return append(out, s.text[last:]...)
}

// visit changes the decisions of a node.
func (s *source) visit(n ast.Node, stack []ast.Node) {
	var parent ast.Node
	if len(stack) > 0 {
		parent = stack[len(stack)-1]
	}
	switch n := n.(type) {
	case *ast.IfStmt:
		s.condition(n.Cond)
	case *ast.ForStmt:
		if n.Cond != nil {
			s.condition(n.Cond)
		}
	case *ast.SwitchStmt:
		s.cases(n)
	case *ast.BinaryExpr:
		s.binary(n, parent)
	case *ast.ReturnStmt:
		s.returns(n)
	case *ast.CallExpr:
		if id, ok := n.Fun.(*ast.Ident); ok && len(n.Args) > 1 && !n.Ellipsis.IsValid() {
			s.extreme(n, id)
		}
	case *ast.BlockStmt:
		s.statements(n.List)
		if isBare(parent) {
			s.exits(n.List)
		}
	case *ast.CaseClause:
		s.statements(n.Body)
	case *ast.CommClause:
		s.statements(n.Body)
	}
}

// returns turns the truth around that a function returns.
func (s *source) returns(n *ast.ReturnStmt) {
	for _, r := range n.Results {
		if id, ok := r.(*ast.Ident); ok && (id.Name == "true" || id.Name == "false") {
			s.wrap(r, "the opposite of", "(mutantOn(%d) != ", ")")
		}
	}
}

// isBare reports whether a statement is an if without else: its body may fall through.
func isBare(n ast.Node) bool {
	is, ok := n.(*ast.IfStmt)
	return ok && is.Else == nil
}

// condition turns one around, unless its operands are left out one by one.
func (s *source) condition(e ast.Expr) {
	if b, ok := ast.Unparen(e).(*ast.BinaryExpr); ok && (b.Op == token.LAND || b.Op == token.LOR) {
		return
	}
	s.wrap(e, "the opposite of", "(mutantOn(%d) != (", "))")
}

// cases turns the conditions of a switch without a tag around.
func (s *source) cases(n *ast.SwitchStmt) {
	if n.Tag != nil {
		return
	}
	for _, c := range n.Body.List {
		if clause, ok := c.(*ast.CaseClause); ok {
			for _, e := range clause.List {
				s.condition(e)
			}
		}
	}
}

// binary changes an operation that decides or calculates.
func (s *source) binary(n *ast.BinaryExpr, parent ast.Node) {
	switch n.Op { //nolint:exhaustive // the others decide nothing
	case token.LAND:
		s.wrap(n.X, "true instead of", "(mutantOn(%d) || (", "))")
		s.wrap(n.Y, "true instead of", "(mutantOn(%d) || (", "))")
	case token.LOR:
		s.wrap(n.X, "false instead of", "(!mutantOn(%d) && (", "))")
		s.wrap(n.Y, "false instead of", "(!mutantOn(%d) && (", "))")
	case token.LSS, token.LEQ, token.GTR, token.GEQ:
		name := map[token.Token]string{token.LSS: "Less", token.LEQ: "Most", token.GTR: "More", token.GEQ: "Least"}[n.Op]
		s.call(n, "the other bound of", "mutant"+name)
	case token.EQL, token.NEQ:
		if decidesElsewhere(parent) {
			s.wrap(n, "the opposite of", "(mutantOn(%d) != (", "))")
		}
	case token.ADD:
		s.call(n, "minus instead of plus in", "mutantPlus")
	case token.SUB:
		s.call(n, "plus instead of minus in", "mutantMinus")
	}
}

// decidesElsewhere reports whether a comparison is no condition or operand, which is changed as
// such.
func decidesElsewhere(parent ast.Node) bool {
	switch p := parent.(type) {
	case *ast.IfStmt, *ast.ForStmt, *ast.CaseClause, *ast.ParenExpr:
		return false
	case *ast.BinaryExpr:
		return p.Op != token.LAND && p.Op != token.LOR
	}
	return true
}

// call makes an operation a call, which does another one if the change is on.
func (s *source) call(n *ast.BinaryExpr, what, name string) {
	if isText(n.X) || isText(n.Y) {
		return
	}
	if s.wrap(n, what, name+"(%d, ", ")") {
		s.replace(n.OpPos, len(n.Op.String()), ",")
	}
}

func isText(e ast.Expr) bool {
	lit, ok := e.(*ast.BasicLit)
	return ok && (lit.Kind == token.STRING || lit.Kind == token.CHAR)
}

// extreme makes min max, and max min.
func (s *source) extreme(n *ast.CallExpr, id *ast.Ident) {
	name := map[string]string{"min": "mutantMin", "max": "mutantMax"}[id.Name]
	if name == "" {
		return
	}
	if s.wrap(n, "the other extreme of", name+"(%d, ", ")") {
		s.replace(id.Pos(), len("max("), "")
		s.text[s.offset(n.Rparen)] = ' '
	}
}

// statements leaves out one statement at a time.
func (s *source) statements(list []ast.Stmt) {
	for _, st := range list {
		switch st := st.(type) {
		case *ast.ExprStmt:
			if call, ok := st.X.(*ast.CallExpr); ok && droppable(call) {
				s.drop(st)
			}
		case *ast.AssignStmt:
			if st.Tok != token.DEFINE {
				s.drop(st)
			}
		case *ast.IncDecStmt, *ast.SendStmt:
			s.drop(st)
		}
	}
}

// exits leaves out the last statement of a function or a round where the code can go on without it.
func (s *source) exits(list []ast.Stmt) {
	for _, st := range list {
		switch st := st.(type) {
		case *ast.ReturnStmt:
			s.drop(st)
		case *ast.BranchStmt:
			if st.Label == nil {
				s.drop(st)
			}
		}
	}
}

// drop makes a statement one that is left out while the change is on.
func (s *source) drop(st ast.Stmt) { s.wrap(st, "without", "if !mutantOn(%d) { ", " }") }

// droppable reports whether a call is one whose absence a test can be expected to notice: not of a
// lock, nor of a log.
func droppable(call *ast.CallExpr) bool {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name != "panic"
	case *ast.SelectorExpr:
		return !slices.Contains([]string{"Lock", "Unlock", "RLock", "RUnlock", "LogAttrs", "Log", "Debug", "Info", "Warn", "Error"}, f.Sel.Name)
	}
	return true
}
