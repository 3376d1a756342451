package filter

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/checker"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"

	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	root = "event" // the only variable

	// costLimit limits one evaluation (see meter): a comparison costs about 1, visiting every
	// element of a list about its length.
	costLimit = 100_000

	// LiveLimit limits one evaluation for readers of live events (see CompileLive), of which there
	// may be thousands. It is about a millisecond of processor time.
	LiveLimit = 10_000

	maxNesting = 12  // lists, maps and macros within each other
	maxMessage = 500 // characters of a CEL error, which may repeat data or types
)

// expression is a compiled CEL expression. It is safe for concurrent use, and can be shared by many
// matchers.
type expression struct {
	text    string
	program cel.Program
	data    bool // it may look at the event's data
	most    int  // maximum cost of an evaluation
	spent   atomic.Uint64
}

// compile returns the expression. Code InvalidRequest, with the position, if it is not CEL, cannot
// yield a bool, or would be too expensive to check or, on any event, to evaluate.
func compile(text string) (*expression, error) { return compileWithin(text, costLimit) }

// compileWithin is compile with another cost limit.
func compileWithin(text string, most int) (*expression, error) {
	return compileFor(text, most, cel.BoolType)
}

// compileFor is compile with another cost limit and another result type; a nil type: any. The check
// takes a time that is limited by the length of the expression and by simple. The length is at most
// sluice.MaxCEL.
func compileFor(text string, most int, yields *cel.Type) (*expression, error) {
	env, err := environment()
	if err != nil {
		return nil, err
	}
	checked, err := check(env, text)
	if err != nil {
		return nil, err
	}
	if out := checked.OutputType(); yields != nil && !out.IsExactType(yields) && !out.IsExactType(cel.DynType) {
		return nil, sluice.Errorf(sluice.InvalidRequest, "filter.cel: the expression yields %.*s; it must yield %s", maxMessage, out, yields).With("field", "filter.cel")
	}
	if cost, err := env.EstimateCost(checked, unknownSizes{}); err != nil || cost.Min > uint64(most) { //nolint:gosec // it is above 0
		return nil, sluice.Errorf(sluice.InvalidRequest, "filter.cel: the expression costs at least %d for any event; the limit is %d", cost.Min, most).With("field", "filter.cel")
	}
	x, err := plan(env, checked)
	if err == nil {
		x.text, x.most = text, most
	}
	return x, err
}

// plan returns a checked expression, ready for evaluation.
func plan(env *cel.Env, checked *cel.Ast) (*expression, error) {
	whole := checked.NativeRep().Expr()
	program, err := env.Program(checked, cel.EvalOptions(cel.OptOptimize), cel.CustomDecoratorV2(metered(env, rangesOf(whole))))
	if err != nil {
		return nil, sluice.Errorf(sluice.InvalidRequest, "filter.cel: %.*s", maxMessage, err).With("field", "filter.cel")
	}
	return &expression{program: program, data: readsData(whole)}, nil
}

func environment() (*cel.Env, error) {
	env, err := cel.NewEnv(
		cel.Variable(root, cel.MapType(cel.StringType, cel.DynType)),
		cel.CrossTypeNumericComparisons(true),
		cel.ParserExpressionSizeLimit(sluice.MaxCEL),
	)
	if err != nil {
		return nil, fmt.Errorf("create CEL environment: %w", err)
	}
	return env, nil
}

// check returns the expression with the types of its parts.
func check(env *cel.Env, text string) (*cel.Ast, error) {
	parsed, issues := env.Parse(text)
	if err := firstOf(issues); err != nil {
		return nil, err
	}
	if err := simple(parsed.NativeRep().Expr(), maxNesting); err != nil {
		return nil, err
	}
	checked, issues := env.Check(parsed)
	return checked, firstOf(issues)
}

// firstOf returns the expression's first error and its position.
func firstOf(issues *cel.Issues) error {
	problems := issues.Errors()
	if len(problems) == 0 {
		return nil
	}
	at, says := problems[0].Location, problems[0].Message
	return sluice.Errorf(sluice.InvalidRequest, "filter.cel: line %d, column %d: %.*s", at.Line(), at.Column()+1, maxMessage, short(says)).
		With("field", "filter.cel").With("line", at.Line()).With("column", at.Column()+1)
}

// mostExpected is the number of expected tokens that a message names. A longer list contains
// everything that can begin a value, and the message says just that.
const mostExpected = 3

// short removes the parts of a CEL message that a user cannot act on: long lists of expected
// tokens, the parser's name for the end of the text, the empty container.
func short(says string) string {
	says = strings.TrimSuffix(strings.TrimPrefix(says, "Syntax error: "), " (in container '')")
	if name, ok := strings.CutPrefix(says, "undeclared reference to "); ok {
		return "undeclared reference to " + name + "; use the variable event, as in event.type or event.data.total"
	}
	says, expected, ok := strings.Cut(says, " expecting ")
	switch {
	case !ok:
	case strings.HasPrefix(expected, "{") && strings.Count(expected, ",") >= mostExpected:
		expected = "a value, such as a name, a number or a string"
	default:
		expected = strings.Trim(expected, "{}")
	}
	for _, rule := range [][2]string{{"mismatched input ", "unexpected "}, {"extraneous input ", "unexpected "}, {"'<EOF>'", "end of the expression"}} {
		says = strings.ReplaceAll(says, rule[0], rule[1])
	}
	if ok {
		says += "; expected " + strings.ReplaceAll(expected, "<EOF>", "the end")
	}
	return says
}

// simple returns an error if inferring the expression's type could take long: a type grows with
// every list, map or macro around it, and doubles with every map that has it as key. deeper is how
// many more levels are allowed.
func simple(e ast.Expr, deeper int) error {
	if slices.Contains([]ast.ExprKind{ast.ListKind, ast.MapKind, ast.ComprehensionKind}, e.Kind()) {
		deeper--
	}
	if deeper < 0 {
		return sluice.Errorf(sluice.InvalidRequest, "filter.cel: use at most %d nested lists, maps and macros", maxNesting).With("field", "filter.cel")
	}
	if e.Kind() == ast.MapKind {
		for _, entry := range e.AsMap().Entries() {
			if entry.AsMapEntry().Key().Kind() != ast.LiteralKind {
				return sluice.Errorf(sluice.InvalidRequest, "filter.cel: the keys of a map must be literals").With("field", "filter.cel")
			}
		}
	}
	for _, child := range children(e) {
		if err := simple(child, deeper); err != nil {
			return err
		}
	}
	return nil
}

func children(e ast.Expr) []ast.Expr {
	switch kind := e.Kind(); {
	case kind == ast.CallKind && e.AsCall().IsMemberFunction():
		return append([]ast.Expr{e.AsCall().Target()}, e.AsCall().Args()...)
	case kind == ast.CallKind:
		return e.AsCall().Args()
	case kind == ast.ComprehensionKind:
		c := e.AsComprehension()
		return []ast.Expr{c.IterRange(), c.AccuInit(), c.LoopCondition(), c.LoopStep(), c.Result()}
	case kind == ast.ListKind:
		return e.AsList().Elements()
	case kind == ast.MapKind:
		var values []ast.Expr
		for _, entry := range e.AsMap().Entries() {
			values = append(values, entry.AsMapEntry().Value())
		}
		return values
	case kind == ast.SelectKind:
		return []ast.Expr{e.AsSelect().Operand()}
	}
	return nil
}

// readsData reports whether the expression could read event.data: everything except event.<another
// attribute> could.
func readsData(whole ast.Expr) bool {
	harmless, uses := 0, 0
	ast.PostOrderVisit(whole, ast.NewExprVisitor(func(e ast.Expr) {
		switch {
		case isEvent(e):
			uses++
		case e.Kind() == ast.SelectKind && isEvent(e.AsSelect().Operand()) && e.AsSelect().FieldName() != "data":
			harmless++
		}
	}))
	return uses > harmless
}

func isEvent(e ast.Expr) bool { return e.Kind() == ast.IdentKind && e.AsIdent() == root }

// errExhausted is in every error of an evaluation that exceeded its cost limit.
var errExhausted = errors.New("cost limit exceeded")

// Exhausted reports whether an error of Match says that the expression exceeded its cost limit on
// the event.
func Exhausted(err error) bool { return errors.Is(err, errExhausted) }

// within evaluates the expression, and returns the cost, which is more than most if the evaluation
// was aborted. A missing field, or one of an unexpected type, is no match (C19); all other failures
// are errors.
func (x *expression) within(e *sluice.Event, p *Parsed, most int) (ok bool, cost int, err error) {
	return x.metered(&meter{left: most}, e, p)
}

// metered is within with the caller's meter, which it charges.
func (x *expression) metered(m *meter, e *sluice.Event, p *Parsed) (ok bool, cost int, err error) {
	most := m.left
	ok, err = x.evaluate(e, p, m)
	cost = most - m.left
	x.spent.Add(uint64(min(cost, most))) //nolint:gosec // it is not below 0
	if m.left >= 0 {                     // otherwise the meter aborted it
		return ok, cost, err
	}
	if most < costLimit {
		err = sluice.Errorf(sluice.Unprocessable, "filter.cel: the expression costs more than %d on event %d, the limit for live use; "+
			"simplify it, or narrow the pattern", most, e.Seq).With("field", "cel").With("seq", e.Seq)
	}
	return false, cost, exhausted{err}
}

// exhausted is an error for which Exhausted is true.
type exhausted struct{ error }

// Unwrap returns the error itself and errExhausted.
func (e exhausted) Unwrap() []error { return []error{e.error, errExhausted} }

func (x *expression) evaluate(e *sluice.Event, p *Parsed, m *meter) (bool, error) {
	out, _, err := x.program.Eval(map[string]any{root: x.attributes(e, p), allowance: m})
	switch {
	case err == nil:
		return out == types.True, nil
	case missing(err):
		return false, nil
	}
	return false, fmt.Errorf("filter.cel: %.*s", maxMessage, err)
}

// unknownSizes declares no sizes, so that cost estimates hold for every event.
type unknownSizes struct{}

func (unknownSizes) EstimateSize(checker.AstNode) *checker.SizeEstimate { return nil }

func (unknownSizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}

// missing reports whether the error says that a field is missing or of another type. CEL has no
// codes for that; a test checks the texts.
func missing(err error) bool {
	e, ok := errors.AsType[*types.Err](err)
	if !ok {
		return false
	}
	text := e.Error()
	return slices.ContainsFunc([]string{
		"no such key", "no such overload", "index out of bounds", "unsupported index type", "got '",
	}, func(start string) bool { return strings.HasPrefix(text, start) })
}

// attributes returns the event as the expression sees it: the CloudEvents attributes, extensions at
// the top and in "extensions", and the data if it is JSON. The result shares the data that p
// caches, and so is read-only. Extension attributes with the name of an attribute of the event are
// hidden.
func (x *expression) attributes(e *sluice.Event, p *Parsed) map[string]any {
	m := make(map[string]any, 10+len(e.Extensions))
	for name, value := range e.Extensions {
		m[name] = value
	}
	m["id"], m["type"], m["source"] = e.ID, e.Type, e.Source
	m["path"], m["namespace"] = string(e.Path), e.Namespace
	m["time"], m["seq"] = e.Time, int64(min(e.Seq, math.MaxInt64))
	m["extensions"] = e.Extensions
	delete(m, "subject")
	if e.Subject != "" {
		m["subject"] = e.Subject
	}
	delete(m, "data")
	if x.data {
		if data, ok := p.decode(e); ok {
			m["data"] = data
		}
	}
	return m
}
