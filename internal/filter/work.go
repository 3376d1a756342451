package filter

import (
	"fmt"
	"math"
	"regexp"
	"regexp/syntax"
	"runtime"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
)

// Prices of steps. An evaluation has a meter, which every step charges. CEL has a cost limit of its
// own, but it prices most steps equally regardless of their operands, detects an expensive step
// only after it is done, and counts slowly. Here a string costs by its length wherever a step
// yields it, a comparison by the values that it visits, a joined list by its length, and a regular
// expression by the size of its program and of the text. Comparisons and regular expressions are
// charged before they run. Other steps are charged for their result, so the operands of a step are
// always paid for before it runs.

const (
	// allowance is the variable that holds the *meter. Its name is no identifier of CEL, so no
	// expression can read it.
	allowance = "#allowance"

	stringUnit = 100 // bytes of a string that cost as much as a step
	regexUnit  = 50  // instructions of a program, for each byte of the text, that cost as much as a step
	zoneCost   = 200 // steps for finding a time zone: event.time.getHours("Europe/Berlin")
	regexBase  = 500 // steps for compiling a regular expression
	regexByte  = 10  // and for each of its bytes

	// regexLimit limits the size of a regular expression's program.
	regexLimit = 1_000
)

// meter is the remaining cost limit of one evaluation. It is for one goroutine.
type meter struct {
	left int

	yields bool
	turn   int // cost since it yielded
}

// turnCost is the cost after which an evaluation of the pool yields its processor, about 0.1 ms.
// Without that it would keep the processor for the 10 ms after which Go preempts a goroutine, and
// all others would wait that long. A caller that evaluates by itself does not yield, because it may
// hold a lock that others wait for.
const turnCost = 400

// spend charges the cost of a step. If the evaluation cannot afford it, spend aborts it as CEL
// does: with a panic that Program.Eval turns into an error. The constants of a program are computed
// while it is planned, each with a meter of its own. left below zero after an evaluation means that
// it was aborted.
func spend(vars interpreter.Activation, cost int) {
	m := meterOf(vars)
	if m.left -= cost; m.left < 0 {
		panic(interpreter.EvalCancelledError{Cause: interpreter.CostLimitExceeded, Message: "cost limit exceeded"})
	}
	if m.turn += cost; m.yields && m.turn >= turnCost {
		m.turn = 0
		runtime.Gosched()
	}
}

func meterOf(vars interpreter.Activation) *meter {
	v, _ := vars.ResolveName(allowance)
	if m, ok := v.(*meter); ok {
		return m
	}
	return &meter{left: costLimit}
}

// handling returns the cost of a string or bytes for the step that receives it: copying, comparing,
// searching.
func handling(v any) int {
	switch v := v.(type) {
	case string:
		return len(v) / stringUnit
	case types.String:
		return len(v) / stringUnit
	case types.Bytes:
		return len(v) / stringUnit
	}
	return 0
}

// extent returns the number of values in v, with strings counted by their length. Beyond limit it
// stops counting, and returns some number above limit.
func extent(v ref.Val, limit int) int {
	n := 1 + handling(v)
	switch v := v.(type) {
	case traits.Lister:
		n += entries(v)
		for i := 0; n <= limit && i < entries(v); i++ {
			n += extent(v.Get(types.Int(i)), limit-n)
		}
	case traits.Mapper:
		if n += entries(v); n > limit {
			return n
		}
		for it := v.Iterator(); n <= limit && it.HasNext() == types.True; {
			key := it.Next()
			n += handling(key) + extent(v.Get(key), limit-n)
		}
	}
	return n
}

func entries(v traits.Sizer) int {
	if n, ok := v.Size().(types.Int); ok {
		return int(n)
	}
	return math.MaxInt32 // beyond counting
}

// comparing returns the cost of comparing two values, which is the extent of the smaller one.
// Computing the cost takes no longer than that either, however large the other value is. It raises
// the bound fourfold until one of the extents is within it.
func comparing(a, b ref.Val, limit int) int {
	for most := 16; ; most *= 4 {
		if n := min(extent(a, most), extent(b, most)); n <= most || most >= limit {
			return n
		}
	}
}

// metered returns the decorator that makes the steps of a program charge the meter. ranges are the
// ids of the values that macros iterate over.
func metered(env *cel.Env, ranges map[int64]bool) interpreter.InterpretableDecoratorV2 {
	keys := interpreter.NewAttributeFactory(env.Container, env.CELTypeAdapter(), env.CELTypeProvider())
	return func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		switch i := i.(type) {
		case *attribute: // a field of it was selected
			return i, nil
		case interpreter.InterpretableAttribute:
			return &attribute{i, keys, ranges[i.ID()]}, nil
		case interpreter.InterpretableConstructor:
			if slices.ContainsFunc(i.InitVals(), variable) {
				return &constructor{i}, nil
			}
		case interpreter.InterpretableCall:
			return meteredCall(i, ranges[i.ID()])
		}
		return i, nil
	}
}

// rangesOf returns the ids of the values that the macros of an expression iterate over. For a field
// it includes the id of the field's variable, under which CEL plans the field.
func rangesOf(whole ast.Expr) map[int64]bool {
	ids := map[int64]bool{}
	ast.PostOrderVisit(whole, ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.ComprehensionKind {
			return
		}
		for r := e.AsComprehension().IterRange(); r != nil; r = operand(r) {
			ids[r.ID()] = true
		}
	}))
	return ids
}

// operand returns the value from which the expression selects a field or an element, or nil if it
// selects none.
func operand(e ast.Expr) ast.Expr {
	switch {
	case e.Kind() == ast.SelectKind:
		return e.AsSelect().Operand()
	case e.Kind() == ast.CallKind && e.AsCall().FunctionName() == operators.Index:
		return e.AsCall().Args()[0]
	}
	return nil
}

// goingThrough returns the cost of starting an iteration over v: CEL first lists the keys of a map.
func goingThrough(v ref.Val) int {
	if m, ok := v.(traits.Mapper); ok {
		return entries(m)
	}
	return 0
}

func variable(i interpreter.InterpretableV2) bool {
	_, constant := i.(interpreter.InterpretableConst)
	return !constant
}

func meteredCall(c interpreter.InterpretableCall, ranges bool) (interpreter.InterpretableV2, error) {
	switch c.Function() {
	case operators.Equals:
		return &binary{c, equal}, nil
	case operators.NotEquals:
		return &binary{c, notEqual}, nil
	case operators.In:
		return &binary{c, within}, nil
	case overloads.Matches:
		return newMatch(c)
	}
	return &call{c, ranges}, nil
}

// attribute is a variable or a field of one.
type attribute struct {
	interpreter.InterpretableAttribute

	keys   interpreter.AttributeFactory
	ranges bool // a macro iterates over it
}

func (a *attribute) AddQualifier(q interpreter.Qualifier) (interpreter.Attribute, error) {
	_, err := a.InterpretableAttribute.AddQualifier(q)
	return a, err
}

func (a *attribute) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	v := a.InterpretableAttribute.Exec(frame)
	cost := 1 + handling(v)
	if a.ranges {
		cost += goingThrough(v)
	}
	spend(frame, cost)
	return v
}

func (a *attribute) Eval(vars interpreter.Activation) ref.Val {
	return a.Exec(interpreter.AsFrame(vars))
}

func (a *attribute) Resolve(vars interpreter.Activation) (any, error) {
	v, err := a.InterpretableAttribute.Resolve(vars)
	spend(vars, 1+handling(v))
	return v, err
}

// Qualify looks up the attribute's value in obj.
func (a *attribute) Qualify(vars interpreter.Activation, obj any) (any, error) {
	key, err := a.key(vars)
	if err != nil {
		return nil, err
	}
	return key.Qualify(vars, obj)
}

// QualifyIfPresent is Qualify for a value that obj may lack.
func (a *attribute) QualifyIfPresent(vars interpreter.Activation, obj any, presenceOnly bool) (any, bool, error) {
	key, err := a.key(vars)
	if err != nil {
		return nil, false, err
	}
	return key.QualifyIfPresent(vars, obj, presenceOnly)
}

func (a *attribute) key(vars interpreter.Activation) (interpreter.Qualifier, error) {
	v, err := a.Resolve(vars)
	if err != nil {
		return nil, err
	}
	return a.keys.NewQualifier(nil, a.ID(), v, a.IsOptional())
}

// constructor makes a list or a map.
type constructor struct {
	interpreter.InterpretableConstructor
}

func (c *constructor) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	spend(frame, 1+len(c.InitVals()))
	return c.InterpretableConstructor.Exec(frame)
}

func (c *constructor) Eval(vars interpreter.Activation) ref.Val {
	return c.Exec(interpreter.AsFrame(vars))
}

// call is a call of a function whose arguments are already charged.
type call struct {
	interpreter.InterpretableCall

	ranges bool // a macro iterates over its result
}

func (c *call) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	v := c.InterpretableCall.Exec(frame)
	cost := 1 + handling(v)
	if c.ranges {
		cost += goingThrough(v)
	}
	if len(c.Args()) == 2 && strings.HasPrefix(c.Function(), "get") {
		cost += zoneCost
	}
	list, ok := v.(traits.Lister)
	if _, grows := v.(traits.MutableLister); ok && !grows {
		cost += entries(list)
	}
	spend(frame, cost)
	return v
}

func (c *call) Eval(vars interpreter.Activation) ref.Val { return c.Exec(interpreter.AsFrame(vars)) }

// binary is a call of a function of two values that charges its own cost.
type binary struct {
	interpreter.InterpretableCall

	do func(vars interpreter.Activation, a, b ref.Val) ref.Val
}

func (c *binary) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	args := c.Args()
	a := args[0].Exec(frame)
	if types.IsUnknownOrError(a) {
		return a
	}
	b := args[1].Exec(frame)
	if types.IsUnknownOrError(b) {
		return b
	}
	return c.do(frame, a, b)
}

func (c *binary) Eval(vars interpreter.Activation) ref.Val { return c.Exec(interpreter.AsFrame(vars)) }

func equal(vars interpreter.Activation, a, b ref.Val) ref.Val {
	spend(vars, comparing(a, b, meterOf(vars).left))
	return types.Equal(a, b)
}

func notEqual(vars interpreter.Activation, a, b ref.Val) ref.Val {
	spend(vars, comparing(a, b, meterOf(vars).left))
	return types.Bool(types.Equal(a, b) != types.True)
}

func within(vars interpreter.Activation, a, b ref.Val) ref.Val {
	container, ok := b.(traits.Container)
	if !ok {
		return types.MaybeNoSuchOverloadErr(b)
	}
	cost, most := 1, meterOf(vars).left
	if list, ok := b.(traits.Lister); ok {
		for i := 0; cost <= most && i < entries(list); i++ {
			cost += comparing(a, list.Get(types.Int(i)), most-cost)
		}
	}
	spend(vars, cost)
	return container.Contains(a)
}

// match is a call of the function matches.
type match struct {
	binary

	constant *regex // nil if the pattern is not a constant
}

// newMatch returns the call, and compiles its regular expression if that is a constant.
func newMatch(c interpreter.InterpretableCall) (*match, error) {
	m := &match{binary: binary{InterpretableCall: c}}
	m.do = m.matches
	fixed, ok := c.Args()[1].(interpreter.InterpretableConst)
	if !ok {
		return m, nil
	}
	pattern, ok := fixed.Value().(types.String)
	if !ok {
		return m, nil
	}
	var err error
	m.constant, err = compileRegex(string(pattern))
	return m, err
}

// Function returns a name unknown to CEL, which would otherwise compile the expression itself.
func (*match) Function() string { return "metered matches" }

// OverloadID returns "", for the same reason.
func (*match) OverloadID() string { return "" }

func (m *match) matches(vars interpreter.Activation, a, b ref.Val) ref.Val {
	text, isText := a.(types.String)
	pattern, isPattern := b.(types.String)
	if !isText || !isPattern {
		return types.NoSuchOverloadErr()
	}
	re := m.constant
	if re == nil {
		spend(vars, regexBase+regexByte*len(pattern))
		var err error
		if re, err = compileRegex(string(pattern)); err != nil {
			return types.WrapErr(err)
		}
	}
	spend(vars, 1+(1+len(text))*(1+re.size)/regexUnit)
	return types.Bool(re.MatchString(string(text)))
}

type regex struct {
	*regexp.Regexp

	size int
}

// compileRegex returns the regular expression, or an error if it is invalid or its program would be
// larger than regexLimit. It checks the size before compiling. The engine of Go needs time in
// proportion to the product of the sizes of program and text, so that the size bounds the cost of a
// match.
func compileRegex(pattern string) (*regex, error) {
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, err
	}
	size := instructions(parsed)
	if size > regexLimit {
		return nil, fmt.Errorf("the regular expression needs at least %d instructions; the limit is %d", size, regexLimit)
	}
	re, err := regexp.Compile(pattern)
	return &regex{re, size}, err
}

// instructions returns the approximate size of a regular expression's program. Beyond regexLimit it
// stops counting, and returns some number above it.
func instructions(re *syntax.Regexp) int {
	n := max(len(re.Sub), 1)
	if re.Op == syntax.OpLiteral {
		n = len(re.Rune)
	}
	for _, sub := range re.Sub {
		if n += instructions(sub); n > regexLimit {
			return n
		}
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return n
}
