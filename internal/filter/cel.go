package filter

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"

	"github.com/sluice-io/sluice/pkg/sluice"
)

const (
	variable = "event"

	// costLimit bounds one evaluation: a comparison costs about 1, a look at every element of a
	// list as much as the list is long.
	costLimit = 100_000

	// regexLimit bounds the compiled size of a regular expression.
	regexLimit = 1_000
)

// expression is a compiled CEL expression.
type expression struct {
	program cel.Program
	data    bool // it may look at the event's data
}

// compile returns the expression. Code InvalidRequest, with the position, if it is not CEL or
// cannot yield a bool.
func compile(text string) (*expression, error) {
	env, err := cel.NewEnv(
		cel.Variable(variable, cel.MapType(cel.StringType, cel.DynType)),
		cel.CrossTypeNumericComparisons(true),
		cel.ParserExpressionSizeLimit(sluice.MaxCEL),
		cel.RegexProgramSizeLimit(regexLimit),
	)
	if err != nil {
		return nil, fmt.Errorf("make CEL environment: %w", err)
	}
	checked, issues := env.Compile(text)
	if problems := issues.Errors(); len(problems) > 0 {
		at := problems[0].Location
		return nil, sluice.Errorf(sluice.InvalidRequest, "filter.cel: line %d, column %d: %s", at.Line(), at.Column()+1, problems[0].Message)
	}
	if out := checked.OutputType(); !out.IsExactType(cel.BoolType) && !out.IsExactType(cel.DynType) {
		return nil, sluice.Errorf(sluice.InvalidRequest, "filter.cel: the expression yields %s; it has to yield bool", out)
	}
	program, err := env.Program(checked, cel.CostLimit(costLimit), cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return nil, sluice.Errorf(sluice.InvalidRequest, "filter.cel: %s", err)
	}
	return &expression{program: program, data: readsData(checked.NativeRep().Expr())}, nil
}

// readsData reports whether the expression could look at event.data: everything that is not
// event.<another attribute> could.
func readsData(root ast.Expr) bool {
	harmless, uses := 0, 0
	ast.PostOrderVisit(root, ast.NewExprVisitor(func(e ast.Expr) {
		switch {
		case isEvent(e):
			uses++
		case e.Kind() == ast.SelectKind && isEvent(e.AsSelect().Operand()) && e.AsSelect().FieldName() != "data":
			harmless++
		}
	}))
	return uses > harmless
}

func isEvent(e ast.Expr) bool { return e.Kind() == ast.IdentKind && e.AsIdent() == variable }

// match evaluates the expression. A field that is missing or of another type than the
// expression takes it for is no match (C19); an error is everything else that went wrong.
func (x *expression) match(e *sluice.Event) (bool, error) {
	out, _, err := x.program.Eval(map[string]any{variable: x.attributes(e)})
	if err != nil {
		if missing(err) {
			return false, nil
		}
		return false, fmt.Errorf("filter.cel: %w", err)
	}
	return out == types.True, nil
}

// missing reports whether the error says that a field is not there or of another type. CEL has
// no codes for that; a test holds the texts to what they are.
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

// attributes returns the event as the expression sees it: the CloudEvents attributes,
// extensions at the top and in "extensions", and the data if it is JSON.
func (x *expression) attributes(e *sluice.Event) map[string]any {
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
		if data, ok := decode(e); ok {
			m["data"] = data
		}
	}
	return m
}
